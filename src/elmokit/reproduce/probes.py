"""What the layers know: Tables 5 and 6, and every probe of a language for models side by side."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

from ..errors import ConfigError, FileError, quoted
from ..model import Elmo
from ..probes import (
    minimal_pairs_probe,
    pos_probe,
    read_homographs,
    read_minimal_pairs,
    read_semcor,
    read_sense_index,
    read_sense_set,
    read_wic,
    similarity_probe,
    split_by_sentence,
    splits_words,
    trained_homograph_probe,
    wic_probe,
    wsd_probe,
)
from ..probes.layers import layer_title
from ..probes.similarity import require_scipy
from ..probes.wsd import SenseSentence, SenseSet
from ..tables import format_table, percent
from ..tasks.parts.conll import read_conllu
from ..tasks.parts.lines import read_pairs
from ..vectors.static import read_static_vectors
from . import layout
from .layout import find_all, find_one, find_pair
from .paper import PAPER, TABLE5, TABLE5_DATA, TABLE5_OTHERS, TABLE6, TABLE6_DATA, TABLE6_OTHERS
from .plan import Setup
from .report import NONE, Report, Table, italic, paper_note, score

TAGS: dict[str, Literal["upos", "xpos"]] = {"en": "xpos", "ko": "upos"}
"""EWT's `xpos` are the tags of the Penn Treebank, which the paper has; Kaist's are morphemes."""

SPLIT = " Words are split by the model's tokenizer; their vectors are the means of their parts'."

MAX_SENTENCES = 6000
"""Training sentences of the tagging and the WSD probe, at even distances."""


def table5(setup: Setup) -> Report:
    """Word senses by the nearest average of SemCor, layer by layer."""
    train, tests, senses = _read_senses(setup.data)
    result = wsd_probe(setup.elmo, train, tests, senses, max_sentences=setup.plan.max_sentences)
    names = list(result.num_instances)
    rows = [
        (layer_title(row), *(score(100 * f1[name]) for name in names), _paper(TABLE5, row))
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
        record={"result": result.to_dict(), "paper": {"table5": TABLE5 | TABLE5_OTHERS}},
    )


def table6(setup: Setup) -> Report:
    """Parts of speech by a linear classifier, layer by layer."""
    paths = find_pair(setup.data, layout.POS_DATA[setup.plan.language])
    tag = TAGS[setup.plan.language]
    train, dev = (read_conllu(path, tag=tag) for path in paths)
    static = None
    if setup.plan.language == "en":  # GloVe's language
        words = {token for part in (train, dev) for s in part for token in s.tokens}
        static = read_static_vectors(find_one(setup.data, layout.STATIC), words)
    split = splits_words(setup.elmo)
    result = pos_probe(
        setup.elmo, train, dev, max_sentences=setup.plan.max_sentences, static=static, split=split
    )
    rows = [
        (layer_title(row), score(100 * accuracy), _paper(TABLE6, row))
        for row, accuracy in result.accuracy.items()
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
        record={"result": result.to_dict(), "paper": {"table6": TABLE6 | TABLE6_OTHERS}},
    )


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


def _read_senses(
    data: Path,
) -> tuple[list[SenseSentence], list[SenseSet], dict[str, dict[str, int]]]:
    """SemCor, the test sets and WordNet's senses, as `wsd_probe` takes them."""
    senses = read_sense_index(find_one(data, layout.SENSE_INDEX))
    folders = sorted({path.parent for path in find_all(data, layout.SENSE_SETS)})
    train = [s for path in find_all(data, layout.SEMCOR) for s in read_semcor(path)]
    return train, [read_sense_set(folder) for folder in folders], senses


class Score(NamedTuple):
    """One cell of the comparison: the best layer's value, and which layer that is."""

    value: float
    layer: str = ""


Measured: TypeAlias = tuple[dict[str, Score], dict[str, Any]]
"""Scores by the name of their row, and the whole result as JSON holds it."""


def measures(language: str) -> dict[str, Callable[[Elmo, Path, int], Measured]]:
    """The measures that there are for a language, by name."""
    pos = partial(_pos, language=language)
    if language == "en":
        return {"pos": pos, "wsd": _wsd, "homographs": _homographs, "minimal pairs": _pairs}
    if language == "ko":
        return {"pos": pos, "wic": _wic, "similarity": _similarity}
    raise ConfigError(f"language={quoted(language)}: expected en or ko")


