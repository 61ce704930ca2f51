"""What all sentence vectors of a kind of text have in common, to be removed before a comparison."""

from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np

from ..errors import ConfigError, FileError, FormatError, InputError, quoted
from ..files.arrays import load_arrays, save_arrays
from ..files.folders import output_path
from ..files.read import is_there
from ..layers import Vectors


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class CommonDirections:
    """The mean of some vectors and their first principal components (Mu and Viswanath 2018).

    Sentence vectors point mostly the same way, whatever the sentences say, so all cosines are
    high. Without the common part, cosines tell more.

    Example:
        >>> common = CommonDirections.fit(elmo.encode(many_texts), number=3)  # doctest: +SKIP
        >>> elmo.encode(texts, remove=common)                                 # doctest: +SKIP

    Attributes:
        mean: (D,)
        components: (number, D), of length one, the most common first.
    """

    mean: Vectors
    components: Vectors

    @classmethod
    def fit(cls, vectors: Vectors, number: int = 3) -> Self:
        """The directions that these vectors, (n, D), have in common.

        Args:
            vectors: As `Elmo.encode` gives them, without NaN; the more the better.
            number: Principal components to remove, beside the mean.
        """
        if isinstance(number, bool) or not isinstance(number, (int, np.integer)) or number < 0:
            raise ConfigError(f"remove={quoted(number)}: expected 0 or more principal components")
        if vectors.ndim != 2 or len(vectors) < number + 2:
            raise InputError(
                f"{number} common directions need {number + 2} sentences or more, better hundreds; "
                "fit CommonDirections on a larger text and pass it as remove="
            )
        if not np.isfinite(vectors).all():
            raise InputError("common directions need finite vectors; leave blank lines out")
        mean = vectors.mean(axis=0, dtype=np.float64)
        centred = vectors - mean
        _, directions = np.linalg.eigh(centred.T @ centred)  # the largest last
        components = directions[:, ::-1][:, :number].T
        return cls(mean.astype(np.float32), np.ascontiguousarray(components, np.float32))

    def removed(self, vectors: Vectors) -> Vectors:
        """The vectors, (n, D), without the mean and the components."""
        if vectors.shape[-1] != len(self.mean):
            raise InputError(
                f"the common directions have {len(self.mean)} values and the vectors "
                f"{vectors.shape[-1]}; fit them with the same model, layers and pooling"
            )
        centred = vectors - self.mean
        rest = centred - (centred @ self.components.T) @ self.components
        return rest.astype(np.float32)

    def save(self, path: str | Path) -> None:
        """Write an .npz file, which must not exist yet."""
        path = output_path(path)
        if is_there(path):
            raise FileError(f"{path} exists; choose another name or delete it")
        save_arrays(path, mean=self.mean, components=self.components)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """What `save` wrote."""
        kinds = {"mean": (np.dtype(np.float32), 1), "components": (np.dtype(np.float32), 2)}
        arrays = load_arrays(Path(path), kinds)
        mean, components = arrays["mean"], arrays["components"]
        if components.shape[1] != len(mean):
            raise FormatError(f"{path} is damaged (a mean of {len(mean)} values, components of "
                              f"{components.shape[1]})")  # fmt: skip
        return cls(mean, components)

    def __repr__(self) -> str:
        number, width = self.components.shape
        return f"<CommonDirections: the mean and {number} components of {width} values>"
