"""elmokit as a worker for benchmarks; the protocol is that of `allennlp_worker.py`.

The first line may hold "engine" and "precision". Every request starts from an empty word cache.
"""

import json
import resource
import sys
import time

import numpy as np
import torch

from elmokit import Elmo


def main() -> None:
    """Answer until told to quit."""
    first = json.loads(sys.stdin.readline())
    torch.set_num_threads(first["threads"])
    start = time.perf_counter()
    elmo = Elmo.from_files(
        first["options"],
        first["weights"],
        engine=first.get("engine", "auto"),
        precision=first.get("precision", "float32"),
    )
    print(json.dumps({"ready": True, "load_seconds": time.perf_counter() - start}), flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        if request.get("quit"):
            break
        sentences = request["sentences"]
        elmo.clear_cache()
        start = time.perf_counter()
        vectors = elmo.embed(sentences, layers="all", batch_size=max(1, len(sentences)))
        seconds = time.perf_counter() - start
        if request.get("return"):
            longest = max(map(len, sentences))
            padded = np.zeros((len(sentences), elmo.num_layers, longest, elmo.dim), np.float32)
            for row, vector in zip(padded, vectors, strict=True):
                row[:, : vector.shape[1]] = vector
            np.save(request["return"], padded)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(json.dumps({"seconds": seconds, "peak_rss_mb": peak}), flush=True)


if __name__ == "__main__":
    main()
