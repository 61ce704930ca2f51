"""What the layers know: word senses (Table 5) and parts of speech (Table 6)."""

from pathlib import Path
from typing import Literal

from ..probes import (
    pos_probe,
    read_semcor,
    read_sense_index,
    read_sense_set,
    splits_words,
    wsd_probe,
)
from ..probes.wsd_data import SenseSentence, SenseSet
from ..tasks.data import read_conllu
from ..tasks.source import load_bilm
from ..vectors.static import read_static_vectors
from .layout import (
    POS_DATA,
    SEMCOR,
    SENSE_INDEX,
    SENSE_SETS,
    STATIC,
    find_all,
    find_one,
    find_pair,
)
from .paper import PAPER, TABLE5, TABLE5_DATA, TABLE5_OTHERS, TABLE6, TABLE6_DATA, TABLE6_OTHERS
from .report import NONE, Report, Table, italic, paper_note, score
from .setup import Setup

TAGS: dict[str, Literal["upos", "xpos"]] = {"en": "xpos", "ko": "upos"}
"""EWT's `xpos` are the tags of the Penn Treebank, which the paper has; Kaist's are morphemes."""

SPLIT = " Words are split by the model's tokenizer; their vectors are the means of their parts'."


def read_senses(
    data: Path,
) -> tuple[list[SenseSentence], list[SenseSet], dict[str, dict[str, int]]]:
    """SemCor, the test sets and WordNet's senses, as `wsd_probe` takes them."""
    senses = read_sense_index(find_one(data, SENSE_INDEX))
    folders = sorted({path.parent for path in find_all(data, SENSE_SETS)})
    train = [s for path in find_all(data, SEMCOR) for s in read_semcor(path)]
    return train, [read_sense_set(folder) for folder in folders], senses


def table5(setup: Setup) -> Report:
    """Word senses by the nearest average of SemCor, layer by layer."""
    train, tests, senses = read_senses(setup.data)
    elmo = load_bilm(setup.model, device=setup.bilm.device)
    result = wsd_probe(elmo, train, tests, senses, max_sentences=setup.plan.max_sentences)
    names = list(result.num_instances)
    rows = [
        (_layer(row), *(score(100 * f1[name]) for name in names), _paper(TABLE5, row))
        for row, f1 in result.f1.items()
    ]
    counts = ", ".join(f"{name} {number:,}" for name, number in result.num_instances.items())
    return Report(
        title="Word senses by layer (Table 5)",
        table=Table(("F1", *names, italic(PAPER)), [*rows, *_others(TABLE5_OTHERS, len(names))]),
        notes=[
            "The nearest average vector of the senses in SemCor, by the cosine; for a lemma that "
            f"is not in it ({result.backed_off['all']:.1%} of the instances), WordNet's first "
            "sense.",
            paper_note(TABLE5_DATA),
        ],
        sizes=[
            f"{result.num_train_sentences:,} of {len(train):,} sentences of SemCor, "
            f"{result.num_senses:,} senses of the tested words",
            f"instances: {counts}",
        ],
        facts={"result": result.to_dict(), "paper": {"table5": TABLE5 | TABLE5_OTHERS}},
    )


def table6(setup: Setup) -> Report:
    """Parts of speech by a linear classifier, layer by layer."""
    paths = find_pair(setup.data, POS_DATA[setup.plan.language])
    tag = TAGS[setup.plan.language]
    train, dev = (read_conllu(path, tag=tag) for path in paths)
    static = None
    if setup.plan.language == "en":  # GloVe's language
        words = {token for part in (train, dev) for s in part for token in s.tokens}
        static = read_static_vectors(find_one(setup.data, STATIC), words)
    elmo = load_bilm(setup.model, device=setup.bilm.device)
    split = splits_words(elmo)
    result = pos_probe(
        elmo, train, dev, max_sentences=setup.plan.max_sentences, static=static, split=split
    )
    rows = [
        (_layer(row), score(100 * share), _paper(TABLE6, row))
        for row, share in result.accuracy.items()
    ]
    weights = ", ".join(f"{weight:.2f}" for weight in result.mix_weights)
    return Report(
        title="Parts of speech by layer (Table 6)",
        table=Table(("accuracy", "dev", italic(PAPER)), [*rows, *_others(TABLE6_OTHERS, 1)]),
        notes=[
            "A linear classifier on the frozen vectors of each token. The learned mix weighs the "
            f"layers with {weights}." + (SPLIT if split else ""),
            paper_note(TABLE6_DATA),
        ],
        sizes=[
            f"{result.num_train_sentences:,} of {len(train):,} training sentences "
            f"({result.num_train_tokens:,} tokens, {_name(setup, paths[0])})",
            f"{result.num_dev_tokens:,} tokens to score ({_name(setup, paths[1])}), "
            f"{len(result.tags)} tags ({tag})",
            f"{result.settings.epochs} epochs, batches of {result.settings.batch_size}",
        ],
        facts={"result": result.to_dict(), "paper": {"table6": TABLE6 | TABLE6_OTHERS}},
    )


def _layer(row: str) -> str:
    return f"layer {row}" if row.isdigit() else row


def _paper(table: dict[str, float], row: str) -> str:
    return italic(score(table[row])) if row in table else NONE


def _others(table: dict[str, float], num_columns: int) -> list[tuple[str, ...]]:
    """The rows that only the paper has."""
    empty = ("",) * num_columns
    return [
        (italic(f"{PAPER}: {name}"), *empty, italic(score(value))) for name, value in table.items()
    ]


def _name(setup: Setup, path: Path) -> str:
    return str(path.relative_to(setup.data))
