"""`compat.allennlp.Elmo` gives AllenNLP's numbers, names and shapes."""

import copy
import pickle
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from strategies import assert_close, batches
from torch import Tensor, nn

from elmokit.compat.allennlp import Elmo, _ElmoBiLm, batch_to_ids
from elmokit.errors import ConfigError, FileError, InputError

Pair = tuple[Path, Path]
BATCH = [["The", "cat", "sat", "."], [], ["고양이"], ["a", "b"]]


def vectors(elmo: Elmo, batch: list[list[str]], number: int = 0) -> Tensor:
    return elmo(batch_to_ids(batch))["elmo_representations"][number]


def plain(pair: Pair, **arguments: object) -> Elmo:
    return Elmo(*pair, 1, dropout=0.0, **arguments).eval()  # type: ignore[arg-type]


@pytest.mark.parametrize("requires_grad", [False, True])
def test_matches_allennlp_with_carried_state(
    fixtures: Path, allennlp_batches: list[list[list[str]]], requires_grad: bool
) -> None:
    folder = fixtures / "allennlp-elmo"
    elmo = Elmo(
        folder / "options.json",
        folder / "lm_weights.hdf5",
        1,
        requires_grad=requires_grad,
        scalar_mix_parameters=[-9e10, -9e10, 1.0],
    ).eval()
    files = [h5py.File(folder / f"lm_embeddings_{k}.hdf5") for k in range(3)]
    for i, batch in enumerate(allennlp_batches):
        got = vectors(elmo, batch).detach().numpy()
        for row, sentence, file in zip(got, batch, files, strict=True):
            expected = np.concatenate(list(file[str(i)][...]), axis=-1)
            np.testing.assert_allclose(row[: len(sentence)], expected, atol=2e-6, rtol=0)
            assert not row[len(sentence) :].any()


@pytest.fixture(scope="module")
def both(pair: Pair) -> tuple[_ElmoBiLm, _ElmoBiLm]:
    return _ElmoBiLm(*pair), _ElmoBiLm(*pair, requires_grad=True)


@settings(max_examples=25)
@given(batch=batches())
def test_frozen_and_trained_models_agree_call_after_call(
    both: tuple[_ElmoBiLm, _ElmoBiLm], batch: list[list[str]]
) -> None:
    frozen, trained = both
    frozen.reset_states()
    trained.reset_states()
    for sentences in (batch, batch[:1], [*batch, ["ab"]]):
        got, expected = frozen(batch_to_ids(sentences)), trained(batch_to_ids(sentences))
        assert got["mask"].equal(expected["mask"])
        for a, b in zip(got["activations"], expected["activations"], strict=True):
            assert_close(a, b.detach().numpy())


def test_state_is_carried_until_reset(pair: Pair) -> None:
    elmo = plain(pair)
    first, second = vectors(elmo, BATCH), vectors(elmo, BATCH)
    assert (first - second).abs().max() > 1e-3
    elmo.reset_states()
    assert vectors(elmo, BATCH).equal(first)
    elmo._elmo_lstm._elmo_lstm.stateful = False  # as scripts do it
    assert vectors(elmo, BATCH).equal(vectors(elmo, BATCH))
    assert vectors(elmo, BATCH).equal(first)


def test_smaller_batch_leaves_the_other_states(pair: Pair) -> None:
    elmo, other = plain(pair), plain(pair)
    vectors(elmo, BATCH), vectors(other, BATCH)
    vectors(elmo, [["x"]])
    assert vectors(elmo, BATCH)[1:].allclose(vectors(other, BATCH)[1:], atol=1e-6)


@pytest.mark.parametrize("arguments", [{}, {"do_layer_norm": True}])
def test_inference_mode_and_training_may_alternate(pair: Pair, arguments: dict[str, bool]) -> None:
    elmo = plain(pair, **arguments)
    for _ in range(2):
        with torch.inference_mode():
            vectors(elmo, BATCH)
        vectors(elmo, BATCH).sum().backward()


def test_mask_and_padding(pair: Pair) -> None:
    output = plain(pair)(batch_to_ids(BATCH))
    assert output["mask"].dtype == torch.bool
    assert output["mask"].tolist() == [[k < len(s) for k in range(4)] for s in BATCH]
    assert not output["elmo_representations"][0][~output["mask"]].any()


def test_batch_without_tokens_has_no_vectors(pair: Pair) -> None:
    elmo = plain(pair)
    assert vectors(elmo, [[], []]).shape == (2, 0, 32)
    assert vectors(elmo, []).shape == (0, 0, 32)
    assert vectors(plain(pair, keep_sentence_boundaries=True), [[]]).shape == (1, 2, 32)


def test_kept_boundaries_surround_the_same_vectors(pair: Pair) -> None:
    output = plain(pair, keep_sentence_boundaries=True)(batch_to_ids(BATCH))
    whole, mask = output["elmo_representations"][0], output["mask"]
    assert mask.sum(dim=1).tolist() == [len(s) + 2 for s in BATCH]
    inner = whole[:, 1:-1] * mask[:, 2:, None]
    assert inner.allclose(vectors(plain(pair), BATCH), atol=1e-6)
    assert whole[mask].abs().sum(dim=-1).min() > 0


