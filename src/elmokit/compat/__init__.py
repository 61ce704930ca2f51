"""Old scripts that change one import line: the signatures of AllenNLP and simple_elmo.

What they compute is what the old libraries computed, the carried LSTM state included; new code is
better served by `elmokit.Elmo`, whose vectors depend on the sentence alone.
"""
