"""`Elmo`, what most users import.

What it is (`core`), its files (`pretrained`), its predictions (`language`), its vectors (`elmo`).
"""

from ..engine.likelihood import Perplexity as Perplexity
from ..engine.likelihood import SentenceScore as SentenceScore
from .elmo import Elmo as Elmo
from .language import Substitute as Substitute
from .language import Substitutes as Substitutes
from .sentence import Sentence as Sentence
