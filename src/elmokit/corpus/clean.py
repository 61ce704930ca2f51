"""What is not text in a line: markup is removed from it, boilerplate is dropped whole.

The rules need no language, and rather miss something than harm a sentence:

- **Markup.** HTML entities become characters. Comments, tags, wiki templates `{{…}}` and the
  contents of `<ref>`, `<math>`, `<script>` and `<style>` go; `[[page|text]]` and `[http://… text]`
  become their text; `''` and `'''` around words go. Only ASCII names in the syntax of a tag are
  tags: `a < b`, `<3` and the title `<기생충>` stay. A line of nothing but markup, a heading
  (`= title =`, `== part ==`) and a line of a wiki table or template (`{| …`, `| …`) are dropped.
- **Boilerplate.** Lines without letters; tables and formulas, where less than a fifth of at least
  six words has a letter; lines of nothing but web or mail addresses; short copyright notices; and
  navigation, that is several short pieces between `|`, `·`, `»` or `>` without the punctuation of
  a sentence.

But: each line (or paragraph of wrapped text) is judged on its own, so markup that runs over several
lines stays, and so does boilerplate that reads like a sentence. `count` finds the duplicates.
"""

import html
import re
from typing import Literal, NamedTuple, TypeAlias

Verdict: TypeAlias = Literal["kept", "changed", "markup", "boilerplate"]


class CleanedLine(NamedTuple):
    """What is left of a line, "" if it is dropped, and what was done to it."""

    text: str
    verdict: Verdict


def clean_line(line: str) -> CleanedLine:
    """Remove markup from a line, or drop the line.

    Example:
        >>> clean_line("The [[cat (animal)|cat]] sat&nbsp;<b>down</b>.<ref>Smith</ref>")
        CleanedLine(text='The cat sat down.', verdict='changed')
        >>> clean_line("Home | News | Sports | Contact").verdict
        'boilerplate'
    """
    line = line.strip()
    if not line:
        return CleanedLine("", "kept")
    if _DROPPED.match(line):
        return CleanedLine("", "markup")
    text = " ".join(_without_markup(line).split()) if _MAY_HOLD_MARKUP.search(line) else line
    if text == " ".join(line.split()):
        text = line
    if not text:
        return CleanedLine("", "markup")
    if is_boilerplate(text):
        return CleanedLine("", "boilerplate")
    return CleanedLine(text, "kept" if text is line else "changed")


_MAY_HOLD_MARKUP = re.compile(r"<[A-Za-z/!]|&[A-Za-z#]|\[\[|\[http|\{\{|''")
_DROPPED = re.compile(
    r"=\s+[^\s=>](?:.*[^\s=<])?\s+=$"  # = title =
    r"|(={2,6})\s*[^\s=>](?:.*[^\s=<])?\s*\1$"  # == part ==
    r"|\{\||\|"  # tables and arguments of templates
)
_ENTITY = re.compile(r"&(?:[A-Za-z][A-Za-z0-9]{1,31}|#[0-9]{1,7}|#[xX][0-9A-Fa-f]{1,6});")
_COMMENT = re.compile(r"<!--(?:(?!-->|<!--).)*+-->", re.DOTALL)

_ATTRIBUTE = r"""\s++[A-Za-z][\w:.-]*+\s*+=\s*+(?:"[^"<>]*+"|'[^'<>]*+'|[^\s<>"']++)"""
# Their contents are no text.
_HOLDERS = "ref|math|chem|script|style|timeline|syntaxhighlight"
_HOLDER_EMPTY = re.compile(rf"<(?:{_HOLDERS})(?:{_ATTRIBUTE})*+\s*+/>", re.IGNORECASE)
_HOLDER = re.compile(
    rf"<({_HOLDERS})(?:{_ATTRIBUTE})*+\s*+>(?:[^<]|<(?!/?\1\b))*+</\1\s*+>", re.IGNORECASE
)
# Names that mean nothing else. Others, as `<title>` or `<time>`, need an attribute or their end.
_NAMES = (
    "br|hr|p|div|span|b|i|u|em|strong|sub|sup|tt|ul|ol|li|dl|dt|dd|table|tbody|thead|tr|td|th|img|"
    "h[1-6]|pre|blockquote|nowiki|noinclude|onlyinclude|includeonly|references|ref|gallery|center|"
    "font|strike|iframe|html|tfoot|colgroup|wbr"
)
# <S> and <B> are as likely to be names.
_UPPER_NAMES = "|".join(name for name in _NAMES.upper().split("|") if len(name) > 1)
_TAG = re.compile(
    rf"</?(?:{_NAMES}|{_UPPER_NAMES})(?:{_ATTRIBUTE})*+\s*+/?>"
    rf"|<[A-Za-z][A-Za-z0-9:-]*+(?:{_ATTRIBUTE})++\s*+/?>"
    r"|<[A-Za-z][A-Za-z0-9:-]*+\s*+/>"
)
_END_TAG = re.compile(r"</([A-Za-z][A-Za-z0-9:-]*+)\s*+>")
_BARE_TAG = re.compile(r"</?([A-Za-z][A-Za-z0-9:-]*+)\s*+>")

