"""How text becomes a corpus, as a frozen dataclass."""

import math
from dataclasses import dataclass
from typing import Literal, TypeAlias

from ..errors import ConfigError, quoted
from ..text.sentences import SENTENCE_MODES, SentenceMode
from .corpus import SPECIAL_WORDS

Mode: TypeAlias = Literal["auto"] | SentenceMode


@dataclass(frozen=True, kw_only=True, slots=True)
class PrepareConfig:
    """How text is read, and what is made of it.

    Attributes:
        tokenizer: As in `Elmo`: regex, whitespace, spacy:LANGUAGE or kiwi.
        normalization: Unicode form of all text, or None.
        sentences: One per line ("lines"), several per line ("split"), or running over the ends of
            lines ("wrapped", with blank lines between paragraphs); "auto" looks at each input.
        max_length: Maximum words per sentence; a longer one is cut into even pieces.
        vocab_size: Maximum words that the softmax predicts, including the three special ones.
        min_count: How often each of them must occur.
        max_characters: Maximum UTF-8 bytes per word, including two boundary markers.
        valid_fraction: Share of the tokens to hold out, up to 200,000 of them: lines chosen by a
            hash of their text. Not used where files are held out.
        clean: Remove markup, and drop boilerplate, duplicate lines and training lines that are also
            in the held-out text; see `elmokit.corpus.clean`.
    """

    tokenizer: str = "regex"
    normalization: str | None = "NFC"
    sentences: Mode = "auto"
    max_length: int = 400
    vocab_size: int = 50_000
    min_count: int = 1
    max_characters: int = 50
    valid_fraction: float = 0.01
    clean: bool = False

    def __post_init__(self) -> None:
        modes = ("auto", *SENTENCE_MODES)
        if self.sentences not in modes:
            raise ConfigError(f"sentences={quoted(self.sentences)}: expected {', '.join(modes)}")
        limits = {
            "max_length": (1, math.inf), "vocab_size": (len(SPECIAL_WORDS) + 1, math.inf),
            "min_count": (1, math.inf), "max_characters": (3, 1000), "valid_fraction": (0, 0.5),
        }  # fmt: skip
        for name, (low, high) in limits.items():
            if not low <= getattr(self, name) <= high:
                raise ConfigError(f"{name}={getattr(self, name)}: expected {low}..{high}")
