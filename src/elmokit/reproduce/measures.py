"""All measures of what a model knows, on one folder of data, for models side by side."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from ..errors import ConfigError, FileError, quoted
from ..model import Elmo
from ..probes import (
    minimal_pairs_probe,
    pos_probe,
    read_homographs,
    read_minimal_pairs,
    read_wic,
    similarity_probe,
    split_by_sentence,
    splits_words,
    trained_homograph_probe,
    wic_probe,
    wsd_probe,
)
from ..probes.tables import format_table, percent
from ..tasks.parts.conll import read_conllu
from ..tasks.parts.lines import read_pairs
from .layout import (
    HOMOGRAPHS,
    MINIMAL_PAIRS,
    POS_DATA,
    SIMILARITY,
    WIC,
    find_one,
    find_pair,
)
from .probes import TAGS, read_senses

MAX_SENTENCES = 6000
"""Training sentences of the tagging and the WSD probe, at even distances."""


class Score(NamedTuple):
    """One cell of the comparison: the best layer's value, and which layer that is."""

    value: float
    layer: str = ""


Measured: TypeAlias = tuple[dict[str, Score], dict[str, Any]]
"""Scores by the name of their row, and the whole result as JSON holds it."""


def measures(language: str) -> dict[str, Callable[[Elmo, Path, int], Measured]]:
    """The measures that there are for a language, by name."""
    if language == "en":
        return {"pos": _pos_en, "wsd": _wsd, "homographs": _homographs, "minimal pairs": _pairs}
    if language == "ko":
        return {"pos": _pos_ko, "wic": _wic, "similarity": _similarity}
    raise ConfigError(f"language={quoted(language)}: expected en or ko")


def measure(
    models: Sequence[tuple[str, Elmo]],
    data: Path,
    language: str,
    max_sentences: int = MAX_SENTENCES,
) -> Iterator[tuple[str, str, Measured]]:
    """Each measure of each model, as it is done: the measure, the model, and what came out.

    Args:
        models: Names and models.
        data: Folder of data sets, laid out as docs/reproduce.md says.
        language: `en` or `ko`.
        max_sentences: Training sentences of the tagging and the WSD probe.
    """
    if not data.is_dir():
        raise FileError(f"{data}: no such folder; expected one of data sets (--data)")
    for name, run in measures(language).items():
        for model, elmo in models:
            yield name, model, run(elmo, data, max_sentences)


def comparison(results: Sequence[tuple[str, str, Measured]]) -> str:
    """The table: a row per score, a column per model, each with its best layer."""
    models = list(dict.fromkeys(model for _, model, _ in results))
    rows: dict[str, dict[str, Score]] = {}
    for _, model, (scores, _) in results:
        for row, score in scores.items():
            rows.setdefault(row, {})[model] = score
    cells = [
        [row, *(_cell(found[model]) if model in found else "-" for model in models)]
        for row, found in rows.items()
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


def _pos_en(elmo: Elmo, data: Path, most: int) -> Measured:
    return _pos(elmo, data, most, "en")


def _pos_ko(elmo: Elmo, data: Path, most: int) -> Measured:
    return _pos(elmo, data, most, "ko")


def _pos(elmo: Elmo, data: Path, most: int, language: str) -> Measured:
    paths = find_pair(data, POS_DATA[language])
    train, dev = (read_conllu(path, tag=TAGS[language]) for path in paths)
    result = pos_probe(elmo, train, dev, max_sentences=most, split=splits_words(elmo))
    best = _best(_layers(elmo, result.accuracy))
    return {"parts of speech, accuracy": best}, result.to_dict()


def _wsd(elmo: Elmo, data: Path, most: int) -> Measured:
    result = wsd_probe(elmo, *read_senses(data), max_sentences=most)
    f1 = {layer: scores["all"] for layer, scores in _layers(elmo, result.f1).items()}
    first = Score(result.f1["first sense"]["all"])
    return {"word senses, F1": _best(f1), "  WordNet's first sense": first}, result.to_dict()


def _homographs(elmo: Elmo, data: Path, _: int) -> Measured:
    train, dev = split_by_sentence(read_homographs(find_one(data, HOMOGRAPHS)))
    result = trained_homograph_probe(elmo, train, dev)
    return {
        "homographs, balanced accuracy": _best(_layers(elmo, result.balanced)),
        "homographs, accuracy": _best(_layers(elmo, result.accuracy)),
        "  most frequent sense": Score(result.accuracy["majority"]),
    }, result.to_dict()


def _pairs(elmo: Elmo, data: Path, _: int) -> Measured:
    if elmo.softmax is None:
        return {}, {}
    result = minimal_pairs_probe(elmo, read_minimal_pairs(find_one(data, MINIMAL_PAIRS)))
    shares = result.by_phenomenon["all"]
    return {f"minimal pairs, {name}": Score(value) for name, value in shares.items()}, (
        result.to_dict()
    )


def _wic(elmo: Elmo, data: Path, _: int) -> Measured:
    train, dev = (read_wic(path) for path in find_pair(data, WIC))
    result = wic_probe(elmo, train, dev)
    return {
        "same sense or not, accuracy": _best(result.accuracy),
        "  the more frequent answer": Score(result.majority),
    }, result.to_dict()


def _similarity(elmo: Elmo, data: Path, _: int) -> Measured:
    pairs = read_pairs(find_one(data, SIMILARITY), elmo.reader.tokens)
    result = similarity_probe(elmo, pairs)
    known = {layer: value for layer, value in result.pearson.items() if value is not None}
    return {"sentence similarity, Pearson": _best(known)}, result.to_dict()
