"""Subword units of text: byte-pair encoding by sentencepiece, without unknown characters.

A text becomes unit ids and comes back as it was, character by character: spaces are part of the
units, nothing is normalised, and a character without a unit is spelled in its UTF-8 bytes. For a
model of words, `words_of` says which word each unit belongs to.
"""

import io
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any, ClassVar

from ...errors import FileError, FormatError, InputError, import_extra
from ...files.read import check_readable
from ...files.write import whole_file
from ...text.normalize import without_surrogates

EXTRA = "generate"
MAX_BYTES = 64 << 20
"""Of a file of units; one of 32,000 units has less than one."""
MAX_UNITS = 1 << 20
COVERAGE = 0.9995
"""Share of the characters of the training texts that get a unit of their own."""
MAX_TEXT_BYTES = 1 << 20
"""sentencepiece skips longer training texts."""

_SPACE = "▁"
"""What sentencepiece writes for a space; one in a text is spelled in bytes."""
_SPECIAL = ("<pad>", "<unk>", "<s>", "</s>")
_NUM_FIXED = len(_SPECIAL) + 256


class Units:
    """A vocabulary of subword units, from the bytes of a sentencepiece model.

    Attributes:
        data: These bytes: what `save` writes.

    Example:
        >>> units = Units.train(["the cat sat", "the cat"], 20)  # doctest: +SKIP
        >>> units.decode(units.encode("the hat"))  # doctest: +SKIP
        'the hat'
    """

    padding: ClassVar[int] = 0
    bos: ClassVar[int] = 2
    eos: ClassVar[int] = 3
    never: ClassVar[tuple[int, ...]] = (0, 1, 2)
    """The units that no text has: padding, unknown and BOS."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self._processor = _processor(data)
        self._pieces = [self._processor.id_to_piece(i) for i in range(len(self))]
        if tuple(self._pieces[: len(_SPECIAL)]) != _SPECIAL:
            raise FormatError("the units do not begin with <pad>, <unk>, <s> and </s>")
        self._bytes = {f"<0x{byte:02X}>": byte for byte in range(256)}
        ids = [self._processor.piece_to_id(name) for name in self._bytes]
        if not all(map(self._processor.is_byte, ids)):
            raise FormatError("the units lack some of the 256 bytes that spell rare characters")
        self._space = [ids[byte] for byte in _SPACE.encode()]

    @classmethod
    def train(cls, texts: Iterable[str], size: int) -> "Units":
        """The units that byte-pair encoding finds in some texts, the same for the same texts.

        Args:
            texts: What to learn from.
            size: How many units to find, beside the bytes and the special ones. There are fewer
                if the texts have no more, and more if they have more characters.
        """
        known = [f" {_encodable(text)}" for text in texts]
        if not any(map(str.strip, known)):
            raise InputError("the training texts are empty: there are no subword units in them")
        model = io.BytesIO()
        sentencepiece = import_extra("sentencepiece", EXTRA)
        try:
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=iter(known), model_writer=model, model_type="bpe",
                vocab_size=_NUM_FIXED + max(size, _num_characters(known)), hard_vocab_limit=False,
                byte_fallback=True, character_coverage=COVERAGE,
                normalization_rule_name="identity", remove_extra_whitespaces=False,
                add_dummy_prefix=False, pad_id=0, unk_id=1, bos_id=2, eos_id=3,
                max_sentence_length=MAX_TEXT_BYTES, num_threads=1, minloglevel=2,
            )  # fmt: skip
        except (RuntimeError, OSError) as e:
            raise InputError(f"sentencepiece finds no units in the training texts ({e})") from e
        return cls(model.getvalue())

    @classmethod
    def load(cls, path: Path) -> "Units":
        """The units that `save` wrote."""
        check_readable(path, MAX_BYTES)
        try:
            data = path.read_bytes()
        except OSError as e:
            raise FileError(f"{path} cannot be read: {e.strerror or e}") from e
        try:
            return cls(data)
        except FormatError as e:
            raise FormatError(f"{path}: {e}; get a complete copy of the run") from e

    def save(self, path: Path) -> None:
        """Write the units as a sentencepiece model."""
        with whole_file(path) as temporary:
            temporary.write_bytes(self.data)

    def __len__(self) -> int:
        """The number of units, bytes and special ones included."""
        return int(self._processor.get_piece_size())

    def encode(self, text: str) -> list[int]:
        """The units of a text, the first of them with the space that would stand before it."""
        parts = f" {without_surrogates(text)}".split(_SPACE)
        ids: list[int] = self._processor.encode(parts[0])
        for part in parts[1:]:
            ids += [*self._space, *self._processor.encode(part)]
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        """The text of some units; bytes that are no UTF-8 become U+FFFD."""
        text: str = self._processor.decode(list(ids))
        return text.removeprefix(" ")

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """The units as sentencepiece writes them, with `▁` for a space."""
        return [self._pieces[i] for i in ids]

    def words_of(self, ids: Sequence[int], offsets: Sequence[tuple[int, int]]) -> list[int]:
        """The number of the word that each unit of `encode(text)` belongs to.

        A unit of several words belongs to the first of them, one between two words to the next.

        Args:
            ids: The units of the whole text.
            offsets: Where each of its words begins and ends; at least one.
        """
        # Morphemes may share characters, or have none: what counts is where the words so far end.
        ends = list(accumulate((end for _, end in offsets), max))
        words: list[int] = []
        word = 0
        for position in self._positions(ids):
            while word < len(ends) - 1 and ends[word] <= position:
                word += 1
            words.append(word)
        return words

    def _positions(self, ids: Sequence[int]) -> Iterator[int]:
        """Where the first character of each unit that is not a space is in the text."""
        position = -1  # of the space before the text
        inside = 0  # how many bytes of the character there have been
        for piece in self.pieces(ids):
            byte = self._bytes.get(piece)
            if byte is None:
                spaces = len(piece) - len(piece.lstrip(_SPACE))
                position, inside = position + inside, 0
                yield position + min(spaces, len(piece) - 1)
                position += len(piece)
            else:
                if byte & 0xC0 != 0x80:  # the first byte of a character
                    position, inside = position + inside, 1
                yield position


def _processor(data: bytes) -> Any:
    """sentencepiece's model; an error for bytes that are none."""
    if not data:
        raise FormatError("the sentencepiece model is empty")
    if len(data) > MAX_BYTES:
        raise FormatError(f"the sentencepiece model has more than {MAX_BYTES:,} bytes")
    sentencepiece = import_extra("sentencepiece", EXTRA)
    try:
        processor = sentencepiece.SentencePieceProcessor(model_proto=data)
    except (RuntimeError, OSError) as e:
        raise FormatError(f"not a sentencepiece model ({e!s:.80})") from e
    if not _NUM_FIXED <= processor.get_piece_size() <= MAX_UNITS:
        raise FormatError(
            f"{processor.get_piece_size():,} units; expected {_NUM_FIXED} to {MAX_UNITS:,}"
        )
    return processor


def _encodable(text: str) -> str:
    """A training text as sentencepiece takes it: one line, without its own letter for spaces."""
    return " ".join(without_surrogates(text).replace(_SPACE, " ").replace("\0", " ").splitlines())


def _num_characters(texts: Iterable[str]) -> int:
    """How many of the most frequent characters make up the share that gets units."""
    counts = Counter(character for text in texts for character in text)
    wanted = COVERAGE * counts.total()
    below = (total < wanted for total in accumulate(n for _, n in counts.most_common()))
    return sum(below) + 1
