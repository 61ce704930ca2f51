"""`Elmo`, what most users import.

`elmo.py` is the class; it delegates loading and devices to `loading.py`, predictions to
`language_model.py`, and the cutting of streams to `windows.py`.
"""

from ..engine.likelihood import Perplexity as Perplexity
from ..engine.likelihood import SentenceScore as SentenceScore
from .elmo import Elmo as Elmo
from .language_model import Substitute as Substitute
from .language_model import Substitutes as Substitutes
from .loading import Execution as Execution
from .sentence import Sentence as Sentence
