"""What users hand over → sentences of tokens, checked once at the border."""

import logging
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias, TypeGuard

from ..errors import InputError, quoted
from .normalize import align, normalize
from .sentences import FoundMode, sentence_spans
from .tokenize import (
    KiwiTokenizer,
    Token,
    TokenizerFunction,
    load_tokenizer,
    tokenize,
    words,
)

log = logging.getLogger(__name__)

_CHECKED_TEXTS = 1000

TextOrTokens: TypeAlias = str | Sequence[str]
"""One sentence: a text to be tokenised, or its tokens."""


class Reader:
    """A tokenizer and a Unicode normalisation: how a model reads text.

    Args:
        tokenizer: Splits texts, by name or as a function; tokens that are given are kept as they
            are. None if nobody knows what the model was trained with: `regex`, with a warning.
        normalization: Unicode form of every token, or None to leave text as it comes.
    """

    def __init__(
        self,
        tokenizer: str | TokenizerFunction | None = "regex",
        normalization: str | None = "NFC",
    ) -> None:
        self.tokenizer = load_tokenizer("regex" if tokenizer is None else tokenizer)
        self.normalization = normalization
        self._is_guess = tokenizer is None
        self._num_unchecked = _CHECKED_TEXTS

    def tokens(self, sentence: TextOrTokens) -> list[str]:
        """The normalised tokens of one sentence."""
        if isinstance(sentence, str):
            self._warn_of_guess()
            return words(self.tokenizer, sentence, self.normalization)
        return [normalize(token, self.normalization) for token in sentence]

    def spans(self, text: str) -> list[Token]:
        """The tokens of a text with their offsets in it."""
        self._warn_of_guess()
        return tokenize(self.tokenizer, text, self.normalization)

    def sentences(self, text: TextOrTokens, mode: FoundMode | None) -> list[list[str]]:
        """The tokens of each sentence of a text: one of them, or with "split" as many as it has.

        Tokens that are given are one sentence, and a text without words has one without tokens.
        With None, a text that looks like several is mentioned once.
        """
        if not isinstance(text, str):
            return [self.tokens(text)]
        if mode is None:
            self._mention_several(text)
        if mode != "split":
            return [self.tokens(text)]
        self._warn_of_guess()
        found = self.split(normalize(text, self.normalization))
        return [self.tokenizer.words(sentence) for sentence in found] or [[]]

    def spans_of_sentences(self, text: str, mode: FoundMode | None) -> list[list[Token]]:
        """The tokens of `sentences` with their offsets in the text."""
        if mode is None:
            self._mention_several(text)
        if mode != "split":
            return [self.spans(text)]
        self._warn_of_guess()
        alignment = align(text, self.normalization)
        return [
            [
                Token(token.text, *alignment.source(start + token.start, start + token.end))
                for token in self.tokenizer.tokens(alignment.text[start:end])
            ]
            for start, end in self._sentence_spans(alignment.text)
        ] or [[]]

    def split(self, text: str) -> list[str]:
        """The sentences of a normalised text: Kiwi's where it tokenises, else by punctuation."""
        return [text[start:end] for start, end in self._sentence_spans(text)]

    def _sentence_spans(self, text: str) -> list[tuple[int, int]]:
        if isinstance(self.tokenizer, KiwiTokenizer):
            return self.tokenizer.sentence_spans(text)
        return sentence_spans(text)

    def _mention_several(self, text: str) -> None:
        """Say once that a text looks like several sentences, which the caller may not know."""
        if not self._num_unchecked:
            return
        self._num_unchecked -= 1
        number = len(sentence_spans(text))
        if number > 1:
            self._num_unchecked = 0
            log.warning(
                "%s looks like %d sentences read as one; sentences='split' (--sentences split) "
                "reads each on its own, and 'lines' confirms that it is one",
                quoted(text.strip()),
                number,
            )

    def _warn_of_guess(self) -> None:
        """Say once that the tokenizer is a guess."""
        if self._is_guess:
            self._is_guess = False
            log.warning(
                "the model does not say how its training text was tokenised; using "
                "tokenizer='regex' (words and punctuation). Name the tokenizer to confirm or "
                "change that, or pass lists of tokens"
            )


