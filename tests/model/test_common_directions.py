"""The part that all sentence vectors share, found and removed."""

from pathlib import Path

import numpy as np
import pytest
from strategies import make_tiny

from elmokit.errors import ConfigError, FileError, FormatError, InputError
from elmokit.model import CommonDirections

TINY = make_tiny()
TEXTS = ["The cat sat.", "한국어 문장", "a b c", "He has a gift for music.", "word", "Yes, no."]


def test_nothing_is_left_along_the_removed_directions() -> None:
    vectors = TINY.encode(TEXTS)
    common = CommonDirections.fit(vectors, 2)
    left = common.removed(vectors)
    np.testing.assert_allclose(left.mean(axis=0), 0, atol=1e-5)
    np.testing.assert_allclose(left @ common.components.T, 0, atol=1e-4)
    singular = np.linalg.svd(vectors - vectors.mean(axis=0), compute_uv=False)
    np.testing.assert_allclose(
        np.linalg.svd(left, compute_uv=False)[:3], singular[2:5], rtol=1e-3, atol=1e-4
    )


def test_encode_removes_those_of_its_inputs_or_of_a_reference() -> None:
    vectors = TINY.encode(TEXTS)
    common = CommonDirections.fit(vectors, 1)
    np.testing.assert_allclose(TINY.encode(TEXTS, remove=1), common.removed(vectors), atol=1e-5)
    one = TINY.encode(TEXTS[0], remove=common, normalize_embeddings=True)
    assert np.linalg.norm(one) == pytest.approx(1, abs=1e-5)
    expected = common.removed(vectors[:1])[0]
    np.testing.assert_allclose(one * np.linalg.norm(expected), expected, atol=1e-4)


def test_blank_lines_have_no_part_in_it() -> None:
    without = TINY.encode(TEXTS, remove=1)
    got = TINY.encode([*TEXTS, ""], remove=1, empty="nan")
    np.testing.assert_allclose(got[:-1], without, atol=1e-6)
    assert np.isnan(got[-1]).all()
    assert not TINY.encode([*TEXTS, ""], remove=1, empty="zero")[-1].any()


def test_saved_directions_are_read_back(tmp_path: Path) -> None:
    common = CommonDirections.fit(TINY.encode(TEXTS), 3)
    common.save(tmp_path / "common.npz")
    back = CommonDirections.load(tmp_path / "common.npz")
    np.testing.assert_array_equal(back.mean, common.mean)
    np.testing.assert_array_equal(back.components, common.components)
    assert repr(back) == "<CommonDirections: the mean and 3 components of 32 values>"
    with pytest.raises(FileError, match="exists"):
        common.save(tmp_path / "common.npz")
    (tmp_path / "bad.npz").write_bytes((tmp_path / "common.npz").read_bytes()[:-40])
    with pytest.raises(FormatError, match=r"bad.npz is damaged"):
        CommonDirections.load(tmp_path / "bad.npz")


def test_what_cannot_be_removed_is_refused() -> None:
    with pytest.raises(InputError, match="3 common directions need 5 sentences or more"):
        TINY.encode(TEXTS[:3], remove=3)
    for number in (-1, 1.5, "1", True):
        with pytest.raises(ConfigError, match="remove="):
            TINY.encode(TEXTS, remove=number)  # type: ignore[arg-type]
    common = CommonDirections.fit(TINY.encode(TEXTS))
    with pytest.raises(InputError, match="32 values and the vectors 64"):
        TINY.encode(TEXTS, pooling=("mean", "max"), remove=common)
    with pytest.raises(InputError, match="finite"):
        CommonDirections.fit(np.full((9, 4), np.nan, np.float32))
