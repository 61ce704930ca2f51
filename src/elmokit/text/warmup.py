"""A few plain sentences that bring the LSTMs from zeros to where they are within a text.

For `state="warm"` where a model has no warm state of its own; own text, two languages.
"""

WARM_UP_SENTENCES = (
    "The river was high that spring , and the ferry did not run for a week .",
    "Nobody in the village minded ; there was always something to repair .",
    "On the third day a letter came from the city , but it was addressed to someone else .",
    "She read it twice , put it back into its envelope and went on with her work .",
    '" How much longer ? " asked the boy at the door .',
    "By evening the water had fallen by two feet and the road could be seen again .",
    "봄비가 그치자 마을 사람들은 강가로 나왔다 .",
    "배는 아직 다니지 않았지만 아무도 서두르지 않았다 .",
    "아이는 문 앞에 서서 언제 떠나느냐고 물었다 .",
    "저녁이 되자 물이 빠지고 길이 다시 보였다 .",
)
