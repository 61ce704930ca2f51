"""Files of frames, lines to predict, and what is said about bad ones."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from strategies import assert_refused

from elmokit.tasks.srl import Frame, SrlConfig, SrlTask, read_frames
from elmokit.text.reader import Reader

DATA = Path(__file__).resolve().parents[4] / "shared" / "data" / "srl"
TASK, READER = SrlTask(), Reader("regex")
CONFIG = TASK.config_class()
WORDS = ["She", "likes", "swimming"]
LIKES = {"pred": 1, "lemma": "like", "tags": ["B-ARG0", "B-V", "B-ARG1"]}
SWIMS = {"pred": 2, "tags": ["B-ARG0", "O", "B-V"]}


def line(frames: Any = (LIKES,), words: Any = WORDS) -> str:
    return json.dumps({"id": "1", "words": words, "frames": frames}) + "\n"


def write(folder: Path, text: str) -> Path:
    path = folder / "frames.jsonl"
    path.write_bytes(text.encode())
    return path


def test_a_frame_a_predicate(tmp_path: Path) -> None:
    path = write(tmp_path, line([LIKES, SWIMS]) + "\n" + line([]) + line([SWIMS]))
    likes = Frame(tuple(WORDS), 1, ("B-ARG0", "B-V", "B-ARG1"))
    swims = Frame(tuple(WORDS), 2, ("B-ARG0", "O", "B-V"))
    assert read_frames(path) == [likes, swims, swims]
    packed = tmp_path / "frames.jsonl.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert read_frames(packed) == [likes, swims, swims]


@pytest.mark.parametrize(
    ("text", "mentions"),
    [
        ("{oops\n", ("line 2", "not JSON")),
        ('{"words": ["a"]}\n', ("line 2", "frames is missing")),
        (line(words="She"), ("line 2", "words='She'")),
        (line(words=["She", 3, "x"]), ("line 2", "words has 3")),
        (line(words=["She", " ", "x"]), ("line 2", "word 1 is empty")),
        (line([LIKES, 7]), ("line 2", "frame 1", "found 7")),
        (line([LIKES | {"pred": 3}]), ("line 2", "frame 0", "pred=3", "3 words")),
        (line([LIKES | {"pred": -1}]), ("line 2", "frame 0", "pred=-1")),
        (line([LIKES | {"pred": True}]), ("line 2", "frame 0", "pred=True")),
        (line([LIKES | {"tags": ["O", "B-V"]}]), ("line 2", "frame 0", "2 tags for 3 words")),
        (line([LIKES | {"tags": ["O", "B-V", None]}]), ("line 2", "frame 0", "tags has None")),
        (line([LIKES | {"tags": ["O", "B-V", "I-ARG1"]}]), ("line 2", "word 2", "I-ARG1")),
        (line([LIKES | {"tags": ["A0", "B-V", "O"]}]), ("line 2", "word 0", "'A0' is not BIO")),
    ],
)
def test_bad_lines_are_refused(text: str, mentions: tuple[str, ...], tmp_path: Path) -> None:
    path = write(tmp_path, line() + text)
    assert_refused(lambda: read_frames(path), str(path), *mentions)


def test_files_without_frames_are_refused(tmp_path: Path) -> None:
    for text, mention in (("\n", "is empty"), (line([]), "no frames")):
        path = write(tmp_path, text)
        assert_refused(lambda path=path: read_frames(path), str(path), mention)


def test_some_frames_for_training_only(tmp_path: Path) -> None:
    words = [[f"w{i}", "likes", "it"] for i in range(10)]
    path = write(tmp_path, "".join(line(words=w) for w in words))

    def first_words(max_frames: int, is_training: bool) -> str:
        config = SrlConfig(max_frames=max_frames)
        frames = TASK.read(path, config, READER, is_training=is_training)
        return " ".join(frame.tokens[0] for frame in frames)

    everything = " ".join(f"w{i}" for i in range(10))
    assert first_words(4, True) == "w0 w2 w5 w7"
    assert first_words(0, True) == first_words(10, True) == first_words(11, True) == everything
    assert first_words(4, False) == everything


def test_a_line_to_predict() -> None:
    frame = TASK.example("She [gave] him a book.", READER, CONFIG)
    assert frame.tokens == ("She", "gave", "him", "a", "book", ".") and frame.predicate == 1
    assert TASK.sentences(TASK.example(" ", READER, CONFIG)) == [()]
    for text, mention in (
        ("She gave him a book.", "predicates in brackets, as in"),
        ("She [gave [him]] a book.", "predicates in brackets, as in"),
        ("She [gave] him] a book.", "predicates in brackets, as in"),
        ("She [gave him] a book.", "2 tokens"),
        ("She [] a book.", "no word in the brackets"),
    ):
        assert_refused(lambda text=text: TASK.example(text, READER, CONFIG), repr(text), mention)


def test_a_prediction_in_words() -> None:
    frame = TASK.example("Yes, she [gave] him a book.", READER, CONFIG)
    tags = ["O", "O", "B-ARG0", "B-V", "B-ARG2", "B-ARG1", "I-ARG1", "O"]
    assert TASK.as_text(frame, tags) == "Yes , [ARG0 she] [V gave] [ARG2 him] [ARG1 a book] ."
    row = TASK.result(frame, tags).to_dict()
    assert row["text"] == "Yes, she gave him a book." and len(row["tokens"]) == 8
    (found,) = row["frames"]
    assert found["predicate"] == {"text": "gave", "start": 9, "end": 13} and found["tags"] == tags
    assert [argument["label"] for argument in found["arguments"]] == ["ARG0", "ARG2", "ARG1"]
    assert found["arguments"][-1] == {"text": "a book", "label": "ARG1", "start": 18, "end": 24}


def test_the_shared_frames_can_be_read() -> None:
    path = DATA / "dev.jsonl.gz"
    if not path.is_file():
        pytest.skip(f"the frames are not at {path}")
    assert len(read_frames(path)) == 4963
