"""Vectors of Korean morphemes, read off the language model inside Kiwi.

Kiwi (Apache-2.0) keeps its embeddings to itself, but says how similar any morpheme is to all
others. With the cosines C of a few hundred anchors among each other, C = U Λ Uᵀ, and the cosines S
of all morphemes to the anchors, S U Λ^-½ are vectors with those very cosines (Nyström): the
embeddings up to a rotation, as long as there are more anchors than dimensions.
"""

import importlib
import unicodedata
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import ConfigError, MissingExtra
from ..vectors.static import StaticVectors

NUM_ANCHORS = 320
"""Morphemes to compare all others with; Kiwi 0.24 has 256 dimensions."""
FREQUENT = 20_000
"""Anchors have an id below this: Kiwi numbers its morphemes by frequency."""
MAX_DIM = 256
MIN_EIGENVALUE = 1e-3
"""Dimensions below this are rounding errors."""

_ALL = 1_000_000
"""More than Kiwi has morphemes; it sets memory aside for as many."""


def kiwi_vectors(on_share: Callable[[float], None] | None = None) -> StaticVectors:
    """One vector per morpheme, spelled as the tokenizer `kiwi` spells it; takes about a minute.

    A form with several tags or senses gets the average of their vectors, weighted by how frequent
    each is, which its rank tells (Zipf's law).

    Args:
        on_share: Gets the share of the work that is done, from 0 to 1.
    """
    kiwi = _load_kiwi()
    forms = _forms(kiwi)
    generator = np.random.default_rng(0)
    candidates = np.arange(min(FREQUENT, len(forms)))
    num_anchors = min(NUM_ANCHORS, len(candidates))
    anchors = np.sort(generator.choice(candidates, num_anchors, replace=False))
    similarities = np.zeros((num_anchors, len(forms)), np.float32)
    for i, anchor in enumerate(anchors.tolist()):
        if on_share is not None:
            on_share(i / num_anchors)
        for morpheme in kiwi.most_similar_morphemes(anchor, top_n=_ALL):
            similarities[i, morpheme.id] = morpheme.score
        similarities[i, anchor] = 1.0  # Kiwi leaves a morpheme out of its own neighbours
    return _average(forms, embed_similarities(similarities, anchors))


def embed_similarities(
    similarities: NDArray[np.float32], anchors: NDArray[np.int64]
) -> NDArray[np.float32]:
    """Vectors whose cosines with the anchors' vectors are `similarities`, (N, D).

    Args:
        similarities: (A, N) cosines of the anchors and everything; below -1 where there is no
            vector, which gives zeros.
        anchors: The place of each anchor among the N.
    """
    among = similarities[:, anchors].astype(np.float64)
    values, vectors = np.linalg.eigh((among + among.T) / 2)
    kept = np.flatnonzero(values > MIN_EIGENVALUE)[-MAX_DIM:]
    basis = (vectors[:, kept] / np.sqrt(values[kept])).astype(np.float32)
    result: NDArray[np.float32] = similarities.T @ basis
    result[(similarities < -1).any(axis=0)] = 0
    return result


def _average(forms: list[str], vectors: NDArray[np.float32]) -> StaticVectors:
    """The weighted mean vector of each form that has any."""
    weights = vectors.any(axis=1) / np.arange(1.0, len(forms) + 1)
    words: dict[str, int] = {}
    kept = [i for i, form in enumerate(forms) if form and weights[i]]
    rows = [words.setdefault(forms[i], len(words)) for i in kept]
    sums = np.zeros((len(words), vectors.shape[1]))
    np.add.at(sums, rows, vectors[kept] * weights[kept, None])
    totals = np.bincount(rows, weights=weights[kept], minlength=len(words))
    return StaticVectors(words, (sums / totals[:, None]).astype(np.float32))


def _forms(kiwi: Any) -> list[str]:
    """The form of every morpheme by its id, as the tokenizer writes it."""
    found = {m.id: m.form for m in kiwi.most_similar_morphemes(0, top_n=_ALL)}
    return [_compatible(found.get(i, "")) for i in range(max(found) + 1)]


def _compatible(form: str) -> str:
    """A form with lone codas as compatibility jamo: ᆫ다 → ㄴ다."""
    return "".join(_jamo(char) if "\u11a8" <= char <= "\u11c2" else char for char in form)


def _jamo(coda: str) -> str:
    name = unicodedata.name(coda).replace("HANGUL JONGSEONG", "HANGUL LETTER")
    return unicodedata.lookup(name)


def _load_kiwi() -> Any:
    try:
        kiwi = importlib.import_module("kiwipiepy").Kiwi(num_workers=1)
    except ImportError as e:
        raise MissingExtra("ko", "kiwipiepy") from e
    if not hasattr(kiwi, "most_similar_morphemes"):
        raise ConfigError(
            "--vectors kiwi needs kiwipiepy 0.21 or newer; run: pip install -U 'elmokit[ko]'"
        )
    return kiwi
