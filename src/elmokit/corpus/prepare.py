"""Text → a prepared corpus: parallel, in bounded memory, safe against being killed."""

import itertools
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from numbers import Real
from pathlib import Path
from typing import TypeAlias

from tqdm.auto import tqdm

from .. import __version__
from ..errors import ConfigError, FileError, FormatError, InputError, quoted
from ..files.folders import Work, open_work, output_path
from ..files.read import check_no_device, is_there, list_folder, read_json
from ..files.write import write_errors, write_json
from ..text.sentences import Choice, choose_mode
from ..text.tokenize import load_tokenizer
from .block import Reading, default_workers, is_whole, process_all
from .corpus import FORMAT, SPECIAL_WORDS, PrepareConfig
from .inputs import Source, Text, find_files, scan, spooled, text_blocks
from .report import Report, make_report
from .write import CorpusWriter, Totals, count

log = logging.getLogger(__name__)

BLOCK_BYTES = 4 << 20
"""Text that a worker gets at a time."""

MIN_TOKENS, FEW_TOKENS = 20, 10_000
"""Minimum tokens to train at all, and to learn anything useful."""

MAX_WEIGHT = 100

OnStage: TypeAlias = Callable[[str, int, int | None], None]


def prepare(
    inputs: Sequence[str | Path],
    output: str | Path,
    config: PrepareConfig | None = None,
    *,
    weights: Sequence[float] | None = None,
    valid: Sequence[str | Path] = (),
    workers: int | None = None,
    force: bool = False,
    show_progress_bar: bool = False,
    on_stage: OnStage | None = None,
) -> Report:
    """Write a corpus that `Corpus.open` opens; returns what there is to know about it.

    A run that was killed continues when it is called again with the same text and settings; the
    result is the same for every number of workers. A script that uses more than one must guard
    its beginning with `if __name__ == "__main__":`, as processes of Python need it.

    Args:
        inputs: Text files, plain, .gz, .xz or .zst, and folders of them; `-` is standard input.
        output: The folder to write; it is there when it is complete.
        config: How the text is read.
        weights: How often a sentence of each input occurs in the training text, one number per
            input; of 2.5, half of the lines count three times. None for once.
        valid: Files that are held out, instead of a fraction of the inputs.
        workers: Processes; None for one per core.
        force: Replace a corpus that is at `output`.
        show_progress_bar: Show one on standard error.
        on_stage: Gets the name of what is done, the bytes of text that are done, and the number of
            all where it is known.
    """
    config = config or PrepareConfig()
    output = output_path(output)
    weights = check_weights(weights, inputs)
    check_output(output, force)
    load_tokenizer(config.tokenizer)  # fails here rather than in every worker
    for path in (*inputs, *valid):
        check_no_device(Path(path))
    train_files = [find_files([path]) for path in inputs]
    valid_files = [find_files([path]) for path in valid]
    names = [file.name for files in (*train_files, *valid_files) for file in files]
    if names.count("standard input") > 1:
        raise ConfigError("standard input (-) can be read only once")
    with open_work(output) as work:
        check_output(output, force)  # again: an earlier run may have left the old corpus aside
        with _bar("checking the text", None, show_progress_bar, on_stage) as bar:
            train = _check_all(inputs, train_files, work, "train", config, bar)
            held = _check_all(valid, valid_files, work, "valid", config, bar)
        blocks = _read_all(work, config, train, held, workers, show_progress_bar, on_stage)
        of_inputs = blocks[: len(train)]
        of_valid = [path for paths in blocks[len(train) :] for path in paths]
        if on_stage is not None:
            on_stage("counting words, writing the corpus", 0, None)
        totals = count(of_inputs, weights, of_valid, config.valid_fraction, config.clean)
        _check_size(totals, work, names[: sum(map(len, train_files))])
        return _write(work, config, train, weights, totals)


def check_output(output: Path, force: bool) -> None:
    """Fail if `output` exists, unless it is a prepared corpus that may be replaced."""
    if not is_there(output):
        return
    if not output.is_dir():
        raise FileError(f"{output}: a file is in the way of the folder to be written")
    if not list_folder(output):
        return
    if not _is_corpus(output):
        raise FileError(
            f"{output}: there are other files in this folder, which is not a prepared corpus; "
            "choose a new folder"
        )
    if not force:
        raise FileError(f"{output} exists already; choose another folder, or replace it (--force)")


def _is_corpus(folder: Path) -> bool:
    path = folder / "corpus.json"
    try:
        return is_there(path) and read_json(path).get("format") == FORMAT
    except FormatError:
        return False


def check_weights(weights: Sequence[float] | None, inputs: Sequence[str | Path]) -> list[float]:
    """One number per input."""
    if weights is None:
        return [1.0] * len(inputs)
    if len(weights) != len(inputs):
        raise ConfigError(
            f"weights: {len(weights)}, inputs: {len(inputs)}; give one number per input, in order"
        )
    for weight, name in zip(weights, inputs, strict=True):
        if not isinstance(weight, Real) or not 0 < weight <= MAX_WEIGHT:
            raise ConfigError(
                f"weight {quoted(weight)} of {name}: expected a number above 0 and up to "
                f"{MAX_WEIGHT}; 1 reads each sentence once"
            )
    return [float(weight) for weight in weights]