def as_sentences(inputs: TextOrTokens | Iterable[TextOrTokens]) -> list[TextOrTokens]:
    """The sentences of a user's input: a text is one; a list has one per text or list of tokens."""
    if isinstance(inputs, str):
        return [inputs]
    sentences = [check_sentence(item, i) for i, item in enumerate(check_iterable(inputs))]
    if len(sentences) > 1 and all(isinstance(s, str) and len(s.split()) == 1 for s in sentences):
        warnings.warn(
            "every sentence is a single word: this looks like one tokenised sentence; "
            "wrap it as [tokens]",
            stacklevel=3,
        )
    return sentences


def check_iterable(inputs: object) -> Iterable[object]:
    """`inputs` as a source of sentences, or an error that says what they are instead."""
    if (names := _column_names(inputs)) is not None:
        raise InputError(_pass_a_column(inputs, names))
    if not _is_iterable(inputs):
        raise InputError(
            f"got {type(inputs).__name__}; "
            "expected a text, a list of texts, or a list of token lists"
        )
    return inputs


def check_sentence(item: object, number: int) -> TextOrTokens:
    """`item` as a sentence, or an error that says which one is not."""
    if isinstance(item, str):
        return item
    if not _is_iterable(item):
        raise InputError(
            f"sentence {number} is {type(item).__name__} ({item!r:.40}); expected text or tokens"
        )
    if isinstance(item, Mapping):
        names = [name for name, value in item.items() if isinstance(value, str)] or list(item)
        raise InputError(
            f"sentence {number} is a {type(item).__name__} with the keys {_listed(item)}; pass one "
            f"of its values, such as [row[{_first(names)}] for row in rows]"
        )
    if (columns := _column_names(item)) is not None:
        raise InputError(f"sentence {number}: {_pass_a_column(item, columns)}")
    tokens = list(item)
    for k, token in enumerate(tokens):
        if not isinstance(token, str):
            raise InputError(
                f"sentence {number}, token {k} is {type(token).__name__} ({token!r:.40}); "
                "expected text"
            )
    return tokens


def _column_names(value: object) -> list[object] | None:
    """The columns of a dict or of a data frame of any library; None for anything else.

    Iterating over one gives its columns' names, or its columns, which look like sentences.
    """
    if isinstance(value, Mapping):
        return list(value)
    for attribute in ("columns", "column_names"):  # pandas and polars; Arrow and `datasets`
        if hasattr(value, "__getitem__") and hasattr(value, attribute):
            names = getattr(value, attribute)
            return list(names) if isinstance(names, Iterable) else None
    return None


def _pass_a_column(table: Any, names: list[object]) -> str:
    """What to pass instead of a table: its first column of texts."""
    kind = type(table).__name__
    if not names:
        return f"got an empty {kind}; expected a text, a list of texts, or a list of token lists"
    texts = [name for name in names if _holds_texts(table[name])] or names
    shown = f"{'dict' if kind == 'dict' else 'df'}[{_first(texts)}]"
    return f"got a {kind} with the columns {_listed(names)}; pass one of them, such as {shown}"


def _holds_texts(column: Any) -> bool:
    """Whether the first value of a column is a text."""
    first = next(iter(column), None) if _is_iterable(column) else None
    return isinstance(getattr(first, "as_py", lambda: first)(), str)  # Arrow wraps its values


def _first(names: Sequence[object]) -> str:
    return quoted(names[0]) if names else "…"


def _listed(names: Iterable[object]) -> str:
    shown = [quoted(name) for _, name in zip(range(6), names, strict=False)]
    return ", ".join([*shown[:5], *(["…"] if len(shown) > 5 else [])])


def _is_iterable(value: object) -> TypeGuard[Iterable[Any]]:
    """Whether a value is a row of others; an array without axes looks like one, and is none."""
    is_scalar = getattr(value, "shape", None) == ()
    return (
        isinstance(value, Iterable) and not isinstance(value, (bytes, bytearray)) and not is_scalar
    )


def parse_marked(reader: Reader, text: str) -> tuple[list[str], int]:
    """The tokens of a text with one word in brackets, and the index of that word.

    The text is like "He has a [gift] for music"; the tokens are without the brackets.
    """
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
