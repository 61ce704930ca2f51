"""What a person should know about a corpus before training on it."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .corpus import SPECIAL_WORDS, UNK_ID, PrepareConfig
from .inputs import Text
from .write import InputTotals, Part, Totals

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
class Cleaned:
    """What cleaning did, in lines (or paragraphs of wrapped text).

    Attributes:
        changed: Lines that markup was removed from.
        markup: Lines dropped because they were nothing but markup: headings, for example.
        boilerplate: Lines dropped because they were tables, addresses, navigation and the like.
        duplicates: Lines dropped because an earlier line of the inputs is the same.
        leaked: Lines dropped because a held-out file has them.
    """

    changed: int
    markup: int
    boilerplate: int
    duplicates: int
    leaked: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Input:
    """One input, in the order in which they were given.

    Attributes:
        name: The file or folder.
        weight: How often each sentence occurs in the training text.
        mode: How sentences were found: "lines", "split" or "wrapped".
        reason: Why so.
        sentences: Sentences for training, before weighting.
        tokens: Tokens for training, before weighting.
        share: Fraction of the training text, after weighting.
        cleaned: What cleaning did; None without it.
    """

    name: str
    weight: float
    files: int
    bytes: int
    lines: int
    mode: str
    reason: str
    sentences: int
    tokens: int
    share: float
    cleaned: Cleaned | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Report:
    """What `prepare` found; fractions are of tokens, from 0 to 1.

    Attributes:
        duplicated_lines: Lines (or paragraphs of wrapped text) that repeat an earlier one; cleaning
            drops them.
        leaked_lines: Lines of the held-out files that the inputs have too; cleaning drops them from
            the training text.
        mode: How sentences were found: "lines", "split" or "wrapped"; "mixed" if the inputs differ.
        reason: Why so if there is one input; "see inputs" if there are several.
        inputs: What is known of each input.
        cleaned: What cleaning did to all inputs; None without it.
        cut_sentences: Sentences that were longer than `max_length` words.
        train_tokens: Tokens of the training text, after weighting.
        coverage: Sizes of a vocabulary, and the fraction of the training text inside each.
        unknown_share: Fraction of the held-out text outside the vocabulary.
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
    inputs: list[Input]
    cleaned: Cleaned | None
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
    """For each size of a vocabulary, the fraction of all tokens that are in it.

    A literal `<UNK>` of the text is in none.
    """
    inside = np.cumsum(counts)
    inside[UNK_ID:] -= counts[UNK_ID]
    total = max(1, int(counts.sum()))
    return [(size, float(inside[min(size, len(counts)) - 1]) / total) for size in sizes]


def cropped(words: Sequence[str], counts: NDArray[np.int64], max_characters: int) -> Cropped:
    """The words that `text.ids.ByteCharacters` would cut."""
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
    config: PrepareConfig, texts: Sequence[Text], weights: Sequence[float], totals: Totals,
    vocab_size: int, train: Part, valid: Part,
) -> Report:  # fmt: skip
    """The report on a corpus that was just written."""
    inside = valid.counts[:vocab_size].sum() - valid.counts[UNK_ID]
    sizes = sorted({max(4, vocab_size // 2), vocab_size, min(2 * vocab_size, len(totals.words))})
    inputs = [
        _input(*values, train.num_tokens, config.clean)
        for values in zip(texts, weights, totals.inputs, strict=True)
    ]
    modes = {text.choice.mode for text in texts}
    return Report(
        files=sum(text.files for text in inputs),
        empty_files=[name for text in texts for name in text.scan.empty_files][:_NUM_EXAMPLES],
        bytes=sum(text.bytes for text in inputs),
        lines=sum(text.lines for text in inputs),
        empty_lines=sum(text.num_empty for text in totals.inputs),
        duplicated_lines=totals.num_duplicated,
        leaked_lines=totals.num_leaked,
        mode=modes.pop() if len(modes) == 1 else "mixed",
        reason=inputs[0].reason if len(inputs) == 1 else "see inputs",
        inputs=inputs,
        cleaned=_cleaned(totals.inputs) if config.clean else None,
        max_length=config.max_length,
        cut_sentences=sum(text.num_cut for text in totals.inputs),
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


def _input(text: Text, weight: float, total: InputTotals, num_tokens: int, clean: bool) -> Input:
    return Input(
        name=text.name,
        weight=weight,
        files=len(text.scan.files) + len(text.scan.empty_files),
        bytes=text.scan.num_bytes,
        lines=total.num_lines,
        mode=text.choice.mode,
        reason=text.choice.reason,
        sentences=total.num_sentences,
        tokens=total.num_tokens,
        share=total.num_weighted / num_tokens,
        cleaned=_cleaned([total]) if clean else None,
    )


def _cleaned(totals: Sequence[InputTotals]) -> Cleaned:
    return Cleaned(
        changed=sum(total.num_changed for total in totals),
        markup=sum(total.num_markup for total in totals),
        boilerplate=sum(total.num_boilerplate for total in totals),
        duplicates=sum(total.num_duplicated for total in totals),
        leaked=sum(total.num_leaked for total in totals),
    )
