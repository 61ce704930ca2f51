"""Damage: to bytes, to JSON, to files, and to strings."""

import json
import os
import random
import shutil
import sys
from pathlib import Path
from typing import Any

HOSTILE: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2, 3.5, 1e308, float("inf"), float("nan"), 1 << 31, 1 << 63,
    10**400, 10**5000, "", "x", "../../etc/passwd", "x" * 100_000, "\0", "\n", "é한🙂", [], {},
    [1], [[1, 2]], {"a": 1}, [0] * 10_000, "a.b.c",
)  # fmt: skip


def damage(path: Path, chance: random.Random, in_folder: bool = True) -> str:
    """Change a file in one way; says which.

    A text may come from a pipe or a device; a part of a folder may not.
    """
    if path.suffix in (".json", ".jsonl", ".toml") and chance.random() < 0.7:
        return _damage_json(path, chance, in_folder)
    if chance.random() < 0.12:
        return _damage_entry(path, chance, in_folder)
    data = bytearray(path.read_bytes())
    way = chance.choice(("truncate", "flip", "fill", "insert", "remove", "repeat", "swap"))
    start = chance.randrange(len(data) + 1) if data else 0
    if chance.random() < 0.5:  # headers decide the most
        start = min(start, chance.randrange(1 + min(len(data), 256)))
    end = min(len(data), start + chance.choice((1, 2, 8, 64, 1024)))
    if way == "truncate":
        del data[start:]
    elif way == "flip" and data:
        for _ in range(chance.choice((1, 1, 4, 64))):
            place = (
                chance.randrange(len(data)) if chance.random() < 0.5 else min(start, len(data) - 1)
            )
            data[place] ^= 1 << chance.randrange(8)
    elif way == "fill":
        data[start:end] = bytes([chance.choice((0, 255, 0x80, 0x7F))]) * (end - start)
    elif way == "insert":
        data[start:start] = chance.randbytes(chance.choice((1, 8, 500)))
    elif way == "remove":
        del data[start:end]
    elif way == "repeat":
        data[end:end] = data[start:end] * chance.choice((1, 100))
    else:
        other = chance.randrange(len(data) + 1)
        data[start:end], data[other:other] = data[other : other + end - start], data[start:end]
    path.write_bytes(bytes(data))
    return f"{way} {path.name}"


def _damage_entry(path: Path, chance: random.Random, in_folder: bool) -> str:
    ways = ("gone", "empty", "folder", "loop", *(("pipe", "device") if in_folder else ()))
    way = chance.choice(ways)
    if way == "empty":
        path.write_bytes(b"")
        return f"{way} {path.name}"
    path.unlink()
    if way == "folder":
        path.mkdir()
    elif way == "pipe":
        os.mkfifo(path)
    elif way == "loop":
        path.symlink_to(path)
    elif way == "device":
        path.symlink_to("/dev/zero")
    return f"{way} {path.name}"


def _damage_json(path: Path, chance: random.Random, in_folder: bool) -> str:
    try:
        lines = (
            path.read_text("utf-8").splitlines()
            if path.suffix == ".jsonl"
            else [path.read_text("utf-8")]
        )
        number = chance.randrange(len(lines))
        value = json.loads(lines[number])
    except (ValueError, IndexError):
        return _damage_entry(path, chance, in_folder)
    where = _change(value, chance)
    limit = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(0)
    lines[number] = json.dumps(value)
    sys.set_int_max_str_digits(limit)
    path.write_text("\n".join(lines) + "\n", "utf-8")
    return f"field {where} of {path.name}"


def _change(value: Any, chance: random.Random) -> str:
    """Change something inside a JSON value."""
    names = []
    while isinstance(value, (dict, list)) and value:
        key = chance.choice(list(value) if isinstance(value, dict) else range(len(value)))
        names.append(str(key))
        inner = value[key]
        if not (isinstance(inner, (dict, list)) and inner) or chance.random() < 0.3:
            way = chance.random()
            if way < 0.15 and isinstance(value, dict):
                del value[key]
            elif way < 0.25 and isinstance(value, dict):
                value[f"{key}x"] = inner
            else:
                value[key] = chance.choice(HOSTILE)
            break
        value = inner
    return ".".join(names)[:60]


def copy_tree(source: Path, target: Path) -> None:
    """A fresh copy of a folder or a file in place of whatever is there."""
    if target.is_symlink() or target.is_file():
        target.unlink()
    elif target.exists():
        shutil.rmtree(target)
    if source.is_dir():
        shutil.copytree(source, target, symlinks=True)
    else:
        shutil.copy(source, target)


_PIECES = (
    "a", "the", "gift", " ", "  ", "\t", "\n", "\r", "\0", "\x1b[31m", "\u200b", "\u202e", "\ufeff",
    "\ud800", "\udfff", "é", "e\u0301", "\u0301" * 40, "한국어", "ᄒ", "ㅋㅋㅋ", "배",
    "中", "العربية", "🙂",
    "👨‍👩‍👧‍👦", "\U0010ffff", "<S>", "</S>", "<UNK>", "[", "]", "[gift]", "{", "}", "\\", "/", "..",
    "http://a.b", "1e999", "NaN", "-" * 60, "x" * 3000, "%s%n", "'", '"', "`", "|", "=", "&amp;",
)  # fmt: skip


def hostile_string(chance: random.Random) -> str:
    """A string that somebody might send."""
    if chance.random() < 0.2:
        number = chance.randrange(20)
        return "".join(chr(chance.randrange(0x110000)) for _ in range(number))
    return "".join(chance.choices(_PIECES, k=chance.randrange(12)))
