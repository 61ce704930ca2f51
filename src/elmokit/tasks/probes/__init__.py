"""Probes: what the frozen layers of a biLM know, measured without training a task model.

`pos` (paper, table 6) reads tags off each layer by a linear classifier, `wsd` (table 5) finds word
senses by nearest averages, `similarity` compares sentences, `homographs` a few words of any
language. Each has a function that takes a model and data and returns a result that prints as a
table and turns into JSON by `to_dict`.
"""

from .homographs import HomographResult as HomographResult
from .homographs import Occurrence as Occurrence
from .homographs import homograph_probe as homograph_probe
from .homographs import read_homographs as read_homographs
from .layers import splits_words as splits_words
from .linear import LinearSettings as LinearSettings
from .pos import PosResult as PosResult
from .pos import pos_probe as pos_probe
from .similarity import SimilarityResult as SimilarityResult
from .similarity import similarity_probe as similarity_probe
from .wsd import WsdResult as WsdResult
from .wsd import first_sense_f1 as first_sense_f1
from .wsd import wsd_probe as wsd_probe
from .wsd_data import read_semcor as read_semcor
from .wsd_data import read_sense_index as read_sense_index
from .wsd_data import read_sense_set as read_sense_set
