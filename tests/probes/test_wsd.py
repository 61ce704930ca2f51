"""The WSD probe: nearest averages, the back-off, ties, scores; the readers and their errors."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from conftest import SHARED
from strategies import assert_refused

from elmokit import Elmo
from elmokit.probes import first_sense_f1, read_semcor, read_sense_index, read_sense_set, wsd_probe
from elmokit.probes.wsd import (
    SenseSentence,
    SenseSet,
    Target,
    _Candidates,
    _target_vectors,
    entry_of,
    first_sense,
    split_words,
)

RIVER, MONEY, THIRD = "bank%1:17:01::", "bank%1:14:00::", "bank%1:21:00::"
SENSES = {
    "bank%1": {RIVER: 1, MONEY: 2, THIRD: 3},
    "rare%3": {"rare%5:00:00:x:00": 2, "rare%3:00:00::": 1},
}


def sentence(text: str, word: str, key: str) -> SenseSentence:
    tokens = tuple(text.split())
    place = tokens.index(word)
    return SenseSentence(tokens, (Target(place, place + 1, entry_of(key), (key,)),))


def test_identical_contexts_are_found(tiny: Elmo) -> None:
    contexts = {RIVER: "the river bank was muddy", MONEY: "my bank lends money to all"}
    train = [sentence(text, "bank", key) for key, text in contexts.items()]
    result = wsd_probe(tiny, train, [SenseSet("same", tuple(train))], SENSES)
    assert list(result.f1) == ["first sense", "0", "1", "2", "average"]
    assert result.f1["first sense"]["same"] == 0.5
    # Without context both senses have one vector: the tie goes to the first sense.
    assert result.f1["0"]["same"] == 0.5
    assert result.f1["1"]["all"] == result.f1["2"]["all"] == result.f1["average"]["all"] == 1
    assert result.num_senses == 2 and result.backed_off["all"] == 0


def test_sense_is_the_nearest_average_not_the_nearest_occurrence() -> None:
    sums = {
        RIVER: np.array([[1.0, 0.0]], np.float32) + np.array([[0.0, 9.0]], np.float32),
        MONEY: np.array([[0.9, 0.3]], np.float32),
    }
    candidates = _Candidates.of(sums, SENSES["bank%1"])
    assert candidates.nearest(np.array([[1.0, 0.0]], np.float32)) == [MONEY, MONEY]
    assert candidates.nearest(np.array([[0.0, 5.0]], np.float32)) == [RIVER, RIVER]


def test_ties_go_to_the_lower_sense_number() -> None:
    same = np.ones((1, 3), np.float32)
    candidates = _Candidates.of({THIRD: same, MONEY: 2 * same}, SENSES["bank%1"])
    assert candidates.nearest(same) == [MONEY, MONEY]
    # A zero vector is as far from everything.
    assert candidates.nearest(0 * same) == [MONEY, MONEY]


def test_unseen_lemma_gets_the_first_sense(tiny: Elmo) -> None:
    train = [sentence("the bank", "bank", RIVER)]
    test = SenseSet("t", (sentence("a rare word", "rare", "rare%3:00:00::"), train[0]))
    result = wsd_probe(tiny, train, [test], SENSES)
    assert result.f1["2"]["t"] == 1
    assert result.backed_off == {"t": 0.5, "all": 0.5}
    assert first_sense("rare%3", SENSES) == "rare%3:00:00::"


def test_word_without_any_answer_lowers_recall_only(tiny: Elmo) -> None:
    train = [sentence("the bank", "bank", RIVER)]
    unknown = sentence("a zyx word", "zyx", "zyx%1:00:00::")
    result = wsd_probe(tiny, train, [SenseSet("t", (unknown, train[0]))], SENSES)
    # Precision 1/1, recall 1/2.
    assert result.f1["0"]["t"] == pytest.approx(2 / 3)


def test_any_gold_key_is_right_and_all_is_over_instances(tiny: Elmo) -> None:
    train = [sentence("the bank", "bank", MONEY)]
    several = Target(1, 2, "bank%1", (RIVER, MONEY))
    tests = [
        SenseSet("right", (SenseSentence(("the", "bank"), (several,)),)),
        SenseSet("wrong", tuple([sentence("the bank", "bank", RIVER)] * 3)),
    ]
    result = wsd_probe(tiny, train, tests, SENSES)
    assert result.f1["1"] == {"right": 1, "wrong": 0, "all": 0.25}
    assert result.num_instances == {"right": 1, "wrong": 3, "all": 4}
    assert json.loads(json.dumps(result.to_dict()))["instances"]["all"] == 4
    assert str(result).splitlines()[0].split() == ["F1", "of", "layer", "right", "wrong", "all"]


def test_multi_word_is_the_mean_of_its_words(tiny: Elmo) -> None:
    tokens = ("it", "took", "place", "here")
    key = "take_place%2:30:00::"
    whole = SenseSentence(tokens, (Target(1, 3, entry_of(key), (key,)),))
    ((_, vector),) = _target_vectors(tiny, [whole])
    expected = tiny.embed([tokens], layers="all")[0][:, 1:3].mean(axis=1)
    np.testing.assert_allclose(vector, expected, rtol=1e-5, atol=1e-6)


def test_max_sentences_and_empty_inputs(tiny: Elmo) -> None:
    train = [sentence("the bank", "bank", RIVER)] * 9
    test = SenseSet("t", (train[0],))
    assert wsd_probe(tiny, train, [test], SENSES, max_sentences=4).num_train_sentences == 4
    assert_refused(lambda: wsd_probe(tiny, [], [test], SENSES), "training data")
    assert_refused(lambda: wsd_probe(tiny, train, [], SENSES), "no test set")
    assert_refused(lambda: wsd_probe(tiny, train, [test, test], SENSES), "different names")
    assert_refused(lambda: wsd_probe(tiny, train, [SenseSet("e", ())], SENSES), "test set e")


def test_entries_and_words() -> None:
    assert entry_of("good%5:00:00:ample:00") == entry_of("good%3:00:01::") == "good%3"
    assert split_words("primary_election") == ["primary", "election"]
    assert split_words("old age") == ["old", "age"]
    assert split_words("_") == ["_"]
    assert split_words("``") == split_words("''") == ['"']


def test_semcor_is_read(tmp_path: Path) -> None:
    row = [["The", "the", "DT", []], ["took_place", "take_place", "VB", ["take_place%2:30:00::"]]]
    path = tmp_path / "s.jsonl.gz"
    with gzip.open(path, "wt", encoding="utf-8") as file:
        file.write(json.dumps({"tokens": [*row, [".", None, None, []]]}) + "\n\n")
    (found,) = read_semcor(path)
    assert found.tokens == ("The", "took", "place", ".")
    assert found.targets == (Target(1, 3, "take_place%2", ("take_place%2:30:00::",)),)


@pytest.mark.parametrize(
    "line", ["[]", "{", '{"tokens": [["a", "b"]]}', '{"tokens": [["a", "a", "N", ["key"]]]}', "7"]
)
def test_bad_semcor_names_the_line(tmp_path: Path, line: str) -> None:
    path = tmp_path / "s.jsonl"
    path.write_text('{"tokens": []}\n' + line + "\n")
    assert_refused(lambda: list(read_semcor(path)), "s.jsonl, line 2")


def test_sense_index(tmp_path: Path) -> None:
    path = tmp_path / "index.sense"
    path.write_text("a%1:00:01:: 00001 2 0\na%1:00:00:: 00002 1 5\n")
    assert read_sense_index(path) == {"a%1": {"a%1:00:01::": 2, "a%1:00:00::": 1}}
    path.write_text("a%1:00:01:: 00001 2 0\nnonsense 1 2 3\n")
    assert_refused(lambda: read_sense_index(path), "index.sense, line 2")
    path.write_text("")
    assert_refused(lambda: read_sense_index(path), "empty")


XML = """<?xml version="1.0" encoding="UTF-8" ?>
<corpus><text id="d"><sentence id="s">
<wf lemma="at" pos="ADP">at</wf>
<instance id="d.0" lemma="Old_age" pos="NOUN">old age</instance>
<wf lemma="&amp;" pos=".">&amp;</wf>
</sentence></text></corpus>
"""
GOLD = "d.0 old_age%1:28:00:: old_age%1:28:01::\n"

MakeSet = Callable[[str, str], Path]


@pytest.fixture
def make_set(tmp_path: Path) -> MakeSet:
    def make(xml: str, gold: str) -> Path:
        (tmp_path / "toy.data.xml").write_text(xml, encoding="utf-8")
        (tmp_path / "toy.gold.key.txt").write_text(gold, encoding="utf-8")
        return tmp_path

    return make


def test_test_set_is_read(make_set: MakeSet) -> None:
    found = read_sense_set(make_set(XML, GOLD))
    assert found.name == "toy" and found.num_targets == 1
    assert found.sentences[0].tokens == ("at", "old", "age", "&")
    keys = ("old_age%1:28:00::", "old_age%1:28:01::")
    assert found.sentences[0].targets == (Target(1, 3, "old_age%1", keys),)


@pytest.mark.parametrize(
    ("xml", "gold", "mention"),
    [
        (XML.replace("</wf>", "", 1), GOLD, "toy.data.xml, line 6: not XML"),
        (XML[:150], GOLD, "toy.data.xml, line"),
        (XML.replace("NOUN", "NOUNS"), GOLD, "toy.data.xml, line 4: instance 'd.0'"),
        (XML.replace("old age", ""), GOLD, "toy.data.xml, line 4"),
        (XML, "", "line 4: instance 'd.0' has no key"),
        (XML, GOLD + GOLD, "toy.gold.key.txt, line 2: a second line"),
        (XML, "d.0\n", "toy.gold.key.txt, line 1: no sense key"),
        (XML, GOLD + "d.9 a%1:00:00::\n", "toy.gold.key.txt, line 2: 'd.9' is no instance"),
        ("<corpus></corpus>", "", "no instance in it"),
    ],
)
def test_bad_test_set_is_explained(make_set: MakeSet, xml: str, gold: str, mention: str) -> None:
    folder = make_set(xml, gold)
    assert_refused(lambda: read_sense_set(folder), mention)


def test_folder_without_a_test_set(tmp_path: Path) -> None:
    assert_refused(lambda: read_sense_set(tmp_path), "0 files end in .data.xml")
    assert_refused(lambda: read_sense_set(tmp_path / "no"), "no such folder")


def test_first_sense_baseline_of_the_real_sets() -> None:
    folder = SHARED / "data" / "wsd"
    if not folder.is_dir():
        pytest.skip(f"the sense data are not at {folder}")
    senses = read_sense_index(folder / "wordnet" / "index.sense.gz")
    tests = [read_sense_set(folder / n) for n in ("senseval2", "senseval3", "semeval2007")]
    assert [test.num_targets for test in tests] == [2282, 1850, 455]
    assert 100 * first_sense_f1(tests, senses) == pytest.approx(65.4, abs=0.1)
