"""Tokenizers by name, and tokens with offsets into the text as the user wrote it."""

from ..errors import ConfigError
from .normalize import align, normalize
from .token import Token as Token
from .token import Tokenizer as Tokenizer
from .tokenizers.kiwi import KiwiTokenizer
from .tokenizers.regex import RegexTokenizer
from .tokenizers.spacy import SpacyTokenizer
from .tokenizers.whitespace import WhitespaceTokenizer


def load_tokenizer(name: str = "regex") -> Tokenizer:
    """The tokenizer called `name`.

    Raises:
        ConfigError: There is no such tokenizer.
        MissingExtra: It needs a package that is not installed.
    """
    match name.split(":"):
        case ["regex"]:
            return RegexTokenizer()
        case ["whitespace"]:
            return WhitespaceTokenizer()
        case ["kiwi"]:
            return KiwiTokenizer()
        case ["spacy"]:
            return SpacyTokenizer()
        case ["spacy", language] if language:
            return SpacyTokenizer(language)
    raise ConfigError(
        f"tokenizer={name!r}: expected 'regex', 'whitespace', 'kiwi', 'spacy' or "
        "'spacy:LANGUAGE' such as 'spacy:en'"
    )


def tokenize(tokenizer: Tokenizer, text: str, normalization: str | None = "NFC") -> list[Token]:
    """The tokens of `text`, normalised, with offsets into `text` itself.

    Example:
        >>> tokenize(load_tokenizer(), "cafe\\u0301s!")
        [Token(text='cafés', start=0, end=6), Token(text='!', start=6, end=7)]
    """
    alignment = align(text, normalization)
    tokens = tokenizer.tokens(alignment.text)
    if alignment.is_identity:
        return tokens
    return [Token(token.text, *alignment.source(token.start, token.end)) for token in tokens]


def words(tokenizer: Tokenizer, text: str, normalization: str | None = "NFC") -> list[str]:
    """The texts of the same tokens, faster because no offsets are kept."""
    return tokenizer.words(normalize(text, normalization))
