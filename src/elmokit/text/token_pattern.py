"""The one regular expression behind the regex tokenizer.

English follows the Penn Treebank as far as the 1 Billion Word corpus, on which ELMo was trained,
does: `do n't`, `it 's`, `$ 5`, `50 %`, hyphenated words whole. Where no rule is obvious:

- An apostrophe inside any other word stays (`O'Brien`, `rock'n'roll`, `l'homme`): splitting
  French elisions would need to know that the text is French.
- Han, Thai, Lao, Khmer and Burmese are written without spaces, and a sentence taken for a word
  would be cropped to its first 48 bytes. They become one token per character with its marks.
  Kana is cut only where hiragana and katakana meet: such runs are short, often whole words.
- A run of one of `. * = ~ + ^ / \\ - < > $` or of `!` and `?` is one token; quotes and other
  brackets stand alone.
- Invisible format characters inside words (joiners, soft hyphen) stay; others stand alone.

Not covered: `cannot`, `gonna` (whole, unlike the Treebank), nested brackets in URLs, and the
words of the unspaced scripts.

Alternatives are tried in order and the last takes any character, so nothing is ever lost. To stay
linear, each either begins with a bounded test or cannot begin in the middle of a run which it has
already scanned in vain. Only quantifiers of a single class are possessive: before Python 3.11.5,
possessive groups are mishandled (python/cpython#106052).
"""

import re
from functools import cache

from .normalize import marks

_HAN = "\u3005\u3007\u3021-\u3029\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_THAI_TO_KHMER = "\u0e01-\u0e46\u0e81-\u0ec6\u0edc-\u0edf\u1000-\u103f\u1050-\u108f\u1780-\u17b3"
_HIRAGANA = "\u3041-\u3096\u309d-\u309f\u30fc"
_KATAKANA = "\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\uff66-\uff9f"
_UNSPACED = _HAN + _THAI_TO_KHMER
_JOINERS = "\u00ad\u200c\u200d\u2060\U000e0020-\U000e007f"
_PICTOGRAPH = "[\u2190-\u2bff\U0001f000-\U0001faff]"
_SKIN_TONES = "\U0001f3fb-\U0001f3ff"
_HANGUL = "\u1100-\u11ff\u3131-\u318e\uac00-\ud7a3"

_APOSTROPHE = "['\u2019]"
_HYPHEN = "[\\-\u2010\u2011]"
_LETTER = rf"[^\W\d_{_UNSPACED}{_HIRAGANA}{_KATAKANA}]"
_WORD_CHAR = rf"[^\W{_UNSPACED}{_HIRAGANA}{_KATAKANA}]"
_CLITIC = r"(?:[sSmMdD]|[rRvV][eE]|[lL]{2})(?!\w)"

# What may begin a word: a mention, a hashtag (but not #1), the point of a bare decimal fraction.
_PREFIX = r"(?:(?<!\w)@|(?<!\w)\#(?!\d++(?!\w))|(?<![\w.])\.(?=\d))"
# What may stand between two parts of one word. Beside Hangul, an apostrophe is a quote.
_INNER_PUNCTUATION = (
    rf"(?:{_HYPHEN}|(?<![{_HANGUL}]){_APOSTROPHE}(?!{_CLITIC}|[{_HANGUL}])"
    r"|(?<=\d)[.,:/\u066b\u066c](?=\d)|(?<=[A-Z])&(?=[A-Z]))"
)

_URL_BODY = r"(?:[.,;:!?*]*+(?:[\w/\-~#@$&+=%|]++|\([\w/\-~#@$&+=%|.,;:!?*]*+\)))+"
_DOMAIN_ENDING = (
    "com|org|net|edu|gov|info|biz|io|uk|au|ca|de|fr|jp|kr|cn|ru|nl|eu"
    "|txt|pdf|docx?|xlsx?|pptx?|html?|php|jpe?g|png|gif|zip|exe|js|py"
)
_TITLES = (
    "[Mm]rs?|Ms|Messrs|[Dd]r|Prof|Rev|Hon|Gen|Gov|Sen|Rep|Lt|Col|Sgt|Capt|Maj|St|Mt|Ft|Ave|Blvd"
    "|Jr|Sr|Inc|Ltd|Corp|Co|Bros|Jan|Feb|Aug|Sept?|Oct|Nov|Dec|etc|vs|cf|(?<=et )al"
)
_BEFORE_NUMBER = "[Nn]os?|[Ff]igs?|[Vv]ols?|pp?|[Cc]h|[Ss]ec|[Aa]rt|[Mm]ar|[Aa]pr|ca"


