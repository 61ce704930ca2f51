"""A tokenizer that the user brings: any function from a text to its tokens."""

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from ...errors import ConfigError, InputError, quoted
from ..token import Token

TokenizerFunction: TypeAlias = Callable[[str], Iterable[Any]]
"""From a text to tokens: strings, `Token`s, or (string, start, end)."""


class FunctionTokenizer:
    """Splits as a function does.

    Args:
        function: Returns strings, or strings with the offsets of their spans. Offsets that it does
            not give are found by searching the text from left to right.
    """

    name = "a Python function"

    def __init__(self, function: TokenizerFunction) -> None:
        if not callable(function):
            raise ConfigError(
                f"tokenizer={quoted(function)}: expected a name or a function from text to tokens"
            )
        self._function = function

    def words(self, text: str) -> list[str]:
        return [_parts(token)[0] for token in self._run(text)]

    def tokens(self, text: str) -> list[Token]:
        tokens, end = [], 0
        for item in self._run(text):
            word, span = _parts(item)
            if span is None:
                start = text.find(word, end)
                if start < 0:
                    raise InputError(
                        f"the tokenizer returned {quoted(word)}, which does not occur in the text "
                        f"after character {end}; return (token, start, end) instead"
                    )
                span = (start, start + len(word))
            elif not 0 <= span[0] <= span[1] <= len(text):
                raise InputError(
                    f"the tokenizer returned {quoted(word)} at {span}, outside of the text of "
                    f"{len(text)} characters"
                )
            end = span[1]
            tokens.append(Token(word, *span))
        return tokens

    def _run(self, text: str) -> list[Any]:
        found = self._function(text)
        if isinstance(found, (str, bytes)) or not isinstance(found, Iterable):
            raise InputError(
                f"the tokenizer returned {type(found).__name__} ({quoted(found)}); expected a list "
                "of tokens"
            )
        return list(found)


def _parts(item: Any) -> tuple[str, tuple[int, int] | None]:
    """The text of a token, and its span where the function gives one."""
    if isinstance(item, str):
        return item, None
    if isinstance(item, Token):
        return item.text, (item.start, item.end)
    match item:
        case (str(word), int(start), int(end)):
            return word, (start, end)
    raise InputError(
        f"the tokenizer returned a token {quoted(item)}; expected a string or (string, start, end)"
    )
