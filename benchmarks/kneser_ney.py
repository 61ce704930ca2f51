"""Perplexity of an interpolated modified Kneser-Ney n-gram: what a biLM has to beat.

    python benchmarks/kneser_ney.py CORPUS [--order 5] [--backward] [--max-tokens N] [--json]

Trains on the `train` split of a folder that `elmokit prepare` made and reads its `valid` split, on
the same targets as our language models: each sentence w1…wn gives the n + 1 targets w1…wn `</S>`,
the context starts with `<S>` and never crosses sentences, a word outside the softmax vocabulary is
`<UNK>`, and `<UNK>` counts as a word.

The formulas are those of Chen and Goodman (1999), "An empirical study of smoothing techniques for
language modeling", with all three discounts at every order and the last interpolation with the
uniform distribution. An n-gram is a number: the rank of its first n - 1 words times the size of
the vocabulary plus its last word, so that all counting is sorting. But: no pruning, and all n-grams
stay in memory (12 bytes each).
"""

import argparse
import json
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from elmokit.corpus.corpus import Sentences

Ints = npt.NDArray[np.integer[Any]]
Floats = npt.NDArray[np.float64]

START, END, UNKNOWN = 0, 1, 2
FALLBACK = (0.0, 0.5, 1.0, 1.5)
"""Discounts where the counts of counts give none (too little text); KenLM's choice too."""


@dataclass(frozen=True)
class Text:
    """Sentences one after another, each `<S>` w1…wn `</S>`; `depth` counts from its `<S>`."""

    words: Ints
    depth: Ints

    @classmethod
    def of(cls, sentences: "Sentences", num_words: int, *, backward: bool = False) -> "Text":
        """The text of a split, for a vocabulary of the ids below `num_words`."""
        tokens = np.asarray(sentences.tokens)
        lengths = np.diff(sentences.offsets)
        # A boundary mark spelled out in the text is no boundary.
        known = (tokens != START) & (tokens < num_words)
        starts = sentences.offsets[:-1] + 2 * np.arange(len(lengths))
        places = np.arange(len(tokens)) + np.repeat(2 * np.arange(len(lengths)) + 1, lengths)
        if backward:
            places = np.repeat(2 * starts + lengths + 1, lengths) - places
        words = np.full(len(tokens) + 2 * len(lengths), UNKNOWN, np.int32)
        words[starts] = START
        words[starts + lengths + 1] = END
        words[places[known]] = tokens[known]
        depth = np.arange(len(words)) - np.repeat(starts, lengths + 2)
        return cls(words, depth.astype(np.int32))

    def before(self, ids: Ints, order: int) -> tuple[Ints, Ints]:
        """Where an n-gram of this order ends, and the ids of the n - 1 words before its last."""
        ends = np.flatnonzero(self.depth >= max(order - 1, 1))
        # As 64 bits: a key is far larger than a rank.
        return ends, np.zeros_like(ends) if order == 1 else ids[ends - 1].astype(np.int64)


@dataclass(frozen=True)
class Level:
    """The n-grams of one order: sorted keys, adjusted counts, and discounts by count 0…3+."""

    keys: Ints
    counts: Ints
    discounts: Floats

    def find(self, keys: Ints) -> Ints:
        """The rank of each key, -1 where it was never seen."""
        ranks = np.searchsorted(self.keys, keys)
        ranks[ranks == len(self.keys)] = 0
        return np.where(self.keys[ranks] == keys, ranks, -1)

    def interpolate(self, contexts: Ints, ranks: Ints, lower: Floats, num_words: int) -> Floats:
        """p(w | context) from p(w | shorter context), for contexts and n-grams by their ranks."""
        first = np.searchsorted(self.keys, contexts * num_words)
        last = np.searchsorted(self.keys, (contexts + 1) * num_words)
        total = _between(self.counts, first, last)
        freed = np.zeros(len(contexts))
        for few in (1, 2, 3):
            members = self.counts >= 3 if few == 3 else self.counts == few
            freed += self.discounts[few] * _between(members, first, last)
        count = np.where(ranks >= 0, self.counts[ranks], 0)
        kept = count - self.discounts[np.minimum(count, 3)]
        seen = np.maximum(total, 1)
        return np.where(total > 0, kept / seen + freed / seen * lower, lower)


class KneserNey:
    """An n-gram model of a text; see the head of this file."""

    def __init__(self, text: Text, num_words: int, order: int = 5) -> None:
        self.num_words = num_words
        self.levels: list[Level] = []
        ids: Ints = np.zeros(0, np.int32)
        raw: tuple[Ints, Ints, Ints] | None = None  # of the level below, until it is adjusted
        for n in range(1, order + 1):
            ends, before = text.before(ids, n)
            if len(ends) == 0:  # no sentence is as long as this order
                break
            keys, example, counts, ranks = _distinct(before * num_words + text.words[ends])
            places = ends[example]
            if raw is not None:
                self.levels.append(_adjusted(*raw, continued=ids[places]))
            # An n-gram at the start of a sentence has no word before it to count.
            raw = keys, counts, text.depth[places] == n - 1
            ids = np.full(len(text.words), START, np.int32)
            ids[ends] = ranks
            if n == 1:  # words are their own ranks, so that `<S>` has one too
                ids = text.words
                present = np.bincount(keys, counts, minlength=num_words).astype(np.int64)
                raw = np.arange(num_words), present, np.zeros(num_words, bool)
        if raw is None:
            raise ValueError("the training text has no sentence")
        keys, counts, _ = raw
        self.levels.append(Level(keys, counts, discounts(counts)))

    def log_probabilities(self, text: Text) -> Floats:
        """log p of every target of `text`, in its order."""
        targets = np.flatnonzero(text.depth > 0)
        p = np.full(len(text.words), 1 / (self.num_words - 1))  # over all words but `<S>`
        ids: Ints = np.zeros(0, np.int64)
        for n, level in enumerate(self.levels, start=1):
            ends, before = text.before(ids, n)
            seen = before >= 0
            ends, before = ends[seen], before[seen]
            ranks = level.find(before * self.num_words + text.words[ends])
            p[ends] = level.interpolate(before, ranks, p[ends], self.num_words)
            ids = np.full(len(text.words), -1, np.int64)
            ids[ends] = ranks
            if n == 1:
                ids = text.words.astype(np.int64)
        return np.asarray(np.log(p[targets]))

    def perplexity(self, text: Text) -> float:
        """exp of the mean of -log p over the targets of `text`."""
        return float(np.exp(-self.log_probabilities(text).mean()))


