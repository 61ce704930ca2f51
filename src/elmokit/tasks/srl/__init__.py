"""Semantic role labelling: who did what to whom, for each predicate of a sentence.

`highway_lstm.py` is the encoder, `tagger.py` the model around it, `decode.py` finds the best BIO
tags, `scorer.py` counts as the CoNLL-2005 scorer does, `data.py` reads files, and `task.py` is what
the trainer sees.
"""

from .config import SrlConfig as SrlConfig
from .data import Frame as Frame
from .data import read_frames as read_frames
from .highway_lstm import AlternatingLstm as AlternatingLstm
from .highway_lstm import HighwayLstm as HighwayLstm
from .scorer import Argument as Argument
from .scorer import argument_scores as argument_scores
from .scorer import arguments as arguments
from .tagger import SrlTagger as SrlTagger
from .task import SrlTask as SrlTask
