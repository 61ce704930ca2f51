"""Held-out perplexity of training recipes at equal time, compared after the cool-down.

    python benchmarks/recipe.py CORPUS -o OUT --vectors FILE --tokens 1.5e6 [--arms base,cooldown60]

All arms start from the same token encoder and softmax, fitted to static vectors once. Arms whose
tokens take more or less time than those of `base` get fewer or more of them: `--costs` measures
that on a quiet machine, and `ARMS` holds what it printed. Perplexity is by the full softmax on a
sample of the held-out text, each sentence from a zero state; `averaged` is that of the mean of the
weights over the last 2 % of the steps. Appends one row per arm to OUT/recipe.jsonl.
"""

import argparse
import json
import statistics
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from elmokit import Elmo
from elmokit.corpus.corpus import Corpus
from elmokit.pretraining.config import PRESETS, PretrainConfig
from elmokit.pretraining.distributed import World
from elmokit.pretraining.evaluate import as_row, held_out_perplexity
from elmokit.pretraining.loop import Loop, keep_freed_memory, make_optimizer
from elmokit.pretraining.objective import Objective
from elmokit.pretraining.setup import (
    batch_reader,
    fit_to_corpus,
    held_out_batches,
    new_model,
    training_stream,
)
from elmokit.pretraining.start_vectors import read_start_vectors, start_from_vectors


@dataclass(frozen=True)
class Arm:
    """One recipe.

    Attributes:
        settings: What differs from the preset.
        beta2: Adam's decay of the second moment.
        muon: Weights that Muon trains: none, those of the `projections`, or all of the LSTMs, the
            gates each on their own.
        cost: Time per token, relative to `base`.
    """

    settings: tuple[str, ...] = ()
    beta2: float = 0.99
    muon: str = "none"
    cost: float = 1.0


WIDE = ("model.lstm.projection_dim=256", "train.lr=2e-3")
ARMS: dict[str, Arm] = {
    "base": Arm(),
    "cooldown60": Arm(("train.cooldown=0.6",)),
    "cooldown100": Arm(("train.cooldown=1.0",)),
    "beta2-999": Arm(beta2=0.999),
    "beta2-999-cooldown60": Arm(("train.cooldown=0.6",), beta2=0.999),
    "beta2-999-cooldown100": Arm(("train.cooldown=1.0",), beta2=0.999),
    "lanes128": Arm(("data.lanes=128", "train.lr=4.8e-3"), cost=0.954),
    "beta2-999-lanes128": Arm(("data.lanes=128", "train.lr=4.8e-3"), beta2=0.999, cost=0.954),
    "lanes32": Arm(("data.lanes=32", "train.lr=3.3e-3"), cost=1.104),
    "muon-projections": Arm(muon="projections", cost=1.035),
    "muon-gates": Arm(muon="gates", cost=1.318),
    "512x256": Arm(("model.lstm.dim=512", *WIDE), cost=1.769),
    "768x256": Arm(("model.lstm.dim=768", *WIDE), cost=2.305),
    "1024x256": Arm(("model.lstm.dim=1024", *WIDE), cost=2.852),
}


class Muon(torch.optim.Optimizer):
    """Momentum whose matrix is made orthogonal (Jordan et al. 2024), at the scale of AdamW's steps.

    Args:
        blocks: Matrices, each with the number of equal blocks of rows that are made orthogonal on
            their own.
        lr: The rate, as of AdamW.
    """

    def __init__(self, blocks: Iterable[tuple[nn.Parameter, int]], lr: float) -> None:
        groups = [{"params": [p], "parts": parts} for p, parts in blocks]
        super().__init__(groups, {"lr": lr, "momentum": 0.95})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                average = self.state[p].setdefault("average", torch.zeros_like(p))
                average.lerp_(p.grad, 1 - group["momentum"])
                update = p.grad.lerp(average, group["momentum"])  # Nesterov
                for rows, change in zip(p.chunk(group["parts"]), update.chunk(group["parts"])):
                    scale = 0.2 * max(rows.shape) ** 0.5
                    rows.add_(orthogonal(change), alpha=-group["lr"] * scale)


def orthogonal(x: Tensor, steps: int = 5) -> Tensor:
    """About U V' of x = U S V', by Newton and Schulz's iteration with Jordan's coefficients."""
    is_tall = x.shape[0] > x.shape[1]
    x = x.t() if is_tall else x
    x = x / (x.norm() + 1e-7)
    for _ in range(steps):
        a = x @ x.t()
        x = 3.4445 * x + (-4.7750 * a + 2.0315 * a @ a) @ x
    return x.t() if is_tall else x


class Both:
    """Two optimisers as one, as far as `Loop` needs it."""

    def __init__(self, *optimizers: torch.optim.Optimizer) -> None:
        self.optimizers = optimizers

    @property
    def param_groups(self) -> list[dict[str, object]]:
        return [group for one in self.optimizers for group in one.param_groups]

    def zero_grad(self, set_to_none: bool = True) -> None:
        for one in self.optimizers:
            one.zero_grad(set_to_none=set_to_none)

    def step(self) -> None:
        for one in self.optimizers:
            one.step()


