"""A script of 2018: one word in two sentences, then a small tagger of names on top of ELMo.

    python examples/allennlp_script.py [OPTIONS.json WEIGHTS.hdf5]

Only its import lines changed. Without files it makes a tiny model of random weights.
"""

import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
from random_pair import write_random_pair
from torch import nn

# Before:
# from allennlp.commands.elmo import ElmoEmbedder
# from allennlp.modules.elmo import Elmo, batch_to_ids
from elmokit.compat.allennlp import Elmo, ElmoEmbedder, batch_to_ids

TAGS = ["O", "NAME", "DATE"]
TRAIN = """
Anna/NAME was born in May/DATE 1931/DATE .
We met Peter/NAME and Maria/NAME on Monday/DATE .
On Friday/DATE the ferry to Oslo/NAME was late .
The bridge in Lisbon/NAME was opened in 1966/DATE .
Her brother moved to Kenya/NAME in March/DATE .
They sold the house in Berlin/NAME in 1998/DATE .
The letter from Thomas/NAME came on Tuesday/DATE .
In 2004/DATE Julia/NAME wrote her first book .
He reads the paper in the garden every Sunday/DATE .
Since April/DATE the museum in Vienna/NAME is closed .
"""
TEST = """
Clara/NAME left Madrid/NAME in 1987/DATE .
The train from Paris/NAME came on Thursday/DATE .
In 2011/DATE her book was sold to Martin/NAME .
"""


def read(text):
    lines = [[token.split("/") for token in line.split()] for line in text.split("\n") if line]
    return [([t[0] for t in line], [t[1] if len(t) > 1 else "O" for t in line]) for line in lines]


class Tagger(nn.Module):
    def __init__(self, options_file, weight_file):
        super().__init__()
        self.elmo = Elmo(options_file, weight_file, num_output_representations=1, dropout=0.5)
        self.output = nn.Linear(self.elmo.get_output_dim(), len(TAGS))

    def forward(self, sentences):
        embedded = self.elmo(batch_to_ids(sentences))
        return self.output(embedded["elmo_representations"][0]), embedded["mask"]


def compare_word(options_file, weight_file):
    embedder = ElmoEmbedder(options_file, weight_file)
    sentences = [["We", "sat", "on", "the", "bank"], ["The", "bank", "gave", "me", "a", "loan"]]
    vectors = [
        layers[:, sentence.index("bank")]
        for sentence, layers in zip(sentences, embedder.embed_sentences(sentences))
    ]
    print("'bank' in two sentences, cosine by layer:")
    for j, (a, b) in enumerate(zip(*vectors)):
        print(f"  layer {j}: {a @ b / np.linalg.norm(a) / np.linalg.norm(b):.3f}")


def train(options_file, weight_file):
    torch.manual_seed(1)
    model = Tagger(options_file, weight_file)
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=0.02)
    sentences, tags = zip(*read(TRAIN))
    gold = torch.tensor([TAGS.index(tag) for sentence in tags for tag in sentence])
    print("\na tagger on top, training:")
    for epoch in range(1, 81):
        scores, mask = model(sentences)
        loss = nn.functional.cross_entropy(scores[mask], gold)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if epoch % 20 == 0:
            print(f"  epoch {epoch}: loss {loss.item():.3f}")
    return model


def test(model):
    model.eval()
    print("new sentences:")
    right = total = 0
    for sentence, gold in read(TEST):
        with torch.no_grad():
            scores, _ = model([sentence])
        guesses = [TAGS[i] for i in scores[0].argmax(-1)]
        right += sum(a == b for a, b in zip(guesses, gold))
        total += len(gold)
        print("  " + " ".join(w if t == "O" else f"{w}/{t}" for w, t in zip(sentence, guesses)))
    print(f"  {right} of {total} tokens right")
    mix = model.elmo.scalar_mix_0
    weights = torch.softmax(torch.cat(list(mix.scalar_parameters)), dim=0)
    print(
        "layer weights:", " ".join(f"{w:.2f}" for w in weights), f" gamma: {mix.gamma.item():.2f}"
    )


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        files = sys.argv[1:] or [str(path) for path in write_random_pair(Path(folder))]
        compare_word(*files)
        test(train(*files))
