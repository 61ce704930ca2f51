"""The tokenizer for text that is already tokenised."""

import re

from ..token import Token


class WhitespaceTokenizer:
    """Splits at runs of whitespace and nowhere else."""

    name = "whitespace"

    def words(self, text: str) -> list[str]:
        return text.split()

    def tokens(self, text: str) -> list[Token]:
        return [Token(match[0], match.start(), match.end()) for match in re.finditer(r"\S+", text)]
