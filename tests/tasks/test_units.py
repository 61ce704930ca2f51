"""Subword units: texts come back as they were, and every unit has its word."""

from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import given
from strategies import assert_refused

from elmokit.errors import InputError
from elmokit.tasks.parts.passage import Passage
from elmokit.tasks.parts.units import Units
from elmokit.text.reader import Reader

pytest.importorskip("sentencepiece", reason="needs elmokit[generate]")

TEXTS = ("the cat sat on the mat", "나는 학교에 간다", "El gato está aquí, ¿no?", "hello  there")
UNITS = Units.train(TEXTS, 60)
TRICKY = ("", " ", "  two  spaces ", "\n\t x", "\0a", "▁", "a▁▁ b▁", "<s> </s> <unk> <0x41>",
          "🙂 é", "日本語", "\r\n", "the cat " * 1000)  # fmt: skip


@given(st.text(alphabet=st.characters(exclude_categories=("Cs",))) | st.sampled_from(TRICKY))
def test_a_text_comes_back_as_it_was(text: str) -> None:
    ids = UNITS.encode(text)
    assert UNITS.decode(ids) == text
    assert not {*ids} & {*UNITS.never, UNITS.eos}


def test_a_lone_surrogate_becomes_a_replacement_character() -> None:
    assert UNITS.decode(UNITS.encode("a\ud800b")) == "a\ufffdb"


def test_training_repeats_and_a_smaller_size_has_fewer_units() -> None:
    assert Units.train(TEXTS, 60).data == UNITS.data
    assert len(Units.train(TEXTS, 45)) < len(UNITS) == 60 + 260
    assert len(Units.train(TEXTS, 100_000)) < 1_000  # there are no more in so little text


def test_a_small_vocabulary_still_has_the_characters_of_the_texts() -> None:
    syllables = "".join(chr(code) for code in range(0xAC00, 0xAC00 + 300))
    units = Units.train([syllables], 10)
    assert len(units.encode(syllables)) < 320  # not three bytes each


def test_texts_with_line_breaks_and_nothing_else_are_refused() -> None:
    assert len(Units.train(["a\nb\0c▁d", ""], 10)) > 260
    with pytest.raises(InputError, match="empty"):
        Units.train(["", " \n"], 10)


@pytest.mark.parametrize(
    "text", ["the cat sat.", "  the   cat's mat!", "나는 학교에 간다 🙂🙂", "日本語 x", "a▁b c"]
)
def test_each_unit_belongs_to_the_word_that_its_characters_are_in(text: str) -> None:
    passage = Passage.read(text, Reader("regex"))
    ids = UNITS.encode(text)
    words = UNITS.words_of(ids, passage.offsets)
    assert len(words) == len(ids) and words == sorted(words)
    assert {*words} == {*range(len(passage.tokens))}
    for number, (start, end) in enumerate(passage.offsets):
        own = UNITS.decode([i for i, word in zip(ids, words, strict=True) if word == number])
        assert own.strip() == text[start:end]


def test_morphemes_that_share_characters_or_have_none_keep_the_order() -> None:
    ids = UNITS.encode("간다 나")
    words = UNITS.words_of(ids, [(0, 2), (1, 2), (2, 2), (3, 4)])
    assert words[0] == 0 and words[-1] == 3 and words == sorted(words)


def test_units_are_saved_and_loaded(tmp_path: Path) -> None:
    UNITS.save(tmp_path / "units.model")
    loaded = Units.load(tmp_path / "units.model")
    assert loaded.data == UNITS.data and loaded.encode(TEXTS[0]) == UNITS.encode(TEXTS[0])


def test_damaged_units_are_refused_with_the_name_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "units.model"
    for data in (b"", b"xx", UNITS.data[:50], UNITS.data[: len(UNITS.data) // 2]):
        path.write_bytes(data)
        assert_refused(lambda: Units.load(path), "units.model")
    assert_refused(lambda: Units.load(tmp_path / "none.model"), "none.model")
    monkeypatch.setattr("elmokit.tasks.parts.units.MAX_BYTES", 100)
    path.write_bytes(UNITS.data)
    assert_refused(lambda: Units.load(path), "units.model", "100")


def test_without_sentencepiece_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "sentencepiece", None)
    assert_refused(lambda: Units.train(TEXTS, 60), "elmokit[generate]")
