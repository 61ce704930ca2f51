"""The layers of a frozen biLM are computed once, and are the same wherever they are kept."""

from pathlib import Path

import numpy as np
import pytest
import torch
from strategies import assert_refused, make_tiny

from elmokit import Elmo
from elmokit.tasks.parts.bilm import FrozenLayers, TunedLayers, fingerprint, load_bilm

SENTENCES = [["He", "has", "a", "gift"], ["한글", "🙂"], ["x"], ["He", "has", "a", "gift"]]


@pytest.mark.parametrize("layers", ["mix", "top", "average", "1"])
def test_layers_are_those_of_the_model(tiny: Elmo, layers: str) -> None:
    wanted = {"mix": "all", "1": 1}.get(layers, layers)
    got = FrozenLayers(tiny, layers).layers(SENTENCES)
    expected = tiny.embed(SENTENCES, layers=wanted)
    assert got.shape == (3 if layers == "mix" else 1, 4, 4, tiny.dim)
    for i, vectors in enumerate(expected):
        rounded = vectors.astype(np.float16).astype(np.float32)
        # In other batches torch rounds otherwise, which may move a value to its neighbour.
        np.testing.assert_allclose(
            got[:, i, : len(SENTENCES[i])].numpy(),
            rounded.reshape(got.shape[0], -1, tiny.dim),
            rtol=2**-10,
            atol=1e-6,
        )
        assert not got[:, i, len(SENTENCES[i]) :].any()


def test_memory_disk_and_no_cache_agree(tiny: Elmo, tmp_path: Path) -> None:
    memory = FrozenLayers(tiny)
    disk = FrozenLayers(tiny, max_bytes=0, folder=tmp_path)
    fresh = FrozenLayers(tiny, is_cached=False)
    for source in (memory, disk, fresh):
        source.prepare(SENTENCES)
    assert (memory.num_sentences, disk.num_sentences, fresh.num_sentences) == (3, 3, 0)
    assert disk.is_on_disk and not memory.is_on_disk
    for source in (disk, fresh):
        torch.testing.assert_close(
            source.layers(SENTENCES), memory.layers(SENTENCES), rtol=2**-10, atol=1e-6
        )


def test_a_sentence_is_computed_once(tiny: Elmo, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[list[str]] = []
    embed = tiny.embed

    def counted(sentences: list[list[str]], **options: object) -> object:
        seen.extend(sentences)
        return embed(sentences, **options)  # type: ignore[call-overload]

    monkeypatch.setattr(tiny, "embed", counted)
    source = FrozenLayers(tiny)
    source.prepare(SENTENCES[:2])
    for _ in range(2):
        source.layers(SENTENCES)
    assert sorted(seen) == sorted(SENTENCES[:3])
    seen.clear()
    FrozenLayers(tiny, is_cached=False).layers(SENTENCES)
    assert sorted(seen) == sorted(SENTENCES[:3])


def test_tuned_layers_have_gradients() -> None:
    elmo = make_tiny(requires_grad=True)
    for layers, number in (("mix", 3), ("average", 1)):
        got = TunedLayers(elmo, layers).layers(SENTENCES)
        assert got.shape == (number, 4, 4, elmo.dim) and got.requires_grad
        frozen = FrozenLayers(elmo, layers).layers(SENTENCES)
        torch.testing.assert_close(got, frozen, atol=2e-3, rtol=2e-3)


def test_a_layer_that_there_is_not(tiny: Elmo) -> None:
    assert_refused(lambda: FrozenLayers(tiny, "7"), "layers=7", "0..2")


def test_fingerprint_follows_the_weights(tiny: Elmo, tmp_path: Path) -> None:
    tiny.save_pretrained(tmp_path / "a")
    assert fingerprint(load_bilm(tmp_path / "a", device="cpu")) == fingerprint(tiny)
    assert fingerprint(make_tiny(seed=1)) != fingerprint(tiny)
