"""Questions about a text, answered by a span of it: SQuAD 1.1 and KorQuAD 1.0.

The model is that of Clark and Gardner (2017), as in the paper's section 4: `model.py`, made of
`gru.py` and `attention.py`, with its answer found by `spans.py`. `passage.py` leads from tokens to
characters and back, `data.py` reads the files, `metrics.py` scores as the official scripts do.
"""
