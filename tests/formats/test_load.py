"""Finding out what a source is: folders, single files, archives, names on the Hub."""

import gzip
import io
import lzma
import shutil
import struct
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import assert_refused, make_tiny, write_token_embeddings

from elmokit import Elmo, ElmoError
from elmokit.errors import ConfigError, FileError, MissingExtra
from elmokit.files.read import read_lines
from elmokit.formats import archive as archives
from elmokit.formats.elmokit_folder import ELMOKIT
from elmokit.formats.load import read_checkpoint
from elmokit.formats.official import OFFICIAL
from elmokit.formats.save import write_checkpoint

FORMATS = ["elmokit", "official", "tf"]
SENTENCE = [["The", "cat", "한글"]]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One model in every format that can hold it."""
    found = {}
    for format in FORMATS:
        found[format], _ = write_checkpoint(
            make_tiny().to_checkpoint(), tmp_path_factory.mktemp("models") / format, format
        )
    return found


@pytest.fixture
def expected() -> np.ndarray:
    return make_tiny().embed(SENTENCE)[0]


def zip_folder(folder: Path, target: Path, inside: str = "") -> Path:
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(folder.iterdir()):
            archive.write(file, f"{inside}{file.name}")
    return target


# ------------------------------------------------------------------ archives


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("inside", ["", "model/", "a/b/c/"])
def test_zip_of_every_format_is_the_model(
    folders: dict, tmp_path: Path, expected: np.ndarray, format: str, inside: str
) -> None:
    path = zip_folder(folders[format], tmp_path / "model.zip", inside)
    elmo = Elmo.from_pretrained(path)
    np.testing.assert_allclose(elmo.embed(SENTENCE)[0], expected, atol=1e-6)
    assert elmo.format.endswith(" in a .zip")
    assert [p.name for p in tmp_path.iterdir()] == ["model.zip"]


def test_files_that_a_desktop_adds_do_not_matter(folders: dict, tmp_path: Path) -> None:
    path = zip_folder(folders["official"], tmp_path / "model.zip", "model/")
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("__MACOSX/model/._options.json", b"x")
        archive.writestr("model/.DS_Store", b"x")
        archive.writestr("README.txt", b"x")
        archive.mkdir("empty")
    Elmo.from_pretrained(path)


@pytest.mark.parametrize(
    "name", ["../evil.txt", "/tmp/evil.txt", "model/../../evil.txt", "..\\evil.txt", "model/.."]
)
def test_names_that_lead_out_of_the_archive_write_nothing_there(
    folders: dict, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every file that is written while loading lies directly in the temporary folder."""
    path = zip_folder(folders["official"], tmp_path / "model.zip", "model/")
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr(name, b"evil")
        archive.writestr("../model/options.json.evil", b"evil")
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    written = []
    original = Path.open

    def spy(self: Path, mode: str = "r", *args: object, **kwargs: object) -> object:
        if "w" in mode:
            written.append(self)
        return original(self, mode, *args, **kwargs)

    monkeypatch.setattr(Path, "open", spy)
    Elmo.from_pretrained(path)
    assert written
    assert all(file.parent.parent == temporary and file.name != ".." for file in written)
    assert not list(temporary.glob("tmp*"))
    assert not list(tmp_path.rglob("evil*"))


def test_archive_of_two_models_is_refused(folders: dict, tmp_path: Path) -> None:
    path = zip_folder(folders["official"], tmp_path / "two.zip", "one/")
    with zipfile.ZipFile(path, "a") as archive:
        archive.write(folders["official"] / "options.json", "two/options.json")
    assert_refused(lambda: Elmo.from_pretrained(path), str(path), "found 2")


@pytest.mark.parametrize("names", [[], ["readme.txt"], ["weights.hdf5"], ["vocab.txt", "a/b.txt"]])
def test_archive_without_a_model_is_refused(tmp_path: Path, names: list[str]) -> None:
    path = tmp_path / "none.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for name in names:
            archive.writestr(name, b"x")
    assert_refused(lambda: Elmo.from_pretrained(path), str(path), "found 0")


