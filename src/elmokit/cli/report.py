"""How a command ends and what it says: exit codes, one-line errors, logs and numbers."""

import functools
import inspect
import logging
import os
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from inspect import Parameter
from typing import Any

import typer

from ..errors import MAX_MESSAGE, ElmoError, shortened
from .options import Verbose

FAILURE, INTERRUPTED, BROKEN_PIPE = 1, 130, 141
_MAX_NAME = 40


def reported(command: Callable[..., None]) -> Callable[..., None]:
    """`command` with its failures turned into one line on standard error and an exit code.

    It gets `--verbose`, which with `--quiet` sets how much is said. Where it takes a dataclass of
    options, such as `ExecutionOptions`, the command line has the fields of that.
    """
    taken = inspect.signature(command).parameters.values()
    signature = inspect.Signature([*_offered(taken)])

    @functools.wraps(command)
    def run(*args: Any, **kwargs: Any) -> None:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        given = bound.arguments
        with _logging(given["verbose"], given.get("quiet", False)), _one_line(given["verbose"]):
            command(**{parameter.name: _argument(parameter, given) for parameter in taken})
            sys.stdout.flush()

    run.__signature__ = signature  # type: ignore[attr-defined]
    return run


def _offered(taken: Iterable[Parameter]) -> Iterator[Parameter]:
    """What the command line has for the parameters of a command."""
    for parameter in taken:
        if not is_dataclass(group := parameter.annotation):
            yield parameter
            continue
        for f in fields(group):
            yield Parameter(f.name, Parameter.KEYWORD_ONLY, default=f.default, annotation=f.type)
    if all(parameter.name != "verbose" for parameter in taken):
        yield Parameter("verbose", Parameter.KEYWORD_ONLY, default=False, annotation=Verbose)


def _argument(parameter: Parameter, given: Mapping[str, Any]) -> Any:
    """What a command gets as one of its parameters."""
    if not is_dataclass(parameter.annotation):
        return given[parameter.name]
    group: Any = parameter.annotation
    return group(**{field.name: given[field.name] for field in fields(group)})


@contextmanager
def _one_line(verbose: bool) -> Iterator[None]:
    """Turn a failure into a line on standard error and an exit code."""
    try:
        yield
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


def say(message: str, *, error: bool = False) -> None:
    """Print a line about what is going on to standard error, an error in red on a terminal."""
    line = " ".join(f"elmokit: {message}".splitlines())
    plain = not error or "NO_COLOR" in os.environ
    typer.secho(line, err=True, color=False if plain else None, fg=typer.colors.RED)


def shows_bar(no_progress: bool, quiet: bool) -> bool:
    """Whether a progress bar is wanted and has a terminal to be on."""
    return sys.stderr.isatty() and not no_progress and not quiet


def short_path(name: str) -> str:
    """A name, or the end of a long one: the end of a path tells more."""
    return name if len(name) <= _MAX_NAME else f"…{name[1 - _MAX_NAME :]}"


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
