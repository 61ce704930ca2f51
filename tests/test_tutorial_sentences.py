"""The sentences with which tutorials explain ELMo, and what the bundled models make of them.

Each row of `builtin/examples/tutorials.tsv` holds a word in a sentence, in one where it means the
same, and in one where it does not; the first should be the nearer on the top layer. A meaning is
also compared across particles and phrases ("배가", "배를"; "has a gift for"), which say nothing
about it. Verbatim from tutorials are "배가 고프다", "배를 타고 여행을 가다", "My watch was a
birthday gift" and "He has a gift for music"; of *play* they name the two uses, and those sentences
and all counterparts are ours, chosen before their figures were known. Where a model fails, the
figures stay here, and the sentence does too.
"""

import re
from functools import cache
from pathlib import Path

import pytest

import elmokit
from elmokit import Elmo
from elmokit.text.reader import parse_marked

ROOT = Path(__file__).parents[1]
TABLE = Path(elmokit.__file__).parent / "builtin" / "examples" / "tutorials.tsv"
ROWS = [line.split("\t") for line in TABLE.read_text(encoding="utf-8").splitlines()[1:]]

# Cosine to the same meaning and to another, by row.
FIGURES = [
    (0.942, 0.708),
    (0.901, 0.708),
    (0.901, 0.960),
    (0.942, 0.957),
    (0.881, 0.926),
    (0.893, 0.926),
    (0.937, 0.912),
    (0.887, 0.912),
    (0.937, 0.931),
    (0.887, 0.906),
]


@cache
def model(language: str) -> Elmo:
    return Elmo.from_pretrained(language, device="cpu")


def cosines(language: str, *sentences: str) -> tuple[float, float]:
    """Of the marked word of the first sentence with those of the others, on the top layer."""
    elmo, found = model(language), []
    for sentence in sentences:
        tokens, position = parse_marked(elmo.reader, sentence)
        found.append(elmo.embed([tokens], layers="top")[0][position])
    same, other = (float(elmo.similarity(found[:1], [v])[0, 0]) for v in found[1:])
    return same, other


def cases() -> list[object]:
    """The rows; those that the bundled model gets wrong are expected to fail."""
    found: list[object] = []
    for row, (same, other) in zip(ROWS, FIGURES, strict=True):
        reason = f"cosine {same:.3f} to the same meaning, {other:.3f} to another"
        marks = [] if same > other else [pytest.mark.xfail(strict=True, reason=reason)]
        found.append(pytest.param(*row, marks=marks))
    return found


@pytest.mark.parametrize(("language", "sentence", "same", "other"), cases())
def test_a_meaning_is_nearer_than_another(
    language: str, sentence: str, same: str, other: str
) -> None:
    near, far = cosines(language, sentence, same, other)
    assert near > far


@pytest.mark.parametrize(("row", "figures"), list(zip(ROWS, FIGURES, strict=True)))
def test_the_figures_are_those_of_the_model(row: list[str], figures: tuple[float, float]) -> None:
    assert cosines(*row) == pytest.approx(figures, abs=0.001)


@pytest.mark.parametrize(("page", "num_rows"), [("README.md", 4), ("README.ko.md", 2)])
def test_the_readme_has_these_figures(page: str, num_rows: int) -> None:
    known = {tuple(row[1:]): figures for row, figures in zip(ROWS, FIGURES, strict=True)}
    text = (ROOT / page).read_text(encoding="utf-8")
    cell = r" (.+?): (\d\.\d\d)"
    rows = re.findall(rf"^\| (.+?) \|{cell} \|{cell}( ✗| \(오답\))? \|$", text, re.M)
    assert len(rows) == num_rows
    for sentence, same, near, other, far, is_wrong in rows:
        marked = (re.sub(r"\*(.+?)\*", r"[\1]", part) for part in (sentence, same, other))
        figures = known[tuple(marked)]
        assert (near, far) == tuple(f"{figure:.2f}" for figure in figures)
        assert bool(is_wrong) == (figures[0] <= figures[1])
    if page == "README.md":
        right = sum(same > other for same, other in FIGURES)
        assert f"{right} of {len(FIGURES)} comparisons" in text.replace("\n", " ")