def test_broken_model_in_an_archive_is_named_by_the_archive(folders: dict, tmp_path: Path) -> None:
    path = tmp_path / "broken.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.write(folders["official"] / "options.json", "options.json")
        archive.writestr("weights.hdf5", b"garbage")
    assert_refused(lambda: Elmo.from_pretrained(path), f"{path}/weights.hdf5")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("config.json", b"{}")
        archive.writestr("model.safetensors", b"")
    assert_refused(lambda: Elmo.from_pretrained(path), f"{path}/config.json", "format_version")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("options.json", b"{}")
    assert_refused(lambda: Elmo.from_pretrained(path), str(path), "no ELMo model found")


@pytest.mark.parametrize("content", [b"", b"garbage" * 99, b"PK\x05\x06" + bytes(10)])
def test_archive_that_is_none_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "bad.zip"
    path.write_bytes(content)
    assert_refused(lambda: Elmo.from_pretrained(path), str(path))


def test_archive_that_unpacks_beyond_the_limit_is_refused(
    folders: dict, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = zip_folder(folders["official"], tmp_path / "large.zip")
    monkeypatch.setattr(archives, "MAX_UNPACKED_BYTES", 1000)
    assert_refused(lambda: Elmo.from_pretrained(path), str(path), "when unpacked")


def test_archive_with_a_name_that_no_disk_takes_is_refused(folders: dict, tmp_path: Path) -> None:
    path = zip_folder(folders["official"], tmp_path / "long.zip")
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("x" * 5000 + ".txt", b"")
    assert_refused(lambda: Elmo.from_pretrained(path), str(path))


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2,
                                    zipfile.ZIP_LZMA])  # fmt: skip
@given(data=st.data())
@settings(max_examples=25)
def test_damaged_archive_is_a_model_or_an_error_of_ours(
    folders: dict,
    tmp_path_factory: pytest.TempPathFactory,
    method: int,
    data: st.DataObject,
) -> None:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", method) as archive:
        for file in sorted(folders["official"].iterdir()):
            archive.write(file, file.name)
    damaged = bytearray(content.getvalue())
    for _ in range(data.draw(st.integers(1, 5))):
        # Half of the damage to the directory at the end, which says where everything is.
        size = data.draw(st.sampled_from([200, len(damaged)]))
        damaged[-data.draw(st.integers(1, size))] = data.draw(st.integers(0, 255))
    if data.draw(st.booleans()):
        damaged = damaged[: data.draw(st.integers(0, len(damaged)))]
    path = tmp_path_factory.mktemp("damaged") / "model.zip"
    path.write_bytes(damaged)
    try:
        Elmo.from_pretrained(path)
    except ElmoError as e:
        assert str(path) in str(e) and "\n" not in str(e)


def test_encrypted_archive_is_refused(folders: dict, tmp_path: Path) -> None:
    path = zip_folder(folders["official"], tmp_path / "secret.zip")
    data = bytearray(path.read_bytes())
    for mark, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        start = -1
        while (start := data.find(mark, start + 1)) >= 0:
            struct.pack_into("<H", data, start + offset, 1)
    path.write_bytes(data)
    assert_refused(lambda: Elmo.from_pretrained(path), str(path), "not a readable .zip")


# ------------------------------------------------------------------ sources that are none


@pytest.mark.parametrize(
    "source", ["gone", "gone/deep/er", "/gone", "./gone", "", "gone.zip", "a\0b", "x" * 5000,
               "~nobody-of-this-name/model", "s3://bucket/model"]
)  # fmt: skip
def test_source_that_does_not_exist_is_refused(
    source: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileError) as caught:
        Elmo.from_pretrained(source)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["model.bin", "README.md", "weights", "vocab.txt"])
