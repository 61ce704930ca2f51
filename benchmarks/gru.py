"""The native gated recurrent units against torch's: forward and backward, interleaved.

python benchmarks/gru.py [--threads N] [--rounds N]
"""

import argparse
import statistics
import time
from collections.abc import Callable

import torch
from torch import Tensor, nn

from elmokit.engine import native
from elmokit.tasks.parts.encoders import run_grus

SHAPES = ((20, 160, 200, 90), (20, 160, 360, 90), (45, 160, 180, 90))
"""Texts, tokens, width of the input, units: those of SQuAD's model."""

Recur = Callable[[list[nn.GRU], list[Tensor]], list[Tensor]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--rounds", type=int, default=9)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    if not native.available():
        raise SystemExit("the native kernel is not built")
    print(f"threads: {arguments.threads}; torch / native, medians of {arguments.rounds} rounds")
    for texts, tokens, width, units in SHAPES:
        layers = [nn.GRU(width, units) for _ in range(2)]
        inputs = [torch.randn(tokens, texts, width, requires_grad=True) for _ in layers]
        ratio = compare(layers, inputs, arguments.rounds)
        print(f"{texts:3} texts of {tokens} tokens, {width} to {units} units: {ratio:.2f}")


def compare(layers: list[nn.GRU], inputs: list[Tensor], rounds: int) -> float:
    """How many times as long torch takes."""
    times: dict[Recur, list[float]] = {by_torch: [], run_grus: []}
    for recur in times:
        learn(recur, layers, inputs)  # not counted
    for _ in range(rounds):
        for recur, of in times.items():
            start = time.perf_counter()
            learn(recur, layers, inputs)
            of.append(time.perf_counter() - start)
    torchs, ours = map(statistics.median, times.values())
    return torchs / ours


def learn(recur: Recur, layers: list[nn.GRU], inputs: list[Tensor]) -> None:
    torch.stack([output.sum() for output in recur(layers, inputs)]).sum().backward()


def by_torch(layers: list[nn.GRU], inputs: list[Tensor]) -> list[Tensor]:
    return [layer(x)[0] for layer, x in zip(layers, inputs, strict=True)]


if __name__ == "__main__":
    main()
