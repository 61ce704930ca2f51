"""One token per character: proteins, one amino acid each."""

import re

from ..token import Token

_VISIBLE = re.compile(r"\S")


class CharacterTokenizer:
    """Splits at every character; whitespace is left out."""

    name = "characters"

    def words(self, text: str) -> list[str]:
        return _VISIBLE.findall(text)

    def tokens(self, text: str) -> list[Token]:
        return [Token(m[0], m.start(), m.end()) for m in _VISIBLE.finditer(text)]
