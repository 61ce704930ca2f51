"""AllenNLP's ELMo, drop-in.

    from allennlp.modules.elmo import Elmo, batch_to_ids        # before
    from allennlp.commands.elmo import ElmoEmbedder             # before (AllenNLP 0.9)
    from elmokit.compat.allennlp import Elmo, ElmoEmbedder, batch_to_ids

Vectors equal AllenNLP's within float32 rounding, call by call: the LSTM state is carried from one
batch to the next by row, so a repeated sentence gets other vectors (`reset_states()` forgets it).
Not here: downloads, and AllenNLP's own classes around these. What differs is listed in
docs/compat.md.
"""

from .bilm import ElmoBiLm as _ElmoBiLm  # noqa: F401
from .bilm import ElmoCharacterEncoder as _ElmoCharacterEncoder  # noqa: F401
from .bilm import remove_sentence_boundaries as remove_sentence_boundaries
from .elmo import Elmo as Elmo
from .elmo import ElmoEmbedder as ElmoEmbedder
from .elmo import ScalarMix as ScalarMix
from .ids import ELMoTokenCharactersIndexer as ELMoTokenCharactersIndexer
from .ids import batch_to_ids as batch_to_ids
