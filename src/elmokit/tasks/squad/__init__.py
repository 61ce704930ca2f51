"""Questions about a text, answered by a span of it: SQuAD 1.1 and KorQuAD 1.0.

`task` reads the files and scores as the official scripts do; `model` is that of Clark and Gardner
(2017), as in the paper's section 4, with the passages and questions that it reads.
"""

from .model import SquadConfig as SquadConfig
from .task import SquadTask as SquadTask
