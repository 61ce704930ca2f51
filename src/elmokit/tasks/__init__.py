"""Task models on a frozen biLM: the second half of ELMo (paper, sections 3.3 and 4).

`run.train_task` trains one and writes a run folder, `load.load_task` reads it. A task
(`registry.TASKS`) says how its files are read, which model it has and how it is scored; every
model reads its tokens through one `embedding.TaskEmbedding`, which knows where ELMo goes.
"""
