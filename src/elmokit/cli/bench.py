"""`elmokit bench`: how fast a model is on this machine, engine by engine."""

import json
from dataclasses import asdict
from itertools import islice
from typing import Annotated

import typer

from ..errors import InputError
from .options import Device, ExecutionOptions, Json, Model, check_text
from .report import reported


@reported
def bench_cli(
    model: Model,
    text: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Your own text, one sentence per line; default: made-up words in natural "
            "proportions.",
        ),
    ] = None,
    rounds: Annotated[
        int, typer.Option(min=1, help="Measurements of each; their median counts.")
    ] = 3,
    threads: Annotated[
        int | None, typer.Option(min=1, help="Threads; by default those of torch.")
    ] = None,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Measure tokens per second, latency and memory of a model on this machine.

    Each engine embeds one sentence and batches of 32 and 128, from an empty word cache. The share
    is that of the rate at which this machine multiplies large matrices, taken in the same run.
    """
    if text is not None:
        check_text(text)
    elmo = ExecutionOptions(device=device).load(model)
    import torch

    from .. import bench

    if threads:
        torch.set_num_threads(threads)
    sentences = bench.made_up_sentences(500)
    if text is not None:
        from ..files.read import read_lines

        lines = elmo.tokenize(list(islice((s for s in read_lines(text) if s.strip()), 2000)))
        if not lines:
            raise InputError(f"{text}: there is no sentence in it")
        sentences = lines * (1 + 160 // len(lines))
    median = sorted(sentences, key=len)[len(sentences) // 2]
    cases = {
        "one sentence": [median],
        "batch of 32": sentences[:32],
        "batch of 128": sentences[32:160],
    }
    rows = []
    if not as_json:
        print(f"{model}: {torch.get_num_threads()} threads, medians of {rounds}\n")
        print(f"{'case':13} {'engine':18} {'tokens':>7} {'ms':>9} {'tokens/s':>9} {'of sgemm':>9}")
    for m in bench.measure(elmo, cases, rounds):
        rows.append(asdict(m))
        if not as_json:
            print(
                f"{m.case:13} {m.engine:18} {m.num_tokens:7} {1000 * m.seconds:9.1f} "
                f"{m.tokens_per_s:9.0f} {m.sgemm_share:9.0%}",
                flush=True,
            )
    rate, peak = bench.sgemm_rate(), bench.peak_memory_mb()
    if as_json:
        machine = {"engine": elmo.engine, "sgemm_gflops": rate / 1e9, "peak_rss_mb": peak}
        print(json.dumps({"rows": rows, **machine}))
    else:
        print(
            f"\nsgemm {rate / 1e9:.0f} GFLOP/s; peak memory {peak:.0f} MB; default: {elmo.engine}"
        )