def measure(
    models: Sequence[tuple[str, Elmo]],
    data: Path,
    language: str,
    max_sentences: int = MAX_SENTENCES,
) -> Iterator[tuple[str, str, Measured]]:
    """Each measure of each model, as it is done: the measure, the model, and what came out."""
    if not data.is_dir():
        raise FileError(f"{data}: no such folder; expected one of data sets (--data)")
    chosen = measures(language)
    if "similarity" in chosen:
        require_scipy()  # before the other measures have taken their time
    for name, run in chosen.items():
        for model, elmo in models:
            yield name, model, run(elmo, data, max_sentences)


def comparison(results: Sequence[tuple[str, str, Measured]]) -> str:
    """The table: a row per score, a column per model, each with its best layer."""
    models = list(dict.fromkeys(model for _, model, _ in results))
    rows: dict[str, dict[str, Score]] = {}
    for _, model, (scores, _) in results:
        for row, found in scores.items():
            rows.setdefault(row, {})[model] = found
    cells = [
        [row, *(_cell(by_model[model]) if model in by_model else "-" for model in models)]
        for row, by_model in rows.items()
    ]
    return (
        f"{format_table(['measure', *models], cells)}\n"
        "in percent; in brackets the layer that is best on these development data"
    )


def _cell(score: Score) -> str:
    return percent(score.value) + (f" ({score.layer})" if score.layer else "")


def _best(by_layer: dict[str, float]) -> Score:
    layer = max(by_layer, key=by_layer.__getitem__)
    return Score(by_layer[layer], layer)


def _layers(elmo: Elmo, values: dict[str, Any]) -> dict[str, Any]:
    """The values of the layers and of their average, without baselines."""
    names = {*map(str, range(elmo.num_layers)), "average"}
    return {name: value for name, value in values.items() if name in names}


def _pos(elmo: Elmo, data: Path, most: int, language: str) -> Measured:
    paths = find_pair(data, layout.POS_DATA[language])
    train, dev = (read_conllu(path, tag=TAGS[language]) for path in paths)
    result = pos_probe(elmo, train, dev, max_sentences=most, split=splits_words(elmo))
    best = _best(_layers(elmo, result.accuracy))
    return {"parts of speech, accuracy": best}, result.to_dict()


def _wsd(elmo: Elmo, data: Path, most: int) -> Measured:
    result = wsd_probe(elmo, *_read_senses(data), max_sentences=most)
    f1 = {layer: scores["all"] for layer, scores in _layers(elmo, result.f1).items()}
    first = Score(result.f1["first sense"]["all"])
    return {"word senses, F1": _best(f1), "  WordNet's first sense": first}, result.to_dict()


def _homographs(elmo: Elmo, data: Path, _: int) -> Measured:
    train, dev = split_by_sentence(read_homographs(find_one(data, layout.HOMOGRAPHS)))
    result = trained_homograph_probe(elmo, train, dev)
    return {
        "homographs, balanced accuracy": _best(_layers(elmo, result.balanced)),
        "homographs, accuracy": _best(_layers(elmo, result.accuracy)),
        "  most frequent sense": Score(result.accuracy["majority"]),
    }, result.to_dict()


def _pairs(elmo: Elmo, data: Path, _: int) -> Measured:
    if elmo.softmax is None:
        return {}, {}
    result = minimal_pairs_probe(elmo, read_minimal_pairs(find_one(data, layout.MINIMAL_PAIRS)))
    scores = {
        f"minimal pairs, {name}": Score(value)
        for name, value in result.by_phenomenon["all"].items()
    }
    return scores, result.to_dict()


def _wic(elmo: Elmo, data: Path, _: int) -> Measured:
    train, dev = (read_wic(path) for path in find_pair(data, layout.WIC))
    result = wic_probe(elmo, train, dev)
    return {
        "same sense or not, accuracy": _best(result.accuracy),
        "  the more frequent answer": Score(result.majority),
    }, result.to_dict()


def _similarity(elmo: Elmo, data: Path, _: int) -> Measured:
    pairs = read_pairs(find_one(data, layout.SIMILARITY), elmo.reader.tokens)
    result = similarity_probe(elmo, pairs)
    known = {layer: value for layer, value in result.pearson.items() if value is not None}
    return {"sentence similarity, Pearson": _best(known)}, result.to_dict()