def test_layer_norm_is_over_the_batch_with_boundaries(pair: Pair) -> None:
    output = plain(pair)._elmo_lstm(batch_to_ids(BATCH))
    mask = output["mask"].numpy()
    expected = np.zeros((*mask.shape, 32))
    for layer in output["activations"]:
        real = layer.double().numpy()[mask]
        expected[mask] += (real - real.mean()) / np.sqrt(real.var() + 1e-13) / 3
    got = plain(pair, do_layer_norm=True, keep_sentence_boundaries=True)(batch_to_ids(BATCH))
    assert_close(got["elmo_representations"][0].detach().numpy()[mask], expected[mask])
    inner = vectors(plain(pair, do_layer_norm=True), BATCH).detach().numpy()
    assert_close(inner, expected[:, 1:-1] * mask[:, 2:, None])


def test_texts_of_several_sentences(pair: Pair) -> None:
    ids = batch_to_ids(BATCH)
    for keep in (False, True):
        flat = plain(pair, keep_sentence_boundaries=keep)(ids)
        nested = plain(pair, keep_sentence_boundaries=keep)(ids.reshape(2, 2, 4, 50))
        assert nested["mask"].flatten(0, 1).equal(flat["mask"])
        got = nested["elmo_representations"][0]
        assert got.ndim == 4
        assert got.flatten(0, 1).equal(flat["elmo_representations"][0])


def test_gradient_reaches_the_mixes_alone(pair: Pair) -> None:
    elmo = Elmo(*pair, 2, dropout=0.0)
    sum(v.square().sum() for v in elmo(batch_to_ids(BATCH))["elmo_representations"]).backward()
    trained = {name for name, p in elmo.named_parameters() if p.grad is not None}
    names = ("gamma", *(f"scalar_parameters.{j}" for j in range(3)))
    assert trained == {f"scalar_mix_{k}.{name}" for k in (0, 1) for name in names}
    assert all(p.grad.item() != 0 for p in elmo.scalar_mix_1.scalar_parameters)


def test_gradient_reaches_the_language_models_on_request(pair: Pair) -> None:
    elmo = Elmo(*pair, 1, requires_grad=True, dropout=0.0)
    for _ in range(2):  # the carried state does not keep the graph of the call before
        vectors(elmo, BATCH).square().sum().backward()
    assert all(p.grad is not None and p.grad.any() for p in elmo.parameters())


def test_dropout_while_training_only(pair: Pair) -> None:
    elmo = Elmo(*pair, 1)
    real = elmo(batch_to_ids([["a", "b", "c"] * 20]))["elmo_representations"][0]
    assert 0.4 < float((real == 0).float().mean()) < 0.6
    assert elmo.eval() and (vectors(elmo, [["a", "b", "c"] * 20]) != 0).all()


def test_state_dict_has_the_names_of_allennlp(pair: Pair) -> None:
    elmo = Elmo(*pair, 2)
    shapes = {name: tuple(t.shape) for name, t in elmo.state_dict().items()}
    for k in (0, 1):
        assert shapes[f"scalar_mix_{k}.gamma"] == (1,)
        assert all(shapes[f"scalar_mix_{k}.scalar_parameters.{j}"] == (1,) for j in range(3))
    assert shapes["_elmo_lstm._token_embedder._char_embedding_weights"] == (262, 4)
    assert shapes["_elmo_lstm._token_embedder.char_conv_2.weight"] == (16, 4, 3)
    assert shapes["_elmo_lstm._token_embedder._highways._layers.0.weight"] == (56, 28)
    assert shapes["_elmo_lstm._token_embedder._projection.bias"] == (16,)
    assert shapes["_elmo_lstm._elmo_lstm.backward_layer_1.state_projection.weight"] == (16, 32)
    assert not [name for name in shapes if "bilm" in name or "scalars" in name]


def test_state_dict_round_trip_within_a_larger_model(pair: Pair) -> None:
    first = nn.ModuleDict({"elmo": Elmo(*pair, 1, requires_grad=True), "head": nn.Linear(32, 2)})
    with torch.no_grad():
        for parameter in first.parameters():
            parameter.add_(0.1)
    state = first.state_dict()
    # What a model with cached words has in addition.
    state["elmo._elmo_lstm._word_embedding.weight"] = torch.zeros(5, 16)
    second = nn.ModuleDict({"elmo": Elmo(*pair, 1), "head": nn.Linear(32, 2)})
    second.load_state_dict(state)
    elmo, other = first["elmo"].eval(), second["elmo"].eval()
    assert vectors(other, BATCH).allclose(vectors(elmo, BATCH), atol=1e-6)


def test_loaded_weights_replace_what_was_prepared_and_cached(pair: Pair) -> None:
    elmo, other = plain(pair), plain(pair)
    before = vectors(elmo, BATCH)
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.mul_(0.5)
    elmo.load_state_dict(other.state_dict())
    elmo.reset_states()
    after = vectors(elmo, BATCH)
    assert after.allclose(vectors(other, BATCH), atol=1e-6)
    assert not after.allclose(before, atol=1e-3)


