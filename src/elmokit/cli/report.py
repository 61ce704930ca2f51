"""How a command ends and what it says: exit codes, one-line errors, logs and numbers."""

import functools
import inspect
import logging
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from inspect import Parameter
from typing import TYPE_CHECKING, Any

import typer

from ..errors import MAX_MESSAGE, ElmoError, shortened
from .options import Verbose

if TYPE_CHECKING:
    from ..model import Elmo

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


class Progress:
    """Says on standard error what long work does and how far it is; nothing with `quiet`.

    A stage has a line when it begins, one with figures after `FIRST` seconds, the next after
    `EVERY` more, and then fewer and fewer. Where a bar on a terminal shows the same, `has_bar`
    leaves these out.
    """

    FIRST, EVERY = 2.0, 10.0

    def __init__(
        self,
        quiet: bool,
        has_bar: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.quiet, self.is_silent, self.clock = quiet, quiet or has_bar, clock
        self._header = self._stage = ""
        self._began = self._due = self._start = 0.0

    def header(self, what: str, *facts: str) -> None:
        """What a command does, with what: the first line, said when the first stage begins."""
        self._header = f"{what}: {', '.join(facts)}"

    def model(self, source: str, elmo: "Elmo") -> None:
        """The line about a model that is loaded, said when the first stage begins."""
        self.header(source, model_facts(elmo))

    def __call__(
        self, stage: str, done: float = 0.0, total: float | None = 1.0, unit: str = ""
    ) -> None:
        """Tell how much of a stage is done: of 1, or of so many of a unit, or of nobody knows."""
        if self._header and not self.quiet:
            say(self._header)
            self._header = ""
        if self.is_silent:
            return
        now = self.clock()
        if stage != self._stage:
            self._stage, self._began, self._start = stage, now, done
            self._due = now + self.FIRST
            say(f"{stage}: {_amount(total, unit)}" if total and unit else stage)
        elif now >= self._due:
            self._due = now + self._pause(now - self._began)
            say(f"{stage}: {self._figures(now - self._began, done, total, unit)}")
        else:
            return
        sys.stderr.flush()

    def _pause(self, seconds: float) -> float:
        """Until the next line of a stage that has run for so long: work of hours needs few."""
        return max(self.EVERY, seconds / 10)

    def _figures(self, seconds: float, done: float, total: float | None, unit: str) -> str:
        if not total:
            return f"{_amount(done, unit)} in {in_time(seconds)}"
        parts = [f"{done / total:.0%}"]
        if unit:
            number = _amount(done, unit if unit == "bytes" else "")
            parts.append(f"{number} of {_amount(total, unit)}")
        if done > self._start:
            left = seconds * (total - done) / (done - self._start)
            parts.append(f"left {in_time(max(0.0, left))}")
        return ", ".join(parts)

    @contextmanager
    def alive(self, stage: str) -> Iterator[None]:
        """Tell for how long a stage has run that cannot tell how far it is."""
        if self.is_silent:
            yield
            return
        began, is_over = self.clock(), threading.Event()

        def beat() -> None:
            seconds = self.FIRST
            while not is_over.wait(seconds):
                say(f"{stage}: {in_time(self.clock() - began)} so far")
                seconds = self._pause(self.clock() - began)

        thread = threading.Thread(target=beat, daemon=True)
        thread.start()
        try:
            yield
        finally:
            is_over.set()
            thread.join()


def model_facts(elmo: "Elmo") -> str:
    """Size, engine and device of a model.

    Such as: 3.4M parameters, 256 dimensions, native (avx2) on cpu.
    """
    num_parameters = sum(parameter.numel() for parameter in elmo.bilm.parameters())
    return (
        f"{in_short(num_parameters)} parameters, {elmo.dim} dimensions, "
        f"{elmo.engine} on {elmo.device}"
    )


def vocabulary_facts(elmo: "Elmo") -> dict[str, Any] | None:
    """Size and fingerprint of the words that a model predicts.

    Perplexities compare only where these are equal.
    """
    if elmo.softmax is None or elmo.vocab is None:
        return None
    return {"words": len(elmo.vocab), "fingerprint": elmo.vocab.fingerprint}


def _amount(number: float, unit: str) -> str:
    if unit == "bytes":
        return in_bytes(round(number))
    return f"{number:,.0f} {unit.removesuffix('s') if number == 1 else unit}".rstrip()


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
