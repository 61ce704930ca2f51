"""What a run records about itself: `log.jsonl`, `run.json`, its status and its model card."""

import json
import math
from functools import partial
from pathlib import Path
from types import NoneType
from typing import Any

from .. import __version__
from ..corpus.corpus import Corpus
from ..errors import ConfigError, FileError, FormatError, MissingExtra
from ..files.read import MAX_WORDS_BYTES, check_readable, is_there, json_field, read_json
from ..files.write import whole_file, write_errors
from .checkpoint import newest_progress
from .config import PretrainConfig

FIRST_LINE = "<!-- Written by elmokit pretrain. Delete this line to keep your changes. -->"

_FIELDS = frozenset({"step", "tokens", "epochs", "loss", "seconds", "share", "tokens_per_s"})
_EVALUATED = frozenset({"valid_forward", "valid_backward", "valid_mean"})


class RunLog:
    """`log.jsonl`, one object a logged step; a run resumed at `step` forgets the later ones."""

    def __init__(self, folder: Path, step: int, tensorboard: bool = False) -> None:
        self.path = folder / "log.jsonl"
        kept = [row for row in read_log(self.path) if row["step"] <= step]
        self.has_start = any(row["step"] == 0 for row in kept)
        with whole_file(self.path) as temporary:
            lines = (json.dumps(row) + "\n" for row in kept)
            temporary.write_text("".join(lines), encoding="utf-8")
        self.board = None
        if tensorboard:
            self.board = board_writer()(folder / "tensorboard", purge_step=step + 1)
        self.file = self.path.open("a", encoding="utf-8")

    def write(self, row: dict[str, Any]) -> None:
        """Add one logged step."""
        with write_errors(self.path):
            self.file.write(json.dumps(row) + "\n")
            self.file.flush()
        if self.board is not None:
            for name, value in row.items():
                if isinstance(value, (int, float)):
                    self.board.add_scalar(name, value, row["step"])

    def close(self) -> None:
        """Close the files."""
        with write_errors(self.path):
            self.file.close()  # what could not be written is tried once more
        if self.board is not None:
            self.board.close()


