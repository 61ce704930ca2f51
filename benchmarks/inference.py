"""Inference against AllenNLP, simple_elmo and the machine's sgemm, in one interleaved run.

    python benchmarks/inference.py --text sentences.conllu.gz --json rows.json

Random weights in the official shapes, one call a measurement, all layers of all tokens, from an
empty word cache; each program in a process of its own. `one` is ten sentences, a call each, one
after the other. Medians over the rounds. The peers are installed by `benchmarks/peers/install.sh`;
without them there are no ratios.
"""

import argparse
import gzip
import json
import platform
import random
import statistics
import subprocess
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import torch
from workers import Worker, own, peers

from elmokit import Elmo, ElmoConfig, bench
from elmokit.config import CharCnnConfig, EncoderConfig, LstmConfig
from elmokit.engine import native
from elmokit.formats.save import write_checkpoint

SHAPES = {
    "small": ElmoConfig(),
    "original": ElmoConfig(
        encoder=EncoderConfig(char_cnn=CharCnnConfig(num_highway=2)),
        lstm=LstmConfig(dim=4096, projection_dim=512),
    ),
}
REST_SECONDS = 0.3  # idle threads of the program before spin for a while


def read_sentences(path: Path) -> list[list[str]]:
    """The tokens of each sentence of a CoNLL-U file, or of each line of a text."""
    data = path.read_bytes()
    text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode("utf-8")
    if ".conllu" not in path.name:
        return [line.split() for line in text.splitlines() if line.strip()]
    return [
        [row.split("\t")[1] for row in block.splitlines() if row.split("\t")[0].isdigit()]
        for block in text.split("\n\n")
        if block.strip()
    ]


def make_cases(sentences: list[list[str]]) -> dict[str, list[list[str]]]:
    """The four cases: random batches, single sentences, and a document of 212 sentences."""
    generator = random.Random(0)
    sizes = [len(s) for s in sentences]
    totals = np.convolve(sizes, np.ones(212, dtype=int), mode="valid")
    start = int(np.abs(totals - 5017).argmin())
    return {
        "b32": generator.sample(sentences, 32),
        "b128": generator.sample(sentences, 128),
        "one": [s for s in generator.sample(sentences, len(sentences)) if 15 <= len(s) <= 20][:10],
        "doc5k": sentences[start : start + 212],
    }


def write_random_model(shape: str, folder: Path) -> tuple[Path, Path]:
    """An official pair of random weights."""
    torch.manual_seed(0)
    checkpoint = Elmo(SHAPES[shape]).to_checkpoint()
    checkpoint.config = SHAPES[shape]
    checkpoint.tensors = {n: t for n, t in checkpoint.tensors.items() if not n.startswith("mixes")}
    write_checkpoint(checkpoint, folder / "weights.hdf5")
    return folder / "options.json", folder / "weights.hdf5"


def measure_shape(
    shape: str, cases: dict[str, list[list[str]]], args: argparse.Namespace, folder: Path
) -> list[dict[str, Any]]:
    """One row for each case and program."""
    options, weights = write_random_model(shape, folder)
    engines = ["torch", *(["native"] if native.available() else [])]
    engines += ["torch:int8"] if shape == "original" else []
    rows = []
    with ExitStack() as stack:
        workers: list[Worker] = [own(e, options, weights, args.threads) for e in engines]
        workers += peers(args.peers, options, weights, args.threads)
        for worker in workers:
            stack.enter_context(worker)
        for case, sentences in cases.items():
            rows += measure_case(shape, case, sentences, workers, args.rounds)
            print_rows(rows[-len(workers) :])
    return rows


def measure_case(
    shape: str, case: str, sentences: list[list[str]], workers: list[Worker], rounds: int
) -> list[dict[str, Any]]:
    seconds: dict[str, list[float]] = {worker.name: [] for worker in workers}
    rates = []
    calls = [[s] for s in sentences] if case == "one" else [sentences]
    for round_number in range(rounds + 1):
        rates.append(bench.sgemm_rate())
        for worker in workers:
            time.sleep(REST_SECONDS)
            taken = [worker.seconds(call) for call in calls]
            if round_number > 0:  # the first call of each prepares its weights
                seconds[worker.name].append(statistics.fmean(taken))
    num_tokens = sum(map(len, sentences)) // len(calls)
    work = statistics.fmean(_work(SHAPES[shape], call) for call in calls)
    median = {name: statistics.median(times) for name, times in seconds.items()}
    return [
        {
            "shape": shape,
            "case": case,
            "engine": worker.name,
            "tokens": num_tokens,
            "tokens_per_s": num_tokens / median[worker.name],
            "milliseconds": 1000 * median[worker.name],
            "over_allennlp": _ratio(median, "allennlp", worker.name),
            "over_simple_elmo": _ratio(median, "simple_elmo", worker.name),
            "sgemm_share": work / median[worker.name] / statistics.median(rates),
            "sgemm_gflops": statistics.median(rates) / 1e9,
            "peak_rss_mb": worker.peak_rss_mb,
            "load_seconds": worker.load_seconds,
        }
        for worker in workers
    ]


def _work(config: ElmoConfig, sentences: list[list[str]]) -> float:
    """Floating-point operations of one call."""
    distinct = {word for sentence in sentences for word in sentence}
    return bench.flops(config, sum(map(len, sentences)) + 2 * len(sentences), len(distinct) + 2)


def _ratio(median: dict[str, float], peer: str, name: str) -> float | None:
    return median[peer] / median[name] if peer in median else None


def print_rows(rows: list[dict[str, Any]]) -> None:
    def times(x: float | None) -> str:
        return "     -" if x is None else f"{x:5.1f}x"

    for r in rows:
        print(
            f"{r['shape']:9} {r['case']:6} {r['engine']:12} {r['tokens_per_s']:8.0f} tok/s "
            f"{r['milliseconds']:9.1f} ms  allennlp {times(r['over_allennlp'])}  "
            f"simple_elmo {times(r['over_simple_elmo'])}  sgemm {r['sgemm_share']:4.0%}  "
            f"{r['peak_rss_mb']:6.0f} MB  load {r['load_seconds']:.1f} s",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--text", type=Path, required=True, help="CoNLL-U or one sentence a line")
    parser.add_argument("--peers", type=Path, default=Path(__file__).parent / ".peers")
    parser.add_argument("--shapes", default="small,original")
    parser.add_argument("--cases", default="b32,b128,one,doc5k")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    cases = make_cases([s for s in read_sentences(args.text) if s])
    cases = {name: cases[name] for name in args.cases.split(",")}
    rows = []
    for shape in args.shapes.split(","):
        with tempfile.TemporaryDirectory() as folder:
            rows += measure_shape(shape, cases, args, Path(folder))
    if args.json:
        args.json.write_text(json.dumps([{**row, **facts()} for row in rows], indent=1) + "\n")


def facts() -> dict[str, str]:
    """What the figures depend on."""
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    return {
        "machine": f"{platform.machine()}, {', '.join(native.available()) or 'no kernel'}",
        "torch": torch.__version__,
        "commit": commit.stdout.strip(),
    }


if __name__ == "__main__":
    main()
