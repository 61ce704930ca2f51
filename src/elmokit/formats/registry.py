"""Every checkpoint format, in the order in which a folder is tried.

A new format is one file with a `Format`, and one line here.
"""

from ..errors import ConfigError, quoted
from .checkpoint import Format
from .elmokit_folder import ELMOKIT
from .manylangs import MANYLANGS
from .official import OFFICIAL
from .tf_checkpoint import TF_CHECKPOINT
from .tf_hub import TF_HUB

FORMATS: tuple[Format, ...] = (ELMOKIT, MANYLANGS, TF_CHECKPOINT, TF_HUB, OFFICIAL)


def writable() -> list[Format]:
    """The formats that can be written."""
    return [format for format in FORMATS if format.write is not None]


def find_format(name: str) -> Format:
    """The format to write that has this name."""
    for format in writable():
        if name in (format.name, *format.aliases):
            return format
    names = ", ".join(format.name for format in writable())
    raise ConfigError(f"format={quoted(name)}: expected one of {names}")


def model_files() -> list[str]:
    """Patterns for the names of the files that a model of any format may need."""
    return list(dict.fromkeys(pattern for format in FORMATS for pattern in format.files))


def expected() -> str:
    """What can be loaded, in words for people."""
    formats = (f"{_article(format.label)} ({format.layout})" for format in FORMATS)
    return f"{', '.join(formats)}, or an archive of one of these"


def _article(label: str) -> str:
    return f"an {label}" if label[0].lower() in "aeiou" else f"a {label}"
