"""AllenNLP as a long-running worker for benchmarks; run by the Python that has AllenNLP.

JSON lines, one answer a line. First {"options": path, "weights": path, "threads": 2}, answered by
{"ready": true, "load_seconds": s}; then any number of {"sentences": [[token, …], …], "return":
path.npy or null}, answered by {"seconds": s, "peak_rss_mb": m}; {"quit": true} ends. A request
that fails is answered by {"error": text}. The .npy is (sentences, layers, tokens, D), zero-padded.
"""

import json
import os
import resource
import sys
import time


def main() -> None:
    """Answer until told to quit."""
    # What the library prints goes to stderr; stdout is for answers alone.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)

    first = json.loads(sys.stdin.readline())
    os.environ["OMP_NUM_THREADS"] = str(first["threads"])
    import numpy as np
    import torch
    from allennlp.modules.elmo import Elmo, batch_to_ids

    torch.set_num_threads(first["threads"])
    start = time.perf_counter()
    elmo = Elmo(first["options"], first["weights"], 1, dropout=0).eval()
    answers.write(json.dumps({"ready": True, "load_seconds": time.perf_counter() - start}) + "\n")

    layers = []
    elmo._elmo_lstm.register_forward_hook(lambda *call: layers.append(call[-1]["activations"]))
    for line in sys.stdin:
        request = json.loads(line)
        if request.get("quit"):
            break
        sentences = request["sentences"]
        layers.clear()
        elmo._elmo_lstm._elmo_lstm.reset_states()
        try:
            start = time.perf_counter()
            with torch.no_grad():
                mask = elmo(batch_to_ids(sentences))["mask"]
            seconds = time.perf_counter() - start
            if request.get("return"):
                inner = torch.stack(layers[-1], dim=1)[:, :, 1:-1]
                np.save(request["return"], (inner * mask[:, None, :, None]).numpy())
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            answer = {"seconds": seconds, "peak_rss_mb": peak}
        except Exception as e:
            answer = {"error": f"{type(e).__name__}: {e}"}
        answers.write(json.dumps(answer) + "\n")


if __name__ == "__main__":
    main()
