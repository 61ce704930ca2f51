"""Pre-training: a prepared corpus → a biLM.

`run.py` is the one door (`pretrain`); `loop.py` takes steps; `objective.py` is the paper's loss.
`recurrence.py` and `spelling.py` compute what `nn/` defines, with gradients written out, because
automatic ones would keep every intermediate value of every step.
"""
