"""Vectors follow the weights, also where torch keeps no record of a change."""

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from strategies import ENGINES, random_model, tiny_config

from elmokit import Elmo
from elmokit.compat.allennlp.bilm import ElmoBiLm
from elmokit.compat.allennlp.ids import batch_to_ids
from elmokit.config import EncoderConfig, LstmConfig
from elmokit.formats.save import write_checkpoint
from elmokit.text.ids import Vocab

SENTENCES = [["ab", "abc", "zz"], ["é"]]
VOCAB = Vocab(["<S>", "</S>", "<UNK>", "ab", "abc"])

Change = Callable[[torch.nn.Module], object]


def fused(kind: type[torch.optim.Optimizer], **options: Any) -> Change:
    """One step of a fused optimiser, which leaves `_version` of each parameter as it was."""

    def change(module: torch.nn.Module) -> None:
        module.requires_grad_(True)
        for p in module.parameters():
            p.grad = torch.full_like(p, 0.5)
        kind(module.parameters(), lr=0.1, fused=True, **options).step()  # type: ignore[call-arg]
        module.requires_grad_(False)

    return change


def every(change: Callable[[torch.Tensor], object]) -> Change:
    return lambda module: [change(p.data) for p in module.parameters()]


CHANGES: dict[str, Change] = {
    "AdamW": fused(torch.optim.AdamW),
    "Adam": fused(torch.optim.Adam),
    "SGD": fused(torch.optim.SGD),
    "SGD with momentum": fused(torch.optim.SGD, momentum=0.9),
    "Adagrad": fused(torch.optim.Adagrad),
    "data.add_": every(lambda data: data.add_(0.1)),
    "data.copy_": every(lambda data: data.copy_(data.flip(0) + 0.1)),
    "data.mul_": every(lambda data: data.mul_(1.5)),
    "numpy": every(lambda data: np.add(data.numpy(), 0.1, out=data.numpy())),
}


def layers_of(elmo: Elmo) -> list[np.ndarray]:
    return elmo.embed(SENTENCES, layers="all")


def logs_of(elmo: Elmo) -> list[np.ndarray]:
    return [np.array([score.forward, score.backward]) for score in elmo.score(SENTENCES)]


def called(elmo: Elmo) -> list[np.ndarray]:
    with torch.no_grad():
        return [elmo(SENTENCES).layers.numpy()]


PATHS: dict[str, Callable[[Elmo], list[np.ndarray]]] = {
    "embed": layers_of,
    "embed_stream": lambda elmo: list(elmo.embed_stream(SENTENCES)),
    "encode": lambda elmo: [elmo.encode(SENTENCES, layers="average")],
    "token_vectors": lambda elmo: [elmo.token_vectors(["ab", "zz"])],
    "call": called,
    "score": logs_of,
    "perplexity": lambda elmo: [np.array(elmo.perplexity(SENTENCES)[:3])],
    "streams": lambda elmo: [np.array(elmo.perplexity(SENTENCES, streams=1)[:3])],
    "substitutes": lambda elmo: [
        np.array([s.probability for s in elmo.substitutes(["ab", "zz"], index=0).best])
    ],
}


def make(**parts: Any) -> Elmo:
    config = tiny_config(num_softmax_words=len(VOCAB), tokenizer="whitespace")
    return random_model(config, vocab=VOCAB, **parts)


def assert_follows(elmo: Elmo, path: Callable[[Elmo], list[np.ndarray]], change: Change) -> None:
    """`path` gives what a model gives that has never known other weights."""
    before = path(elmo)
    change(elmo.bilm)
    after, expected = path(elmo), path(copy.deepcopy(elmo))
    for old, got, want in zip(before, after, expected, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-6)
        assert np.abs(old - want).max() > 1e-3, "the change should show"


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_embed_follows_every_change_of_whole_tensors(change: Change, engine: str) -> None:
    assert_follows(make(engine=engine), layers_of, change)


@pytest.mark.parametrize("path", PATHS.values(), ids=PATHS)
def test_every_path_follows_a_fused_step(path: Callable[[Elmo], list[np.ndarray]]) -> None:
    assert_follows(make(), path, CHANGES["AdamW"])


@pytest.mark.parametrize("part", ["encoder", "forward_lm", "backward_lm"])
@pytest.mark.parametrize("change", ["SGD", "data.add_"])
def test_a_step_of_one_part_is_followed(part: str, change: str) -> None:
    assert_follows(make(), layers_of, lambda bilm: CHANGES[change](getattr(bilm, part)))


def test_each_tensor_counts() -> None:
    elmo = make()
    for name, parameter in elmo.bilm.named_parameters():
        before = layers_of(elmo)
        parameter.data.add_(torch.randn(parameter.shape))
        after = layers_of(elmo)
        assert any(np.abs(a - b).max() > 1e-4 for a, b in zip(before, after)), name


