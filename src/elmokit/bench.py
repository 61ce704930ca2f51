"""How fast a model is on this machine, and how much of the machine that is.

The measure of the machine is its rate of single-precision matrix products (sgemm), taken in the
same run: an LSTM is mostly such products, so its share of that rate says how much is lost.
"""

import ctypes
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import torch

from .config import ElmoConfig
from .engine import Engine, native
from .model import Elmo

SGEMM_SIZE = 2048


@dataclass(frozen=True, slots=True)
class Measurement:
    """One case with one engine; medians over the rounds."""

    engine: str
    case: str
    num_tokens: int
    seconds: float
    tokens_per_s: float
    sgemm_share: float


def engines(elmo: Elmo) -> list[Engine]:
    """The engines that can run this model on this machine, the reference first."""
    names = ["torch", *(f"native:{isa}" for isa in native.available())]
    found = [Engine(elmo.bilm, name) for name in names]
    if elmo.config.lstm.dim >= 2048 and elmo.device.type == "cpu":
        found.append(Engine(elmo.bilm, "torch", precision="int8"))
    return found


def measure(
    elmo: Elmo, cases: Mapping[str, Sequence[Sequence[str]]], rounds: int = 3
) -> Iterator[Measurement]:
    """Every case with every engine, in turn, from an empty word cache."""
    candidates = engines(elmo)
    for case, sentences in cases.items():
        times: dict[str, list[float]] = {engine.name: [] for engine in candidates}
        rates = []
        for _ in range(rounds + 1):
            rates.append(sgemm_rate())
            for engine in candidates:
                times[engine.name].append(_time(partial(_embed, elmo, engine, sentences)))
        num_tokens = sum(map(len, sentences))
        distinct = {word for sentence in sentences for word in sentence}
        work = flops(elmo.config, num_tokens + 2 * len(sentences), len(distinct) + 2)
        for name, seconds in times.items():
            median = statistics.median(seconds[1:])  # the first round prepares the weights
            sgemm_share = work / median / statistics.median(rates)
            yield Measurement(name, case, num_tokens, median, num_tokens / median, sgemm_share)


def flops(config: ElmoConfig, num_tokens: int, num_distinct: int) -> float:
    """Multiplications and additions that the engine does, two for each pair.

    The encoder and the first layer's input products run once per distinct word, the rest once per
    token (boundaries included). The convolutions are table lookups and not counted.
    """
    lstm, cnn = config.lstm, config.encoder.char_cnn
    product = 4 * lstm.dim * lstm.projection_dim
    projection = lstm.dim * lstm.projection_dim if lstm.projected else 0
    a_word = 2 * product
    if cnn is not None:
        a_word += cnn.num_highway * 2 * cnn.num_filters**2
    if config.encoder.projected:
        a_word += config.encoder.unprojected_dim * lstm.projection_dim
    layers = lstm.num_layers
    a_token = 2 * (layers * (product + projection) + (layers - 1) * product)
    return 2.0 * (num_distinct * a_word + num_tokens * a_token)


def sgemm_rate(size: int = SGEMM_SIZE) -> float:
    """Operations a second of a large single-precision matrix product, the best of three."""
    a = torch.rand(size, size)
    return 2.0 * size**3 / min(_time(lambda: a @ a) for _ in range(3))


def peak_memory_mb() -> float:
    """The most memory that this process has had."""
    if sys.platform == "win32":
        return _peak_memory_on_windows() / 2**20
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)


def made_up_sentences(num_sentences: int, seed: int = 0) -> list[list[str]]:
    """Sentences of made-up words whose lengths and frequencies are those of natural text."""
    generator = random.Random(seed)
    letters = "etaoinshrdlucmfwypvbgk"
    words = [
        "".join(generator.choice(letters) for _ in range(2 + int(generator.expovariate(0.25))))
        for _ in range(20_000)
    ]
    weights = [1 / (rank + 3) for rank in range(len(words))]
    lengths = [
        max(1, min(100, round(generator.gammavariate(2.2, 8)))) for _ in range(num_sentences)
    ]
    return [generator.choices(words, weights, k=length) for length in lengths]


def _embed(elmo: Elmo, engine: Engine, sentences: Sequence[Sequence[str]]) -> None:
    elmo.clear_cache()
    before, elmo._embedder.engine = elmo._embedder.engine, engine
    try:
        elmo.embed(sentences, layers="all", batch_size=len(sentences))
    finally:
        elmo._embedder.engine = before


if sys.platform == "win32":

    class _MemoryCounters(ctypes.Structure):
        _fields_ = [
            ("size", ctypes.c_uint32), ("page_faults", ctypes.c_uint32),
            *[(name, ctypes.c_size_t) for name in (
                "peak_working_set", "working_set", "peak_paged_pool", "paged_pool",
                "peak_other_pool", "other_pool", "pagefile", "peak_pagefile",
            )],
        ]  # fmt: skip

    def _peak_memory_on_windows() -> int:
        """Bytes; PROCESS_MEMORY_COUNTERS of the Windows API."""
        counters = _MemoryCounters(ctypes.sizeof(_MemoryCounters))
        this_process = ctypes.c_void_p(-1)
        ctypes.WinDLL("kernel32").K32GetProcessMemoryInfo(
            this_process, ctypes.byref(counters), counters.size
        )
        return int(counters.peak_working_set)


def _time(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start
