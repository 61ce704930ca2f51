"""A sentence with one word in brackets, as in "He has a [gift] for music"."""

from ..errors import InputError
from .reader import Reader


def parse_marked(reader: Reader, text: str) -> tuple[list[str], int]:
    """The tokens of a text, without its brackets, and the place of the bracketed one."""
    before, opening, rest = text.partition("[")
    inside, closing, after = rest.partition("]")
    if not opening or not closing or any(mark in inside + after for mark in "[]") or "]" in before:
        raise InputError(
            f"query {text!r}: expected exactly one word in brackets, "
            "as in 'He has a [gift] for music'"
        )
    start = len(before) + len(inside) - len(inside.lstrip())
    end = start + len(inside.strip())
    spans = reader.spans(before + inside + after)
    found = [i for i, token in enumerate(spans) if token.start < end and token.end > start]
    if not inside.strip() or not found:
        raise InputError(f"query {text!r}: there is no word in the brackets")
    if len(found) > 1:
        listed = ", ".join(repr(spans[i].text) for i in found)
        raise InputError(
            f"query {text!r}: [{inside}] is {len(found)} tokens ({listed}); "
            "put the brackets around one of them"
        )
    token = spans[found[0]]
    if (token.start, token.end) != (start, end):
        raise InputError(
            f"query {text!r}: [{inside}] is only a part of the token {token.text!r}; "
            "put the brackets around all of it"
        )
    return [span.text for span in spans], found[0]
