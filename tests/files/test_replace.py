"""A model that is replaced: the old one, the new one, or a folder that is refused."""

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from strategies import assert_refused, make_tiny, tiny_config

from elmokit import Elmo
from elmokit.compat.allennlp import ElmoEmbedder
from elmokit.errors import FileError
from elmokit.files.folders import INCOMPLETE, finish_replacing, whole_folder
from elmokit.formats.save import write_checkpoint

SENTENCE = [["the", "gift"]]
TARGETS = {
    "save_pretrained": "model", "elmokit": "model", "official": "model", "tf": "model",
    "pair": "model/w.hdf5",
}  # fmt: skip


class Killed(BaseException):
    """The process is dead: nothing after this may change a file."""


def write(kind: str, folder: Path, seed: int) -> None:
    elmo = make_tiny(tiny_config(), seed=seed)
    if kind == "save_pretrained":
        elmo.save_pretrained(folder / "model")
    else:
        format: Any = "official" if kind == "pair" else kind
        write_checkpoint(elmo.to_checkpoint(), folder / TARGETS[kind], format, force=True)


def vectors(folder: Path) -> np.ndarray:
    return Elmo.from_pretrained(folder / "model", device="cpu").embed(SENTENCE)[0]


def killed_at(call: Callable[[], object], point: int, patch: pytest.MonkeyPatch) -> bool:
    """Run until the rename or removal of this number; whether it came so far."""
    calls = 0

    def counting(real: Callable[..., object]) -> Callable[..., object]:
        def change(*arguments: object, **options: object) -> object:
            nonlocal calls
            calls += 1
            if calls > point:
                raise Killed  # at every later call, too: no clean-up
            return real(*arguments, **options)

        return change

    with patch.context() as context:
        for name in ("replace", "rename", "unlink", "remove", "rmdir"):
            context.setattr(os, name, counting(getattr(os, name)))
        try:
            call()
        except Killed:
            return True
    return calls > point


@pytest.mark.parametrize("kind", TARGETS)
def test_a_kill_leaves_the_old_model_the_new_one_or_none(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(kind, tmp_path / "old", 1)
    write(kind, tmp_path / "new", 2)
    old, new = vectors(tmp_path / "old"), vectors(tmp_path / "new")
    assert not np.array_equal(old, new)
    refused, point = 0, 0
    while True:
        folder = tmp_path / str(point)
        write(kind, folder, 1)
        again = lambda folder=folder: write(kind, folder, 2)  # noqa: E731
        if not killed_at(again, point, monkeypatch):
            break
        try:
            found = vectors(folder)
            assert np.array_equal(found, old) or np.array_equal(found, new)
        except FileError as e:
            assert "give that command again" in str(e)
            refused += 1
        again()
        np.testing.assert_array_equal(vectors(folder), new)
        assert not (folder / "model" / INCOMPLETE).exists()
        point += 1
    assert refused > 1
    assert point > refused


def test_a_pair_that_is_half_replaced_is_refused_by_its_files_too(tmp_path: Path) -> None:
    write("official", tmp_path, 1)
    folder = tmp_path / "model"
    (folder / INCOMPLETE).touch()
    options, weights = folder / "options.json", folder / "weights.hdf5"
    for read in (
        lambda: Elmo.from_files(options, weights),
        lambda: ElmoEmbedder(options, weights),
        lambda: Elmo.from_pretrained(weights),
        lambda: Elmo.from_pretrained(options),
    ):
        assert_refused(read, str(folder), "give that command again")


def test_a_new_model_in_an_empty_folder_can_be_written_again(tmp_path: Path) -> None:
    """Without force: what the killed command left is in nobody's way."""
    (tmp_path / INCOMPLETE).write_text(".x.partial\n")
    (tmp_path / "vocab.txt").touch()
    write_checkpoint(make_tiny(seed=1).to_checkpoint(), tmp_path)
    Elmo.from_pretrained(tmp_path)


def test_a_failure_in_the_middle_is_a_kill_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("elmokit", tmp_path, 1)
    real = os.replace

    def fail(source: Path, target: Path) -> None:
        if Path(target).name == "model.safetensors":
            raise OSError(errno.EIO, "Input/output error")
        real(source, target)

    monkeypatch.setattr(os, "replace", fail)
    assert_refused(lambda: write("elmokit", tmp_path, 2), "model", "Input/output error")
    monkeypatch.undo()
    assert_refused(lambda: vectors(tmp_path), "give that command again")
    write("elmokit", tmp_path, 2)
    assert not list((tmp_path / "model").glob(".*")), "the first attempt is cleared away"


def test_a_folder_in_the_way_of_a_file_is_refused_before_anything_is_moved(tmp_path: Path) -> None:
    write("elmokit", tmp_path, 1)
    before = vectors(tmp_path)
    weights = tmp_path / "model" / "model.safetensors"
    weights.rename(tmp_path / "kept")
    weights.mkdir()
    assert_refused(lambda: write("elmokit", tmp_path, 2), "a folder is in the way")
    weights.rmdir()
    (tmp_path / "kept").rename(weights)
    np.testing.assert_array_equal(vectors(tmp_path), before)


@pytest.mark.parametrize("name", ["", "../other", "/etc", ".", "..", "a", "./.x.partial", "\0"])
def test_a_file_of_that_name_that_is_not_ours_moves_nothing(tmp_path: Path, name: str) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.txt").touch()
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / INCOMPLETE).write_text(name)
    finish_replacing(folder)
    with whole_folder(folder) as temporary:
        (temporary / "new").touch()
    assert [path.name for path in folder.iterdir()] == ["new"]
    assert (tmp_path / "other" / "thesis.txt").exists()


def test_what_was_begun_can_be_completed(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    (folder / ".run.x.partial").mkdir(parents=True)
    (folder / ".run.x.partial" / "b").write_text("new")
    for name in ("a", "b"):
        (folder / name).write_text("old" if name == "b" else "new")
    (folder / INCOMPLETE).write_text(".run.x.partial\n")
    finish_replacing(folder)
    assert {path.name: path.read_text() for path in folder.iterdir()} == {"a": "new", "b": "new"}
    finish_replacing(folder)