def _check_all(
    paths: Sequence[str | Path], files: Sequence[Sequence[Source]], work: Work, part: str,
    config: PrepareConfig, bar: "_Bar",
) -> list[Text]:  # fmt: skip
    """Read all text once, and choose for each input how its sentences are found."""
    texts = []
    mode = config.sentences
    for i, path in enumerate(paths):
        found = scan(spooled(files[i], work.folder, f"stdin-{part}-{i}"), bar)
        choice = choose_mode(found.sample) if mode == "auto" else Choice(mode, "as you said")
        name = "standard input" if str(path) == "-" else str(path)
        texts.append(Text(name, replace(found, sample=[]), choice))
    return texts


def _read_all(
    work: Work, config: PrepareConfig, train: Sequence[Text], valid: Sequence[Text],
    workers: int | None, show: bool, on_stage: OnStage | None,
) -> list[list[Path]]:  # fmt: skip
    """The files of the blocks of each text, after those that are missing were made."""
    texts = (*train, *valid)
    tokenizer, form = config.tokenizer, config.normalization
    readings = [
        Reading(tokenizer, form, text.choice.mode, config.max_length, config.clean)
        for text in texts
    ]
    # Weights do not matter to a block, so that work continues with others.
    work.keep_if(
        {
            "version": __version__, "block_bytes": BLOCK_BYTES, "num_inputs": len(train),
            "texts": [text.scan.digest for text in texts], "readings": [*map(asdict, readings)],
        }
    )  # fmt: skip
    blocks: list[list[Path]] = [[] for _ in texts]

    def missing(bar: "_Bar") -> Iterator[tuple[bytes, Reading, Path]]:
        numbers = {"train": itertools.count(), "valid": itertools.count()}
        for i, (text, reading) in enumerate(zip(texts, readings, strict=True)):
            part = "train" if i < len(train) else "valid"
            is_wrapped = reading.mode == "wrapped"
            for data in text_blocks(text.scan.files, BLOCK_BYTES, paragraphs=is_wrapped):
                path = work.block(f"{part}-{next(numbers[part]):06d}")
                blocks[i].append(path)
                if is_whole(path):
                    bar.update(len(data))
                else:
                    yield data, reading, path

    num_bytes = sum(text.scan.num_bytes for text in texts)
    num_workers = min(workers or default_workers(), max(1, num_bytes // BLOCK_BYTES))
    with _bar("reading the text", num_bytes, show, on_stage) as bar:
        for size in process_all(missing(bar), num_workers):
            bar.update(size)
    return blocks


def _check_size(totals: Totals, work: Work, names: Sequence[str]) -> None:
    """Refuse what cannot be learned from, and warn of what hardly can."""
    found = f"{totals.num_tokens:,} tokens in {totals.num_sentences:,} sentences"
    is_empty = not any(text.num_weighted for text in totals.inputs)
    if totals.num_tokens < MIN_TOKENS or totals.num_sentences < 2 or is_empty:
        work.clear()
        where = names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"
        raise InputError(
            f"{where}: too little text to learn from ({found}; at least {MIN_TOKENS} in 2)"
        )
    if totals.num_tokens < FEW_TOKENS:
        log.warning("only %s: enough to try things out, not for a useful model", found)


def _write(
    work: Work, config: PrepareConfig, texts: Sequence[Text], weights: Sequence[float],
    totals: Totals,
) -> Report:  # fmt: skip
    """Write the corpus beside the output folder, then move it there."""
    special = len(SPECIAL_WORDS)
    frequent = special + int((totals.counts[special:] >= config.min_count).sum())
    vocab_size = min(config.vocab_size, frequent)
    folder = work.new_folder()
    with write_errors(work.output, folder):
        writer = CorpusWriter(folder, totals, vocab_size, config.max_characters)
        train = writer.write_part("train", totals.train)
        valid = writer.write_part("valid", totals.valid)
        report = make_report(config, texts, weights, totals, vocab_size, train, valid)
        values = {
            "format": FORMAT,
            "tokenizer": config.tokenizer,
            "normalization": config.normalization,
            "max_characters": config.max_characters,
            "num_words": len(totals.words),
            "vocab_size": vocab_size,
            "train": {"sentences": train.num_sentences, "tokens": train.num_tokens},
            "valid": {"sentences": valid.num_sentences, "tokens": valid.num_tokens},
            "fingerprint": writer.fingerprint,
            "weights": list(weights),
            "clean": config.clean,
            "elmokit": __version__,
            "report": asdict(report),
        }
        write_json(folder / "corpus.json", values)
    work.publish(folder)
    return report


@contextmanager
def _bar(what: str, total: int | None, show: bool, on_stage: OnStage | None) -> Iterator["_Bar"]:
    with tqdm(
        desc=what, total=total, unit="B", unit_scale=True, disable=not show, leave=False
    ) as bar:
        yield _Bar(bar, what, total, on_stage)


class _Bar:
    """Counts bytes on a bar, which may be hidden, and for a caller who wants to know."""

    def __init__(
        self, bar: "tqdm[None]", what: str, total: int | None, on_stage: OnStage | None
    ) -> None:
        self.bar, self.what, self.total, self.on_stage = bar, what, total, on_stage
        self.done = 0
        self.update(0)

    def update(self, number: int) -> None:
        self.done += number
        self.bar.update(number)
        if self.on_stage is not None:
            self.on_stage(self.what, self.done, self.total)