def test_a_step_of_a_few_rows_of_a_table_is_followed() -> None:
    """Words that a batch does not have get no gradient, so that a sample could miss the step."""
    encoder = EncoderConfig(char_cnn=None, num_words=3000, word_dim=16, projected=False)
    config = tiny_config(encoder=encoder, lstm=LstmConfig(dim=32, projection_dim=16))
    words = {w: i + 1 for i, w in enumerate([f"w{i}" for i in range(2990)])}
    words |= {w: 2991 + i for i, w in enumerate(["<UNK>", "<S>", "</S>"])}
    elmo = Elmo(config, words=words).eval()
    table = elmo.bilm.encoder.words.weight.requires_grad_(True)
    before = elmo.token_vectors(["w7", "w8"])
    table.grad = torch.zeros_like(table)
    table.grad[words["w7"]] = 1
    torch.optim.SGD([table], lr=0.5, fused=True).step()
    after = elmo.token_vectors(["w7", "w8"])
    np.testing.assert_allclose(after[0], before[0] - 0.5, atol=1e-6)
    np.testing.assert_array_equal(after[1], before[1])


def test_the_task_module_of_allennlp_follows_a_fused_step(tmp_path: Path) -> None:
    write_checkpoint(make().to_checkpoint(), tmp_path / "model.hdf5")
    module = ElmoBiLm(tmp_path / "options.json", tmp_path / "model.hdf5", requires_grad=True)
    ids = batch_to_ids(SENTENCES)

    def activations(module: ElmoBiLm) -> torch.Tensor:
        module.reset_states()
        with torch.no_grad():
            return torch.stack(module(ids)["activations"])

    before = activations(module)
    CHANGES["AdamW"](module)
    after = activations(module)
    assert not torch.allclose(before, after, atol=1e-3)
    torch.testing.assert_close(after, activations(copy.deepcopy(module)), rtol=0, atol=1e-6)


def test_words_are_remembered_until_the_weights_change(monkeypatch: pytest.MonkeyPatch) -> None:
    elmo = make()
    spelled: list[int] = []
    spell = elmo._embedder._encode
    monkeypatch.setattr(
        elmo._embedder, "_encode", lambda words: [spelled.append(len(words)), spell(words)][1]
    )
    elmo.embed(SENTENCES)
    elmo.embed(SENTENCES)
    assert len(spelled) == 1
    CHANGES["Adam"](elmo.bilm)
    elmo.embed(SENTENCES)
    assert len(spelled) == 2


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
def test_other_types_of_weights_are_followed(dtype: torch.dtype) -> None:
    elmo = make().to(dtype)
    before = elmo.embed(SENTENCES)[0]
    for p in elmo.bilm.parameters():
        p.data.mul_(0.5)
    assert np.abs(elmo.embed(SENTENCES)[0] - before).max() > 1e-3


def test_weights_that_lie_otherwise_in_memory_are_followed() -> None:
    elmo = make()
    for p in elmo.bilm.parameters():
        if p.ndim == 2:
            wide = torch.zeros(p.shape[1], 2 * p.shape[0])
            p.data = wide[:, ::2].t().copy_(p.data)  # neither contiguous nor dense
    assert_follows(elmo, layers_of, CHANGES["data.mul_"])


def test_a_built_in_warm_state_follows_the_weights() -> None:
    elmo = random_model(tiny_config(state="warm"))
    elmo.embed(SENTENCES)
    CHANGES["AdamW"](elmo.bilm)
    got = layers_of(elmo)
    fresh = random_model(tiny_config(state="warm"))
    fresh.bilm.load_state_dict(elmo.bilm.state_dict())
    for a, b in zip(got, layers_of(fresh), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-6)


def test_a_warm_state_of_the_user_stays() -> None:
    elmo = random_model(tiny_config(state="warm"))
    elmo.warm_up([["ab", "abc"]])
    warm = elmo.warm_h.clone()
    CHANGES["AdamW"](elmo.bilm)
    elmo.embed(SENTENCES)
    elmo.clear_cache(weights=True)
    elmo.embed(SENTENCES)
    assert elmo.warm_h.equal(warm)


def test_a_warm_state_that_is_loaded_over_the_built_in_one_stays() -> None:
    elmo, other = (random_model(tiny_config(state="warm"), seed=seed) for seed in (0, 1))
    elmo.embed(SENTENCES)
    other.warm_up([["ab", "abc"]])
    elmo.load_state_dict(other.state_dict())
    elmo.embed(SENTENCES)
    assert elmo.warm_h.equal(other.warm_h)


def test_single_elements_need_a_cleared_cache() -> None:
    elmo = random_model(tiny_config(lstm=LstmConfig(dim=512, projection_dim=16), state="warm"))
    layers_of(elmo)
    # The first place is part of any sample; its neighbours are not.
    weight = elmo.bilm.forward_lm.layers[0].input_weight
    weight.data[0, 1:4] += 5
    elmo.bilm.encoder.char_cnn.convolutions[0].weight.data[0, 0, 0] += 1
    elmo.clear_cache(weights=True)
    got = layers_of(elmo)
    fresh = random_model(elmo.config)
    fresh.bilm.load_state_dict(elmo.bilm.state_dict())
    for a, b in zip(got, layers_of(fresh), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-6)
    elmo.clear_cache(weights=True)
    assert len(elmo._embedder.cache) == 0