def board_writer() -> Any:
    """The class that writes events for TensorBoard, or an error that says how to get it."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as e:
        raise MissingExtra("tensorboard", "tensorboard") from e
    return SummaryWriter


def read_log(path: Path) -> list[dict[str, Any]]:
    """The logged steps of a run; a torn last line is left out."""
    if not is_there(path):
        return []
    check_readable(path, MAX_WORDS_BYTES)
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    rows = []
    for number, line in enumerate(lines, start=1):
        row = _row(line)
        if row is None and number < len(lines):
            raise FormatError(f"{path}, line {number}: not a logged step; restore it from a copy")
        if row is not None:
            rows.append(row)
    return rows


def _row(line: str) -> dict[str, Any] | None:
    """A logged step: numbers by name, among them those that every step or evaluation has."""
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(row, dict) or not row.keys() >= _FIELDS:
        return None
    if row.keys() & _EVALUATED and not row.keys() >= _EVALUATED:
        return None
    is_valid = all(
        type(value) is float or (type(value) is int and abs(value) < 1 << 63)
        for value in row.values()
    )
    is_valid = is_valid and all(type(row[n]) is int for n in ("step", "tokens"))
    is_valid = is_valid and all(math.isfinite(row.get(n, 0)) for n in ("seconds", "eta_seconds"))
    return row if is_valid else None


def is_run(folder: Path) -> bool:
    """Whether a folder is that of a pre-training run."""
    return (folder / "run.json").is_file()


def is_model(folder: Path) -> bool:
    """Whether a run has exported its model."""
    return (folder / "model.safetensors").is_file()


def read_run(folder: Path) -> dict[str, Any]:
    """What `run.json` says, its fields checked; those of older versions are filled in."""
    path = folder / "run.json"
    values = read_json(path)
    get = partial(json_field, values, where=str(path))
    has_checkpoint = get("has_checkpoint", bool, default=None)
    try:
        config = PretrainConfig.from_dict(get("config", dict), "config").to_dict()
    except ConfigError as e:
        raise FormatError(f"{path}: {e}") from e
    if has_checkpoint is None:  # written before November 2026
        last = max((row["step"] for row in read_log(folder / "log.jsonl")), default=0)
        has_checkpoint = last >= config["train"]["checkpoint_every"]
    vectors = get("vectors", dict, NoneType, default=None)
    if vectors is not None:
        get("vectors.source", str)
        get("vectors.coverage", float, int, default=None)
    return {
        "corpus": get("corpus", str),
        "fingerprint": get("fingerprint", str),
        "source": get("source", str, NoneType),
        "vectors": vectors,
        "is_new_softmax": get("is_new_softmax", bool, default=True),
        "has_checkpoint": has_checkpoint,
        "config": config,
    }


def run_status(folder: Path) -> dict[str, Any]:
    """How a run is doing, from its files alone: JSON data."""
    record = read_run(folder)
    rows = read_log(folder / "log.jsonl")
    tested = [row for row in rows if "valid_mean" in row]
    start = next((_held_out(row) for row in tested if row["step"] == 0), None)
    trained = [row for row in tested if row["step"] > 0]  # what the run has exported
    best = min(trained, key=lambda row: float(row["valid_mean"]), default=None)
    last = rows[-1] if rows else {}
    return {
        "corpus": record["corpus"],
        "source": record["source"],
        "is_finished": _last_result(folder) == last.get("step", 0),
        "step": last.get("step", 0),
        "tokens": last.get("tokens", 0),
        "epochs": last.get("epochs", 0.0),
        "share": last.get("share", 0.0),
        "seconds": last.get("seconds", 0.0),
        "eta_seconds": last.get("eta_seconds"),
        "tokens_per_s": last.get("tokens_per_s"),
        "loss": last.get("loss"),
        "is_sampled": record["config"]["softmax"]["loss"] == "sampled",
        "vectors": record["vectors"],
        **_checkpoint(folder / "checkpoints"),
        "start": start,
        "best": best and _held_out(best),
    }


def _held_out(row: dict[str, Any]) -> dict[str, Any]:
    """The step of a logged evaluation and its perplexities."""
    return {
        name.removeprefix("valid_"): value
        for name, value in row.items()
        if name == "step" or name.startswith("valid_")
    }


def _last_result(folder: Path) -> int | None:
    """The step after which the run came to its end; None if it has not yet."""
    path = folder / "result.json"
    if not path.is_file():
        return None
    return int(json_field(read_json(path), "step", int, where=str(path)))


def _checkpoint(folder: Path) -> dict[str, Any]:
    """Where `--resume` would continue, or why it cannot."""
    try:
        progress = newest_progress(folder)
    except (FileError, FormatError) as e:
        return {"checkpoint": None, "checkpoint_problem": str(e)}
    found = progress and {"step": progress.step, "tokens": progress.tokens}
    return {"checkpoint": found, "checkpoint_problem": None}


def write_model_card(
    folder: Path,
    record: dict[str, Any],
    corpus: Corpus,
    counts: dict[str, Any],
    perplexity: dict[str, float] | None = None,
) -> None:
    """Write RUN/README.md, unless there is one that somebody else wrote.

    `record` is what run.json holds, `counts` the steps and tokens of the training; `perplexity` is
    that of all held-out text, at the end of the run.
    """
    path = folder / "README.md"
    if is_there(path) and not _is_ours(path):
        return
    info = corpus.info
    rows = [
        ("Text", _text_of(corpus)),
        ("Tokens", f"{info.tokenizer} tokenizer, normalised to {info.normalization or 'nothing'}"),
        ("Vocabulary", f"{info.vocab_size:,} words that the softmax predicts"),
        ("Start", _start_of(record)),
        ("Training", f"{counts['tokens']:,} tokens in {counts['step']:,} steps"),
    ]
    if perplexity is not None:
        rows.append(
            ("Held-out perplexity", f"{perplexity['forward']:.2f} forward, "
             f"{perplexity['backward']:.2f} backward, over {info.valid_tokens:,} tokens")
        )  # fmt: skip
    table = "\n".join(f"| {name} | {value} |" for name, value in rows)
    with whole_file(path) as temporary:
        temporary.write_text(
            f"{FIRST_LINE}\n# {folder.resolve().name}\n\nA biLM (ELMo) trained by elmokit "
            f"{__version__}. All settings are in `run.json`.\n\n| | |\n|---|---|\n{table}\n",
            encoding="utf-8",
        )


def _is_ours(path: Path) -> bool:
    """Whether we wrote a card; what is no regular file is not read, as that may have no end."""
    if not path.is_file():
        return False
    with path.open(encoding="utf-8", errors="replace") as file:
        return file.read(len(FIRST_LINE)) == FIRST_LINE


def _text_of(corpus: Corpus) -> str:
    """The inputs of the corpus with their weights, or its folder alone."""
    inputs = corpus.info.report.get("inputs") or []
    parts = [f"{Path(part['name']).name} (weight {part['weight']:g})" for part in inputs]
    total = f"{corpus.info.train_tokens:,} tokens in {corpus.info.train_sentences:,} sentences"
    return f"{total}: {', '.join(parts)}" if len(parts) > 1 else f"{total} of {corpus.folder.name}"


def _start_of(record: dict[str, Any]) -> str:
    if record["source"] is not None:
        return f"the weights of {record['source']}"
    vectors = record["vectors"]
    if vectors is None:
        return "random weights"
    name = Path(vectors["source"]).name
    if "coverage" not in vectors:  # a run that was killed before it had counted
        return f"static vectors of {name}"
    return f"static vectors of {name}, which cover {vectors['coverage']:.0%} of the vocabulary"
