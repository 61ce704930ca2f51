"""The README's picture: one word in many sentences, on every layer.

    python examples/picture.py [--model en] [--table TABLE.tsv] [-o FILE]

Shows all sentences of the first word of a table of homographs, each layer by its first two
principal components.
"""

import argparse
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

import elmokit
from elmokit import Elmo
from elmokit.probes import read_homographs

TABLE = Path(elmokit.__file__).parent / "builtin" / "examples" / "en_homographs.tsv"
STYLES = [("#d55e00", "o"), ("#0072b2", "^"), ("#009e73", "s")]


def components(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """The first two principal components of each row."""
    centred = vectors - vectors.mean(axis=0)
    _, _, axes = np.linalg.svd(centred, full_matrices=False)
    return centred @ axes[:2].T


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", default="en")
    parser.add_argument("--table", type=Path, default=TABLE)
    parser.add_argument("-o", "--output", type=Path, default=Path("picture.png"))
    args = parser.parse_args()
    table = read_homographs(args.table)
    rows = [row for row in table if row.word == table[0].word]
    senses = list(dict.fromkeys(row.sense for row in rows))
    elmo = Elmo.from_pretrained(args.model)
    sentences = elmo.annotate([row.text for row in rows], layers="all")
    layers = np.stack([
        sentence[[start for start, _ in sentence.offsets or ()].index(row.start)]
        for sentence, row in zip(sentences, rows, strict=True)
    ], axis=1)  # fmt: skip

    figure = Figure(figsize=(9, 3), layout="constrained")
    titles = ["layer 0: the word alone", "layer 1", "layer 2"]
    for axes, vectors, title in zip(figure.subplots(1, len(layers)), layers, titles, strict=True):
        points = components(vectors)
        for sense, (color, marker) in zip(senses, STYLES):
            chosen = points[[row.sense == sense for row in rows]]
            axes.scatter(*chosen.T, c=color, marker=marker, s=40, alpha=0.8, label=sense)
        limit = 1.2 * max(float(np.abs(points).max()), 1.0)
        axes.set(title=title, xticks=[], yticks=[], xlim=(-limit, limit), ylim=(-limit, limit))
    figure.axes[0].legend(title=f"“{rows[0].word}”", loc="upper left")
    figure.savefig(args.output, dpi=130)


if __name__ == "__main__":
    main()
