"""Our trainer against a straightforward PyTorch loop and the machine's sgemm, interleaved.

    python benchmarks/train_speed.py CORPUS [--preset small] [--rounds 5] [--json FILE]

Both train the same architecture on the same batches of a prepared corpus, with as many samples of
the softmax. Each measurement is a few steps; medians over the rounds.
"""

import argparse
import json
import resource
import statistics
import time
from pathlib import Path

import numpy as np
import torch
from naive_trainer import NaiveTrainer

from elmokit import bench
from elmokit.corpus.batches import Batch
from elmokit.corpus.corpus import Corpus
from elmokit.pretraining.config import PRESETS, PretrainConfig
from elmokit.pretraining.distributed import World
from elmokit.pretraining.loop import Loop, keep_freed_memory
from elmokit.pretraining.objective import Objective
from elmokit.pretraining.setup import batch_reader, fit_to_corpus, new_model, training_stream


def make_loop(config: PretrainConfig, corpus: Corpus) -> Loop:
    """Our trainer at its first step."""
    elmo = new_model(config, corpus)
    assert elmo.softmax is not None
    objective = Objective(elmo.bilm, elmo.softmax, config.train.dropout)
    world = World()
    stream = training_stream(corpus.train, config.data, config.train.seed)
    return Loop(config, objective, stream, batch_reader(elmo, corpus, world.device), world)


class Fixed:
    """A stream of given batches, again and again."""

    carries, epochs = False, 0.0

    def __init__(self, batches: list[Batch]) -> None:
        self.batches, self.number = batches, 0

    def next(self) -> Batch:
        """The next batch."""
        self.number += 1
        return self.batches[(self.number - 1) % len(self.batches)]

    def place(self) -> dict[str, int]:
        """Nowhere."""
        return {}

    def restore(self, place: dict[str, int]) -> None:
        """Nothing to do."""


def work(config: PretrainConfig, batch: Batch) -> float:
    """Floating-point operations of a step: forward, and twice as many backward."""
    distinct = len(np.unique(batch.inputs))
    lstm = config.model.lstm
    # In training, dropout makes every token's input of the first layer another.
    inputs = 16.0 * lstm.dim * lstm.projection_dim * (batch.num_tokens - distinct)
    forward = bench.flops(config.model, batch.num_tokens, distinct) + inputs
    softmax = 4 * batch.num_tokens * lstm.projection_dim * config.softmax.num_samples
    return 3 * (forward + softmax)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--preset", default="small", choices=list(PRESETS))
    parser.add_argument("--set", action="append", default=[], help="such as data.batch_tokens=2560")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=4, help="steps of a measurement")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    keep_freed_memory()  # as a run does
    corpus = Corpus.open(args.corpus)
    # The peer takes whole sentences, so our trainer gets them too; and its own reading beside it.
    settings = ("data.reading=sentences", *args.set)
    config = fit_to_corpus(PRESETS[args.preset].override(*settings), corpus)
    ours = make_loop(config, corpus)
    lanes = make_loop(config.override("data.reading=lanes"), corpus)
    batches = [ours.stream.next() for _ in range(args.steps)]
    naive = NaiveTrainer(config.model, len(corpus.vocab), config.softmax.num_samples, seed=1)
    tokens = sum(batch.num_tokens for batch in batches)
    seconds: dict[str, list[float]] = {"elmokit": [], "naive": [], "lanes": []}
    rates, lane_tokens = [], 0
    for number in range(args.rounds + 1):
        rates.append(bench.sgemm_rate())
        ours.stream = Fixed(batches)
        start = time.perf_counter()
        for _ in batches:
            ours.step(0.1)
        middle = time.perf_counter()
        for batch in batches:
            words = np.concatenate([batch.inputs[0], batch.targets[0][-1:]]).T
            naive.step(words, corpus.characters)
        end = time.perf_counter()
        lane_tokens = -lanes.progress.tokens
        for _ in batches:
            lanes.step(0.1)
        lane_tokens += lanes.progress.tokens
        if number:  # the first of each warms up
            seconds["elmokit"].append(middle - start)
            seconds["naive"].append(end - middle)
            seconds["lanes"].append(time.perf_counter() - end)
    median = {name: statistics.median(times) for name, times in seconds.items()}
    share = sum(work(config, b) for b in batches) / median["elmokit"] / statistics.median(rates)
    result = {
        "preset": args.preset,
        "tokens_per_step": tokens / len(batches),
        "elmokit_tokens_per_s": tokens / median["elmokit"],
        "naive_tokens_per_s": tokens / median["naive"],
        "lanes_tokens_per_s": lane_tokens / median["lanes"],
        "over_naive": median["naive"] / median["elmokit"],
        "sgemm_share": share,
        "sgemm_gflops": statistics.median(rates) / 1e9,
        "peak_rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }
    for name, value in result.items():
        print(f"{name:22} {value if isinstance(value, str) else round(value, 3)}")
    if args.json:
        args.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
