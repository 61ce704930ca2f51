"""Text → tokens: the tokenizers, by name, and offsets into the text as the user wrote it.

`kiwi` and `spacy` need packages of their own, which are imported when the tokenizer is made.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias

from ..errors import ConfigError, InputError, import_extra, quoted
from .normalize import align, normalize, without_surrogates
from .token_pattern import token_pattern

TokenizerFunction: TypeAlias = Callable[[str], Iterable[Any]]
"""From a text to tokens: strings, `Token`s, or (string, start, end)."""


@dataclass(frozen=True, slots=True)
class Token:
    """A token and the span of the text that it stands for.

    `text` is normalised, and a morpheme may differ from the characters of its span.
    """

    text: str
    start: int
    end: int


class Tokenizer(Protocol):
    """Splits normalised text into tokens, none of which contains whitespace."""

    @property
    def name(self) -> str:
        """What `load_tokenizer` knows it by, recorded in the model's configuration."""

    def words(self, text: str) -> list[str]:
        """The text of every token: the quick way when offsets do not matter."""

    def tokens(self, text: str) -> list[Token]:
        """Every token with its offsets into `text`."""


def load_tokenizer(tokenizer: str | TokenizerFunction = "regex") -> Tokenizer:
    """The tokenizer with this name, or the one that a function makes.

    Raises MissingExtra if it needs a package that is not installed.
    """
    if not isinstance(tokenizer, str):
        return FunctionTokenizer(tokenizer)
    match tokenizer.split(":"):
        case ["regex" | "whitespace" | "characters" as name]:
            return PatternTokenizer(name)
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


class PatternTokenizer:
    """Splits text into the matches of a regular expression.

    `regex` is Penn Treebank style for English and sensible for other scripts; its rules are in
    `token_pattern`. `characters` is for proteins: one amino acid per token.

    Example:
        >>> PatternTokenizer("regex").words("Mr. O'Brien didn't pay $1,000.50.")
        ['Mr.', "O'Brien", 'did', "n't", 'pay', '$', '1,000.50', '.']
    """

    def __init__(self, name: Literal["regex", "whitespace", "characters"]) -> None:
        self.name = name

    def words(self, text: str) -> list[str]:
        if self.name == "whitespace":
            return text.split()  # a fifth of the pattern's time
        return _PATTERNS[self.name]().findall(text)

    def tokens(self, text: str) -> list[Token]:
        matches = _PATTERNS[self.name]().finditer(text)
        return [Token(match[0], match.start(), match.end()) for match in matches]


_WORD = re.compile(r"\S+")
_PATTERNS: dict[str, Callable[[], re.Pattern[str]]] = {
    "regex": token_pattern,  # made when it is first used
    "whitespace": lambda: _WORD,
    "characters": lambda: re.compile(r"\S"),
}


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


class KiwiTokenizer:
    """Splits eojeol into morphemes in their dictionary form, with Kiwi (kiwipiepy).

    A morpheme need not be a slice of the text: 했다 becomes 하 + 었 + 다, of which the first two
    share the span of 했. A morpheme that the text only implies, such as 이 in 바다다, has an empty
    span. Codas that stand alone are written as compatibility jamo (ㄴ다), as in the treebanks.
    """

    name = "kiwi"

    def __init__(self) -> None:
        import_extra("kiwipiepy", "ko")
        self._kiwi: Any = None

    def __getstate__(self) -> dict[str, None]:
        # The analyser cannot be pickled; every process makes its own.
        return {"_kiwi": None}

    def words(self, text: str) -> list[str]:
        return [token.text for token in self._morphemes(text)]

    def tokens(self, text: str) -> list[Token]:
        return list(self._morphemes(text))

    def sentence_spans(self, text: str) -> list[tuple[int, int]]:
        """Where each sentence starts and ends; Korean needs no punctuation for that."""
        sentences = self._analyser().split_into_sents(without_surrogates(text))
        return [(sentence.start, sentence.end) for sentence in sentences]

    def _analyser(self) -> Any:
        if self._kiwi is None:
            # Making one takes seconds; texts come one at a time, so more workers would idle.
            self._kiwi = import_extra("kiwipiepy", "ko").Kiwi(num_workers=1)
        return self._kiwi

    def _morphemes(self, text: str) -> Iterator[Token]:
        for morpheme in self._analyser().tokenize(without_surrogates(text), compatible_jamo=True):
            form, start, end = morpheme.form, morpheme.start, morpheme.start + morpheme.len
            if "\ufffd" in form or any(char.isspace() for char in form):
                # Names and dates of several words, and what stands for a surrogate.
                for match in _WORD.finditer(text, start, end):
                    yield Token(match[0], match.start(), match.end())
            else:
                yield Token(form, start, end)


class SpacyTokenizer:
    """Splits like `spacy.blank(language)`; no trained pipeline is needed."""

    def __init__(self, language: str = "en") -> None:
        self.name = f"spacy:{language}"
        self._language = language
        spacy = import_extra("spacy", "spacy")
        try:
            self._tokenizer: Any = spacy.blank(language).tokenizer
        except ImportError as error:  # no such language
            raise ConfigError(f"tokenizer='spacy:{language}': {error}") from error

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
