"""A better start than random weights: static word vectors.

The softmax starts from the vectors of its words, and the token encoder θx is fitted to them by
regression before the biLM learns. Words without a vector keep their random rows; everything stays
trainable.

The vectors may be those of Korean morphemes, read off the language model inside Kiwi.
Kiwi (Apache-2.0) keeps its embeddings to itself, but says how similar any morpheme is to all
others. With the cosines C of a few hundred anchors among each other, C = U Λ Uᵀ, and the cosines S
of all morphemes to the anchors, S U Λ^-½ are vectors with those very cosines (Nyström): the
embeddings up to a rotation, as long as there are more anchors than dimensions.
"""

import importlib
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..corpus.corpus import SPECIAL_WORDS, Corpus
from ..errors import ConfigError, InputError, MissingExtra
from ..model import Elmo
from ..vectors.static import StaticVectors, read_static_vectors
from .objective import BatchReader, Objective

KIWI = "kiwi"
"""The name of the vectors inside Kiwi's own language model."""

NOISE = 0.3
"""How much of a random row stays in a row of the softmax: words may share a vector."""

FIT_RATE, FIT_WORDS, FIT_COOLDOWN = 4e-3, 512, 0.3
"""Rate of AdamW, words per step, and the fraction of the steps in which the rate falls to 0."""

NUM_ANCHORS = 320
"""Morphemes to compare all others with; Kiwi 0.24 has 256 dimensions."""
FREQUENT = 20_000
"""Anchors have an id below this: Kiwi numbers its morphemes by frequency."""
MAX_DIM = 256
MIN_EIGENVALUE = 1e-3
"""Dimensions below this are rounding errors."""

_ALL = 1_000_000
"""More than Kiwi has morphemes; it sets memory aside for as many."""


@dataclass(frozen=True, slots=True)
class StartVectors:
    """Static vectors for the words of a corpus, in the width of its model.

    Attributes:
        source: Where they come from: a file, or `kiwi`.
        words: Ids of the corpus's words that have a vector, rising.
        targets: Their vectors, (N, P), with a mean of 0 and a variance of 1.
        coverage: Fraction of the vocabulary that has a vector.
    """

    source: str
    words: NDArray[np.int64]
    targets: NDArray[np.float32]
    coverage: float


def read_start_vectors(
    source: str | Path,
    corpus: Corpus,
    width: int,
    seed: int,
    on_progress: Callable[[float], None] | None = None,
) -> StartVectors:
    """The vectors of a GloVe, word2vec or fastText file, or those of `kiwi`, for a corpus.

    Args:
        source: The file, or `kiwi`.
        corpus: Whose words.
        width: P, the width of the softmax.
        seed: Decides the rotation.
        on_progress: Gets the fraction of the work that is done where it takes a minute.
    """
    is_kiwi = source == KIWI
    static = kiwi_vectors(on_progress) if is_kiwi else read_static_vectors(source, corpus.words)
    rows = np.array([_row(static, word) for word in corpus.words], np.int64)
    rows[: len(SPECIAL_WORDS)] = -1
    words, size = np.flatnonzero(rows >= 0), len(corpus.vocab)
    in_vocab = int((words < size).sum())
    if not in_vocab:
        raise InputError(
            f"{source} has no vector for any word in the vocabulary of {corpus.folder}"
        )
    targets = rotate(static.matrix[rows[words]], width, seed)
    coverage = in_vocab / (size - len(SPECIAL_WORDS))
    return StartVectors(str(source), words, targets, coverage)


def _row(static: StaticVectors, word: str) -> int:
    """The row of a word that has a vector; -1 for any other."""
    row = static.row(word)
    return row if row is not None and static.matrix[row].any() else -1


def rotate(matrix: NDArray[np.float32], width: int, seed: int) -> NDArray[np.float32]:
    """Vectors of a mean of 0 and a variance of 1 in another width, at random but for their angles.

    Wider vectors lose their weakest principal components; narrower ones keep all their angles.
    """
    centred = matrix - matrix.mean(axis=0)
    if centred.shape[1] > width:
        _, components = np.linalg.eigh(centred.T @ centred)
        centred = centred @ components[:, -width:]
    generator = np.random.default_rng(seed)
    rotation, _ = np.linalg.qr(generator.normal(size=(width, width)))
    rotated = centred @ rotation[: centred.shape[1]]
    scaled: NDArray[np.float32] = (rotated / max(float(rotated.std()), 1e-12)).astype(np.float32)
    return scaled


