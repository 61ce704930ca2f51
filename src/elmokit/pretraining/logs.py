"""What a run writes about itself: `log.jsonl`, TensorBoard where it is installed, the curve."""

import json
import math
from pathlib import Path
from typing import Any

from ..errors import FormatError, MissingExtra
from ..files.read import MAX_WORDS_BYTES, check_readable, is_there
from ..files.write import whole_file, write_errors


class RunLog:
    """`log.jsonl`, one object a logged step; a resumed run first forgets what it will repeat.

    Args:
        folder: The run.
        step: The last step that counts.
        tensorboard: Whether to write events for TensorBoard, too.
    """

    def __init__(self, folder: Path, step: int, tensorboard: bool = False) -> None:
        self.path = folder / "log.jsonl"
        kept = [row for row in read_log(self.path) if row["step"] <= step]
        with whole_file(self.path) as temporary:
            lines = (json.dumps(row) + "\n" for row in kept)
            temporary.write_text("".join(lines), encoding="utf-8")
        self.board = _board(folder, step) if tensorboard else None
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


def _board(folder: Path, step: int) -> Any:
    return board_writer()(folder / "tensorboard", purge_step=step + 1)


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


_FIELDS = frozenset({"step", "tokens", "epochs", "loss", "seconds", "share", "tokens_per_s"})
_EVALUATED = frozenset({"valid_forward", "valid_backward", "valid_mean"})


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
