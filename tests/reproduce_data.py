"""Data sets of a few lines in the layout of the paper's experiments."""

import json
from pathlib import Path

from task_data import tagged_lines

SIZES = (
    "words.char_filters=4", "train.batch_size=8", "ner.lstm_dim=4", "ner.lstm_layers=1",
    "sentiment.dim=4", "sentiment.maxout_pieces=2",
)  # fmt: skip
"""Settings of models of a few units."""

TREES = """(3 (2 a) (3 (3 fine) (2 film)))
(1 (2 a) (1 (1 dull) (2 plot)))
(2 (2 the) (2 end))
"""
BANK, SHORE = "bank%1:14:00::", "bank%1:17:01::"


def write_layout(folder: Path) -> Path:
    """All that the experiments of issue 6 read, uncompressed."""
    files = {
        "ner/en-ewt/train.iob2": tagged_lines(),
        "ner/en-ewt/dev.iob2": tagged_lines(8),
        "sst5/train.txt": TREES,
        "sst5/dev.txt": TREES,
        "glove/small.txt": "met 1 0 0\nin 0 1 0\nparis 0 0 1\nfilm 1 1 0\n",
        "pos/en-ewt/train.conllu": _conllu() * 4,
        "pos/en-ewt/dev.conllu": _conllu(),
        "pos/ko-kaist/train.conllu": _conllu(),
        "pos/ko-kaist/dev.conllu": _conllu(),
        "wsd/semcor/brown1.jsonl": _semcor(SHORE),
        "wsd/toy/toy.data.xml": '<corpus><sentence><instance id="i" lemma="bank" pos="NOUN">bank'
        "</instance></sentence></corpus>",
        "wsd/toy/toy.gold.key.txt": f"i {SHORE}\n",
        "wsd/wordnet/index.sense": f"{BANK} 1 1 9\n{SHORE} 2 2 3\n",
    }
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


def _conllu() -> str:
    rows = [("the", "DET", "DT"), ("dog", "NOUN", "NN"), ("runs", "VERB", "VBZ")]
    lines = [f"{i}\t{w}\t_\t{u}\t{x}" + "\t_" * 5 for i, (w, u, x) in enumerate(rows, 1)]
    return "\n".join(lines) + "\n\n"


def _semcor(key: str) -> str:
    tokens = [["the", "the", "DT", []], ["bank", "bank", "NN", [key]]]
    return json.dumps({"tokens": tokens}) + "\n"
