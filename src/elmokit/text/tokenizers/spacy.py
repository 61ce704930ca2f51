"""The rule-based tokenizers of spaCy, one for each of its languages."""

import importlib
from typing import Any

from ...errors import ConfigError, MissingExtra
from ..normalize import without_surrogates
from ..token import Token


class SpacyTokenizer:
    """Splits like `spacy.blank(language)`; no trained pipeline is needed."""

    def __init__(self, language: str = "en") -> None:
        self.name = f"spacy:{language}"
        self._language = language
        self._tokenizer: Any = _load(language)

    def __reduce__(self) -> tuple[type["SpacyTokenizer"], tuple[str]]:
        return type(self), (self._language,)

    def words(self, text: str) -> list[str]:
        return [token.text for token in self.tokens(text)]

    def tokens(self, text: str) -> list[Token]:
        spans = [
            (token.idx, token.idx + len(token))
            for token in self._tokenizer(without_surrogates(text))
            if not token.is_space
        ]
        return [Token(text[start:end], start, end) for start, end in spans]


def _load(language: str) -> Any:
    try:
        spacy = importlib.import_module("spacy")
    except ImportError as error:
        raise MissingExtra("spacy", "spacy") from error
    try:
        return spacy.blank(language).tokenizer
    except ImportError as error:
        raise ConfigError(f"tokenizer='spacy:{language}': {error}") from error
