import importlib.util
import pickle
import sys
from itertools import pairwise

import pytest
from cpu_limit import cpu_limit
from hypothesis import given, settings
from hypothesis import strategies as st

from elmokit.errors import ConfigError, InputError, MissingExtra
from elmokit.text.normalize import normalize
from elmokit.text.tokenize import (
    Token,
    Tokenizer,
    TokenizerFunction,
    load_tokenizer,
    tokenize,
    words,
)

needs_spacy = pytest.mark.skipif(
    importlib.util.find_spec("spacy") is None, reason="spaCy is not installed"
)

ANY_TEXT = st.text(st.characters())
# Dense in the characters that the pattern treats specially.
HARD_TEXT = st.text(
    st.sampled_from(
        "anNtTsA1 .,:;'’\"-–@/#()&_+*!?=<3$%…\n\t\xa0\u2003\x00\x1c\ud800\udc00\ufeff\u200b\u200c"
        "\u200d\u2060\xad\u0301\u0316\u0327\ufe0f\u20e3가\u1100\u1161\u11a8ㅋ一々あアー\u3099ก\u0e34"
        "क\u094d\u093eع\u064e😀👍🏽🇰🇷❤\U000e0067²½"
    )
)

# Every token is written between spaces; the text to split has none where the tokens touch.
ENGLISH = [
    ("Don't stop.", "Do n't stop ."),
    ("it's I'm they're we've he'll she'd", "it 's I 'm they 're we 've he 'll she 'd"),
    ("CAN'T won't shouldn't've it'd've", "CA N'T wo n't should n't 've it 'd 've"),
    ("it’s, don’t", "it ’s , do n’t"),
    ("O'Brien's rock'n'roll at five o'clock", "O'Brien 's rock'n'roll at five o'clock"),
    ("l'homme d'état aujourd’hui", "l'homme d'état aujourd’hui"),
    ("the dogs' 'em '90s", "the dogs ' 'em '90s"),
    ("'quoted' “text” ‘x’", "' quoted ' “ text ” ‘ x ’"),
    ("do n't it 's 's'", "do n't it 's ' s '"),
    ("a state-of-the-art x-ray--or not -- no-", "a state-of-the-art x-ray -- or not -- no -"),
    ("1,000.50 3.14 .5 50% $5 -3", "1,000.50 3.14 .5 50 % $ 5 - 3"),
    ("10:30 on 10/12/2004, 2nd, 1990s", "10:30 on 10/12/2004 , 2nd , 1990s"),
    ("in the U.S. at 9 a.m., e.g. a Ph.D.", "in the U.S. at 9 a.m. , e.g. a Ph.D."),
    ("U.S.-led i.e", "U.S.-led i.e"),
    ("Mr. and Mrs. J. K. Smith, Dr. No.", "Mr. and Mrs. J. K. Smith , Dr. No ."),
    ("No. 5 on St. James Ave. etc.", "No. 5 on St. James Ave. etc."),
    ("So do I. The end.Next", "So do I . The end . Next"),
    ("wait...what… oh!!! really?!", "wait ... what … oh !!! really ?!"),
    ('("[{<x>}]")', '( " [ { < x > } ] " )'),
    ("AT&T and/or C++ snake_case m²", "AT&T and / or C ++ snake_case m²"),
    ("great :) or :-( a:b", "great :) or :-( a : b"),
    ("", ""),
    (" \n\t ", ""),
]

ADDRESSES = [
    ("see http://a.com/x_(y)?q=1#z.", "see http://a.com/x_(y)?q=1#z ."),
    ("(https://b.org/), www.c.net!", "( https://b.org/ ) , www.c.net !"),
    ("example.com's, a.co.uk/b, notes.txt.", "example.com 's , a.co.uk/b , notes.txt ."),
    ("mail john.doe+x@mail.example.org.", "mail john.doe+x@mail.example.org ."),
    ("@user_1's #tag, #1", "@user_1 's #tag , # 1"),
    ("a@b x@y.z.", "a @ b x @ y.z."),
    ("end.http://a.com", "end . http://a.com"),
    ("https://a.com입니다", "https://a.com 입니다"),
]

