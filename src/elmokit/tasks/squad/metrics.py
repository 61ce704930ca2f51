"""Exact match and F1 of answers, by the rules of the official scripts of SQuAD 1.1 and KorQuAD 1.0.

Both compare with each of the right answers and count the best. Case, ASCII punctuation and the
number of blanks never matter; SQuAD also leaves out English articles and compares words, while
KorQuAD reads its quotation marks and brackets as blanks and compares characters. An answer of which
nothing is left shares nothing with another such: its F1 is 0, though the match is exact.
"""

import re
import string
from collections import Counter
from collections.abc import Callable, Sequence

from .config import Rules

_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLE = re.compile(r"\b(a|an|the)\b")
_KORQUAD_MARKS = str.maketrans(dict.fromkeys("'\"《》<>〈〉()‘’", " "))


def answer_scores(
    gold: Sequence[Sequence[str]], predicted: Sequence[str], rules: Sequence[Rules]
) -> dict[str, float]:
    """The mean `f1` and `exact_match` of the predictions, of 0 to 1.

    Args:
        gold: The right answers to each question.
        predicted: An answer to each.
        rules: How each is scored.
    """
    triples = list(zip(gold, predicted, rules, strict=True))
    return {
        "f1": _mean([_best(f1, *triple) for triple in triples]),
        "exact_match": _mean([_best(exact_match, *triple) for triple in triples]),
    }


def normalised(text: str, rules: Rules = "squad") -> str:
    """What of an answer is compared: words, with one blank between them."""
    if rules == "korquad":
        return " ".join(text.translate(_KORQUAD_MARKS).lower().translate(_PUNCTUATION).split())
    return " ".join(_ARTICLE.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def exact_match(predicted: str, gold: str, rules: Rules = "squad") -> float:
    """1 if the two are the same in all that is compared, else 0."""
    return float(normalised(predicted, rules) == normalised(gold, rules))


def f1(predicted: str, gold: str, rules: Rules = "squad") -> float:
    """The F1 of the words of an answer, or of the characters by the rules of KorQuAD."""
    first, second = _units(predicted, rules), _units(gold, rules)
    shared = (first & second).total()
    return 2 * shared / (first.total() + second.total()) if shared else 0.0


def _units(text: str, rules: Rules) -> Counter[str]:
    words = normalised(text, rules).split()
    return Counter("".join(words) if rules == "korquad" else words)


def _best(
    score: Callable[[str, str, Rules], float], gold: Sequence[str], predicted: str, rules: Rules
) -> float:
    return max((score(predicted, answer, rules) for answer in gold), default=0.0)


def _mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else 0.0
