"""Predictions in Python: results about the text that the user gave, and what is refused."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from result_data import SCHEMA, TEXTS, write_task_data
from strategies import assert_refused

from elmokit import load_task, train_task
from elmokit.tasks import TrainedTask, find_task
from elmokit.tasks.ner import NerTask, ScoredTags
from elmokit.tasks.parts.conll import TaggedSentence
from elmokit.tasks.srl import Frame
from elmokit.text.reader import Reader

Load = Callable[[str], TrainedTask[Any, Any, Any]]


@pytest.fixture(scope="module")
def load(tmp_path_factory: pytest.TempPathFactory) -> Load:
    """Gives the tiny trained model of a task, which has learned next to nothing."""
    runs: dict[str, Path] = {}

    def load_one(task: str) -> TrainedTask[Any, Any, Any]:
        if task not in runs:
            folder = tmp_path_factory.mktemp(task)
            data, config = write_task_data(task, folder)
            train_task(task, data, data, None, folder / "run", config, device="cpu")
            runs[task] = folder / "run"
        return load_task(runs[task], device="cpu")

    return load_one


def spans_in(value: Any) -> list[dict[str, Any]]:
    """Everything in a row that has a text and offsets."""
    if isinstance(value, list):
        return [span for item in value for span in spans_in(item)]
    if not isinstance(value, dict):
        return []
    inside = [span for item in value.values() for span in spans_in(item)]
    return [value, *inside] if value.keys() >= {"text", "start", "end"} else inside


@pytest.mark.parametrize("task", TEXTS)
def test_every_row_is_as_the_schema_says_and_about_the_users_text(load: Load, task: str) -> None:
    trained, texts = load(task), TEXTS[task]
    result = trained(*texts)
    blank = trained(*["  "] * len(texts))
    for row in (result.to_dict(), blank.to_dict()):
        SCHEMA.validate(json.loads(json.dumps(row)))
        assert row["task"] == task
    text = {"snli": "\t".join(texts), "srl": "Anna gave him tea and Bob sings."}.get(
        task, texts[-1]
    )
    assert result.text == text
    for span in spans_in(result.to_dict()):
        if "question" not in span:
            assert text[span["start"] : span["end"]] == span["text"] != ""
    for name in ("entities", "frames", "clusters"):
        assert getattr(blank, name, ()) == ()
    for name in ("label", "answer", "start"):
        assert getattr(blank, name, None) is None


@pytest.mark.parametrize("task", TEXTS)
def test_a_list_gives_the_same_results_in_its_order(load: Load, task: str) -> None:
    trained, texts = load(task), TEXTS[task]
    one: Any = texts[0] if len(texts) == 1 else tuple(texts)
    blank: Any = "" if len(texts) == 1 else ("", "")
    first, second, third = trained([one, blank, one])
    assert type(first) is type(second) and first.text == third.text == trained(*texts).text
    assert trained([]) == []
    named = trained(**dict(zip(trained.task.inputs, texts, strict=True)))
    assert named.to_dict().keys() == first.to_dict().keys() and named.text == first.text


@pytest.mark.parametrize("task", ["ner", "squad"])
def test_what_is_no_text_is_refused_with_what_is_expected(load: Load, task: str) -> None:
    trained = load(task)
    expected = "a list of texts" if task == "ner" else "(question, text) or question=…, text=…"
    wrong: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
        ((3,), {}), ((b"Bob",), {}), ((None,), {}), (({"text": "Bob"},), {}), (([3],), {}),
        ((), {}), (("a", "b", "c"), {}), ((), {"txt": "Bob"}), ((), {"text": 3}),
    ]  # fmt: skip
    for inputs, named in wrong:
        assert_refused(lambda i=inputs, n=named: trained(*i, **n), f"task {task}", expected)
    assert_refused(lambda: trained([("Who?", "Bob.", "x")]), "item 0", expected)
    assert_refused(lambda: trained(["Bob", 3][1:]), "item 0", "int (3)")
    first = trained.task.inputs[0]
    assert_refused(lambda: trained("a", **{first: "c"}), f"{first} is given twice", expected)


def test_files_are_read_as_the_command_line_reads_them(load: Load, tmp_path: Path) -> None:
    trained = load("ner")
    path = tmp_path / "in.conll"
    path.write_text("김\tB-PER\n민수\tI-PER\n\nBob\tODD\n", encoding="utf-8")
    first, second = trained.predict_file(path)
    assert (first.text, second.text) == ("김 민수", "Bob")
    as_text = trained.predict_file(path, "text")
    assert [result.text for result in as_text][2:] == ["", "Bob\tODD"]
    assert_refused(lambda: trained.predict_file(path, "squad"), "'squad'", "text, conll, klue")


def test_a_table_is_no_list_of_texts(load: Load) -> None:
    class Table:
        columns = ("text",)

        def __iter__(self) -> Any:
            return iter(self.columns)

    assert_refused(lambda: load("ner")(Table()), "Table", "a list of texts")  # type: ignore[call-overload]


def test_a_bare_string_is_one_text_everywhere(load: Load) -> None:
    trained = load("ner")
    ((example, tags),) = trained.predict_texts("Barack Obama")
    assert example.tokens == ("Barack", "Obama") and len(tags) == 2
    assert trained("Barack Obama").tokens == ("Barack", "Obama")


def test_a_text_that_looks_like_json_is_a_text(load: Load) -> None:
    text = '{"text": "a film"}'
    assert load("classify")(text).text == text


def test_repr_says_task_model_and_score(load: Load) -> None:
    trained = load("ner")
    assert trained.score is not None
    assert repr(trained) == f"TrainedTask(ner, no biLM, seed 1, dev f1 {trained.score:.4f})"


def test_reprs_of_results_are_short_and_round(load: Load) -> None:
    result = load("classify")("word " * 100)
    assert len(repr(result)) < 250 and "…" in repr(result) and "probabilities={'" in repr(result)
    assert len(str(max(result.probabilities.values()))) > 5  # the value itself is not rounded
    task, sentence = NerTask(), TaggedSentence(("Anna", "Lee"), ())
    entity = task.result(sentence, ScoredTags(["B-PER", "I-PER"], lambda: [0.98765]))
    assert repr(entity) == (
        "NerResult(text='Anna Lee', "
        "entities=[Entity(text='Anna Lee', label='PER', start=0, end=8, score=0.988)])"
    )


def test_predicates_of_one_sentence_are_frames_of_one_result(load: Load) -> None:
    trained = load("srl")
    found = trained("Anna [gave] him tea and Bob [sings].")
    assert [frame.predicate.text for frame in found.frames] == ["gave", "sings"]
    assert [(frame.predicate.start, frame.predicate.end) for frame in found.frames] == [
        (5, 9), (26, 31),
    ]  # fmt: skip
    first, second = trained(["[Rain] falls.", "Bob [ sings ]."])
    assert len(first.frames) == len(second.frames) == 1 and second.text == "Bob  sings ."
    assert second.frames[0].predicate.text == "sings"


def test_offsets_are_those_of_the_text_before_it_was_normalised() -> None:
    task, decomposed = NerTask(), "Cafe\u0301 Chloe\u0301 met"
    example = task.example(decomposed, Reader(), task.config_class())
    assert example.tokens[1] == "Chlo\u00e9"
    (entity,) = task.result(example, ScoredTags(["O", "B-PER", "O"], lambda: [0.5])).to_dict()[
        "entities"
    ]
    assert entity == {"text": "Chloe\u0301", "label": "PER", "start": 6, "end": 12, "score": 0.5}


def test_korean_morphemes_map_back_to_the_words_that_were_written() -> None:
    pytest.importorskip("kiwipiepy")
    text = "김민수는 서울에서 태어났다."
    reader, task = Reader("kiwi"), NerTask()
    example = task.example(text, reader, task.config_class())
    assert example.tokens[-4:] == ("태어나", "었", "다", ".")
    tags = ["O"] * len(example.tokens)
    tags[example.tokens.index("서울")] = "B-LOC"
    tags[-4:] = ["B-EVT", "I-EVT", "I-EVT", "O"]
    result: Any = task.result(example, ScoredTags(tags, lambda: [0.5, 0.5]))
    assert [entity.text for entity in result.entities] == ["서울", "태어났다"]
    assert all(text[e.start : e.end] == e.text for e in result.entities)


def test_a_korean_predicate_is_the_word_that_was_marked() -> None:
    pytest.importorskip("kiwipiepy")
    task: Any = find_task("srl")
    reader = Reader("kiwi")
    (frame,) = task.examples("김민수는 서울에서 [태어났다].", reader, task.config_class())
    assert frame.tokens[frame.predicate] == "태어나"
    found = task.result(frame, ["O"] * len(frame.tokens)).frames[0].predicate
    assert (found.text, found.start, found.end) == ("태어났다", 10, 14)
    assert_refused(
        lambda: task.examples("김민수는 [서울에서 태어났다].", reader, task.config_class()),
        "tokens",
    )


def test_tokens_without_a_text_are_joined_by_single_spaces() -> None:
    frame = Frame(("Anna", "gave", "tea"), 1, ("O",) * 3)
    row = find_task("srl").result(frame, ["B-ARG0", "B-V", "B-ARG1"]).to_dict()
    assert row["text"] == "Anna gave tea"
    assert row["frames"][0]["arguments"][1] == {
        "text": "tea", "label": "ARG1", "start": 10, "end": 13,
    }  # fmt: skip


DOCS = Path(__file__).parents[2] / "docs" / "tasks.md"


def test_the_rows_in_the_documentation_are_as_the_schema_says() -> None:
    rows = DOCS.read_text(encoding="utf-8").split("```json\n")[1].split("```")[0].splitlines()
    found = [json.loads(row) for row in rows]
    assert [row["task"] for row in found] == list(TEXTS)
    for row in found:
        SCHEMA.validate(row)
        for span in spans_in(row):
            said = span["answer"] if "answer" in span else span["text"]
            assert row["text"][span["start"] : span["end"]] == said


def test_the_documented_formats_are_those_of_the_tasks() -> None:
    table = DOCS.read_text(encoding="utf-8").split("### Files to predict")[1].split("### ")[0]
    for task in TEXTS:
        for name, endings in find_task(task).formats.items():
            assert f"| `{task}` | `{name}` |" in table
            for ending in endings:
                assert f"`{ending}`" in table


def test_the_schema_refuses_rows_of_another_shape() -> None:
    row = {"task": "ner", "text": "", "entities": [], "tokens": [], "tags": []}
    SCHEMA.validate(row)
    assert not SCHEMA.is_valid(row | {"entities": None})
    assert not SCHEMA.is_valid(row | {"surplus": 1})
    assert not SCHEMA.is_valid({"task": "classify", "text": "a"})
    SCHEMA.validate({"task": "pos", "text": "a", "tags": ["X"]})  # of a task that is not ours
