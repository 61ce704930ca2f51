"""A text file → a file of vectors, line by line, in bounded memory, safe against being killed."""

import hashlib
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
from tqdm.auto import tqdm

from . import __version__
from .config import one_of
from .errors import ConfigError, InputError, quoted
from .files.folders import output_path
from .files.read import is_there, read_lines
from .layers import EMPTY, SENTENCE_LAYERS, Empty, Layers, Pooling, Vectors, joined, poolers
from .model import Elmo
from .model.execution import num_words, windows
from .text.sentences import FoundMode, TextMode, with_text_mode
from .vectors import Entry, Offsets, check_output
from .vectors.work import open_unfinished

log = logging.getLogger(__name__)

Level: TypeAlias = Literal["token", "sentence"]
OnProgress: TypeAlias = Callable[[int, int | None], None]


def embed_file(
    elmo: Elmo,
    source: str | Path,
    output: str | Path,
    *,
    layers: Layers | None = None,
    level: Level = "token",
    pooling: Pooling = "mean",
    empty: Empty | None = None,
    sentences: TextMode | None = None,
    batch_size: int = 128,
    force: bool = False,
    resume: bool = False,
    show_progress_bar: bool = False,
    on_progress: OnProgress | None = None,
) -> int:
    """Embed a text of one sentence per line; returns the number of lines.

    Args:
        elmo: The model.
        source: A text file, plain, .gz or .xz; `-` is standard input.
        output: The file to write: .h5 (as AllenNLP wrote it), .npz, .parquet or .jsonl. It is
            there when it is complete; until then the finished part is kept in OUTPUT.partial.
        layers: As in `Elmo.embed`, or as in `Elmo.encode` at level `sentence`, defaults included.
        level: One vector per token, or one per line. A blank line has an empty entry.
        pooling: How the vectors of a line become one.
        empty: What a blank line is at level `sentence`: an empty entry (None), an error (`raise`),
            or a vector of zeros (`zero`) or NaN (`nan`), as in `Elmo.encode`.
        sentences: As in `Elmo.embed`: `split` reads each sentence of a line on its own, and the
            line's entry has the tokens of all of them.
        batch_size: Sentences that run together, at most.
        force: Replace `output` if it exists.
        resume: Continue an interrupted run; the result is the same as without interruption.
        show_progress_bar: Show one on standard error.
        on_progress: Gets the lines that are done and, where it is known, the number of all.
    """
    layers = _layers(layers, level)
    output = output_path(output)
    check_output(output, force)
    if resume and elmo.config.state == "carry":
        raise ConfigError("state='carry' cannot be resumed: the carried state is not kept")
    embed = partial(
        embed_windows, elmo, layers=layers, level=level, pooling=pooling, empty=empty,
        batch_size=batch_size,
    )  # fmt: skip
    embed([], sentences=sentences)  # checks the options before anything is written
    total = count_lines(source)
    lines, mode = with_text_mode(read_lines(source), sentences)
    settings = _settings(elmo, layers, level, pooling, empty, mode)
    metadata = _metadata(elmo, settings, layers)
    with open_unfinished(output, num_axes(layers, level), metadata) as done:
        done.begin(settings, lines, resume)
        with progress_bar(total, show_progress_bar, on_progress, done.num_lines) as bar:
            windows = _counted(embed(lines, sentences=mode, start=done.num_lines), bar)
            if elmo.config.state == "carry":  # cannot be continued, so nothing is kept
                return done.write(chain.from_iterable(windows))
            for window in windows:
                done.add(window)
            bar.bar.set_description(f"writing {output.name}")
            return done.finish()


def embed_windows(
    elmo: Elmo,
    lines: Iterable[str],
    *,
    layers: Layers | None = None,
    level: Level = "token",
    pooling: Pooling = "mean",
    empty: Empty | None = None,
    sentences: TextMode | None = None,
    batch_size: int = 128,
    start: int = 0,
) -> Iterator[list[Entry]]:
    """The entries of `embed_file` in the groups that are embedded together, from index `start`."""
    layers = _layers(layers, level)
    pool = _pool(layers, level, pooling, _empty_vector(elmo, level, empty))
    lines, mode = with_text_mode(lines, sentences)
    # Nothing to embed: it checks the options and computes a warm state that is not stored.
    elmo.embed([], layers=layers, sentences=mode, batch_size=batch_size, show_progress_bar=False)
    carries = elmo.config.state == "carry"
    read = ((i, line, *_words(elmo, line, mode)) for i, line in enumerate(lines, start))

    def embedded() -> Iterator[list[Entry]]:
        for window in windows(
            read, lambda r: num_words(r[2]), carries=carries, batch_size=batch_size
        ):
            if empty == "raise":
                _refuse_empty(window)
            vectors = elmo.embed(
                [tokens for _, _, found, _ in window for tokens in found],
                layers=layers,
                batch_size=batch_size,
                show_progress_bar=False,
            )
            arrays = joined(vectors, (len(found) for _, _, found, _ in window))
            yield [
                Entry(i, line, list(chain.from_iterable(found)), pool(array), offsets)
                for (i, line, found, offsets), array in zip(window, arrays, strict=True)
            ]

    return embedded()