EMOJI = [
    ("👩‍👩‍👧‍👦👍🏽❤️", "👩‍👩‍👧‍👦 👍🏽 ❤️"),
    ("🇰🇷🇺🇸1️⃣#️⃣😀😀", "🇰🇷 🇺🇸 1️⃣ #️⃣ 😀 😀"),
    ("ok👍🏽ok 🏴󠁧󠁢󠁥󠁮󠁧󠁿", "ok 👍🏽 ok 🏴󠁧󠁢󠁥󠁮󠁧󠁿"),
    ("👩🏽‍🚀!🏳️‍🌈", "👩🏽‍🚀 ! 🏳️‍🌈"),
]

SCRIPTS = [
    ("한국어 문장입니다. ㅋㅋㅋ!", "한국어 문장입니다 . ㅋㅋㅋ !"),
    ("'인용'을 1988년에 서울(漢城)에서", "' 인용 ' 을 1988년에 서울 ( 漢 城 ) 에서"),
    ("값은 1,000원이다.금.은", "값은 1,000원이다 . 금 . 은"),
    ("我喜歡吃飯。2024年", "我 喜 歡 吃 飯 。 2024 年"),
    ("東京タワーへいく", "東 京 タワー へいく"),
    ("ภาษาไทยที่ ๒๕๖๗", "ภ า ษ า ไ ท ย ที่ ๒๕๖๗"),
    ("हिन्दी में।", "हिन्दी में ।"),
    ("العَرَبِيَّة، می‌خواهم", "العَرَبِيَّة ، می‌خواهم"),
    ("Ελλάδα, Россия и т.д.", "Ελλάδα , Россия и т.д."),
    ("naïve x̂=ŷ (́ ̂a", "naïve x̂ = ŷ (́ ̂ a"),
    ("\ufeffa\u200bb \x00\x01 co\xadop", "\ufeff a \u200b b \x00 \x01 co\xadop"),
    ("\ud83d\ude00 x\udcff", "\ud83d \ude00 x \udcff"),
]


@pytest.mark.parametrize(("text", "expected"), ENGLISH + ADDRESSES + EMOJI + SCRIPTS)
def test_regex_examples(text: str, expected: str) -> None:
    assert words(load_tokenizer(), text) == expected.split()


@pytest.mark.parametrize("expected", [expected for _, expected in ENGLISH])
def test_regex_leaves_tokenised_english_as_it_is(expected: str) -> None:
    assert words(load_tokenizer("regex"), expected) == expected.split()


def test_long_chinese_line_is_not_one_token() -> None:
    assert words(load_tokenizer(), "漢字" * 100) == ["漢", "字"] * 100


def test_offsets_point_into_the_text_before_normalisation() -> None:
    nfd = "\u1112\u1161\u11ab\u1100\u116e\u11a8\u110b\u1165, cafe\u0301!"
    assert tokenize(load_tokenizer(), nfd) == [
        Token("한국어", 0, 8),
        Token(",", 8, 9),
        Token("café", 10, 15),
        Token("!", 15, 16),
    ]
    assert tokenize(load_tokenizer(), "e\u0301", None) == [Token("e\u0301", 0, 2)]


@pytest.mark.parametrize("name", ["regex", "whitespace"])
@given(text=ANY_TEXT | HARD_TEXT)
def test_tokens_are_exactly_the_visible_text(name: str, text: str) -> None:
    normal = normalize(text, "NFC")
    tokens = load_tokenizer(name).tokens(normal)
    assert "".join(token.text for token in tokens) == "".join(normal.split())
    assert all(normal[token.start : token.end] == token.text for token in tokens)
    assert not any(char.isspace() for token in tokens for char in token.text)
    assert all(a.end <= b.start for a, b in pairwise(tokens))


@pytest.mark.parametrize("name", ["regex", "whitespace"])
@pytest.mark.parametrize("form", ["NFC", None])
@given(text=ANY_TEXT | HARD_TEXT)
def test_source_of_a_token_normalises_to_it(name: str, form: str | None, text: str) -> None:
    for token in tokenize(load_tokenizer(name), text, form):
        assert normalize(text[token.start : token.end], form) == token.text