def test_file_that_belongs_to_no_model_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("x")
    assert_refused(lambda: Elmo.from_pretrained(tmp_path / name), name, "options.json")


def test_folder_of_nothing_is_refused_with_what_was_expected(tmp_path: Path) -> None:
    for mention in ("model.safetensors", "options.json", "encoder.pkl", "*.index"):
        assert_refused(lambda: Elmo.from_pretrained(tmp_path), str(tmp_path), mention)


def test_configuration_without_weights_is_refused(folders: dict, tmp_path: Path) -> None:
    shutil.copy(folders["elmokit"] / "config.json", tmp_path)
    assert_refused(lambda: Elmo.from_pretrained(tmp_path), str(tmp_path), "no model.safetensors")
    assert_refused(lambda: Elmo.from_pretrained(tmp_path / "config.json"), "no model.safetensors")


def test_path_under_the_home_folder_is_found(
    folders: dict, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(folders["elmokit"].parent))
    Elmo.from_pretrained("~/elmokit")


@pytest.mark.parametrize("suffix", [".gz", ".xz"])
@given(st.floats(0, 1), st.integers(0, 255), st.floats(0, 1))
def test_damaged_compressed_text_is_lines_or_an_error_of_ours(
    tmp_path_factory: pytest.TempPathFactory, suffix: str, place: float, value: int, cut: float
) -> None:
    path = tmp_path_factory.mktemp("text") / f"text.txt{suffix}"
    text = "".join(f"line {i * i}\n" for i in range(200)).encode()
    data = bytearray(gzip.compress(text) if suffix == ".gz" else lzma.compress(text))
    data[int(place * (len(data) - 1))] = value
    path.write_bytes(data[: int((0.5 + cut) * len(data))])
    try:
        list(read_lines(path))
    except ElmoError as e:
        assert str(path) in str(e) and "\n" not in str(e)


# ------------------------------------------------------------------ the Hub


def test_hub_name_is_downloaded(
    folders: dict, monkeypatch: pytest.MonkeyPatch, expected: np.ndarray
) -> None:
    huggingface_hub = pytest.importorskip("huggingface_hub")
    seen = {}

    def snapshot_download(
        repo_id: str, *, revision: str | None, allow_patterns: list[str], local_files_only: bool
    ) -> str:
        seen.update(repo_id=repo_id, revision=revision, patterns=allow_patterns)
        seen.update(offline=local_files_only)
        return str(folders["official"])

    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot_download)
    elmo = Elmo.from_pretrained("someone/elmo-small", revision="v1")
    np.testing.assert_allclose(elmo.embed(SENTENCE)[0], expected, atol=1e-6)
    assert (seen["repo_id"], seen["revision"]) == ("someone/elmo-small", "v1")
    assert "*.hdf5" in seen["patterns"] and "*.safetensors" in seen["patterns"]
    assert not seen["offline"]
    monkeypatch.setenv("ELMOKIT_OFFLINE", "1")
    Elmo.from_pretrained("someone/elmo-small")
    assert seen["offline"]


def test_hub_failure_says_why_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    huggingface_hub = pytest.importorskip("huggingface_hub")

    def snapshot_download(*_: object, **__: object) -> str:
        raise ConnectionError("no route\nto host")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot_download)
    assert_refused(
        lambda: Elmo.from_pretrained("someone/elmo"), "someone/elmo", "ConnectionError", "no route"
    )
    monkeypatch.setenv("ELMOKIT_OFFLINE", "1")
    assert_refused(lambda: Elmo.from_pretrained("someone/elmo"), "ELMOKIT_OFFLINE is set")


def test_hub_name_without_its_package_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(MissingExtra, match=r"someone/elmo.*pip install 'elmokit\[hub\]'"):
        Elmo.from_pretrained("someone/elmo")


