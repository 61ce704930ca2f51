"""Korean morphemes by Kiwi (https://github.com/bab2min/kiwipiepy)."""

import importlib
import re
from collections.abc import Iterator
from typing import Any

from ...errors import MissingExtra
from ..normalize import without_surrogates
from ..token import Token

_VISIBLE = re.compile(r"\S+")


class KiwiTokenizer:
    """Splits eojeol into morphemes in their dictionary form.

    A morpheme need not be a slice of the text: 했다 becomes 하 + 었 + 다, of which the first two
    share the span of 했. A morpheme that the text only implies, such as 이 in 바다다, has an empty
    span. Codas that stand alone are written as compatibility jamo (ㄴ다), as in the treebanks.
    """

    name = "kiwi"

    def __init__(self) -> None:
        _import_kiwi()
        self._kiwi: Any = None

    def __getstate__(self) -> dict[str, None]:
        # The analyser cannot be pickled; every process makes its own.
        return {"_kiwi": None}

    def words(self, text: str) -> list[str]:
        return [token.text for token in self._morphemes(text)]

    def tokens(self, text: str) -> list[Token]:
        return list(self._morphemes(text))

    def _morphemes(self, text: str) -> Iterator[Token]:
        if self._kiwi is None:
            # Making one takes seconds; texts come one at a time, so more workers would idle.
            self._kiwi = _import_kiwi().Kiwi(num_workers=1)
        for morpheme in self._kiwi.tokenize(without_surrogates(text), compatible_jamo=True):
            form, start, end = morpheme.form, morpheme.start, morpheme.start + morpheme.len
            if "\ufffd" in form or any(char.isspace() for char in form):
                # Names and dates of several words, and what stands for a surrogate.
                for match in _VISIBLE.finditer(text, start, end):
                    yield Token(match[0], match.start(), match.end())
            else:
                yield Token(form, start, end)


def _import_kiwi() -> Any:
    try:
        return importlib.import_module("kiwipiepy")
    except ImportError as error:
        raise MissingExtra("ko", "kiwipiepy") from error
