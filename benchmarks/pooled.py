"""What the frozen vectors alone know of a text's label: a linear classifier over pooled layers.

    python benchmarks/pooled.py TRAIN DEV --model ko [--examples 3200] [--set held_out=0.1 …]

The files and settings are those of `elmokit train classify`. All layers are pooled by their mean
and their maximum over the tokens. A task model that is no better with ELMo than without, and
better than this, has found the vectors to hold nothing that it lacks.
"""

import argparse
from pathlib import Path

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from elmokit import Elmo
from elmokit.tasks.registry import find_task

STRENGTHS = (0.001, 0.01, 0.1)


def pooled(elmo: Elmo, examples: list) -> np.ndarray:
    """[mean; maximum] of all layers, a row a text."""
    layers = elmo.embed([list(example.tokens) for example in examples], layers="all")
    return np.stack(
        [np.concatenate([x.mean(axis=1).ravel(), x.max(axis=1).ravel()]) for x in layers]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("train", type=Path)
    parser.add_argument("dev", type=Path)
    parser.add_argument("--model", default="en")
    parser.add_argument("--examples", type=int, default=3200)
    parser.add_argument("--set", action="append", default=[], dest="settings")
    args = parser.parse_args()
    elmo, task = Elmo.from_pretrained(args.model), find_task("classify")
    config = task.config_class().override(*args.settings)
    train, dev = (
        [e for e in task.read(path, config, elmo.reader, is_training=is_training) if e.tokens]
        for path, is_training in ((args.train, True), (args.dev, False))
    )
    order = np.random.default_rng(1).permutation(len(train))[: args.examples]
    train = [train[i] for i in order]
    x, y = pooled(elmo, train), pooled(elmo, dev)
    print(f"{len(train)} texts to learn from, {len(dev)} to score")
    for strength in STRENGTHS:
        model = make_pipeline(StandardScaler(), LogisticRegression(C=strength, max_iter=300))
        model.fit(x, [e.label for e in train])
        print(f"C = {strength}: accuracy {100 * model.score(y, [e.label for e in dev]):.1f}")


if __name__ == "__main__":
    main()