def test_local_folder_wins_over_the_hub(
    folders: dict, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(folders["elmokit"], tmp_path / "someone" / "elmo")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    Elmo.from_pretrained("someone/elmo")


def test_loading_a_local_model_imports_neither_network_nor_compiler(folders: dict) -> None:
    """The compiler of torch takes seconds to import, and torch has many ways to ask for it."""
    program = f"""
import sys
from elmokit import Elmo
for folder in {[str(folder) for folder in folders.values()]}:
    Elmo.from_pretrained(folder).embed(["a text"])
print(*(name in sys.modules for name in ("torch._dynamo", "huggingface_hub")))
"""
    run = [sys.executable, "-c", program]
    output = subprocess.run(run, check=True, capture_output=True, text=True).stdout
    assert output == "False False\n"


# ------------------------------------------------------------------ writing


@pytest.mark.parametrize("format", FORMATS)
def test_what_is_there_is_replaced_by_force_alone(tmp_path: Path, format: str) -> None:
    checkpoint = make_tiny().to_checkpoint()
    folder, _ = write_checkpoint(checkpoint, tmp_path / "model", format)
    before = {file: file.stat().st_mtime_ns for file in folder.iterdir()}
    assert_refused(lambda: write_checkpoint(checkpoint, folder, format), "model", "--force")
    assert {file: file.stat().st_mtime_ns for file in folder.iterdir()} == before
    write_checkpoint(make_tiny(seed=1).to_checkpoint(), folder, format, force=True)
    got = Elmo.from_pretrained(folder).embed(SENTENCE)[0]
    np.testing.assert_allclose(got, make_tiny(seed=1).embed(SENTENCE)[0], atol=1e-6)


def test_name_of_an_hdf5_file_means_an_official_pair(tmp_path: Path) -> None:
    checkpoint = make_tiny().to_checkpoint()
    assert write_checkpoint(checkpoint, tmp_path / "a" / "w.hdf5") == (tmp_path / "a", OFFICIAL)
    assert sorted(p.name for p in (tmp_path / "a").iterdir()) == ["options.json", "w.hdf5"]
    with pytest.raises(ConfigError, match=r"\.hdf5"):
        write_checkpoint(checkpoint, tmp_path / "b" / "w.hdf5", "elmokit")
    with pytest.raises(ConfigError, match="format='onnx'"):
        write_checkpoint(checkpoint, tmp_path / "b", "onnx")  # type: ignore[arg-type]
    assert not (tmp_path / "b").exists()


@pytest.mark.parametrize(
    ("format", "writer"),
    [("elmokit", "elmokit.formats.elmokit_folder.write_json"),
     ("official", "elmokit.formats.official.write_json"),
     ("tf", "elmokit.formats.tensorflow.write_json"), ("official", "h5py.File"),
     ("tf", "elmokit.formats.tensorflow.write_bundle")],
)  # fmt: skip
def test_failure_half_way_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format: str, writer: str
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(writer, fail)
    target = tmp_path / "model"
    checkpoint = make_tiny().to_checkpoint()
    assert_refused(
        lambda: write_checkpoint(checkpoint, target, format), str(target), "No space left"
    )
    assert not list(tmp_path.iterdir())


def test_interruption_half_way_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("elmokit.formats.elmokit_folder.write_json", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_checkpoint(make_tiny().to_checkpoint(), tmp_path / "model")
    assert not list(tmp_path.iterdir())


def test_what_a_format_loses_is_said() -> None:
    elmo = make_tiny()
    elmo.warm_up(["some text"])
    checkpoint = elmo.to_checkpoint()
    assert ELMOKIT.lost(checkpoint) == []
    assert OFFICIAL.lost(checkpoint) == ["the mixes (default)", "the warm state"]


def test_notes_are_logged_once(
    folders: dict, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = shutil.copytree(folders["official"], tmp_path / "model")
    write_token_embeddings(Path(folder) / "tokens.hdf5", np.zeros((3, 16)))
    read_checkpoint(folder)
    assert [r.levelname for r in caplog.records] == ["WARNING"]
