"""The default tokenizer: Penn Treebank style for English, sensible for other scripts."""

from ..token import Token
from .pattern import token_pattern


class RegexTokenizer:
    """Splits with one regular expression; see `pattern` for the rules.

    Example:
        >>> RegexTokenizer().words("Mr. O'Brien didn't pay $1,000.50.")
        ['Mr.', "O'Brien", 'did', "n't", 'pay', '$', '1,000.50', '.']
    """

    name = "regex"

    def words(self, text: str) -> list[str]:
        return token_pattern().findall(text)

    def tokens(self, text: str) -> list[Token]:
        return [
            Token(match[0], match.start(), match.end()) for match in token_pattern().finditer(text)
        ]