def test_mixes_alone_can_be_loaded(pair: Pair) -> None:
    elmo = Elmo(*pair, 1)
    state = {f"scalar_mix_0.scalar_parameters.{j}": torch.tensor([j / 2]) for j in range(3)}
    missing, unexpected = elmo.load_state_dict(
        {**state, "scalar_mix_0.gamma": torch.tensor([3.0])}, strict=False
    )
    assert not unexpected and missing and not [name for name in missing if "mix" in name]
    assert elmo.scalar_mix_0.gamma.item() == 3.0
    assert [p.item() for p in elmo.scalar_mix_0.scalar_parameters] == [0.0, 0.5, 1.0]
    with pytest.raises(RuntimeError, match="scalar_mix_0"):
        elmo.load_state_dict({**state, "scalar_mix_0.scalar_parameters.3": torch.zeros(1)})


def test_copies_and_pickles(pair: Pair) -> None:
    elmo = plain(pair)
    vectors(elmo, BATCH)
    others = copy.deepcopy(elmo), pickle.loads(pickle.dumps(elmo))
    expected = vectors(elmo, BATCH)
    for other in others:
        assert vectors(other, BATCH).equal(expected)


def test_fixed_mix_is_given_before_the_softmax_and_frozen(pair: Pair) -> None:
    elmo = plain(pair, scalar_mix_parameters=[0.0, 1.0, 2.0])
    assert not any(p.requires_grad for p in elmo.parameters())
    weights = torch.softmax(torch.tensor([0.0, 1.0, 2.0]), dim=0).tolist()
    units = [[0.0 if j == k else -9e10 for j in range(3)] for k in range(3)]
    layers = [vectors(plain(pair, scalar_mix_parameters=unit), BATCH).numpy() for unit in units]
    expected = sum(w * layer for w, layer in zip(weights, layers, strict=True))
    assert_close(vectors(elmo, BATCH), expected)
    with pytest.raises(ConfigError, match="expected 3, one per layer"):
        plain(pair, scalar_mix_parameters=[1.0])


def test_word_ids_stand_for_the_words_of_the_vocabulary(
    pair: Pair, caplog: pytest.LogCaptureFixture
) -> None:
    vocabulary = ["@@PADDING@@", "@@UNKNOWN@@", "cat", "고양이"]
    sentences = [["cat", "고양이", "@@UNKNOWN@@"], ["고양이"]]
    ids, words = batch_to_ids(sentences), torch.tensor([[2, 3, 1], [3, 0, 0]])
    expected = vectors(plain(pair), sentences)
    cached = plain(pair, vocab_to_cache=vocabulary)
    assert cached(torch.zeros_like(ids), words)["elmo_representations"][0].equal(expected)
    cached.reset_states()
    assert cached(ids, words + 9)["elmo_representations"][0].equal(expected)  # not in it
    assert plain(pair)(ids, words)["elmo_representations"][0].equal(expected)
    assert "vocab_to_cache" in caplog.text


def test_own_module_in_place_of_the_files(pair: Pair) -> None:
    class Ones(nn.Module):
        num_layers = 2

        def get_output_dim(self) -> int:
            return 6

        def forward(self, inputs: Tensor, word_inputs: Tensor | None) -> dict[str, object]:
            mask = torch.ones(len(inputs), inputs.shape[1] + 2, dtype=torch.bool)
            return {"activations": [torch.ones(*mask.shape, 6)] * 2, "mask": mask}

    elmo = Elmo(None, None, 1, dropout=0.0, module=Ones())
    assert elmo.get_output_dim() == 6
    assert vectors(elmo, [["a", "b"]]).equal(torch.ones(1, 2, 6))
    with pytest.raises(ConfigError, match="pass None"):
        Elmo(*pair, 1, module=Ones())


def test_character_ids() -> None:
    ids = batch_to_ids([["cat", "<S>", "x" * 60], []])
    assert ids.dtype == torch.int64 and ids.shape == (2, 3, 50)
    assert ids[0, 0].tolist() == [259, 100, 98, 117, 260] + [261] * 45
    assert ids[0, 1, :4].tolist() == [259, 257, 260, 261]
    assert ids[0, 2].tolist() == [259] + [121] * 48 + [260]
    assert not ids[1].any()
    with pytest.raises(InputError, match="sentence 1 is a text"):
        batch_to_ids([["a"], "a text"])


def test_ids_that_cannot_be_are_refused(pair: Pair) -> None:
    elmo = plain(pair)
    ids = batch_to_ids([["a", "b", "c"]])
    with pytest.raises(InputError, match=r"\(sentences, tokens, 50\)"):
        elmo(ids[0])
    with pytest.raises(InputError, match=r"expected 0\.\.261"):
        elmo(ids + 7)
    ids[0, 1] = 0
    with pytest.raises(InputError, match="follow a sentence's tokens"):
        elmo(ids)


def test_files_are_required(pair: Pair) -> None:
    with pytest.raises(FileError, match="weight_file=None"):
        Elmo(pair[0], None, 1)
