"""Extractive summaries: documents are read, a scorer learns which sentence to take."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from strategies import assert_refused, make_tiny
from task_data import TRAIN, WORDS, assert_gradients_reach_the_mixes

from elmokit import load_task, train_task
from elmokit.tasks.config import ElmoPlacement
from elmokit.tasks.extract import (
    Document,
    ExtractConfig,
    ExtractTask,
    best_sentences,
    read_documents,
)
from elmokit.tasks.parts.bilm import FrozenLayers
from elmokit.tasks.parts.embedding import TokenReader, word_table
from elmokit.tasks.parts.generation_metrics import ROUGE_TYPES, rouge_of_tokens, words
from elmokit.tasks.task import new_model
from elmokit.text.reader import Reader

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
READER = Reader("regex")
TINY = ExtractConfig(
    elmo=ElmoPlacement(dropout=0.0),
    words=replace(WORDS, char_filters=0),
    train=replace(TRAIN, epochs=20),
    dim=12,
    dropout=0.0,
)


def record(i: int) -> dict[str, Any]:
    """A document whose best sentence begins with "We", wherever it stands."""
    sentences = ["Many people have tried this.", "It is hard (2.5 times).", "Results follow."]
    best = f"We show a {('cat', 'dog', 'cow')[i % 3]} that sings."
    sentences.insert(i % 4, best)
    return {"sentences": sentences, "targets": [best, "A song."]}


def write(path: Path, *records: object) -> Path:
    """Writes JSON lines."""
    path.write_text("".join(json.dumps(r, ensure_ascii=False) + "\n" for r in records), "utf-8")
    return path


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return write(tmp_path / "data.jsonl", *map(record, range(12)))


def read_one(folder: Path, **fields: object) -> Document:
    """The document of a file with one row."""
    (found,) = read_documents(write(folder / "one.jsonl", fields), READER)
    return found


def shown(document: Document) -> list[str]:
    return [document.sentence(i) for i in range(len(document.tokens))]


def test_sentences_and_labels_are_read(tmp_path: Path) -> None:
    found = read_one(tmp_path, sentences=["One.", "Two b.", "3"], labels=[0, 1, 1], target="x")
    assert found.text == "One. Two b. 3"
    assert shown(found) == ["One.", "Two b.", "3"]
    assert found.tokens == (("One", "."), ("Two", "b", "."), ("3",))
    assert (found.is_best, found.targets) == ((False, True, True), ("x",))


def test_a_text_is_split_and_its_best_sentence_found_by_rouge(tmp_path: Path) -> None:
    text = "Hello Jeff.  The meeting is on Monday!\nThanks."
    found = read_one(tmp_path, source=text, targets=["hello", "Meeting on monday"])
    assert found.text == text
    assert shown(found) == ["Hello Jeff.", "The meeting is on Monday!", "Thanks."]
    assert found.is_best == (False, True, False)


def test_of_equally_good_sentences_the_first_is_the_best() -> None:
    assert best_sentences([["a"], ["b"], ["b"]], [["b"]]) == [False, True, False]
    assert best_sentences([["a"], ["b"]], [["c"]]) == [True, False]
    assert best_sentences([], [["c"]]) == []


def test_sentences_without_tokens_are_left_out_with_their_labels(tmp_path: Path) -> None:
    sentences = [" ", "A b.", "", "C."]
    found = read_one(tmp_path, sentences=sentences, labels=[0, 0, 0, 1], target="x")
    assert (shown(found), found.is_best) == (["A b.", "C."], (False, True))
    # The labelled sentence is gone: the best of the others takes its place.
    found = read_one(tmp_path, sentences=sentences, labels=[0, 0, 1, 0], target="c")
    assert found.is_best == (False, True)


@pytest.mark.parametrize(
    ("fields", "mention"),
    [
        ({"source": "a"}, "the field 'target' or 'targets' is missing"),
        ({"target": "a"}, "the field 'source' or 'sentences' is missing"),
        ({"source": 1, "target": "a"}, "the source is 1; expected text"),
        ({"sentences": "a", "target": "a"}, "sentences='a'; expected a list of texts"),
        ({"sentences": ["a", 1], "target": "a"}, "expected a list of texts"),
        ({"sentences": ["a"], "labels": [], "target": "a"}, "for each of 1 sentences"),
        ({"sentences": ["a"], "labels": [2], "target": "a"}, "labels=[2]; expected 0 or 1"),
        ({"sentences": ["a"], "labels": 1, "target": "a"}, "labels=1; expected 0 or 1"),
    ],
)
def test_bad_rows_are_named(tmp_path: Path, fields: dict[str, Any], mention: str) -> None:
    assert_refused(lambda: read_one(tmp_path, **fields), "one.jsonl, line 1", mention)


def test_a_scorer_learns_what_the_best_sentence_looks_like(data: Path, tmp_path: Path) -> None:
    task, run = ExtractTask(), tmp_path / "run"
    train_task(task, data, data, make_tiny(), run, TINY, device="cpu")
    trained = load_task(run, task=task, model=make_tiny(), device="cpu")
    scores = trained.evaluate(data)
    assert [scores[name] for name in ROUGE_TYPES] == pytest.approx([100] * 3)
    assert scores["labelled"] == pytest.approx(dict.fromkeys(ROUGE_TYPES, 100))
    # Every fourth document begins with its best sentence; nothing else has a word of it.
    assert scores["lead"]["rouge2"] == pytest.approx(25)
    text = " ".join(record(1)["sentences"])
    result = trained(text)
    assert result.summary == record(1)["targets"][0] == "We show a dog that sings."
    (sentence,) = result.sentences
    assert text[sentence.start : sentence.end] == sentence.text == result.summary
    assert 1 / 4 < sentence.score <= 1  # the most probable of four
    assert trained('{"source": "We sing."}').text == '{"source": "We sing."}'
    assert trained("  ").summary is None


def scorer(documents: Sequence[Document], config: ExtractConfig = TINY) -> tuple[Any, TokenReader]:
    """A model with random weights, and what it reads."""
    layers = FrozenLayers(make_tiny(), "mix")
    words = word_table((s for d in documents for s in d.tokens), config.words, None)
    model = new_model(ExtractTask(), config, {}, words, layers, seed=1)
    return model, TokenReader(config.words, words, layers)


def test_documents_do_not_see_each_other(data: Path) -> None:
    documents = read_documents(data, READER)[:3]
    documents[1] = replace(
        documents[1],
        tokens=documents[1].tokens[:1],
        offsets=documents[1].offsets[:1],
        is_best=(True,),
    )
    model, read = scorer(documents)
    model.eval()
    with torch.inference_mode():
        together = model.predict(documents, read)
        alone = [model.predict([document], read)[0] for document in documents]
    for one, other in zip(together, alone, strict=True):
        assert one["chosen"] == other["chosen"]
        assert one["probabilities"] == pytest.approx(other["probabilities"], abs=1e-5)
        assert sum(one["probabilities"]) == pytest.approx(1)
    assert together[1]["probabilities"] == pytest.approx([1])


def test_k_sentences_are_chosen_in_the_order_of_the_text(data: Path) -> None:
    documents = read_documents(data, READER)
    model, read = scorer(documents, replace(TINY, num_sentences=3))
    for found in model.eval().predict(documents, read):
        assert found["chosen"] == sorted(found["chosen"]) and len(found["chosen"]) == 3
        left = next(i for i in range(4) if i not in found["chosen"])
        assert found["probabilities"][left] == min(found["probabilities"])
    short = replace(documents[0], tokens=documents[0].tokens[:2])
    assert model.predict([short], read)[0]["chosen"] == [0, 1]


def test_equal_sentences_are_chosen_from_the_front(data: Path) -> None:
    (document, *_) = read_documents(data, READER)
    model, read = scorer([document], replace(TINY, num_sentences=2))
    torch.nn.init.zeros_(model.score.weight)
    assert model.eval().predict([document], read)[0]["chosen"] == [0, 1]


@pytest.mark.parametrize("place", ["input", "output", "both"])
def test_gradients_reach_the_mixes_and_not_the_bilm(data: Path, place: Any) -> None:
    documents = read_documents(data, READER)
    config = replace(TINY, elmo=ElmoPlacement(place=place, dropout=0.0))
    model, read = scorer(documents, config)
    model.loss(documents, read).backward()
    assert isinstance(read.source, FrozenLayers)
    assert_gradients_reach_the_mixes(model, place, read.source.elmo)


def test_a_line_is_a_text_or_an_object() -> None:
    task = ExtractTask()
    for line in ("A b. C d.", '{"source": "A b. C d."}', '{"sentences": ["A b.", "C d."]}'):
        found = task.example(line, READER, TINY)
        assert (found.text, shown(found)) == ("A b. C d.", ["A b.", "C d."])
    assert not task.has_words(task.example(" ", READER, TINY))
    assert task.example('{"x": 1}', READER, TINY).text == '{"x": 1}'
    assert_refused(lambda: task.example('{"source": 1}', READER, TINY), "source is 1")


def test_lead_and_oracle_of_scitldr_score_as_measured_before() -> None:
    path = DATA / "summary" / "en-scitldr" / "dev.jsonl.gz"
    if not path.is_file():
        pytest.skip("needs the shared material: summary/en-scitldr")
    documents = read_documents(path, READER)
    assert len(documents) == 619
    first = [{"chosen": [0], "probabilities": []} for _ in documents]
    scores = ExtractTask().score(documents, first)  # type: ignore[arg-type]
    lead, labelled = scores["lead"], scores["labelled"]
    assert [lead[name] for name in ROUGE_TYPES] == pytest.approx([27.2, 10.5, 21.8], abs=0.06)
    # The sentences with the best ROUGE-1, which the labels of the data are not.
    best = []
    for document in documents:
        targets = [words(target) for target in document.targets]
        rows = [
            np.max([rouge_of_tokens(words(text), target) for target in targets], axis=0)
            for text in shown(document)
        ]
        best.append(max(rows, key=lambda row: row[0]))
    assert 100 * np.mean(best, axis=0) == pytest.approx([44.7, 24.2, 36.9], abs=0.06)
    assert lead["rouge1"] < labelled["rouge1"] < 44.7
