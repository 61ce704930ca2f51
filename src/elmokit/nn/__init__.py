"""The model, readable beside the paper: pure torch, one idea per file, no files, no text.

Start with `bilm.py`; `encoder.py` and `lstm.py` are its two halves, `scalar_mix.py` is what a
task learns. `elmokit.engine` runs the same model faster and is proven equal to it.
"""

from .bilm import BiLm as BiLm
from .bilm import BiLmOutput as BiLmOutput
from .bilm import BiLmState as BiLmState
from .encoder import CharCnn as CharCnn
from .encoder import Highway as Highway
from .encoder import TokenEncoder as TokenEncoder
from .encoder import TokenIds as TokenIds
from .lstm import LstmState as LstmState
from .lstm import ProjectedLstm as ProjectedLstm
from .scalar_mix import ScalarMix as ScalarMix
from .softmax import Softmax as Softmax
from .softmax import sampled_softmax_loss as sampled_softmax_loss
from .softmax import softmax_loss as softmax_loss
