"""What a person should know about a corpus before training on it."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .config import PrepareConfig
from .corpus import SPECIAL_WORDS, UNK_ID
from .count import Totals
from .inputs import Scan
from .sentences import Choice
from .write import Part

_NUM_EXAMPLES = 5


@dataclass(frozen=True, kw_only=True, slots=True)
class Cropped:
    """Words that are longer than a row of characters.

    Attributes:
        words: How many distinct ones.
        tokens: How often they stand in the training text.
        examples: The most frequent.
        needed: Characters that would hold all but one of ten thousand tokens.
    """

    words: int
    tokens: int
    examples: list[str]
    needed: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Report:
    """What `prepare` found; shares are of tokens, from 0 to 1.

    Attributes:
        mode: How sentences were found: "lines", "split" or "wrapped".
        reason: Why so.
        cut_sentences: Sentences that were longer than `max_length` words.
        duplicated_lines: Lines (or paragraphs of wrapped text) that repeat an earlier one.
        leaked_lines: Lines of the held-out files that the training text has too.
        coverage: Sizes of a vocabulary, and the share of the training text inside each.
        unknown_share: Share of the held-out text outside the vocabulary.
    """

    files: int
    empty_files: list[str]
    bytes: int
    lines: int
    empty_lines: int
    duplicated_lines: int
    leaked_lines: int
    mode: str
    reason: str
    max_length: int
    cut_sentences: int
    train_sentences: int
    train_tokens: int
    valid_sentences: int
    valid_tokens: int
    words: int
    vocab_size: int
    coverage: list[tuple[int, float]]
    unknown_share: float
    max_characters: int
    cropped: Cropped


def coverage(counts: NDArray[np.int64], sizes: Sequence[int]) -> list[tuple[int, float]]:
    """For each size of a vocabulary, the share of all tokens that are in it.

    A literal `<UNK>` of the text is in none.
    """
    inside = np.cumsum(counts)
    inside[UNK_ID:] -= counts[UNK_ID]
    total = max(1, int(counts.sum()))
    return [(size, float(inside[min(size, len(counts)) - 1]) / total) for size in sizes]


def cropped(words: Sequence[str], counts: NDArray[np.int64], max_characters: int) -> Cropped:
    """The words that `text.chars.ByteCharacters` would cut."""
    num_special = len(SPECIAL_WORDS)
    sizes = np.fromiter((len(word.encode()) for word in words), np.int64, len(words))
    sizes[:num_special] = 1
    longer = np.flatnonzero(sizes > max_characters - 2)
    by_size = np.bincount(sizes, weights=counts)
    enough = np.searchsorted(np.cumsum(by_size), (1 - 1e-4) * counts.sum())
    return Cropped(
        words=len(longer),
        tokens=int(counts[longer].sum()),
        examples=[words[i] for i in longer[:_NUM_EXAMPLES]],
        needed=int(enough) + 2,
    )


def make_report(
    config: PrepareConfig, choice: Choice, scanned: Scan, totals: Totals, vocab_size: int,
    train: Part, valid: Part,
) -> Report:  # fmt: skip
    """The report on a corpus that was just written."""
    inside = valid.counts[:vocab_size].sum() - valid.counts[UNK_ID]
    sizes = sorted({max(4, vocab_size // 2), vocab_size, min(2 * vocab_size, len(totals.words))})
    return Report(
        files=len(scanned.files) + len(scanned.empty_files),
        empty_files=scanned.empty_files[:_NUM_EXAMPLES],
        bytes=scanned.num_bytes,
        lines=totals.num_lines,
        empty_lines=totals.num_empty,
        duplicated_lines=totals.num_duplicated,
        leaked_lines=totals.num_leaked,
        mode=choice.mode,
        reason=choice.reason,
        max_length=config.max_length,
        cut_sentences=totals.num_cut,
        train_sentences=train.num_sentences,
        train_tokens=train.num_tokens,
        valid_sentences=valid.num_sentences,
        valid_tokens=valid.num_tokens,
        words=len(totals.words) - len(SPECIAL_WORDS),
        vocab_size=vocab_size,
        coverage=coverage(train.counts, sizes),
        unknown_share=1 - float(inside) / valid.num_tokens if valid.num_tokens else 0.0,
        max_characters=config.max_characters,
        cropped=cropped(totals.words, train.counts, config.max_characters),
    )
