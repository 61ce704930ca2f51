"""SQuAD's JSON: which questions are read, split and cut, and what is refused."""

import gzip
import json
import lzma
from pathlib import Path
from typing import Any

import pytest
from squad_data import squad_json, write_squad
from strategies import assert_refused

from elmokit.tasks.squad.model import Question, Span, SquadConfig
from elmokit.tasks.squad.task import read_squad
from elmokit.text.reader import Reader

READER = Reader()


def read(path: Path, is_training: bool = True, **settings: Any) -> list[Question]:
    config = SquadConfig(**settings)
    return read_squad(path, config, READER, is_training=is_training)


def write(path: Path, values: Any) -> Path:
    path.write_text(json.dumps(values), encoding="utf-8")
    return path


def test_answers_are_where_they_are_said_to_be(tmp_path: Path) -> None:
    questions = read(write_squad(tmp_path))
    assert len(questions) == 20
    for question in questions:
        (span,) = question.spans
        start, end = question.passage.characters(span)
        assert question.answers[0] in question.passage.text[start:end]
    assert questions[0].passage is questions[3].passage


def test_compressed_files_are_the_same(tmp_path: Path) -> None:
    path = write_squad(tmp_path)
    (tmp_path / "a.json.gz").write_bytes(gzip.compress(path.read_bytes()))
    (tmp_path / "a.json.xz").write_bytes(lzma.compress(path.read_bytes()))
    assert read(path) == read(tmp_path / "a.json.gz") == read(tmp_path / "a.json.xz")


def test_rules_come_from_the_file_or_the_settings(tmp_path: Path) -> None:
    english = write(tmp_path / "en.json", squad_json("1.1"))
    korean = write(tmp_path / "ko.json", squad_json("KorQuAD_v1.0_dev"))
    assert {q.rules for q in read(english)} == {"squad"}
    assert {q.rules for q in read(korean)} == {"korquad"}
    assert {q.rules for q in read(english, rules="korquad")} == {"korquad"}
    assert {q.rules for q in read(korean, rules="squad")} == {"squad"}


def test_held_out_articles_are_for_development_only(tmp_path: Path) -> None:
    values = squad_json()
    values["data"] = [a | {"title": f"{i}-{k}"} for i in range(20) for k, a in
                      enumerate(values["data"])]  # fmt: skip
    path = write(tmp_path / "a.json", values)

    def texts(is_training: bool, held_out: float) -> list[str]:
        return [q.text for q in read(path, is_training, held_out=held_out)]

    train, dev = len(texts(True, 0.2)), len(texts(False, 0.2))
    assert train + dev == 400 == len(texts(True, 0.0)) == len(texts(False, 0.0))
    assert 40 < dev < 120
    values["data"].reverse()
    write(path, values)
    assert len(texts(False, 0.2)) == dev
    assert_refused(lambda: read(path, False, held_out=1e-9), "a.json", "development", "held_out")


def test_fewer_questions_are_whole_paragraphs_of_more(tmp_path: Path) -> None:
    path = write_squad(tmp_path)
    sets = [{(q.passage.text, q.text) for q in read(path, max_questions=n)} for n in (4, 10, 20)]
    assert [len(s) for s in sets] == [4, 10, 20] and sets[0] < sets[1] < sets[2]
    assert len({text for text, _ in sets[0]}) == 1 and len({text for text, _ in sets[1]}) == 3
    assert len(read(path, is_training=False, max_questions=4)) == 20
    assert len(read(path, max_questions=100)) == 20


