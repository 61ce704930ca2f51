"""A simple_elmo script: vectors of tokens and of sentences, and which sentences are alike.

    python examples/simple_elmo_script.py [MODEL]

MODEL is a folder or a .zip, for example of the NLPL repository. Only the import line changed.
Without a model it makes a tiny one of random weights.
"""

import sys
import tempfile
from pathlib import Path

import numpy as np
from random_pair import write_random_pair

# Before:
# from simple_elmo import ElmoModel
from elmokit.compat.simple_elmo import ElmoModel

PAIRS = [
    ("The cat sat on the mat .", "A cat was sitting on the mat ."),
    ("Shares fell sharply on Monday .", "On Monday , shares fell sharply ."),
    ("The cat sat on the mat .", "Shares fell sharply on Monday ."),
    ("고양이가 창가에 앉아 있다 .", "고양이가 창가에 앉았다 ."),
]


def main(path):
    model = ElmoModel()
    print(model.load(path, max_batch_size=32))
    print(f"{model.n_layers} layers of {model.vector_size} values")

    sentences = [text.split() for pair in PAIRS for text in pair]
    tokens = model.get_elmo_vectors(sentences, layers="top")
    print("tokens, top layer:  ", tokens.shape)
    print("tokens, all layers: ", model.get_elmo_vectors(sentences, layers="all").shape)

    averages = model.get_elmo_vector_average(sentences)
    print("sentences:          ", averages.shape)
    unit = averages / np.linalg.norm(averages, axis=1, keepdims=True)
    for (a, b), x, y in zip(PAIRS, unit[::2], unit[1::2]):
        print(f"  {x @ y:.3f}  {a}  |  {b}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        if len(sys.argv) < 2:
            write_random_pair(Path(folder))
        main(sys.argv[1] if len(sys.argv) > 1 else folder)