def discounts(counts: Ints) -> Floats:
    """D(0) = 0, D(1), D(2) and D(3+) from how many n-grams have the counts 1…4."""
    n1, n2, n3, n4 = (int((counts == count).sum()) for count in (1, 2, 3, 4))
    if not (n1 and n2 and n3):
        return np.array(FALLBACK)
    y = n1 / (n1 + 2 * n2)
    found = np.array([0, 1 - 2 * y * n2 / n1, 2 - 3 * y * n3 / n2, 3 - 4 * y * n4 / n3])
    # Beyond these bounds a seen word would lose more than it has, or gain.
    return found if (found >= 0).all() else np.array(FALLBACK)


def _adjusted(keys: Ints, counts: Ints, is_first: Ints, continued: Ints) -> Level:
    """A lower order: how many different words precede an n-gram, instead of how often it occurs."""
    kinds = np.bincount(continued, minlength=len(keys)).astype(counts.dtype)
    counts = np.where(is_first, counts, kinds)
    return Level(keys, counts, discounts(counts))


def _distinct(keys: Ints) -> tuple[Ints, Ints, Ints, Ints]:
    """Distinct keys in order, a place and the count of each, and the rank of every key."""
    order = np.argsort(keys)
    keys = keys[order]
    is_new = np.empty(len(keys), bool)
    is_new[0] = True
    np.not_equal(keys[1:], keys[:-1], out=is_new[1:])
    ranks = np.empty(len(keys), np.int32)
    ranks[order] = np.cumsum(is_new, dtype=np.int32) - 1
    first = np.flatnonzero(is_new)
    counts = np.diff(first, append=len(keys)).astype(np.int32)
    return keys[first], order[first], counts, ranks


def _between(values: npt.NDArray[Any], first: Ints, last: Ints) -> Ints:
    """Sums of `values[first:last]`."""
    sums = np.zeros(len(values) + 1, np.int64)
    np.cumsum(values, out=sums[1:])
    return sums[last] - sums[first]


def head(sentences: "Sentences", max_tokens: int | None) -> "Sentences":
    """The first whole sentences with at most `max_tokens` tokens together."""
    if max_tokens is None:
        return sentences
    number = int(np.searchsorted(sentences.offsets, max_tokens, side="right")) - 1
    offsets = sentences.offsets[: number + 1]
    return type(sentences)(tokens=sentences.tokens[: offsets[-1]], offsets=offsets)


def measure(folder: Path, order: int, backward: bool, max_tokens: int | None) -> dict[str, Any]:
    """Perplexity on the held-out split of a prepared corpus, with what it cost."""
    from elmokit import ElmoError
    from elmokit.corpus.corpus import Corpus

    try:
        corpus, start = Corpus.open(folder), time.perf_counter()
    except ElmoError as e:
        sys.exit(f"error: {e}")
    num_words = len(corpus.vocab)
    train = head(corpus.train, max_tokens)
    if len(train.offsets) < 2 or len(corpus.valid.offsets) < 2:
        sys.exit(f"error: {folder}: no whole sentence to train on, or none to evaluate")
    model = KneserNey(Text.of(train, num_words, backward=backward), num_words, order)
    trained = time.perf_counter()
    valid = Text.of(corpus.valid, num_words, backward=backward)
    return {
        "perplexity": model.perplexity(valid),
        "order": order,
        "direction": "backward" if backward else "forward",
        "vocabulary": num_words,
        "train_tokens": len(train.tokens),
        "valid_targets": int((valid.depth > 0).sum()),
        "ngrams": [len(level.keys) for level in model.levels],
        "discounts": [level.discounts[1:].round(4).tolist() for level in model.levels],
        "train_seconds": round(trained - start, 1),
        "valid_seconds": round(time.perf_counter() - trained, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("corpus", type=Path, help="a folder that `elmokit prepare` made")
    parser.add_argument("--order", type=int, default=5)
    parser.add_argument("--backward", action="store_true", help="predict from right to left")
    parser.add_argument("--max-tokens", type=int, help="train on the first N tokens only")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    if args.order < 1:
        parser.error(f"--order {args.order}: expected 1 or more")
    row = measure(args.corpus, args.order, args.backward, args.max_tokens)
    if args.json:
        print(json.dumps(row))
        return
    print(
        f"perplexity {row['perplexity']:.2f}  ({row['direction']} {row['order']}-gram, "
        f"{row['train_tokens']:,} training tokens, {row['valid_targets']:,} targets, "
        f"vocabulary {row['vocabulary']:,}; {row['train_seconds']} s + {row['valid_seconds']} s)"
    )


if __name__ == "__main__":
    main()