def test_long_paragraphs_are_cut_around_the_answer_to_learn_from(tmp_path: Path) -> None:
    words = [f"w{i}" for i in range(500)]
    context = " ".join(words)
    qas = [
        {
            "id": str(i),
            "question": "Which?",
            "answers": [{"text": f"w{i}", "answer_start": context.index(f"w{i} ")}],
        }
        for i in range(0, 499, 7)
    ]
    path = write(
        tmp_path / "long.json",
        {"data": [{"title": "t", "paragraphs": [{"context": context, "qas": qas}]}]},
    )
    whole = read(path, is_training=False, max_paragraph_tokens=40)
    assert all(len(q.passage.tokens) == 500 for q in whole)
    cut = read(path, max_paragraph_tokens=40)
    assert len(cut) == len(qas) and cut == read(path, max_paragraph_tokens=40)
    for question in cut:
        assert len(question.passage.tokens) == 40
        (span,) = question.spans
        start, end = question.passage.characters(span)
        assert context[start:end] == question.answers[0] == question.passage.tokens[span.first]
    # Where the answer is says nothing about the window.
    assert len({q.spans[0].first for q in cut}) > 20


def test_several_answers_and_borders_inside_of_tokens(tmp_path: Path) -> None:
    context = "The so-called New Yorkers"
    texts = ("York", "York", "New Yorkers")
    answers = [{"text": text, "answer_start": context.index(text)} for text in texts]
    qas = [{"id": "1", "question": "Who?", "answers": answers}]
    path = write(
        tmp_path / "a.json", {"data": [{"paragraphs": [{"context": context, "qas": qas}]}]}
    )
    (question,) = read(path)
    assert question.passage.tokens == ("The", "so-called", "New", "Yorkers")
    assert question.spans == (Span(3, 3), Span(2, 3))
    assert question.answers == texts


def test_questions_without_answers_are_left_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    values = squad_json("v2.0")
    values["data"][0]["paragraphs"][0]["qas"][1]["answers"] = []
    assert len(read(write(tmp_path / "a.json", values))) == 19
    assert "1 questions without an answer" in caplog.text


@pytest.mark.parametrize(
    ("change", "mentions"),
    [
        (lambda row: row["answers"][0].update(answer_start=3), ("question 0-0", "character 3")),
        (lambda row: row["answers"][0].update(answer_start=-3), ("question 0-0", "character -3")),
        (lambda row: row.pop("answers"), ("question 0-0", "answers is missing")),
        (lambda row: row.pop("id"), ("id is missing",)),
        (lambda row: row.update(question=7), ("question 0-0", "expected str")),
    ],
)
def test_bad_questions_are_named(tmp_path: Path, change: Any, mentions: tuple[str, ...]) -> None:
    values = squad_json()
    change(values["data"][0]["paragraphs"][0]["qas"][0])
    path = write(tmp_path / "bad.json", values)
    assert_refused(lambda: read(path), "bad.json", *mentions)


def test_bad_files_are_named(tmp_path: Path) -> None:
    path = tmp_path / "bad.json"
    for text, mention in (
        ('{"data": [', "not JSON"),
        ("[]", "SQuAD's JSON"),
        ("{}", "data is missing"),
        ('{"data": []}', "no questions"),
        ('{"data": [7]}', "bad.json"),
        ('{"data": [{"title": "Ünï", "paragraphs": [{}]}]}', "article 'Ünï'"),
    ):
        path.write_text(text, encoding="utf-8")
        assert_refused(lambda: read(path), "bad.json", mention)
    assert_refused(lambda: read(tmp_path / "none.json"), "none.json")


def test_settings_that_cannot_work() -> None:
    assert_refused(lambda: SquadConfig(max_paragraph_tokens=33), "max_paragraph_tokens=33", "34")
    assert_refused(lambda: SquadConfig(rules="bleu"), "rules='bleu'", "korquad")
    assert_refused(lambda: SquadConfig(held_out=1.0), "held_out=1.0")


def test_an_answer_that_no_token_holds_counts_but_is_not_learned(tmp_path: Path) -> None:
    values = squad_json()
    paragraph = values["data"][0]["paragraphs"][0]
    blank = paragraph["context"].index(" ")
    paragraph["qas"][0]["answers"] = [{"text": " ", "answer_start": blank}]
    path = write(tmp_path / "a.json", values)
    assert len(read(path)) == 19
    scored = read(path, is_training=False)
    assert len(scored) == 20 and scored[0].spans == () and scored[0].answers == (" ",)