@pytest.mark.parametrize("name", ["regex", "whitespace"])
@given(text=ANY_TEXT | HARD_TEXT)
def test_words_are_the_texts_of_the_tokens(name: str, text: str) -> None:
    tokenizer = load_tokenizer(name)
    assert words(tokenizer, text) == [token.text for token in tokenize(tokenizer, text)]


@given(text=ANY_TEXT | HARD_TEXT)
def test_tokens_survive_joining_by_spaces(text: str) -> None:
    tokens = words(load_tokenizer(), text)
    assert words(load_tokenizer("whitespace"), " ".join(tokens)) == tokens


@given(text=HARD_TEXT)
def test_marks_never_begin_a_token_unless_nothing_precedes_them(text: str) -> None:
    normal = normalize(text, "NFC")
    for token in load_tokenizer().tokens(normal):
        if token.text[0] in "\u0301\u0316\u0327\ufe0f\u20e3\u094d\u093e\u064e\u200d":
            assert token.start == 0 or normal[token.start - 1].isspace()


@pytest.mark.parametrize(
    "unit",
    [
        *("a", "1", ".", "'", "(", "-", "@", "/", "ا", "\u0301", "\u200d", "漢", "\x00"),
        *("a.", "a-", "a'", "1,", "1.", "a@", "@a.", "a+", "ab.", "n't", "'s", "A.", "A&", "#1"),
        *("http://", "www.", "x@a.", "a(", "a.com/", "😀\u200d", "👍🏽", "🇰", "क्", "1\ufe0f\u20e3"),
    ],
)
def test_regex_time_is_linear_in_the_length(unit: str) -> None:
    text, tokenizer = unit * (300_000 // len(unit)), load_tokenizer()
    with cpu_limit():
        tokenizer.words(text)


@pytest.mark.parametrize("name", ["", "Regex", "moses", "spacy:", "regex:en"])
def test_unknown_name_lists_the_known_ones(name: str) -> None:
    with pytest.raises(ConfigError, match=r"'regex', 'whitespace', 'characters', 'kiwi', 'spacy'"):
        load_tokenizer(name)


@pytest.mark.parametrize(
    ("name", "package", "what"),
    [
        ("spacy", "spacy", r"'elmokit\[spacy\]'"),
        ("spacy:en", "spacy", r"'elmokit\[spacy\]'"),
        ("kiwi", "kiwipiepy", r"'elmokit\[ko\]'"),
    ],
)
def test_missing_package_says_what_to_install(
    name: str, package: str, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtra, match=rf"{package} is not .*pip install {what}$") as caught:
        load_tokenizer(name)
    assert isinstance(caught.value, ImportError)


@pytest.mark.parametrize("name", ["regex", "whitespace"])
def test_tokenizer_survives_pickling(name: str) -> None:
    copy = pickle.loads(pickle.dumps(load_tokenizer(name)))
    assert copy.name == name
    assert copy.words("a b") == ["a", "b"]


@pytest.fixture(scope="module")
def kiwi() -> Tokenizer:
    return load_tokenizer("kiwi")  # Shared, because every analyser takes seconds to make.


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("했다", [("하", 0, 1), ("었", 0, 1), ("다", 1, 2)]),
        ("바다다", [("바다", 0, 2), ("이", 2, 2), ("다", 2, 3)]),
        ("간다", [("가", 0, 1), ("ㄴ다", 0, 2)]),
        ("", []),
        (" \n", []),
    ],
)
def test_kiwi_morphemes(kiwi: Tokenizer, text: str, expected: list[tuple[str, int, int]]) -> None:
    assert tokenize(kiwi, text) == [Token(*token) for token in expected]


def test_kiwi_finds_words_without_spaces(kiwi: Tokenizer) -> None:
    text = "아버지가방에들어가신다."
    tokens = tokenize(kiwi, text)
    assert [t.text for t in tokens[:4]] == ["아버지", "가", "방", "에"]
    assert tokens[-1] == Token(".", 11, 12)


