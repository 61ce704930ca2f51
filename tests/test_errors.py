"""An error is one line of bounded length, whatever a hostile file or caller puts into it."""

from typing import Any

import pytest
from strategies import make_tiny

from elmokit.errors import (
    MAX_MESSAGE,
    MAX_VALUE,
    ConfigError,
    ElmoError,
    FileError,
    FormatError,
    InputError,
    quoted,
)
from elmokit.model.execution import find_device
from elmokit.pretraining.config import PretrainConfig
from elmokit.tasks.registry import find_task
from elmokit.text.reader import parse_marked


@pytest.mark.parametrize("kind", [ElmoError, ConfigError, InputError, FormatError, FileError])
def test_long_error_keeps_its_ends(kind: type[ElmoError]) -> None:
    message = str(kind("model.bin: " + "x" * 338_000 + "; download it again"))
    assert len(message) == MAX_MESSAGE
    assert message.startswith("model.bin: xx") and message.endswith("xx; download it again")
    assert str(kind("y" * MAX_MESSAGE)) == "y" * MAX_MESSAGE


@pytest.mark.parametrize("mark", ["\n", "\r", "\x1b", "\x85", "\u2028", "\0"])
def test_error_is_one_line_without_control_characters(mark: str) -> None:
    assert str(FormatError(f"a{mark}[31mb")) == "a [31mb"


@pytest.mark.parametrize(
    "value",
    ["x" * 10_000, b"x" * 10_000, 10**5000, -(10**4000), ["x" * 100] * 100, {"k" * 500: "v" * 500},
     [10**5000], "\n" * 500, 1.5, None, True, "short",
     type("A", (), {"__repr__": lambda self: "r" * 9999})()],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_quoted_value_is_short(value: object) -> None:
    assert len(quoted(value)) <= MAX_VALUE
    assert "\n" not in quoted(value)


def test_quoted_value_is_what_python_prints() -> None:
    assert [quoted(v) for v in ("it's", 12, None, [1, "a"])] == [
        '"it\'s"',
        "12",
        "None",
        "[1, 'a']",
    ]
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    assert len(quoted(deep)) <= MAX_VALUE


@pytest.mark.parametrize(
    "call",
    [
        lambda elmo, value: elmo.embed("a", layers=value),
        lambda elmo, value: elmo.embed("a", layers=10**5000),
        lambda elmo, value: elmo.encode("a", pooling=value),
        lambda elmo, value: elmo.add_mix(value + " "),
        lambda elmo, value: find_device(value),
        lambda elmo, value: type(elmo)(elmo.config, engine=value),
        lambda elmo, value: find_task(value),
        lambda elmo, value: parse_marked(elmo.reader, value),
        lambda elmo, value: PretrainConfig().override(value),
        lambda elmo, value: PretrainConfig().override(f"train.schedule={value}"),
    ],
)
def test_hostile_argument_is_quoted_in_80_characters(call: Any) -> None:
    with pytest.raises(ElmoError) as caught:
        call(make_tiny(), "x" * 10_000)
    assert "x" * MAX_VALUE not in str(caught.value) and len(str(caught.value)) < 300
