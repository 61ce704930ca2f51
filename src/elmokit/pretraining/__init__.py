"""Pre-training: a prepared corpus → a biLM.

`run.py` is the one door (`pretrain`); `setup.py` makes what a run starts from, `loop.py` takes
steps, `objective.py` is the paper's loss, `evaluate.py` measures held-out text. `checkpoint.py` and
`records.py` read and write the files of a run.
"""
