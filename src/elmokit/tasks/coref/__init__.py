"""Coreference: the end-to-end span-ranking model of Lee et al. (2017), its data and its scores.

`document` reads CoNLL files; `model` finds mentions and links them, by what `spans` computes of the
grid of spans; `task` is what the trainer and the command line see, and has MUC, B³ and CEAF.
"""

from .model import CorefConfig as CorefConfig
from .task import CorefTask as CorefTask
