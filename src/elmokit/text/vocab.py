"""The word vocabulary of the softmax."""

from collections.abc import Iterable, Iterator, Sequence

from ..errors import FormatError

BOS, EOS, UNK = "<S>", "</S>", "<UNK>"


class Vocab(Sequence[str]):
    """Words in the order of their softmax rows; the three special words may stand anywhere.

    >>> vocab = Vocab(["<S>", "</S>", "<UNK>", "the", "cat"])
    >>> vocab.id("cat"), vocab.id("platypus")
    (4, 2)
    """

    def __init__(self, words: Iterable[str], name: str = "vocabulary") -> None:
        self.words = tuple(words)
        self._ids = {word: i for i, word in enumerate(self.words)}
        for special in (BOS, EOS, UNK):
            if special not in self._ids:
                raise FormatError(f"{name}: the special word {special!r} is missing; add a line")

    @classmethod
    def read(cls, lines: Iterable[str], name: str) -> "Vocab":
        """The vocabulary of a file with one word per line (`name` is for errors).

        Blank and repeated lines keep their rows: a published softmax counts them.
        """
        words = (line.strip() for line in lines)
        # Old count tools end their files with this line, which is not a word.
        return cls((word for word in words if word != "!!!MAXTERMID"), name)

    def id(self, word: str) -> int:
        """The row of `word`, or that of `<UNK>`."""
        return self._ids.get(word, self._ids[UNK])

    def __contains__(self, word: object) -> bool:
        return word in self._ids

    def __len__(self) -> int:
        return len(self.words)

    def __iter__(self) -> Iterator[str]:
        return iter(self.words)

    def __getitem__(self, index):  # type: ignore[no-untyped-def]
        return self.words[index]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vocab) and self.words == other.words

    def __hash__(self) -> int:
        return hash(self.words)
