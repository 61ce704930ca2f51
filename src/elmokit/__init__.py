"""elmokit: ELMo, deep contextualised word representations, for current Python."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .config import ElmoConfig as ElmoConfig
    from .corpus.corpus import Corpus as Corpus
    from .corpus.corpus import PrepareConfig as PrepareConfig
    from .corpus.prepare import prepare as prepare
    from .errors import ElmoError as ElmoError
    from .formats.catalogue import download_model as download_model
    from .formats.catalogue import list_models as list_models
    from .model import Elmo as Elmo
    from .nn import BiLm as BiLm
    from .nn import BiLmOutput as BiLmOutput
    from .nn import ScalarMix as ScalarMix
    from .pretraining.config import PretrainConfig as PretrainConfig
    from .pretraining.run import pretrain as pretrain
    from .tasks.runs.load import load_task as load_task
    from .tasks.runs.train import train_task as train_task
    from .vectors.read import read_vectors as read_vectors

__version__ = "0.1.0"

# Imported when first used: torch takes seconds to load, and `elmokit --help` does not need it.
_EXPORTS = {
    "BiLm": "nn",
    "BiLmOutput": "nn",
    "Corpus": "corpus.corpus",
    "Elmo": "model",
    "ElmoConfig": "config",
    "ElmoError": "errors",
    "PrepareConfig": "corpus.corpus",
    "PretrainConfig": "pretraining.config",
    "ScalarMix": "nn",
    "download_model": "formats.catalogue",
    "list_models": "formats.catalogue",
    "load_task": "tasks.runs.load",
    "prepare": "corpus.prepare",
    "pretrain": "pretraining.run",
    "read_vectors": "vectors.read",
    "train_task": "tasks.runs.train",
}
__all__ = ["__version__", *_EXPORTS]


def __getattr__(name: str) -> Any:
    if name not in _EXPORTS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f".{_EXPORTS[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, *globals()]
