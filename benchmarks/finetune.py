"""Fine-tuning the biLM: engine `auto` against `plain`, forward and backward, interleaved.

python benchmarks/finetune.py [--threads N] [--rounds N]
"""

import argparse
import statistics
import time

import torch

from elmokit import Elmo, ElmoConfig
from elmokit.config import LstmConfig

SHAPES = {
    "bundled (512/128)": LstmConfig(dim=512, projection_dim=128),
    "published small (1024/128)": LstmConfig(dim=1024, projection_dim=128),
}
BATCHES = {"32 sentences of 5 to 36 tokens": [5 + i for i in range(32)], "one of 20": [20]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    print(f"threads: {arguments.threads}; plain / auto, medians of {arguments.rounds} rounds")
    for name, lstm in SHAPES.items():
        models = [trainable(lstm, engine) for engine in ("plain", "auto")]
        for batch, lengths in BATCHES.items():
            sentences = [[f"w{i}x{j}" for j in range(n)] for i, n in enumerate(lengths)]
            ratio = compare(models, sentences, arguments.rounds)
            print(f"{name:28} {batch:32} {ratio:.2f}")


def trainable(lstm: LstmConfig, engine: str) -> Elmo:
    torch.manual_seed(1)
    elmo = Elmo(ElmoConfig(lstm=lstm), engine=engine)
    elmo.bilm.requires_grad_(True)
    return elmo


def compare(models: list[Elmo], sentences: list[list[str]], rounds: int) -> float:
    """How many times as long the first model takes."""
    times: list[list[float]] = [[] for _ in models]
    for number in range(rounds + 1):
        for elmo, of in zip(models, times, strict=True):
            start = time.perf_counter()
            elmo(sentences).layers.square().sum().backward()
            if number:  # the first is not counted
                of.append(time.perf_counter() - start)
    plain, auto = map(statistics.median, times)
    return plain / auto


if __name__ == "__main__":
    main()
