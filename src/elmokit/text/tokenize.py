"""Tokenizers by name, and tokens with offsets into the text as the user wrote it."""

from ..errors import ConfigError, quoted
from .normalize import align, normalize
from .token import Token as Token
from .token import Tokenizer as Tokenizer
from .tokenizers.characters import CharacterTokenizer
from .tokenizers.function import FunctionTokenizer
from .tokenizers.function import TokenizerFunction as TokenizerFunction
from .tokenizers.kiwi import KiwiTokenizer
from .tokenizers.regex import RegexTokenizer
from .tokenizers.spacy import SpacyTokenizer
from .tokenizers.whitespace import WhitespaceTokenizer


def load_tokenizer(tokenizer: str | TokenizerFunction = "regex") -> Tokenizer:
    """The tokenizer with this name, or the one that a function makes.

    Raises:
        ConfigError: There is no such tokenizer.
        MissingExtra: It needs a package that is not installed.
    """
    if not isinstance(tokenizer, str):
        return FunctionTokenizer(tokenizer)
    match tokenizer.split(":"):
        case ["regex"]:
            return RegexTokenizer()
        case ["whitespace"]:
            return WhitespaceTokenizer()
        case ["characters"]:
            return CharacterTokenizer()
        case ["kiwi"]:
            return KiwiTokenizer()
        case ["spacy"]:
            return SpacyTokenizer()
        case ["spacy", language] if language:
            return SpacyTokenizer(language)
    raise ConfigError(
        f"tokenizer={quoted(tokenizer)}: expected 'regex', 'whitespace', 'characters', 'kiwi', "
        "'spacy', 'spacy:LANGUAGE' such as 'spacy:en', or a function"
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
