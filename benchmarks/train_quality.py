"""Held-out perplexity of our defaults, of bilm-tf's settings, and of a 5-gram, at equal budgets.

    python benchmarks/train_quality.py CORPUS --minutes 10 [--variants default,bilm-tf] -o OUT

Every variant trains the same architecture for the same time, one after the other, from the same
seed; perplexity is by the full softmax over the whole held-out text, each sentence from a zero
state. The modified Kneser-Ney 5-gram is trained on as many tokens as the default read, and on all.
Appends a row a variant to OUT/quality.jsonl.
"""

import argparse
import json
import tomllib
from pathlib import Path
from typing import Any

import kneser_ney
import torch

from elmokit import bench
from elmokit.pretraining.config import PRESETS, PretrainConfig
from elmokit.pretraining.run import pretrain

EXAMPLES = Path(__file__).parent.parent / "examples"


def bilm_tf() -> tuple[str, ...]:
    """The settings of examples/bilm_tf.toml."""
    values = tomllib.loads((EXAMPLES / "bilm_tf.toml").read_text(encoding="utf-8"))
    return tuple(
        f"{section}.{name}={json.dumps(value)}"
        for section, settings in values.items()
        for name, value in settings.items()
    )


VARIANTS: dict[str, tuple[str, ...]] = {
    "default": (),
    "bilm-tf": bilm_tf(),
    "sentences": ("data.reading=sentences",),
    "full softmax": ("softmax.loss=full",),
}


VECTORS = "static vectors"


def train(
    corpus: Path, config: PretrainConfig, out: Path, budget: str, vectors: str | None = None
) -> dict[str, Any]:
    """One run; what it reached."""
    config = config.override(
        budget, "train.epochs=null", "train.evaluate_every=1000000",
        "train.checkpoint_every=1000000", "train.log_every=100",
    )  # fmt: skip
    pretrain(corpus, out, config, vectors=vectors, device="cpu")
    result = json.loads((out / "result.json").read_text(encoding="utf-8"))
    counts = {name: result[name] for name in ("tokens", "step", "seconds")}
    return counts | result["valid"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("corpus", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--tokens", type=float, help="a budget in tokens, for a busy machine")
    parser.add_argument("--preset", default="small", choices=list(PRESETS))
    parser.add_argument("--variants", default="default,bilm-tf")
    parser.add_argument("--add", action="append", default=[], metavar="NAME:SETTINGS",
                        help="one more variant, such as 'lr 4e-3:train.lr=4e-3'")  # fmt: skip
    parser.add_argument("--vectors", metavar="FILE",
                        help="also the default with a start from static vectors")  # fmt: skip
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--ngram", action="store_true", help="also the 5-gram")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    variants = {name: VARIANTS[name] for name in args.variants.split(",") if name}
    for text in args.add:
        name, _, settings = text.partition(":")
        variants[name] = tuple(settings.split())
    if args.vectors:
        variants[VECTORS] = ()
    minutes, tokens = args.minutes, args.tokens
    budget = f"train.max_tokens={tokens}" if tokens else f"train.max_minutes={minutes}"
    args.output.mkdir(parents=True, exist_ok=True)
    num_read = None
    for number, (name, settings) in enumerate(variants.items()):
        config = PRESETS[args.preset].override(*settings)
        run = args.output / f"{number}-{name.replace(' ', '-')}"
        row = {"variant": name, "preset": args.preset, "budget": budget}
        row |= train(args.corpus, config, run, budget, args.vectors if name == VECTORS else None)
        num_read = num_read or row["tokens"]
        show(row, args.output)
    if args.ngram:
        for limit in (num_read, None):
            found = kneser_ney.measure(args.corpus, 5, False, limit)
            row = {"variant": "5-gram", "tokens": found["train_tokens"]}
            show(row | {"forward": found["perplexity"]}, args.output)


def show(row: dict[str, Any], folder: Path) -> None:
    """Print a row and keep it."""
    row["sgemm_gflops"] = round(bench.sgemm_rate() / 1e9, 1)
    numbers = "  ".join(
        f"{name} {row[name]:8.2f}" for name in ("forward", "backward", "mean") if name in row
    )
    print(f"{row['variant']:24} {row['tokens'] / 1e6:7.2f}M tokens  {numbers}", flush=True)
    with (folder / "quality.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
