"""Fast execution of an `nn.BiLm`, proven equal to it; a reader of the model can skip this part."""

from .embedder import Embedder as Embedder
from .run import Request as Request
from .run import run as run
from .states import CarriedStates as CarriedStates
from .states import StartStates as StartStates
from .states import WarmStates as WarmStates
from .states import ZeroStates as ZeroStates