def use_optimizer(loop: Loop, arm: Arm) -> None:
    """Give the loop the optimiser of the arm."""
    blocks: list[tuple[nn.Parameter, int]] = []
    if arm.muon != "none":
        for name, p in loop.objective.bilm.named_parameters():
            if ".layers." in name and p.dim() == 2:
                is_projection = name.endswith("projection")
                if is_projection or arm.muon == "gates":
                    blocks.append((p, 1 if is_projection else 4))
    ours = {id(p) for p, _ in blocks}
    rest = [p for p in loop.parameters if id(p) not in ours]
    adam = make_optimizer(rest, loop.config.train)
    for group in adam.param_groups:
        group["betas"] = (0.9, arm.beta2)
    muon = [Muon(blocks, loop.config.train.lr)] if blocks else []
    loop.optimizer = Both(adam, *muon)  # type: ignore[assignment]


def configured(arm: Arm, corpus: Corpus, tokens: float, seed: int) -> PretrainConfig:
    settings = (
        "train.dropout=0", "train.epochs=null", f"train.max_tokens={tokens / arm.cost:.0f}",
        f"train.seed={seed}", *arm.settings,
    )  # fmt: skip
    return fit_to_corpus(PRESETS["small"].override(*settings), corpus)


def make_loop(
    elmo: Elmo, config: PretrainConfig, corpus: Corpus, arm: Arm, args: argparse.Namespace
) -> Loop:
    """The arm at its first step."""
    world = World()
    reader = batch_reader(elmo, corpus, world.device)
    if args.vectors:
        start_fitted(elmo, corpus, args)
    assert elmo.softmax is not None
    objective = Objective(elmo.bilm, elmo.softmax, config.train.dropout)
    stream = training_stream(corpus.train, config.data, config.train.seed)
    loop = Loop(config, objective, stream, reader, world)
    use_optimizer(loop, arm)
    return loop


def start_fitted(elmo: Elmo, corpus: Corpus, args: argparse.Namespace) -> None:
    """The token encoder and the softmax fitted to vectors, computed once per width."""
    assert elmo.softmax is not None
    width = elmo.softmax.weight.shape[1]
    file = args.output / f"start-{width}.safetensors"
    parts = {"encoder": elmo.bilm.encoder, "softmax": elmo.softmax}
    if not file.exists():
        reader = batch_reader(elmo, corpus, torch.device("cpu"))
        found = read_start_vectors(args.vectors, corpus, width, seed=1)
        start_from_vectors(elmo, found, corpus, reader, steps=args.vector_steps, seed=1)
        save_file(
            {f"{n}.{k}": t for n, p in parts.items() for k, t in p.state_dict().items()}, file
        )
    tensors = load_file(file)
    for name, part in parts.items():
        own = {k.removeprefix(f"{name}."): t for k, t in tensors.items() if k.startswith(name)}
        part.load_state_dict(own)


def run(name: str, seed: int, corpus: Corpus, args: argparse.Namespace) -> dict[str, object]:
    """Train one arm to its end."""
    arm = ARMS[name]
    config = configured(arm, corpus, args.tokens, seed)
    elmo = new_model(config, corpus)
    loop = make_loop(elmo, config, corpus, arm, args)
    start, mean, num_averaged = time.process_time(), {}, 0
    while (used := loop.budget_used) < 1:
        loop.step(used)
        if used >= 0.98:
            num_averaged += 1
            for key, t in loop.objective.state_dict().items():
                mean.setdefault(key, torch.zeros_like(t)).lerp_(t, 1 / num_averaged)
    seconds = time.process_time() - start
    held_out = held_out_batches(corpus.valid, args.valid_tokens)
    last = held_out_perplexity(elmo, held_out, corpus.words)
    loop.objective.load_state_dict(mean)
    averaged = held_out_perplexity(elmo, held_out, corpus.words)
    return {
        "arm": name, "seed": seed, "tokens": loop.progress.tokens, "steps": loop.progress.step,
        "cpu_seconds": round(seconds), **as_row(last), "averaged": averaged.mean,
    }  # fmt: skip


def costs(corpus: Corpus, args: argparse.Namespace) -> None:
    """Print the time per token of each arm, relative to `base`; medians of interleaved steps."""
    loops = {}
    for name in args.arms:
        config = configured(ARMS[name], corpus, 1e9, 1)
        loops[name] = make_loop(new_model(config, corpus), config, corpus, ARMS[name], args)
    times: dict[str, list[float]] = {name: [] for name in loops}
    for number in range(6):
        for name, loop in loops.items():
            tokens, start = loop.progress.tokens, time.perf_counter()
            for _ in range(2):
                loop.step(0.1)
            taken = time.perf_counter() - start
            if number:
                times[name].append(taken / (loop.progress.tokens - tokens))
    for name, values in times.items():
        ratio = statistics.median(values) / statistics.median(times["base"])
        print(f"{name:18} {1 / statistics.median(values):7.0f} tokens/s  cost {ratio:.3f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("corpus", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--arms", type=lambda text: text.split(","), default=list(ARMS))
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--tokens", type=float, default=1.5e6, help="of `base`")
    parser.add_argument("--vectors", metavar="FILE", help="static vectors to start from")
    parser.add_argument("--vector-steps", type=int, default=3000)
    parser.add_argument("--valid-tokens", type=int, default=100_000)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--costs", action="store_true", help="measure speed only")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    keep_freed_memory()
    args.output.mkdir(parents=True, exist_ok=True)
    corpus = Corpus.open(args.corpus)
    if args.costs:
        costs(corpus, args)
        return
    for seed in range(1, args.seeds + 1):
        for name in args.arms:
            row = run(name, seed, corpus, args)
            print(json.dumps(row), flush=True)
            with (args.output / "recipe.jsonl").open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
