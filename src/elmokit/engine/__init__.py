"""Fast execution of an `nn.BiLm`, proven equal to it; a reader of the model can skip this part.

`engine.py` prepares the weights, chooses who does the work and compares it with `nn`. Without
gradients, `packed.py` takes a batch through the layers; with gradients, `gradient.py` does. The
arithmetic exists once in torch (`torch_lstm.py`, `torch_encoder.py`) and once in C behind
`native*.py`. `embedder.py` turns words into vectors, `likelihood.py` into probabilities.
"""

from .embedder import CarriedStates as CarriedStates
from .embedder import Embedder as Embedder
from .embedder import StartStates as StartStates
from .engine import Engine as Engine
from .engine import EngineName as EngineName
from .engine import Precision as Precision
from .packed import Request as Request
from .packed import padded as padded