def _layers(layers: Layers | None, level: Level) -> Layers:
    """The layers that were asked for, or the default of the level."""
    if layers is not None:
        return layers
    return SENTENCE_LAYERS if level == "sentence" else "average"


def num_axes(layers: Layers | None, level: Level) -> int:
    """Axes of each entry's vectors: (D,), (T, D) or (L, T, D)."""
    if level == "sentence":
        return 1
    return 3 if layers == "all" else 2


def count_lines(source: str | Path) -> int | None:
    """The lines of a file, all of them checked; None if it can be read only once."""
    path = Path(source)
    if str(source) == "-" or (is_there(path) and not path.is_file() and not path.is_dir()):
        return None
    return sum(1 for _ in read_lines(source))


@contextmanager
def progress_bar(
    total: int | None, show: bool, on_progress: OnProgress | None = None, initial: int = 0
) -> Iterator["LineBar"]:
    """A bar of lines on standard error."""
    with tqdm(total=total, initial=initial, unit=" lines", disable=not show) as bar:
        yield LineBar(bar, total, initial, on_progress)


class LineBar:
    """Counts lines on a bar, which may be hidden, and for a caller who wants to know."""

    def __init__(
        self, bar: "tqdm[None]", total: int | None, done: int, on_progress: OnProgress | None
    ) -> None:
        self.bar, self.total, self.done = bar, total, done
        self.on_progress = on_progress
        self.update(0)

    def update(self, number: int) -> None:
        """Count lines that are done."""
        self.done += number
        self.bar.update(number)
        if self.on_progress is not None:
            self.on_progress(self.done, self.total)


def _words(elmo: Elmo, line: str, mode: FoundMode | None) -> tuple[list[list[str]], Offsets | None]:
    """The tokens of a line's sentences and where they are in it.

    A tokenizer of the user's own may not tell where.
    """
    try:
        found = elmo.reader.spans_of_sentences(line, mode)
    except InputError:
        return elmo.reader.sentences(line, mode), None
    words = [[token.text for token in sentence] for sentence in found]
    return words, [(token.start, token.end) for sentence in found for token in sentence]


def _counted(windows: Iterator[list[Entry]], bar: LineBar) -> Iterator[list[Entry]]:
    for window in windows:
        yield window
        bar.update(len(window))


def _empty_vector(elmo: Elmo, level: Level, empty: Empty | None) -> Vectors:
    """What stands for a line without tokens."""
    one_of("empty", empty, (None, *EMPTY))
    if empty is not None and level != "sentence":
        raise ConfigError(f"empty={empty!r}: only level='sentence' has one vector per line")
    fill = np.nan if empty == "nan" else 0
    return np.full(0 if empty is None else elmo.dim, fill, np.float32)


def _refuse_empty(window: Sequence[tuple[Any, ...]]) -> None:
    for number, _, found, *_ in window:
        if not any(found):
            raise InputError(
                f"line {number + 1} is blank: nothing to pool; "
                "empty='zero' or 'nan' (--empty) gives it a vector"
            )


def _pool(
    layers: Layers, level: Level, pooling: Pooling, empty: Vectors
) -> Callable[[Vectors], Vectors]:
    (pool,) = poolers(pooling)
    if level == "token":
        return lambda vectors: vectors
    if level != "sentence":
        raise ConfigError(f"level={quoted(level)}: expected 'token' or 'sentence'")
    if layers == "all":
        raise ConfigError("layers='all': a sentence has one vector; choose one layer or a mix")
    return lambda vectors: pool(vectors) if len(vectors) else empty


def _metadata(elmo: Elmo, settings: dict[str, str], layers: Layers) -> dict[str, object]:
    """What the file says about its vectors."""
    is_sentences = settings["level"] == "sentence"
    return {
        "version": __version__,
        "model": elmo.source or elmo.format,
        "fingerprint": settings["model"],
        "dim": elmo.dim,
        "layers": layers,
        "level": settings["level"],
        "pooling": settings["pooling"] if is_sentences else None,
        "sentences": settings["sentences"],
        "tokenizer": elmo.reader.tokenizer.name,
        "normalization": elmo.reader.normalization,
        "state": elmo.config.state,
        "precision": settings["precision"],
    }


def _settings(
    elmo: Elmo,
    layers: Layers,
    level: Level,
    pooling: Pooling,
    empty: Empty | None,
    mode: FoundMode | None,
) -> dict[str, str]:
    """What has to be the same when a run is continued.

    The batch size and the device are not part of it: a run that ended for want of memory must be
    able to continue with less, and they change a vector by rounding alone.
    """
    sha = hashlib.sha256(repr(elmo.config).encode())
    for name, tensor in elmo.state_dict().items():
        sha.update(name.encode())
        sha.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy())
    names = ("tokenizer", "normalization", "state")
    return {
        "level": level,  # first, because the default of the layers follows from it
        "layers": str(layers),
        "pooling": pooling if level == "sentence" else "none",
        "empty": empty or "none",
        "sentences": mode or "lines",
        **{name: str(getattr(elmo.config, name)) for name in names},
        "precision": "int8" if "int8" in elmo.engine else "full",
        "model": sha.hexdigest()[:16],  # last, because it holds the ones before
    }