# Most of what most texts consist of, before anything that costs time.
_FAST = (
    r'[A-Za-z0-9가-힣]++(?=[ \n;)"!?]|,\s)',
    r'[,"()\[\]]',
    r"\.\.+|\.(?!\d)",
    rf"[{_UNSPACED}]|[{_HIRAGANA}]++|[{_KATAKANA}]++",
)
_ADDRESSES = (
    rf"(?a:(?:[A-Za-z][\w+\-]{{1,9}}://|[wW]{{3}}\.){_URL_BODY})",
    r"(?a:(?<![\w.+\-])\w[\w.+\-]*+@(?:[\w\-]++\.)+[A-Za-z]{2,})",
    rf"(?ai:(?<![\w.@\-])(?:[\w\-]++\.)+(?:{_DOMAIN_ENDING})(?!\w)(?:(?=/){_URL_BODY})?)",
)
_ONE_LETTER = rf"(?![{_HANGUL}]){_LETTER}"
_UNIT = rf"(?:(?:{_ONE_LETTER}|Ph|Ed|Sc)\.)"
_ABBREVIATIONS = (
    rf"(?:{_UNIT}{{2,}}(?:{_ONE_LETTER}(?!\w))?|{_UNIT}{_ONE_LETTER}(?!\w))"
    rf"(?:{_HYPHEN}{_WORD_CHAR}++)*",
    rf"(?:{_TITLES})\.(?!\.)",
    rf"(?:{_BEFORE_NUMBER})\.(?=\s?\d)",
    # An initial: not "I.", and not the end of a sentence before a lower-case word.
    r"[A-HJ-Z\u0410-\u042f]\.(?=\s[^\W\d_a-z])",
)
_CONTRACTIONS = (
    rf"[A-Za-z]+(?=[nN]{_APOSTROPHE}[tT](?!\w))",
    rf"[nN]{_APOSTROPHE}[tT](?!\w)",
    rf"(?<=[^\s(\[{{]){_APOSTROPHE}{_CLITIC}",
    # After a space, as in text that is already tokenised, 's' may also be a quoted letter.
    rf"(?<!\S){_APOSTROPHE}{_CLITIC}(?!{_APOSTROPHE})",
    rf"(?<!\w){_APOSTROPHE}(?:em|[Tt]is|[Tt]was|til|\d0s)(?!\w)",
)


@cache
def token_pattern() -> re.Pattern[str]:
    """The compiled pattern; every match is one token, and only whitespace is left between them."""
    # Few tokens are followed by non-ASCII characters: test that before the long class of marks.
    extend = rf"(?=[^\x00-\x7f])[{marks()}{_JOINERS}]++"
    word = rf"{_WORD_CHAR}++(?:{extend}{_WORD_CHAR}*+)*"
    in_emoji = rf"(?:[{_SKIN_TONES}]|{extend})*"
    alternatives = [
        *_FAST,
        *_ADDRESSES,
        *_ABBREVIATIONS,
        *_CONTRACTIONS,
        r"[0-9#*]\ufe0f?\u20e3",
        rf"{_PREFIX}?{word}(?:{_INNER_PUNCTUATION}{word})*",
        "[\U0001f1e6-\U0001f1ff]{2}",
        rf"{_PICTOGRAPH}{in_emoji}(?:(?<=\u200d){_PICTOGRAPH}{in_emoji})*",
        r"(?<!\w)(?:[:;=][\-'^]?[()DPp|/\\*]|<3)(?!\w)",
        r"[!?]++|-++|\*++|=++|~++|\++|\^++|/++|\\++|<++|>++|\$++|\u2026++",
        r"\S",
    ]
    return re.compile(rf"(?=\S)(?:{'|'.join(alternatives)})(?:{extend})?")
