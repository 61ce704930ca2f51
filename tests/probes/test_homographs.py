"""Homographs: leave-one-out, shared ties, spans whatever the tokens, and the tables we ship."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from strategies import assert_refused

import elmokit
from elmokit import Elmo
from elmokit.probes import (
    Occurrence,
    homograph_probe,
    read_homographs,
    split_by_sentence,
    trained_homograph_probe,
)
from elmokit.probes.homographs import leave_one_out
from elmokit.probes.layers import word_vectors
from elmokit.tables import format_table

EXAMPLES = Path(elmokit.__file__).parent / "builtin" / "examples"


def occurrence(marked: str, sense: str, word: str = "bank") -> Occurrence:
    before, _, rest = marked.partition("[")
    inside, _, after = rest.partition("]")
    return Occurrence(word, sense, before + inside + after, len(before), len(before) + len(inside))


def test_repeated_contexts_are_told_apart(tiny: Elmo) -> None:
    items = [occurrence("the river [bank] was wet", "river")] * 3
    items += [occurrence("my [bank] lends money", "money")] * 3
    result = homograph_probe(tiny, items)
    assert result.accuracy["1"] == {"bank": 1, "all": 1}
    # Without context every occurrence is the same vector: the two senses share the point.
    assert result.accuracy["0"] == {"bank": 0.5, "all": 0.5}
    assert result.chance["all"] == 0.5 and result.num_occurrences == {"bank": 6, "all": 6}
    assert str(result).splitlines()[1].split()[:4] == ["bank", "6", "50.0", "50.0"]


def test_an_occurrence_does_not_vote_for_itself() -> None:
    vectors = np.array([[1, 0], [0, 1], [1, 0.1], [1, 0.2]], np.float32)
    labels = np.array([0, 0, 1, 1])
    # Without itself, the first has only [0, 1] on its side and is nearer to the others.
    assert leave_one_out(vectors, labels).tolist() == [0, 0, 1, 1]


@pytest.mark.parametrize("num_senses", [2, 3])
def test_guessing_is_at_chance(num_senses: int) -> None:
    """Also for vectors that all point the same way, as those of one word do."""
    generator = np.random.default_rng(1)
    labels = np.repeat(np.arange(num_senses), 8)
    noise = generator.normal(3, 1, (300, len(labels), 64)).astype(np.float32)
    points = [leave_one_out(vectors, labels).mean() for vectors in noise]
    assert abs(np.mean(points) - 1 / num_senses) < 0.03


def test_vector_is_the_mean_of_the_tokens_that_overlap(tiny: Elmo) -> None:
    (part,) = word_vectors(tiny, [occurrence("see New[York-ers] now", "x")])
    ((tokens),) = tiny.tokenize_with_offsets("see NewYork-ers now")
    places = [i for i, t in enumerate(tokens) if t.text not in ("see", "now")]
    layers = tiny.embed("see NewYork-ers now", layers="all")
    np.testing.assert_allclose(part[:-1], layers[:, places].mean(axis=1), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(part[-1], part[:-1].mean(axis=0), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["en_homographs.tsv", "ko_homographs.tsv"])
def test_our_tables_are_balanced(name: str) -> None:
    items = read_homographs(EXAMPLES / name)
    senses = Counter((item.word, item.sense) for item in items)
    assert len({word for word, _ in senses}) >= 5
    assert set(senses.values()) <= {8, 10}
    assert len({item.text for item in items}) == len(items)
    assert all(item.word in item.text[item.start : item.end].lower() for item in items)


@pytest.mark.parametrize(
    ("line", "mention"),
    [
        ("bank\tmoney", "with tabs between"),
        ("bank\t\tthe [bank]", "with tabs between"),
        ("bank\tmoney\tthe bank", "one word in brackets"),
        ("bank\tmoney\t[the] [bank]", "one word in brackets"),
        ("bank\tmoney\tthe ]bank[", "one word in brackets"),
        ("bank\tmoney\tthe [ ] bank", "one word in brackets"),
    ],
)
def test_bad_line_is_named(tmp_path: Path, line: str, mention: str) -> None:
    path = tmp_path / "h.tsv"
    path.write_text(f"word\tsense\tsentence\n\n{line}\n", encoding="utf-8")
    assert_refused(lambda: read_homographs(path), "h.tsv, line 3", mention)


def test_bad_table_is_refused(tmp_path: Path, tiny: Elmo) -> None:
    path = tmp_path / "h.tsv"
    path.write_text("sense\tword\tsentence\n")
    assert_refused(lambda: read_homographs(path), "h.tsv, line 1: expected the columns word")
    path.write_text("word\tsense\tsentence\n")
    assert_refused(lambda: read_homographs(path), "h.tsv is empty")
    one = occurrence("a [bank]", "river")
    assert_refused(lambda: homograph_probe(tiny, [one, one]), "'bank' has one sense only")
    other = occurrence("b [bank]", "money")
    assert_refused(lambda: homograph_probe(tiny, [one, one, other]), "sense 'money': one sentence")
    assert_refused(lambda: homograph_probe(tiny, []), "expected words")


def test_columns_line_up_in_korean() -> None:
    lines = format_table(["word", "n"], [["다리", "20"], ["a", "3"]]).splitlines()
    assert lines == ["word   n", "다리  20", "a      3"]


def test_balanced_accuracy_counts_senses_alike(tiny: Elmo) -> None:
    items = [occurrence("the river [bank] was wet", "river")] * 6
    items += [occurrence("my [bank] lends money", "money")] * 2
    result = homograph_probe(tiny, items)
    assert result.balanced["1"] == {"bank": 1, "all": 1}
    assert result.to_dict()["balanced_accuracy"]["0"]["all"] == 0.5
    assert "all, balanced" in str(result)


def test_senses_are_learned_from_other_sentences(tiny: Elmo) -> None:
    train = [occurrence("the river [bank] was wet", "river")] * 5
    train += [occurrence("my [bank] lends money", "money")] * 3
    train += [occurrence("a [bat] flew", "animal", "bat")] * 3
    dev = [train[0], train[5], occurrence("the [bank] of clouds", "clouds"), train[-1]]
    result = trained_homograph_probe(tiny, train, dev)
    assert result.accuracy["1"] == pytest.approx(2 / 3), "a sense that was never seen is wrong"
    assert result.by_word["1"] == {"bank": pytest.approx(2 / 3)}
    assert result.accuracy["majority"] == pytest.approx(1 / 3)
    assert result.accuracy["0"] == result.accuracy["majority"], "a tie goes to the frequent sense"
    assert result.skipped == ["bat"] and (result.num_train, result.num_dev) == (8, 3)
    assert "1 words with one sense skipped" in str(result)
    assert_refused(lambda: trained_homograph_probe(tiny, train[:5], dev), "no word has two senses")


def test_the_sentence_decides_where_an_occurrence_goes() -> None:
    items = [occurrence(f"the [bank] number {i}", "s") for i in range(400)]
    train, held_out = split_by_sentence(items)
    assert len(train) + len(held_out) == 400 and 50 < len(held_out) < 110
    assert split_by_sentence(items[::-1])[1] == held_out[::-1]


def test_offsets_in_bytes_are_read(tmp_path: Path) -> None:
    path = tmp_path / "h.tsv"
    path.write_text(
        '"homograph"\t"wordid"\t"sentence"\t"start"\t"end"\n'
        '"bow"\t"bow_nou"\t"Astrée\'s ""bow""."\t11\t14\n',
        encoding="utf-8",
    )
    (item,) = read_homographs(path)
    assert item.text == 'Astrée\'s "bow".' and item.text[item.start : item.end] == "bow"
    path.write_text('"homograph"\t"wordid"\t"sentence"\t"start"\t"end"\n"a"\t"b"\t"c"\t0\t9\n')
    assert_refused(lambda: read_homographs(path), "line 2", "is no stretch")
