"""Text → a prepared corpus: parallel, in bounded memory, safe against being killed."""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from tqdm.auto import tqdm

from .. import __version__
from ..errors import ConfigError, InputError
from ..io.files import write_json
from ..text.tokenize import load_tokenizer
from .block import Reading
from .config import Mode, PrepareConfig
from .corpus import FORMAT, SPECIAL_WORDS
from .count import Totals, count
from .inputs import Scan, find_files, scan, spooled, text_blocks
from .pool import default_workers, process_all
from .report import Report, make_report
from .sentences import Choice, choose_mode
from .work import Work, check_output, open_work
from .write import CorpusWriter

log = logging.getLogger(__name__)

BLOCK_BYTES = 4 << 20
"""Text that a worker gets at a time."""

MIN_TOKENS, FEW_TOKENS = 20, 10_000
"""Tokens without which nothing, and tokens without which nothing useful can be learned."""


def prepare(
    inputs: Sequence[str | Path],
    output: str | Path,
    config: PrepareConfig | None = None,
    *,
    valid: Sequence[str | Path] = (),
    workers: int | None = None,
    force: bool = False,
    show_progress_bar: bool = False,
) -> Report:
    """Write a corpus that `Corpus.open` opens; returns what there is to know about it.

    A run that was killed continues when it is called again with the same text and settings; the
    result is the same for every number of workers. A script that uses more than one must guard
    its beginning with `if __name__ == "__main__":`, as processes of Python need it.

    Args:
        inputs: Text files, plain, .gz, .xz or .zst, and folders of them; `-` is standard input.
        output: The folder to write; it is there when it is complete.
        config: How the text is read.
        valid: Files that are held out, instead of a share of the inputs.
        workers: Processes; None for one a core.
        force: Replace a corpus that is at `output`.
        show_progress_bar: Show one on standard error.
    """
    config = config or PrepareConfig()
    output = Path(output)
    check_output(output, force)
    load_tokenizer(config.tokenizer)  # fails here rather than in every worker
    train_files, valid_files = find_files(inputs), find_files(valid)
    if [file.name for file in (*train_files, *valid_files)].count("standard input") > 1:
        raise ConfigError("standard input (-) can be read only once")
    with open_work(output) as work:
        with _bar("checking", None, show_progress_bar) as bar:
            train = scan(spooled(train_files, work.folder, "stdin-train"), bar)
            held = scan(spooled(valid_files, work.folder, "stdin-valid"), bar)
        choice = _choose(config.sentences, train)
        reading = Reading(config.tokenizer, config.normalization, choice.mode, config.max_length)
        blocks = _read_all(work, reading, train, held, workers, show_progress_bar)
        totals = count(blocks["train"], blocks["valid"], config.valid_fraction)
        _check_size(totals, work, [file.name for file in train_files])
        return _write(work, config, choice, train, totals, blocks)


def _choose(mode: Mode, train: Scan) -> Choice:
    return choose_mode(train.sample) if mode == "auto" else Choice(mode, "as you said")


def _read_all(
    work: Work, reading: Reading, train: Scan, valid: Scan, workers: int | None, show: bool
) -> dict[str, list[Path]]:
    """The files of all blocks of both parts, after those that are missing were made."""
    work.begin(
        {
            "version": __version__, **asdict(reading), "block_bytes": BLOCK_BYTES,
            "train": train.digest, "valid": valid.digest,
        }
    )  # fmt: skip
    num_bytes = train.num_bytes + valid.num_bytes
    blocks: dict[str, list[Path]] = {"train": [], "valid": []}

    def missing(bar: "tqdm[None]") -> Iterator[tuple[bytes, Path]]:
        for part, files in (("train", train.files), ("valid", valid.files)):
            for data in text_blocks(files, BLOCK_BYTES, paragraphs=reading.mode == "wrapped"):
                path = work.block(part, len(blocks[part]))
                blocks[part].append(path)
                if work.is_done(path):
                    bar.update(len(data))
                else:
                    yield data, path

    num_workers = min(workers or default_workers(), max(1, num_bytes // BLOCK_BYTES))
    with _bar("reading", num_bytes, show) as bar:
        for size in process_all(missing(bar), reading, num_workers):
            bar.update(size)
    return blocks


def _check_size(totals: Totals, work: Work, names: Sequence[str]) -> None:
    """Refuse what cannot be learned from, and warn of what hardly can."""
    found = f"{totals.num_tokens:,} tokens in {totals.num_sentences:,} sentences"
    if totals.num_tokens < MIN_TOKENS or totals.num_sentences < 2:
        work.clear()
        where = names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"
        raise InputError(
            f"{where}: too little text to learn from ({found}; at least {MIN_TOKENS} in 2)"
        )
    if totals.num_tokens < FEW_TOKENS:
        log.warning("only %s: enough to try things out, not for a useful model", found)


def _write(
    work: Work, config: PrepareConfig, choice: Choice, scanned: Scan, totals: Totals,
    blocks: dict[str, list[Path]],
) -> Report:  # fmt: skip
    """Write the corpus beside its place, then put it there."""
    special = len(SPECIAL_WORDS)
    frequent = special + int((totals.counts[special:] >= config.min_count).sum())
    vocab_size = min(config.vocab_size, frequent)
    folder = work.new_corpus()
    writer = CorpusWriter(
        folder, totals, vocab_size=vocab_size, max_characters=config.max_characters
    )
    train = writer.write_part("train", blocks["train"], held_out=False)
    valid = writer.write_part(
        "valid", blocks["valid"] or blocks["train"], held_out=not blocks["valid"]
    )
    report = make_report(config, choice, scanned, totals, vocab_size, train, valid)
    write_json(
        folder / "corpus.json",
        {
            "format": FORMAT,
            "tokenizer": config.tokenizer,
            "normalization": config.normalization,
            "max_characters": config.max_characters,
            "num_words": len(totals.words),
            "vocab_size": vocab_size,
            "train": {"sentences": train.num_sentences, "tokens": train.num_tokens},
            "valid": {"sentences": valid.num_sentences, "tokens": valid.num_tokens},
            "fingerprint": writer.fingerprint,
            "elmokit": __version__,
            "report": asdict(report),
        },
    )
    work.publish(folder)
    return report


def _bar(what: str, total: int | None, show: bool) -> "tqdm[None]":
    return tqdm(desc=what, total=total, unit="B", unit_scale=True, disable=not show, leave=False)
