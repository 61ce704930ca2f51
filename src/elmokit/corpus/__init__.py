"""From a pile of text to what a biLM is trained on: a prepared corpus in one folder.

`prepare.prepare` reads text and writes the folder; `Corpus` opens it, memory-mapped; `batches.py`
is how a training run reads it.
"""

from .corpus import Corpus as Corpus
from .corpus import CorpusInfo as CorpusInfo
from .corpus import Sentences as Sentences
