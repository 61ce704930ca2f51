"""Coreference: the end-to-end span-ranking model of Lee et al. (2017), its data and its scores.

`data` reads CoNLL files; `spans` lists and prunes the spans of a document, `mentions` scores them,
`pairs` scores their antecedents, `clusters` follows the links, `model` is all of these; `metrics`
has MUC, B³ and CEAF; `task` is what the trainer and the command line see.
"""

from .config import CorefConfig as CorefConfig
from .data import CorefDocument as CorefDocument
from .data import read_documents as read_documents
from .metrics import coref_scores as coref_scores
