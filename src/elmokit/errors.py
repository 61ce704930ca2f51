"""The errors that elmokit raises on purpose: one line says what is wrong, where, and what to do.

`except ElmoError` catches all of them; each also is the built-in error that it resembles.
"""


class ElmoError(Exception):
    """Base of every error that elmokit raises on purpose."""

    def __str__(self) -> str:
        # One line, also where a name from a hostile file has line breaks in it.
        return " ".join(super().__str__().split("\n"))


class ConfigError(ElmoError, ValueError):
    """An option, an architecture or an argument has a value that cannot work."""


class InputError(ElmoError, ValueError):
    """The text to embed is not text, or asks for something that has no answer."""


class FormatError(ElmoError, ValueError):
    """A file is not what it should be: broken, truncated, mislabelled or of a wrong shape."""


class FileError(ElmoError, OSError):
    """A file is missing, unreadable, or in the way of one that is to be written."""


class MissingExtra(ElmoError, ImportError):
    """A dependency is not installed, mostly an optional one.

    Args:
        extra: The extra that has it, None for one that comes with the package itself.
        package: Its name.
    """

    def __init__(self, extra: str | None, package: str) -> None:
        what = package if extra is None else f"'elmokit[{extra}]'"
        super().__init__(f"{package} is not installed; run: pip install {what}")
