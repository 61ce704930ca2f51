"""simple_elmo's `ElmoModel`, drop-in.

    from simple_elmo import ElmoModel                           # before
    from elmokit.compat.simple_elmo import ElmoModel

The vectors of real tokens equal simple_elmo's within float32 rounding, warm-up included. Where it
errs, this does not follow: padding is zero (there it has values in the context-free layer), an
average is taken over the tokens of the sentence (there over the padded length), and the average of
`layers="all"` keeps the layers separate (there they are mixed up). Arrays are float32, not float64.
Not here: `get_elmo_substitutes`, which there predicts without context.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..errors import ConfigError, FileError, InputError, quoted
from ..formats.official import WEIGHTS, kind_of_hdf5
from ..model import Elmo
from ..text.ids import Vocab

Layers: TypeAlias = Literal["average", "top", "all"]
Vectors: TypeAlias = NDArray[np.float32]


class ElmoModel:
    """A model to `load`, and its vectors of tokens and of sentences.

    Every call starts from a zero state. Within a call the state is carried by row from one batch
    of `max_batch_size` sentences to the next, after the first batch has run once as a warm-up: so
    vectors depend on the sentences around. `elmokit.Elmo.embed` has none of this.

    Attributes:
        batch_size: Sentences that run together.
        max_chars: Character ids of a word.
        vector_size: Width of each vector.
        n_layers: Layers of a token, the context-free one included.
        vocab: The words of the softmax, of a model that was loaded with `full=True`.
    """

    def __init__(self) -> None:
        self.batch_size = 0
        self.max_chars = 0
        self.vector_size = 0
        self.n_layers = 0
        self.vocab: Vocab | None = None
        self._elmo: Elmo | None = None

    def load(
        self, directory: str | Path, max_batch_size: int = 32, limit: int = 100, full: bool = False
    ) -> str:
        """Load a model and return a one-line description.

        Args:
            directory: A folder with `options.json` and `model.hdf5` (or else its first HDF5 file),
                a .zip of one, the HDF5 file itself; or any other format that elmokit reads.
            max_batch_size: Sentences that run together.
            limit: Words of the vocabulary file to cache; nothing has to be, so it has no effect.
            full: Read the TensorFlow checkpoint and the vocabulary of the softmax instead.
        """
        if max_batch_size < 1:
            raise ConfigError(f"max_batch_size={max_batch_size}: expected 1 or more")
        path = _path_to_read(Path(directory).expanduser(), full)
        elmo = Elmo.from_pretrained(path, state="carry", tokenizer="whitespace", normalization=None)
        self._elmo = elmo
        self.batch_size = max_batch_size
        self.max_chars = cnn.max_characters if (cnn := elmo.config.encoder.char_cnn) else 0
        self.vector_size = elmo.dim
        self.n_layers = elmo.num_layers
        self.vocab = elmo.vocab if full else None
        return "The model is now loaded."

    def get_elmo_vectors(
        self,
        texts: Sequence[Sequence[str]],
        warmup: bool = True,
        layers: Layers = "average",
        session: object = None,
    ) -> Vectors:
        """The vectors of each token, zero after the end of a sentence.

        Args:
            texts: Tokenised sentences.
            warmup: Run the first batch once before, so that it does not start from zeros.
            layers: `average` or `top` give (n, longest, D); `all` gives (n, layers, longest, D).
            session: Anything but None continues from the state of the call before, as a kept
                TensorFlow session did.
        """
        vectors = self._embed(texts, warmup, layers, session)
        longest = max(map(len, texts), default=0)
        result = np.zeros(self._shape(texts, layers, longest), np.float32)
        for row, vector in zip(result, vectors, strict=True):
            row[..., : vector.shape[-2], :] = vector
        return result

    def get_elmo_vector_average(
        self,
        texts: Sequence[Sequence[str]],
        warmup: bool = True,
        layers: Layers = "average",
        session: object = None,
    ) -> Vectors:
        """The mean of the vectors of each sentence's tokens; zero for a sentence without tokens.

        Args:
            texts: Tokenised sentences.
            warmup: As in `get_elmo_vectors`.
            layers: `average` or `top` give (n, D); `all` gives (n, layers, D).
            session: As in `get_elmo_vectors`.
        """
        vectors = self._embed(texts, warmup, layers, session)
        result = np.zeros(self._shape(texts, layers), np.float32)
        for row, vector in zip(result, vectors, strict=True):
            if vector.shape[-2]:
                row[...] = vector.mean(axis=-2)
        return result

    def _embed(
        self, texts: Sequence[Sequence[str]], warmup: bool, layers: Layers, session: object
    ) -> list[Vectors]:
        elmo = self._elmo
        if elmo is None:
            raise ConfigError("no model is loaded; call load(directory) first")
        if layers not in ("average", "top", "all"):
            raise ConfigError(f"layers={quoted(layers)}: expected one of 'average', 'top', 'all'")
        for i, sentence in enumerate(texts):
            if isinstance(sentence, str):
                raise InputError(f"sentence {i} is a text ({sentence!r:.40}); expected its tokens")
        if session is None:
            elmo.reset_state()
        size = self.batch_size
        if warmup:
            elmo.embed(texts[:size], layers="top", batch_size=size, show_progress_bar=False)
        vectors: list[Vectors] = []
        for start in range(0, len(texts), size):
            batch = texts[start : start + size]
            vectors += elmo.embed(batch, layers=layers, batch_size=size, show_progress_bar=False)
        return vectors

    def _shape(self, texts: Sequence[object], layers: Layers, *longest: int) -> tuple[int, ...]:
        inner = (self.n_layers,) if layers == "all" else ()
        return (len(texts), *inner, *longest, self.vector_size)


def _path_to_read(path: Path, full: bool) -> Path:
    """What to read in a folder that may hold both HDF5 weights and a checkpoint."""
    if not path.is_dir():
        return path
    if full:
        if not any(path.glob("*.index")):
            raise FileError(f"{path}: full=True reads a TensorFlow checkpoint, and none is there")
        return path
    named = path / "model.hdf5"
    files = [named] if named.is_file() else sorted(path.glob("*.hdf5"))
    return next((file for file in files if kind_of_hdf5(file) == WEIGHTS), path)
