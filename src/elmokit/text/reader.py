"""What users hand over → sentences of tokens, checked once at the border."""

import logging
import warnings
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias, TypeGuard

from ..errors import InputError
from .normalize import normalize
from .tokenize import Token, TokenizerFunction, load_tokenizer, tokenize, words

log = logging.getLogger(__name__)

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

    def tokens(self, sentence: TextOrTokens) -> list[str]:
        """The normalised tokens of one sentence."""
        if isinstance(sentence, str):
            self._warn_of_guess()
            return words(self.tokenizer, sentence, self.normalization)
        return [normalize(token, self.normalization) for token in sentence]

    def spans(self, text: str) -> list[Token]:
        """The tokens of a text with their places in it."""
        self._warn_of_guess()
        return tokenize(self.tokenizer, text, self.normalization)

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
    """The sentences of a user's input: a text is one; a list is one a text or list of tokens."""
    if isinstance(inputs, str):
        return [inputs]
    sentences = [check_sentence(item, i) for i, item in enumerate(check_iterable(inputs))]
    if len(sentences) > 1 and all(_is_one_word(sentence) for sentence in sentences):
        warnings.warn(
            "every sentence is a single word: this looks like one tokenised sentence; "
            "wrap it as [tokens]",
            stacklevel=3,
        )
    return sentences


def check_iterable(inputs: object) -> Iterable[object]:
    """`inputs` as a source of sentences, or an error that says what they are instead."""
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
    tokens = list(item)
    for k, token in enumerate(tokens):
        if not isinstance(token, str):
            raise InputError(
                f"sentence {number}, token {k} is {type(token).__name__} ({token!r:.40}); "
                "expected text"
            )
    return tokens


def _is_iterable(value: object) -> TypeGuard[Iterable[Any]]:
    """Whether a value is a row of others; an array without axes looks like one, and is none."""
    is_scalar = getattr(value, "shape", None) == ()
    return (
        isinstance(value, Iterable) and not isinstance(value, (bytes, bytearray)) and not is_scalar
    )


def _is_one_word(sentence: TextOrTokens) -> bool:
    return isinstance(sentence, str) and len(sentence.split()) == 1
