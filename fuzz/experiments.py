"""The experiments of the paper, on data of a few lines."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from elmokit.reproduce import Plan, reproduce

SIZES = (
    "words.char_filters=4", "train.batch_size=8", "ner.lstm_dim=4", "ner.lstm_layers=1",
    "sentiment.dim=4", "sentiment.maxout_pieces=2", "squad.gru_dim=2",
)  # fmt: skip
TASKS = Plan(seeds=1, epochs=1, settings=SIZES)
PLANS = {
    "table1": replace(TASKS, tasks=("ner", "sentiment")),
    "table2": replace(TASKS, tasks=("ner",)),
    "table3": replace(TASKS, tasks=("ner",)),
    "table5": Plan(),
    "table6": Plan(max_sentences=1),
    **dict.fromkeys(("ner", "sst5", "wnut17", "klue", "nsmc", "3i4k", "korquad"), TASKS),
    "figure1": replace(TASKS, tasks=("ner",), fractions=(0.5, 1.0)),
    "figure2": TASKS,
}

TAGS = "\n".join(["Anna\tB-PER\nmet\tO\nBob\tB-PER\n", "Paris\tB-LOC\nis\tO\nbig\tO\n"] * 6) + "\n"
_TREES = "(3 (2 a) (3 (3 fine) (2 film)))\n(1 (2 a) (1 (1 dull) (2 plot)))\n"
_WORDS = (("the", "DET"), ("gift", "NOUN"), ("came", "VERB"))
_TAGGED = [f"{i}\t{word}\t_\t{tag}\t{tag}" + "\t_" * 5 for i, (word, tag) in enumerate(_WORDS, 1)]
_BANK, _SHORE = "bank%1:14:00::", "bank%1:17:01::"
_SENSES = (
    '<corpus><sentence><instance id="i" lemma="bank" pos="NOUN">bank</instance></sentence></corpus>'
)


def make_data_sets(folder: Path) -> None:
    """All data that the experiments read."""
    pos = "\n".join(_TAGGED) + "\n\n"
    semcor = {"tokens": [["the", "the", "DT", []], ["bank", "bank", "NN", [_SHORE]]]}
    many = range(40)  # so that some are held out
    files = {
        **{f"ner/en-ewt/{name}.iob2": TAGS for name in ("train", "dev")},
        **{f"ner/wnut17/{name}.conll": TAGS for name in ("train", "dev")},
        "ner/ko-klue/klue.tsv": "".join(f"김\tB-PS\n{n}\tI-PS\n배\tO\n\n" for n in many),
        **{f"sst5/{name}.txt": _TREES for name in ("train", "dev")},
        **{f"nsmc/{name}.tsv": "text\tlabel\n좋다\t1\n나쁘다\t0\n" for name in ("train", "dev")},
        "ko-3i4k/train.txt": "".join(f"{n % 2}\t배가 {n}\n" for n in many),
        "korquad/train.json": json.dumps({"version": "KorQuAD", "data": [*map(_article, many)]}),
        **{f"pos/en-ewt/{name}.conllu": pos for name in ("train", "dev")},
        "glove/small.txt": "met 1 0 0\nbig 0 1 0\n",
        "wsd/semcor/brown1.jsonl": json.dumps(semcor) + "\n",
        "wsd/toy/toy.data.xml": _SENSES,
        "wsd/toy/toy.gold.key.txt": f"i {_SHORE}\n",
        "wsd/wordnet/index.sense": f"{_BANK} 1 1 9\n{_SHORE} 2 2 3\n",
    }
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def _article(number: int) -> dict[str, Any]:
    answer = {"text": "배", "answer_start": 0}
    question = {"id": str(number), "question": "무엇?", "answers": [answer]}
    return {
        "title": str(number),
        "paragraphs": [{"context": f"배가 {number}", "qas": [question]}],
    }


def run_experiment(folder: Path, name: str = "ner", out: str = "out", **options: bool) -> None:
    """Reproduce something of the paper, in models of a few units."""
    model = folder / "model"
    reproduce(name, folder / "data", model, folder / out, PLANS[name], device="cpu", **options)
