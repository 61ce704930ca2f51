"""A sentence with one word in brackets, as in "He has a [gift] for music"."""

from ..errors import InputError, quoted
from .reader import Reader


def parse_marked(reader: Reader, text: str) -> tuple[list[str], int]:
    """The tokens of a text, without its brackets, and the place of the bracketed one."""
    unmarked = split_marked(text)
    if unmarked is None:
        raise InputError(
            f"query {quoted(text)}: expected exactly one word in brackets, "
            "as in 'He has a [gift] for music'"
        )
    plain, start, end = unmarked
    inside = text[text.index("[") + 1 : text.index("]")]
    spans = reader.spans(plain)
    found = [i for i, token in enumerate(spans) if token.start < end and token.end > start]
    if start == end or not found:
        raise InputError(f"query {quoted(text)}: there is no word in the brackets")
    if len(found) > 1:
        listed = ", ".join(repr(spans[i].text) for i in found)
        raise InputError(
            f"query {quoted(text)}: [{inside}] is {len(found)} tokens ({listed}); "
            "put the brackets around one of them"
        )
    token = spans[found[0]]
    if (token.start, token.end) != (start, end):
        raise InputError(
            f"query {quoted(text)}: [{inside}] is only a part of the token {quoted(token.text)}; "
            "put the brackets around all of it"
        )
    return [span.text for span in spans], found[0]


def split_marked(text: str) -> tuple[str, int, int] | None:
    """A text without its brackets, and where in it the bracketed word starts and ends.

    The two are equal if only white space is in the brackets. None unless there is one pair.
    """
    before, opening, rest = text.partition("[")
    inside, closing, after = rest.partition("]")
    if not opening or not closing or any(mark in inside + after for mark in "[]") or "]" in before:
        return None
    start = len(before) + len(inside) - len(inside.lstrip())
    return before + inside + after, start, start + len(inside.strip())
