"""Natural language inference: does a premise entail a hypothesis, contradict it, or neither?

`esim.py` is the model, `data.py` reads SNLI and its like, `task.py` is what the trainer sees.
"""

from .config import SnliConfig as SnliConfig
from .data import SentencePair as SentencePair
from .data import read_inference as read_inference
from .esim import Esim as Esim
from .task import SnliTask as SnliTask
