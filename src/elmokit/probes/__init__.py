"""Probes: what the frozen layers of a biLM know, measured without training a task model.

`pos` (paper, table 6) reads tags off each layer by a linear classifier, `wsd` (table 5) finds word
senses by nearest averages, `homographs` does so for a few words of any language, `wic` asks whether
a word has the same sense in two sentences, `similarity` compares sentences, and `minimal_pairs`
asks the language model which of two sentences is acceptable. Each has a function that takes a model
and data and returns a result that prints as a table and turns into JSON by `to_dict`.
"""

from .homographs import HomographResult as HomographResult
from .homographs import Occurrence as Occurrence
from .homographs import homograph_probe as homograph_probe
from .homographs import read_homographs as read_homographs
from .homographs import split_by_sentence as split_by_sentence
from .homographs import trained_homograph_probe as trained_homograph_probe
from .layers import splits_words as splits_words
from .minimal_pairs import minimal_pairs_probe as minimal_pairs_probe
from .minimal_pairs import read_minimal_pairs as read_minimal_pairs
from .pos import LinearSettings as LinearSettings
from .pos import PosResult as PosResult
from .pos import pos_probe as pos_probe
from .similarity import SimilarityResult as SimilarityResult
from .similarity import similarity_probe as similarity_probe
from .wic import read_wic as read_wic
from .wic import wic_probe as wic_probe
from .wsd import WsdResult as WsdResult
from .wsd import first_sense_f1 as first_sense_f1
from .wsd import read_semcor as read_semcor
from .wsd import read_sense_index as read_sense_index
from .wsd import read_sense_set as read_sense_set
from .wsd import wsd_probe as wsd_probe