def test_kiwi_offsets_lead_back_to_decomposed_text(kiwi: Tokenizer) -> None:
    nfd = "\u1112\u1162\u11bb\u1103\u1161"
    assert tokenize(kiwi, nfd) == [Token("하", 0, 3), Token("었", 0, 3), Token("다", 3, 5)]


def test_kiwi_splits_names_and_dates_at_spaces(kiwi: Tokenizer) -> None:
    text = "르네 데카르트는 1971. 8. 10. 에 없었다."
    assert words(kiwi, text)[:4] == ["르네", "데카르트", "는", "1971."]


@settings(max_examples=50, deadline=None)
@given(
    text=ANY_TEXT | HARD_TEXT | st.text(st.sampled_from("가나다는 은했갔습니다 .\ud800\u11ab😀"))
)
def test_kiwi_offsets_stay_within_any_text(kiwi: Tokenizer, text: str) -> None:
    tokens = tokenize(kiwi, text)
    assert all(0 <= token.start <= token.end <= len(text) for token in tokens)
    assert all(token.text and not any(map(str.isspace, token.text)) for token in tokens)
    assert [token.start for token in tokens] == sorted(token.start for token in tokens)


def test_kiwi_is_pickled_without_its_analyser(kiwi: Tokenizer) -> None:
    kiwi.words("말")
    data = pickle.dumps(kiwi)
    assert len(data) < 200
    assert pickle.loads(data).name == "kiwi"


@needs_spacy
def test_spacy_splits_like_a_blank_pipeline() -> None:
    tokenizer = load_tokenizer("spacy")
    assert tokenizer.name == "spacy:en"
    assert tokenize(tokenizer, "I can't  go, cafe\u0301\ud800!") == [
        Token("I", 0, 1),
        Token("ca", 2, 4),
        Token("n't", 4, 7),
        Token("go", 9, 11),
        Token(",", 11, 12),
        Token("café", 13, 18),
        Token("\ud800", 18, 19),
        Token("!", 19, 20),
    ]


@needs_spacy
def test_spacy_tokenizer_survives_pickling() -> None:
    copy = pickle.loads(pickle.dumps(load_tokenizer("spacy:de")))
    assert copy.name == "spacy:de"
    assert copy.words("z.B. so") == ["z.B.", "so"]


@needs_spacy
def test_unknown_spacy_language_is_a_config_error() -> None:
    with pytest.raises(ConfigError, match="spacy:qq"):
        load_tokenizer("spacy:qq")


def test_characters_are_tokens() -> None:
    tokenizer = load_tokenizer("characters")
    assert tokenizer.words("SE Q\n") == ["S", "E", "Q"]
    assert [(t.start, t.end) for t in tokenizer.tokens("SE Q")] == [(0, 1), (1, 2), (3, 4)]


def test_a_function_is_a_tokenizer() -> None:
    tokenizer = load_tokenizer(lambda text: text.lower().split("|"))
    assert tokenizer.words("Viet Nam|is") == ["viet nam", "is"]
    same = load_tokenizer(lambda text: text.split("|"))
    assert same.tokens("a|b|a") == [Token("a", 0, 1), Token("b", 2, 3), Token("a", 4, 5)]
    with_offsets = load_tokenizer(lambda text: [("be", 0, 2), Token("ing", 2, 2)])
    assert with_offsets.words("is") == ["be", "ing"]
    assert with_offsets.tokens("is") == [Token("be", 0, 2), Token("ing", 2, 2)]


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda text: text, "returned str"),
        (lambda text: 3, "returned int"),
        (lambda text: [3], "a token 3"),
        (lambda text: ["no"], "'no', which does not occur"),
        (lambda text: [("a", 0, 9)], r"outside of the text of 1 characters"),
    ],
)
def test_what_a_function_may_return(function: TokenizerFunction, message: str) -> None:
    with pytest.raises(InputError, match=message):
        load_tokenizer(function).tokens("x")


def test_what_is_no_function_is_refused() -> None:
    with pytest.raises(ConfigError, match="a name or a function"):
        load_tokenizer(3)  # type: ignore[arg-type]
