"""The errors that elmokit raises on purpose: one line says what is wrong, where, and what to do.

`except ElmoError` catches all of them; each also is the built-in error that it resembles.
"""

import importlib
import re
from reprlib import Repr
from typing import Any

MAX_MESSAGE, MAX_VALUE = 500, 80
"""Characters of an error, and of a value that one quotes; hostile files hold longer ones."""

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")


class ElmoError(Exception):
    """Base of every error that elmokit raises on purpose."""

    def __str__(self) -> str:
        # One line, also where a name from a hostile file has line breaks in it.
        return shortened(_CONTROL.sub(" ", super().__str__()), MAX_MESSAGE)


class ConfigError(ElmoError, ValueError):
    """An option, an architecture or an argument has a value that cannot work."""


class InputError(ElmoError, ValueError):
    """The text to embed is not text, or asks for something that has no answer."""


class FormatError(ElmoError, ValueError):
    """A file is not what it should be: broken, truncated, mislabelled or of a wrong shape."""


class FileError(ElmoError, OSError):
    """A file is missing, unreadable, or in the way of one that is to be written."""


class MissingExtra(ElmoError, ImportError):
    """An optional dependency, which the extra `extra` installs, is not there."""

    def __init__(self, extra: str, package: str) -> None:
        super().__init__(f"{package} is not installed; run: pip install 'elmokit[{extra}]'")


def import_extra(module: str, extra: str) -> Any:
    """An optional module; or the error that names `extra`, which installs it."""
    try:
        return importlib.import_module(module)
    except ImportError as e:
        raise MissingExtra(extra, module) from e


def quoted(value: object) -> str:
    """A value as an error shows it: its repr, at most 80 characters of it.

    >>> quoted("a" * 1000) == "'" + "a" * 38 + "…" + "a" * 38 + "'"
    True
    """
    if isinstance(value, str):
        value = shortened(value, MAX_VALUE - 3)
    return shortened(_REPR.repr(value), MAX_VALUE)


def shortened(text: str, limit: int) -> str:
    """`text`, with its middle left out if it is longer than `limit`."""
    if len(text) <= limit:
        return text
    tail = (limit - 1) // 2
    return f"{text[: limit - 1 - tail]}…{text[len(text) - tail :]}"


class _Repr(Repr):
    def repr_int(self, x: int, level: int) -> str:
        # Python refuses to spell long ones.
        return repr(x) if x.bit_length() <= 256 else f"<a number of {x.bit_length():,} bits>"


_REPR = _Repr()
_REPR.maxstring = _REPR.maxother = 2 * MAX_VALUE
