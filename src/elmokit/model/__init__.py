"""`Elmo`, what most users import.

`elmo.py` is the class; it delegates devices, types and the size of batches to `execution.py`, and
predictions to `language_model.py`.
"""

from ..engine.likelihood import BitsPerCharacter as BitsPerCharacter
from ..engine.likelihood import Perplexity as Perplexity
from ..engine.likelihood import SentenceScore as SentenceScore
from .common_directions import CommonDirections as CommonDirections
from .elmo import Elmo as Elmo
from .execution import Execution as Execution
from .language_model import Substitute as Substitute
from .language_model import Substitutes as Substitutes
from .sentence import Sentence as Sentence
