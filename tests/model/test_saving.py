"""What is saved comes back, bit for bit; what cannot be saved leaves no trace."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from strategies import assert_refused, make_tiny, models, random_model, tiny_config

from elmokit import Elmo
from elmokit.config import CharCnnConfig, EncoderConfig, LstmConfig
from elmokit.errors import ConfigError
from elmokit.formats.save import write_checkpoint
from elmokit.text.ids import Vocab

SENTENCES = [["The", "cat"], ["한글", "ab", "zzz"], []]


def assert_same_model(one: Elmo, other: Elmo) -> None:
    a, b = one.state_dict(), other.state_dict()
    assert list(a) == list(b)
    for name in a:
        assert a[name].dtype == b[name].dtype
        assert a[name].equal(b[name]), name
    for layers in ("all", *(f"mix:{name}" for name in one.mixes)):
        for x, y in zip(
            one.embed(SENTENCES, layers=layers), other.embed(SENTENCES, layers=layers), strict=True
        ):
            np.testing.assert_array_equal(x, y)


@given(elmo=models())
@settings(max_examples=25)
def test_any_architecture_comes_back_bit_for_bit(
    elmo: Elmo, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("saved")
    elmo.save_pretrained(folder)
    again = Elmo.from_pretrained(folder)
    assert_same_model(elmo, again)
    assert again.to_checkpoint().config == elmo.to_checkpoint().config
    assert again.to_checkpoint().characters == elmo.to_checkpoint().characters
    assert again.to_checkpoint().words == elmo.to_checkpoint().words


def test_everything_that_a_model_learned_comes_back(tmp_path: Path) -> None:
    vocab = Vocab(["</S>", "<S>", "<UNK>", "", "한글", "the", "the", "a\u3000b"])
    config = tiny_config(
        num_softmax_words=len(vocab), tokenizer="whitespace", normalization=None, state="warm"
    )
    elmo = make_tiny(config, vocab=vocab)
    mix = elmo.add_mix("task", layer_norm=True, dropout=0.25, trainable=False)
    mix.scalars.data = torch.tensor([0.1, 0.2, 0.3])
    mix.gamma.data = torch.tensor(1.5)
    elmo.warm_up(["some text"])
    elmo.save_pretrained(tmp_path / "saved")
    again = Elmo.from_pretrained(tmp_path / "saved")
    assert_same_model(elmo, again)
    assert again.vocab == vocab
    assert (again.config.tokenizer, again.config.normalization) == ("whitespace", None)
    assert again.config.state == "warm"
    assert again.warm_h.equal(elmo.warm_h) and again.warm_c.equal(elmo.warm_c)
    assert list(again.mixes) == ["default", "task"]
    assert (again.mixes["task"].layer_norm, again.mixes["task"].dropout.p) == (True, 0.25)
    assert not again.mixes["task"].scalars.requires_grad
    assert again.mixes["default"].scalars.requires_grad
    assert not any(p.requires_grad for p in again.bilm.parameters())
    assert not again.training


def test_options_of_loading_win_over_what_was_saved(tmp_path: Path) -> None:
    make_tiny(tiny_config(tokenizer="whitespace", state="warm")).save_pretrained(tmp_path)
    elmo = Elmo.from_pretrained(
        tmp_path, tokenizer="regex", state="carry", normalization=None, requires_grad=True,
        dtype="bfloat16", device="cpu", engine="torch", cache_words=0,
    )  # fmt: skip
    assert elmo.config.tokenizer == "regex"
    assert elmo.config.state == "carry"
    assert elmo.config.normalization is None
    assert all(p.requires_grad for p in elmo.bilm.parameters())
    assert elmo.dtype == torch.bfloat16
    assert elmo.engine == "torch"


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", torch.float16])
def test_half_precision_halves_the_file_and_stays_near(tmp_path: Path, dtype: str) -> None:
    elmo = make_tiny()
    elmo.save_pretrained(tmp_path / "full")
    elmo.save_pretrained(tmp_path / "half", dtype=dtype)
    sizes = [(tmp_path / n / "model.safetensors").stat().st_size for n in ("half", "full")]
    assert sizes[0] < 0.6 * sizes[1]
    again = Elmo.from_pretrained(tmp_path / "half")
    assert again.dtype == torch.float32
    for x, y in zip(elmo.embed(SENTENCES), again.embed(SENTENCES), strict=True):
        np.testing.assert_allclose(x, y, atol=0.05)


@pytest.mark.parametrize("dtype", ["float8", torch.int8, "half"])
def test_other_precisions_are_refused(tmp_path: Path, dtype: str) -> None:
    with pytest.raises(ConfigError, match="dtype="):
        make_tiny().save_pretrained(tmp_path / "saved", dtype=dtype)
    assert not list(tmp_path.iterdir())
    make_tiny().save_pretrained(tmp_path / "saved")
    with pytest.raises(ConfigError, match="dtype="):
        Elmo.from_pretrained(tmp_path / "saved", dtype=dtype)


def test_saving_does_not_change_the_model_and_copies_share_nothing(tmp_path: Path) -> None:
    elmo = make_tiny().train()
    before = {name: t.clone() for name, t in elmo.state_dict().items()}
    elmo.save_pretrained(tmp_path)
    assert elmo.training
    again = Elmo.from_pretrained(tmp_path)
    with torch.no_grad():
        for parameter in again.parameters():
            parameter.zero_()
    assert all(t.equal(before[name]) for name, t in elmo.state_dict().items())


def test_saving_over_another_model_leaves_nothing_of_it(tmp_path: Path) -> None:
    """Dictionaries of the model that was there before must not reach the new one."""
    vocab = Vocab(["<S>", "</S>", "<UNK>"])
    words = tiny_config(
        encoder=EncoderConfig(char_cnn=None, num_words=11, word_dim=4), num_softmax_words=3
    )
    random_model(words, vocab=vocab).save_pretrained(tmp_path)
    elmo = make_tiny()
    elmo.save_pretrained(tmp_path)
    again = Elmo.from_pretrained(tmp_path)
    assert_same_model(elmo, again)
    assert again.vocab is None
    assert again.to_checkpoint().words is None


@pytest.mark.parametrize("format", ["official", "tf", "manylangs", "bert", "other", "nearly"])
def test_folder_of_anything_else_is_refused_and_kept(tmp_path: Path, format: str) -> None:
    folder = tmp_path / "there"
    if format in ("official", "tf"):
        write_checkpoint(make_tiny(seed=1).to_checkpoint(), folder, format)
    else:
        names = {
            "manylangs": ["config.json", "encoder.pkl"],
            "bert": ["config.json", "model.safetensors"],
            "other": ["thesis.txt"],
            "nearly": ["model.safetensors"],
        }
        folder.mkdir()
        for name in names[format]:
            (folder / name).write_text("{}")
    before = {path: path.read_bytes() for path in folder.iterdir()}
    assert_refused(lambda: make_tiny().save_pretrained(folder), str(folder), "new or empty folder")
    assert {path: path.read_bytes() for path in folder.iterdir()} == before
    assert list(tmp_path.iterdir()) == [folder]


def test_model_of_ours_is_replaced_beside_other_files(tmp_path: Path) -> None:
    make_tiny(seed=1).save_pretrained(tmp_path)
    (tmp_path / "README.md").write_text("mine")
    make_tiny().save_pretrained(tmp_path)
    assert_same_model(make_tiny(), Elmo.from_pretrained(tmp_path))
    assert (tmp_path / "README.md").read_text() == "mine"


def test_model_of_a_pre_training_run_is_not_replaced(tmp_path: Path) -> None:
    make_tiny(seed=1).save_pretrained(tmp_path)
    (tmp_path / "run.json").write_text("{}")
    assert_refused(lambda: make_tiny().save_pretrained(tmp_path), "is a pre-training run")
    checkpoint = make_tiny().to_checkpoint()
    assert_refused(
        lambda: write_checkpoint(checkpoint, tmp_path, force=True), "is a pre-training run"
    )
    assert_same_model(make_tiny(seed=1), Elmo.from_pretrained(tmp_path))


def test_hidden_files_are_in_nobodys_way(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    make_tiny().save_pretrained(tmp_path)
    assert_same_model(make_tiny(), Elmo.from_pretrained(tmp_path))


def test_device_without_values_is_refused(tmp_path: Path) -> None:
    make_tiny().save_pretrained(tmp_path)
    assert_refused(lambda: Elmo.from_pretrained(tmp_path, device="meta"), "device='meta'")


def test_file_in_the_way_is_named_and_kept(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("mine")
    assert_refused(lambda: make_tiny().save_pretrained(tmp_path / "taken"), "taken")
    assert_refused(lambda: make_tiny().save_pretrained(tmp_path / "taken" / "below"), "taken")
    assert (tmp_path / "taken").read_text() == "mine"
    assert [p.name for p in tmp_path.iterdir()] == ["taken"]


@pytest.mark.parametrize("writer", ["files.arrays.save_file", "formats.elmokit_folder.write_json"])
@pytest.mark.parametrize("exists", [False, True])
def test_failed_write_leaves_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writer: str, exists: bool
) -> None:
    target = tmp_path / "model"
    old = make_tiny(seed=1)
    if exists:
        old.save_pretrained(target)
    before = {p: p.read_bytes() for p in target.rglob("*")} if exists else {}

    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(f"elmokit.{writer}", fail)
    assert_refused(lambda: make_tiny().save_pretrained(target), str(target), "No space left")
    assert {p: p.read_bytes() for p in target.rglob("*")} == before
    assert [p.name for p in tmp_path.iterdir()] == (["model"] if exists else [])


def test_saved_files_have_the_usual_permissions(tmp_path: Path) -> None:
    old = os.umask(0o022)
    try:
        make_tiny().save_pretrained(tmp_path / "model")
    finally:
        os.umask(old)
    modes = {p.name: p.stat().st_mode & 0o777 for p in (tmp_path / "model").iterdir()}
    assert set(modes.values()) == {0o644}
    assert (tmp_path / "model").stat().st_mode & 0o777 == 0o755


def test_config_file_is_for_people(tmp_path: Path) -> None:
    make_tiny().save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["format_version"] == 1
    assert config["lstm"]["projection_dim"] == 16


def test_upload_saves_the_model_and_returns_its_address(monkeypatch: pytest.MonkeyPatch) -> None:
    huggingface_hub = pytest.importorskip("huggingface_hub")
    seen = {}

    class Api:
        def create_repo(self, repo_id: str, *, private: bool, exist_ok: bool) -> str:
            seen.update(repo_id=repo_id, private=private)
            return f"https://hub.invalid/{repo_id}"

        def upload_folder(self, *, repo_id: str, folder_path: Path) -> None:
            seen["model"] = Elmo.from_pretrained(folder_path)

    monkeypatch.setattr(huggingface_hub, "HfApi", Api)
    elmo = make_tiny()
    assert elmo.push_to_hub("me/model", private=True) == "https://hub.invalid/me/model"
    assert (seen["repo_id"], seen["private"]) == ("me/model", True)
    assert_same_model(elmo, seen["model"])


def test_failed_upload_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    huggingface_hub = pytest.importorskip("huggingface_hub")

    class Api:
        def create_repo(self, *_: object, **__: object) -> str:
            raise PermissionError("401: not yours\nlong story")

    monkeypatch.setattr(huggingface_hub, "HfApi", Api)
    assert_refused(lambda: make_tiny().push_to_hub("me/model"), "me/model", "401: not yours")


def test_published_small_shape_has_the_published_number_of_weights() -> None:
    config = tiny_config(encoder=EncoderConfig(char_cnn=CharCnnConfig()), lstm=LstmConfig())
    with torch.device("meta"):
        elmo = Elmo(config)
    assert sum(p.numel() for p in elmo.bilm.parameters()) == 13_593_312
