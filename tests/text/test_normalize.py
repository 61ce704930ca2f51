import re
import sys
import unicodedata

import pytest
from cpu_limit import cpu_limit
from hypothesis import given
from hypothesis import strategies as st

from elmokit.errors import ConfigError
from elmokit.text.normalize import Alignment, align, composing, marks, normalize, without_surrogates

ANY_TEXT = st.text(st.characters())
# Dense in everything that composes, decomposes, reorders or is excluded from composition.
HARD_TEXT = st.text(
    st.sampled_from(
        "ae \n=가각\u1100\u1161\u11a8\u11a7\u0301\u0316\u0323\u0327\u0344\u0f71\u0f72\u0f73\u0f81"
        "\u0958\u09c7\u09be\u1e69\u212b\u2126\uf900\ufb1d\U0001d15e\U00011127\U00011131\ud800\u2000"
    )
)

EXAMPLES = [
    ("", []),
    ("plain", [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5)]),
    ("cafe\u0301s", [(0, 1), (1, 2), (2, 3), (3, 5), (5, 6)]),
    ("\u1112\u1161\u11ab\u1100\u116e\u11a8", [(0, 3), (3, 6)]),
    ("가\u11a8나", [(0, 2), (2, 3)]),
    ("a\u0301\u0316b", [(0, 3), (0, 3), (3, 4)]),
    ("x\u0958y", [(0, 1), (1, 2), (1, 2), (2, 3)]),
    ("\u212b\u2126", [(0, 1), (1, 2)]),
    ("e\u0301 \u0308 o\u0308", [(0, 2), (2, 3), (3, 4), (4, 5), (5, 7)]),
    ("\ud800e\u0301\udc00", [(0, 1), (1, 3), (3, 4)]),
]


@pytest.mark.parametrize(("text", "spans"), EXAMPLES)
def test_every_character_maps_to_its_source(text: str, spans: list[tuple[int, int]]) -> None:
    alignment = align(text, "NFC")
    found = [alignment.source(i, i + 1) for i in range(len(alignment.text))]
    assert found == spans


@pytest.mark.parametrize("form", ["NFC", None])
def test_text_in_normal_form_takes_the_identity_path(form: str | None) -> None:
    assert align("café 한국어", form) == Alignment("café 한국어")
    assert align("café", form).is_identity


def test_none_leaves_the_text_alone() -> None:
    assert normalize("e\u0301", None) == "e\u0301"
    assert align("e\u0301", None).source(1, 2) == (1, 2)


@pytest.mark.parametrize("form", ["nfc", "NFKC", ""])
def test_other_forms_are_rejected(form: str) -> None:
    with pytest.raises(ConfigError, match="expected 'NFC' or None"):
        normalize("a", form)


@given(ANY_TEXT | HARD_TEXT)
def test_normalize_is_canonical_composition(text: str) -> None:
    assert normalize(text, "NFC") == unicodedata.normalize("NFC", text)


@given(ANY_TEXT | HARD_TEXT)
def test_alignment_has_the_normalised_text(text: str) -> None:
    assert align(text, "NFC").text == unicodedata.normalize("NFC", text)


@given(ANY_TEXT | HARD_TEXT, st.data())
def test_source_span_holds_the_whole_slice(text: str, data: st.DataObject) -> None:
    alignment = align(text, "NFC")
    start = data.draw(st.integers(0, len(alignment.text)))
    end = data.draw(st.integers(start, len(alignment.text)))
    source_start, source_end = alignment.source(start, end)
    assert 0 <= source_start <= source_end <= len(text)
    assert alignment.text[start:end] in unicodedata.normalize("NFC", text[source_start:source_end])


@given(ANY_TEXT | HARD_TEXT)
def test_offsets_never_go_backwards(text: str) -> None:
    alignment = align(text, "NFC")
    spans = [alignment.source(i, i + 1) for i in range(len(alignment.text))]
    assert spans == sorted(spans)
    assert alignment.source(0, len(alignment.text)) == (0, len(text))


def test_classes_hold_every_mark_and_everything_that_composes() -> None:
    chars = "".join(map(chr, range(sys.maxunicode + 1)))
    expected = {char for char in chars if unicodedata.category(char)[0] == "M"}
    assert set(re.findall(f"[{marks()}]", chars)) == expected
    assert expected <= set(re.findall(f"[{composing()}]", chars))
    assert all(char in expected for char in chars if unicodedata.combining(char))


@pytest.mark.parametrize(
    "unit",
    ["\u0301", "\u0316\u0301", "\u0f73", "e\u0301", "\u1161", "\u1100\u1161\u11a8", "가\u11a8"],
)
def test_time_is_linear_in_the_length(unit: str) -> None:
    with cpu_limit():
        align("a" + unit * 300_000, "NFC")


def test_a_hundred_thousand_marks_in_disorder_are_sorted_at_once() -> None:
    text = "a" + "\u0301\u0316" * 50_000
    assert align(text, "NFC").text == "\u00e1" + "\u0316" * 50_000 + "\u0301" * 49_999


def test_surrogates_are_replaced_one_for_one() -> None:
    assert without_surrogates("a\ud83d\ude00b\U0001f600") == "a\ufffd\ufffdb\U0001f600"
