"""A document of any length costs little memory beyond its own vectors."""

import json
import subprocess
import sys

import pytest

PROGRAM = """
import json, resource, sys
import numpy as np
from elmokit import Elmo, ElmoConfig

def peak_gigabytes():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9

layers, num_tokens = sys.argv[1], int(sys.argv[2])
elmo = Elmo(ElmoConfig()).eval()
elmo.embed([["the", "first", "call"]])
random = np.random.default_rng(0)
letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))
words = ["".join(random.choice(letters, random.integers(1, 14))) for _ in range(20_000)]
frequencies = 1 / np.arange(1, 20_001)
ranks = random.choice(20_000, num_tokens, p=frequencies / frequencies.sum())
document = [words[rank] for rank in ranks]
before = peak_gigabytes()
vectors = elmo.embed([document], layers=layers)[0]
print(json.dumps({
    "before": before, "after": peak_gigabytes(),
    "shape": vectors.shape, "finite": bool(np.isfinite(vectors).all()),
    "distinct": len(set(document)), "engine": elmo.engine,
}))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("layers", "shape"),
    [
        pytest.param("average", [100_000, 256], marks=pytest.mark.long),
        ("all", [3, 100_000, 256]),
    ],
)
def test_document_of_100_000_tokens_needs_less_than_two_gigabytes(
    layers: str, shape: list[int]
) -> None:
    run = [sys.executable, "-c", PROGRAM, layers, "100000"]
    done = subprocess.run(run, check=True, capture_output=True, text=True)
    figures = json.loads(done.stdout)
    print(figures)
    assert figures["shape"] == shape and figures["finite"]
    assert figures["distinct"] > 10_000
    assert figures["after"] - figures["before"] < 2.0