def start_from_vectors(
    elmo: Elmo,
    vectors: StartVectors,
    corpus: Corpus,
    reader: BatchReader,
    *,
    steps: int,
    seed: int,
    on_progress: Callable[[float], None] | None = None,
) -> dict[str, Any]:
    """Put the vectors into a new model's softmax, and teach them to its token encoder.

    The seed decides which words each of the `steps` of the regression sees. Returns what a run
    records about its start; `error` is the squared error of the fitted encoder, as a fraction of
    the variance.
    """
    assert elmo.softmax is not None
    _fill_softmax(elmo.softmax.weight, vectors, len(corpus.vocab))
    objective = Objective(elmo.bilm, elmo.softmax).to(reader.device)
    error = _fit_encoder(objective, vectors, corpus.counts, reader, steps, seed, on_progress)
    return {
        "source": vectors.source, "coverage": vectors.coverage, "steps": steps, "error": error,
    }  # fmt: skip


@torch.no_grad()
def _fill_softmax(weight: Tensor, vectors: StartVectors, vocab_size: int) -> None:
    """Rows of norm 1 from the vectors, with a little of the random rows."""
    inside = vectors.words < vocab_size
    targets = torch.from_numpy(vectors.targets[inside])
    rows = torch.from_numpy(vectors.words[inside])
    norms = targets.norm(dim=1, keepdim=True).clamp_min(1e-12)
    weight[rows] = (targets / norms).to(weight) + NOISE * weight[rows]


def _fit_encoder(
    objective: Objective,
    vectors: StartVectors,
    counts: NDArray[np.int64],
    reader: BatchReader,
    steps: int,
    seed: int,
    on_progress: Callable[[float], None] | None,
) -> float:
    """Regress the vectors on the words' characters; the mean error of the last tenth of the steps.

    Words are drawn by the square root of their counts: frequent ones matter most, and there are
    many rare ones.
    """
    generator = np.random.default_rng([seed, 1])
    cumulative = np.cumsum(np.sqrt(counts[vectors.words] + 1.0))
    parameters = list(objective.bilm.encoder.parameters())
    optimizer = torch.optim.AdamW(parameters, lr=FIT_RATE, weight_decay=0.0)
    last: list[float] = []
    for step in range(steps):
        left = (steps - step) / max(1.0, FIT_COOLDOWN * steps)
        for group in optimizer.param_groups:
            group["lr"] = FIT_RATE * min(1.0, left)
        drawn = np.searchsorted(cumulative, generator.random(FIT_WORDS) * cumulative[-1])
        drawn = np.unique(drawn.clip(max=len(vectors.words) - 1))
        targets = torch.from_numpy(vectors.targets[drawn]).to(reader.device)
        x = objective.encode(reader.token_ids(vectors.words[drawn]))
        loss = (x - targets).square().mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        error = loss.item()
        if step >= 0.9 * steps:
            last.append(error)
        if on_progress is not None:
            on_progress((step + 1) / steps)
    return sum(last) / max(1, len(last))


def kiwi_vectors(on_progress: Callable[[float], None] | None = None) -> StaticVectors:
    """One vector per morpheme, spelled as the tokenizer `kiwi` spells it; takes about a minute.

    A form with several tags or senses gets the average of their vectors, weighted by how frequent
    each is, which its rank tells (Zipf's law).
    """
    kiwi = _load_kiwi()
    forms = _forms(kiwi)
    generator = np.random.default_rng(0)
    candidates = np.arange(min(FREQUENT, len(forms)))
    num_anchors = min(NUM_ANCHORS, len(candidates))
    anchors = np.sort(generator.choice(candidates, num_anchors, replace=False))
    similarities = np.zeros((num_anchors, len(forms)), np.float32)
    for i, anchor in enumerate(anchors.tolist()):
        if on_progress is not None:
            on_progress(i / num_anchors)
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
        anchors: The index of each anchor among the N.
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
    return "".join(
        unicodedata.lookup(unicodedata.name(char).replace("HANGUL JONGSEONG", "HANGUL LETTER"))
        if "\u11a8" <= char <= "\u11c2"
        else char
        for char in form
    )


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
