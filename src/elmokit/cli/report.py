"""How a command ends and what it says: exit codes, one-line errors, logs, tables and numbers."""

import functools
import inspect
import logging
import os
import sys
import traceback
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from typing import Any

import typer

from ..errors import MAX_MESSAGE, ElmoError, shortened
from .options import Verbose

FAILURE, INTERRUPTED, BROKEN_PIPE = 1, 130, 141


def reported(command: Callable[..., None]) -> Callable[..., None]:
    """`command` with its failures turned into one line on standard error and an exit code.

    It gets `--verbose`, which with `--quiet` sets how much is said. Where it takes a dataclass of
    options, such as `Execution`, the fields are options of the command line.
    """
    taken = inspect.signature(command).parameters
    groups: dict[str, Any] = {
        name: p.annotation for name, p in taken.items() if is_dataclass(p.annotation)
    }
    offered: list[inspect.Parameter] = []
    for name, parameter in taken.items():
        if name in groups:
            offered += [_option(f.name, f.default, f.type) for f in fields(groups[name])]
        else:
            offered.append(parameter)
    if "verbose" not in taken:
        offered.append(_option("verbose", False, Verbose))
    signature = inspect.Signature(offered)

    @functools.wraps(command)
    def run(*args: Any, **kwargs: Any) -> None:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        given = bound.arguments
        verbose = given["verbose"]
        with _logging(verbose, given.get("quiet", False)):
            try:
                arguments = {name: given[name] for name in taken if name not in groups}
                for name, group in groups.items():
                    arguments[name] = group(**{f.name: given[f.name] for f in fields(group)})
                command(**arguments)
                sys.stdout.flush()
            except BrokenPipeError:
                # The reader has enough. What is left must not fail again when Python ends.
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
                raise typer.Exit(BROKEN_PIPE) from None
            except KeyboardInterrupt as e:
                say("; ".join(["interrupted", *map(str, e.args)]), error=True)
                raise typer.Exit(INTERRUPTED) from None
            except (typer.Exit, typer.Abort, typer.BadParameter):
                raise
            except Exception as e:
                if verbose:
                    traceback.print_exc()
                say(_explain(e), error=True)
                raise typer.Exit(FAILURE) from None

    run.__signature__ = signature  # type: ignore[attr-defined]
    return run


def _option(name: str, default: object, annotation: object) -> inspect.Parameter:
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, kind, default=default, annotation=annotation)


def say(message: str, *, error: bool = False) -> None:
    """Print a line about what is going on to standard error, an error in red on a terminal."""
    line = " ".join(f"elmokit: {message}".splitlines())
    plain = not error or "NO_COLOR" in os.environ
    typer.secho(line, err=True, color=False if plain else None, fg=typer.colors.RED)


def shows_bar(no_progress: bool, quiet: bool) -> bool:
    """Whether a progress bar is wanted and has a terminal to be on."""
    return sys.stderr.isatty() and not no_progress and not quiet


def aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """The lines of a table: names and words to the left, numbers and their titles to the right.

    Args:
        rows: The titles, then at least one row; each begins with a name, shortened if it is long.
    """
    cells = [[_short(row[0]), *row[1:]] for row in rows]
    widths = [max(map(_width, column)) for column in zip(*cells, strict=True)]
    is_number = [cell[:1].isdigit() for cell in cells[1]]
    is_number[0] = False
    for row in cells:
        padded = [
            " " * (width - _width(cell)) + cell if right else cell + " " * (width - _width(cell))
            for cell, width, right in zip(row, widths, is_number, strict=True)
        ]
        yield "  ".join(padded).rstrip()


def _short(name: str) -> str:
    """A name, or the end of a long one: the end of a path tells more."""
    return name if len(name) <= _MAX_NAME else f"…{name[1 - _MAX_NAME :]}"


def _width(text: str) -> int:
    """Columns of a terminal."""
    return sum(2 if unicodedata.east_asian_width(letter) in "WF" else 1 for letter in text)


_MAX_NAME = 40


def _explain(e: Exception) -> str:
    if isinstance(e, ElmoError):
        return str(e)
    if isinstance(e, MemoryError) or "out of memory" in str(e) or "allocate memory" in str(e):
        return "out of memory; try a smaller --batch-size, or shorter lines"
    if isinstance(e, OSError):
        where = f"{e.filename}: " if e.filename is not None else ""
        return shortened(f"{where}{e.strerror or e}", MAX_MESSAGE)
    problem = shortened(f"{type(e).__name__}: {e}", MAX_MESSAGE - 80)
    return f"unexpected {problem}; this is a bug, please report it with the output of -v"


@contextmanager
def _logging(verbose: bool, quiet: bool) -> Iterator[None]:
    """Show the library's log on standard error while a command runs."""
    log = logging.getLogger("elmokit")
    level = log.level
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("elmokit: %(message)s"))
    log.addHandler(handler)
    log.setLevel(logging.INFO if verbose else logging.ERROR if quiet else logging.WARNING)
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.setLevel(level)


def in_bytes(number: int) -> str:
    """A number of bytes.

    >>> in_bytes(374434792), in_bytes(12)
    ('374 MB', '12 bytes')
    """
    value, unit = _scaled(number)
    return f"{value} {unit}B" if unit else f"{value} bytes"


def in_short(number: int) -> str:
    """A large number by its first digits.

    >>> in_short(93600864), in_short(512)
    ('93.6M', '512')
    """
    return "".join(_scaled(number))


def _scaled(number: int) -> tuple[str, str]:
    value, units = float(number), ["", "k", "M", "G", "T"]
    while value >= 999.5 and len(units) > 1:
        value /= 1000
        del units[0]
    return f"{value:.3g}", units[0]


def in_time(seconds: float) -> str:
    """Hours, minutes and seconds: 1:02:03."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}"