_TEMPLATE = re.compile(r"\{\{[^{}]*+\}\}")
_LINK = re.compile(r"\[\[([^\[\]]*+)\]\]")
_MEDIA = re.compile(r"\s*(?:file|image|category|media|파일|그림|분류|미디어)\s*:", re.IGNORECASE)
_WEB_LINK = re.compile(r"\[https?://[^\s\[\]]++(?:\s++([^\[\]]*+))?\]")
_QUOTED = re.compile(r"(?<!')('{2,3}|'{5})(?=[^\s'])((?:[^']|'(?!'))++)(?<=\S)\1(?!')")
_MAX_DEPTH = 8
"""Templates and links inside each other that are followed."""


def _without_markup(line: str) -> str:
    for _ in range(2):  # `&amp;quot;` is common
        line = _ENTITY.sub(lambda match: html.unescape(match[0]), line)
    if "<" in line:
        line = _without_tags(line)
    line = _until_stable(_TEMPLATE, "", line) if "{{" in line else line
    if "[" in line:
        line = _until_stable(_LINK, _link_text, line)
        line = _WEB_LINK.sub(lambda match: match[1] or "", line)
    # In tokenised text, '' closes what `` opened.
    if "''" in line and "``" not in line:
        line = _QUOTED.sub(r"\2", _QUOTED.sub(r"\2", line))
    return line


def _without_tags(line: str) -> str:
    line = _COMMENT.sub("", line)
    line = _HOLDER.sub("", _HOLDER_EMPTY.sub("", line))
    ended = set(_END_TAG.findall(line))
    # A tag such as <br> stands between words.
    line = _TAG.sub(lambda match: " " if match[0][1:3].lower() in _BREAKS else "", line)
    return _BARE_TAG.sub(lambda match: "" if match[1] in ended else match[0], line)


_BREAKS = ("br", "p>", "li", "td", "th", "tr", "di", "hr", "h1", "h2", "h3", "dd", "dt")


def _link_text(match: re.Match[str]) -> str:
    return "" if _MEDIA.match(match[1]) else match[1].rpartition("|")[2]


def _until_stable(pattern: re.Pattern[str], replacement: object, line: str) -> str:
    """Replace from the inside out."""
    for _ in range(_MAX_DEPTH):
        line, number = pattern.subn(replacement, line)  # type: ignore[call-overload]
        if not number:
            break
    return line


_LETTER = re.compile(r"[^\W\d_]")
_ADDRESS = r"(?:(?:https?|ftp)://\S++|www\.\S++|[\w.+-]++@[\w-]++(?:\.[\w-]++)++)"
_ADDRESSES = re.compile(rf"\W*+{_ADDRESS}(?:[\s,;|]++{_ADDRESS})*+\W*+", re.IGNORECASE)
_SEPARATOR = re.compile(r"\s[|·»›>]\s")
_SENTENCE_END = re.compile(r"[.?!…。！？]|(?:다|요)$")
_COPYRIGHT = re.compile(
    r"(?:©|\(c\)|\bcopyright\b)[\s(c)©]*+(?:19|20)\d\d\b|\ball rights reserved\b|무단\s?전재",
    re.IGNORECASE,
)
_MAX_NOTICE, _MAX_PIECE = 150, 40
_MIN_CELLS, _MIN_WORDS, _JUDGED = 6, 0.2, 500


def is_boilerplate(line: str) -> bool:
    """Whether a line without markup is a table, a rule, an address, a notice or navigation."""
    if not _LETTER.search(line) or _is_table(line[:_JUDGED].split()):
        return True
    if ("@" in line or "/" in line or "www." in line) and _ADDRESSES.fullmatch(line):
        return True
    if len(line) <= _MAX_NOTICE and _COPYRIGHT.search(line):
        return True
    return _is_navigation(line)


def _is_table(cells: list[str]) -> bool:
    """Whether hardly a word is among many numbers and signs."""
    return len(cells) >= _MIN_CELLS and (
        sum(map(bool, map(_LETTER.search, cells))) < _MIN_WORDS * len(cells)
    )


def _is_navigation(line: str) -> bool:
    pieces = _SEPARATOR.split(line)
    return (
        len(pieces) > 2
        and all(len(piece) <= _MAX_PIECE and _LETTER.search(piece) for piece in pieces)
        and not _SENTENCE_END.search(line)
    )
