"""simple_elmo as a long-running worker for benchmarks; run by the Python that has simple_elmo.

The protocol is that of `allennlp_worker.py`. The session is kept between requests and no warm-up
runs, which is the fastest way to use the library. The first line may hold "max_batch" (256): a
request with more sentences is an error, as they would not all start from zero.
"""

import json
import os
import resource
import sys
import tempfile
import time
from pathlib import Path


def main() -> None:
    """Answer until told to quit."""
    # What the library prints goes to stderr; stdout is for answers alone.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)

    first = json.loads(sys.stdin.readline())
    # Keras 3 has no LSTMCell of the kind that simple_elmo uses.
    os.environ |= {"TF_USE_LEGACY_KERAS": "1", "TF_CPP_MIN_LOG_LEVEL": "3"}
    import numpy as np
    import simple_elmo
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(first["threads"])
    tf.config.threading.set_inter_op_parallelism_threads(first["threads"])
    max_batch = first.get("max_batch", 256)
    graph = tf.Graph()
    with graph.as_default(), tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        for name, source in (("options.json", "options"), ("model.hdf5", "weights")):
            (Path(folder) / name).symlink_to(Path(first[source]).resolve())
        model = simple_elmo.ElmoModel()
        model.load(folder, max_batch_size=max_batch)
        session = tf.compat.v1.Session(graph=graph)
        with session.as_default():
            model.elmo_sentence_input = simple_elmo.weight_layers(
                "input", model.sentence_embeddings_op, use_layers="all"
            )
            session.run(tf.compat.v1.global_variables_initializer())
        seconds = time.perf_counter() - start
        # The LSTM states are the variables without a name of their own, one row a sentence.
        states = [
            variable.initializer
            for variable in tf.compat.v1.global_variables()
            if "/Variable" in variable.name and variable.shape[0] == max_batch
        ]
        assert len(states) == 4 * (model.n_layers - 1), "the LSTM states were not found"
    answers.write(json.dumps({"ready": True, "load_seconds": seconds}) + "\n")

    for line in sys.stdin:
        request = json.loads(line)
        if request.get("quit"):
            break
        sentences = request["sentences"]
        try:
            if len(sentences) > max_batch:
                raise ValueError(f"{len(sentences)} sentences, but max_batch is {max_batch}")
            with graph.as_default():
                session.run(states)
                start = time.perf_counter()
                vectors = model.get_elmo_vectors(
                    sentences, warmup=False, layers="all", session=session
                )
                seconds = time.perf_counter() - start
            if request.get("return"):
                longest = np.arange(vectors.shape[2])
                mask = longest < np.array([len(s) for s in sentences])[:, None]
                vectors = vectors * mask[:, None, :, None]
                np.save(request["return"], vectors.astype(np.float32))
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            answer = {"seconds": seconds, "peak_rss_mb": peak}
        except Exception as e:
            answer = {"error": f"{type(e).__name__}: {e}"}
        answers.write(json.dumps(answer) + "\n")


if __name__ == "__main__":
    main()
