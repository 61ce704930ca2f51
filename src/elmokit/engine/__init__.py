"""Fast execution of an `nn.BiLm`, proven equal to it; a reader of the model can skip this part.

`engine.py` prepares the weights and chooses who does the work; `run.py` takes a packed batch
(`packed.py`) through the layers, which are `recurrence.py` in torch, `native.py` in C and `int8.py`
in 8 bits; `spelling.py` is the token encoder with its convolutions as tables. `plain.py` runs
`nn.BiLm` itself, with which the engine compares what it has prepared.
"""

from .embedder import Embedder as Embedder
from .engine import Engine as Engine
from .engine import EngineName as EngineName
from .engine import Precision as Precision
from .request import Request as Request
from .states import CarriedStates as CarriedStates
from .states import StartStates as StartStates
from .states import WarmStates as WarmStates
from .states import ZeroStates as ZeroStates
