"""Sentences → batches: each distinct word once, in groups of bounded size, or in lanes.

Lanes are how bilm-tf's trainer reads a text: side by side, without padding. Each lane reads one
sentence after the other. When its sentence ends, it takes the next one of the text. A sentence
`<S> a b </S>` gives a pair of input and target per step: (<S>, a), (a, b), (b, </S>), so that in
two lanes of windows of four steps the sentences `a b`, `c`, `d e`, … are

    inputs   <S> a  b    <S>        targets  a   b  </S> c
             <S> d  e    <S>                 d   e  </S> …

The last window is dropped if a lane has nothing to fill it with. The LSTM states go from window
to window by lane; whoever computes keeps them.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, Self, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..errors import ConfigError

T = TypeVar("T")

Words: TypeAlias = NDArray[Any]
"""A sentence, or a piece of one: ids, or the words themselves."""


@dataclass(frozen=True, slots=True)
class WordBatch:
    """Sentences with their boundary tokens, as positions in a list of distinct words.

    Attributes:
        words: The distinct words, boundaries included.
        index: For every token of every sentence in turn, its position in `words`.
        lengths: Tokens of each sentence, the two boundaries included.
    """

    words: list[str]
    index: NDArray[np.int64]
    lengths: NDArray[np.int64]

    @classmethod
    def of(cls, sentences: Sequence[Sequence[str]], bos: str, eos: str) -> "WordBatch":
        """The batch of tokenised `sentences`, each put between `bos` and `eos`."""
        positions: dict[str, int] = {bos: 0, eos: 1}
        index: list[int] = []
        for sentence in sentences:
            index.append(0)
            index.extend(positions.setdefault(word, len(positions)) for word in sentence)
            index.append(1)
        lengths = np.array([len(s) + 2 for s in sentences], dtype=np.int64)
        return cls(list(positions), np.array(index, dtype=np.int64), lengths)


def batches(lengths: Sequence[int], max_sentences: int, max_tokens: int) -> Iterator[list[int]]:
    """Groups of sentence numbers, longest first, within both limits.

    A sentence longer than `max_tokens` is a group of its own.
    """
    group: list[int] = []
    num_tokens = 0
    for i in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        if group and (len(group) == max_sentences or num_tokens + lengths[i] > max_tokens):
            yield group
            group, num_tokens = [], 0
        group.append(i)
        num_tokens += lengths[i]
    if group:
        yield group


def grouped(
    items: Iterable[T], size: Callable[[T], int], *, max_items: int, max_size: float
) -> Iterator[list[T]]:
    """Lists of consecutive items, each closed when it reaches one of the limits.

    For everything that must not hold a whole text.

    >>> list(grouped(["a", "bcd", "e"], len, max_items=9, max_size=4))
    [['a', 'bcd'], ['e']]
    """
    group: list[T] = []
    total = 0
    for item in items:
        group.append(item)
        total += size(item)
        if len(group) == max_items or total >= max_size:
            yield group
            group, total = [], 0
    if group:
        yield group


class Numbered(Protocol):
    """Sentences by their numbers: a list of arrays, or a file that is read where it is asked."""

    def __getitem__(self, number: int, /) -> Words: ...


class Window(NamedTuple):
    """Some steps of all lanes; both arrays are (lanes, steps)."""

    inputs: Words
    targets: Words


class Lanes:
    """An iterator of windows over sentences that come one after the other.

    Lanes are filled in turn, each for all steps of a window, so that who gets which sentence
    depends on the number of steps; with one step it is who ends first.

    Args:
        sentences: Arrays of one type, each between its boundaries, in the order of reading.
        num_lanes: Sentences that are read side by side.
        num_steps: Steps of a window.
    """

    def __init__(self, sentences: Iterable[Words], num_lanes: int, num_steps: int) -> None:
        if num_lanes < 1 or num_steps < 1:
            raise ConfigError(f"{num_lanes} lanes, {num_steps} steps: expected 1 or more of each")
        self.num_lanes, self.num_steps = num_lanes, num_steps
        self.num_taken = 0
        self._sentences = iter(sentences)
        self._numbers = [-1] * num_lanes  # of the sentence in each lane, in reading order
        self._rests: list[Words] = [np.zeros(0, np.int64)] * num_lanes
        self._has_ended = False

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Window:
        if self._has_ended:
            raise StopIteration
        try:
            rows = [self._row(lane) for lane in range(self.num_lanes)]
        except StopIteration:
            self._has_ended = True
            raise
        inputs, targets = zip(*rows, strict=True)
        return Window(np.stack(inputs), np.stack(targets))

    def _row(self, lane: int) -> tuple[Words, Words]:
        """The inputs and targets of the next steps of a lane, which moves on."""
        rest, number = self._rests[lane], self._numbers[lane]
        pieces, missing = [], self.num_steps
        while missing:
            while len(rest) < 2:  # a last word is a target only
                rest = next(self._sentences)
                number = self.num_taken
                self.num_taken += 1
            pieces.append(rest[: missing + 1])
            missing -= len(pieces[-1]) - 1
            rest = rest[len(pieces[-1]) - 1 :]
        self._rests[lane], self._numbers[lane] = rest, number
        if len(pieces) == 1:
            return pieces[0][:-1], pieces[0][1:]
        return np.concatenate([p[:-1] for p in pieces]), np.concatenate([p[1:] for p in pieces])


class OrderedLanes(Lanes):
    """Lanes over sentences that are all there, in any order; they can stop and continue.

    `order` has the numbers of the sentences to read, in the order of reading; with `backward`,
    each sentence is read from its end.
    """

    def __init__(
        self,
        sentences: Numbered,
        order: Sequence[int] | NDArray[np.int64],
        num_lanes: int,
        num_steps: int,
        *,
        backward: bool = False,
    ) -> None:
        self.sentences, self.order, self.backward = sentences, order, backward
        super().__init__(self._from(0), num_lanes, num_steps)

    def state(self) -> dict[str, Any]:
        """Where the lanes are after the last window, as JSON data of a few bytes per lane."""
        left = [len(rest) for rest in self._rests]
        return {"taken": self.num_taken, "sentences": list(self._numbers), "left": left}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue where lanes of the same sentences, order and direction were."""
        numbers, left = list(state["sentences"]), list(state["left"])
        if len(numbers) != self.num_lanes or len(left) != self.num_lanes:
            raise ConfigError(
                f"the saved position is of {len(numbers)} lanes, these are {self.num_lanes}; "
                "continue with the same batch size"
            )
        if not max(numbers) < state["taken"] <= len(self.order):
            raise ConfigError(
                f"the saved position is after {state['taken']:,} sentences, here are "
                f"{len(self.order):,}; continue with the same text"
            )
        self.num_taken, self._numbers = int(state["taken"]), numbers
        self._rests = [
            self._sentence(number)[-length:] if number >= 0 and length else np.zeros(0, np.int64)
            for number, length in zip(numbers, left, strict=True)
        ]
        self._sentences = self._from(self.num_taken)
        self._has_ended = False

    def _from(self, first: int) -> Iterator[Words]:
        return (self._sentence(number) for number in range(first, len(self.order)))

    def _sentence(self, number: int) -> Words:
        """A sentence by its position in the order of reading."""
        sentence = self.sentences[int(self.order[number])]
        return sentence[::-1] if self.backward else sentence
