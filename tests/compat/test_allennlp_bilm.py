"""What scripts reach for inside AllenNLP's ELMo: states, parts, parameters and their names."""

import copy
import json
import pickle
import re
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch
from strategies import assert_close
from torch import Tensor, nn

from elmokit.compat.allennlp import (
    Elmo,
    ElmoEmbedder,
    _ElmoBiLm,
    _ElmoCharacterEncoder,
    batch_to_ids,
    remove_sentence_boundaries,
)
from elmokit.errors import ConfigError, InputError

Pair = tuple[Path, Path]
BATCH = [["The", "cat", "sat", "."], [], ["고양이"], ["a", "b"]]


@pytest.fixture
def bilm(pair: Pair) -> _ElmoBiLm:
    return _ElmoBiLm(*pair)


def top(bilm: _ElmoBiLm, batch: list[list[str]] = BATCH) -> Tensor:
    return bilm(batch_to_ids(batch))["activations"][-1]


def states(bilm: _ElmoBiLm) -> tuple[Tensor, Tensor]:
    found = bilm._elmo_lstm._states
    assert isinstance(found, tuple)
    return found


def test_states_are_those_at_the_ends_of_the_sentences(bilm: _ElmoBiLm) -> None:
    assert bilm._elmo_lstm._states is None
    output = bilm(batch_to_ids(BATCH))
    h, c = states(bilm)
    assert h.shape == (2, 4, 32) and c.shape == (2, 4, 64)
    assert not h.requires_grad and not c.requires_grad
    first = output["activations"][1]  # no residual in the first layer
    for row, sentence in enumerate(BATCH):
        assert_close(h[0, row, :16], first[row, len(sentence) + 1, :16].numpy())
        assert_close(h[0, row, 16:], first[row, 0, 16:].numpy())


def test_states_are_forgotten_by_hand(bilm: _ElmoBiLm) -> None:
    first, second = top(bilm), top(bilm)
    assert not second.allclose(first, atol=1e-3)
    bilm._elmo_lstm._states = None
    assert top(bilm).equal(first)
    bilm._elmo_lstm.reset_states()
    assert bilm._elmo_lstm._states is None


def test_states_are_copied_and_put_back(bilm: _ElmoBiLm) -> None:
    top(bilm)
    saved = states(bilm)
    before = [state.clone() for state in saved]
    expected = top(bilm)
    top(bilm, BATCH[:1])  # a smaller batch, which in AllenNLP writes into what was saved
    assert all(a.equal(b) for a, b in zip(saved, before, strict=True))
    bilm._elmo_lstm._states = saved
    assert top(bilm).equal(expected)
    # As flair does it, and others with a list whose items they replace.
    bilm._elmo_lstm._states = [state.to("cpu") for state in saved]
    for i in range(2):
        bilm._elmo_lstm._states[i] = bilm._elmo_lstm._states[i].double()
    assert top(bilm).equal(expected)
    assert states(bilm)[0].dtype == torch.float32


def test_states_are_read_from_both_levels(pair: Pair) -> None:
    elmo, embedder = Elmo(*pair, 1), ElmoEmbedder(*pair)
    elmo(batch_to_ids(BATCH))
    embedder.embed_batch(BATCH)
    for a, b in zip(states(elmo._elmo_lstm), states(embedder.elmo_bilm), strict=True):
        assert a.equal(b)


@pytest.mark.parametrize("requires_grad", [False, True])
def test_states_made_in_inference_mode_can_be_trained_on(pair: Pair, requires_grad: bool) -> None:
    bilm = _ElmoBiLm(*pair, requires_grad=requires_grad)
    with torch.inference_mode():
        top(bilm)
        bilm._elmo_lstm._states = tuple(2 * state for state in states(bilm))
    result = top(bilm)
    if requires_grad:
        result.sum().backward()
    assert all(not state.is_inference() for state in states(bilm))


def test_states_of_other_models_are_refused(bilm: _ElmoBiLm) -> None:
    top(bilm)
    h, c = states(bilm)
    for wrong in ((h[:1], c[:1]), (c, h), (h, c[:, :2]), (h,)):
        bilm._elmo_lstm._states = wrong
        with pytest.raises(ConfigError, match=r"_states.*expected \(2, rows, 32\)"):
            top(bilm)


def test_some_rows_are_reset(bilm: _ElmoBiLm) -> None:
    fresh = top(bilm)
    second = copy.deepcopy(bilm)
    continued = top(second)
    bilm._elmo_lstm.reset_states(torch.tensor([True, False, False, True]))
    mixed = top(bilm)
    for row, expected in enumerate((fresh, continued, continued, fresh)):
        assert mixed[row].allclose(expected[row], atol=1e-6)


def test_states_are_recorded_where_they_are_not_used(bilm: _ElmoBiLm) -> None:
    bilm._elmo_lstm.stateful = False
    first = top(bilm)
    expected = states(bilm)
    assert top(bilm).equal(first)
    assert all(a.equal(b) for a, b in zip(states(bilm), expected, strict=True))
    top(bilm, [["one", "more"]])
    assert states(bilm)[0][:, 1:].equal(expected[0][:, 1:])
    top(bilm, [*BATCH, ["one", "more"]])
    assert states(bilm)[0].shape == (2, 5, 32)


def test_sizes(pair: Pair, bilm: _ElmoBiLm) -> None:
    assert bilm.num_layers == 3 and bilm.get_output_dim() == 32
    lstm = bilm._elmo_lstm
    assert (lstm.input_size, lstm.hidden_size, lstm.cell_size, lstm.num_layers) == (16, 16, 32, 2)
    assert bilm._token_embedder.get_output_dim() == 16
    assert bilm._requires_grad is False
    assert _ElmoBiLm(*pair, requires_grad=True)._requires_grad is True


def test_parameters_have_the_names_of_allennlp(pair: Pair) -> None:
    elmo = Elmo(*pair, 1, requires_grad=True)
    parameters, state = dict(elmo.named_parameters()), elmo.state_dict()
    ours = {name for name in parameters if name not in state}
    # Each highway layer has one matrix in AllenNLP and two here.
    assert ours == {
        f"_elmo_lstm._token_embedder._highways._layers.0.{gate}.{part}"
        for gate in ("transform", "carry")
        for part in ("weight", "bias")
    }
    for name in parameters.keys() - ours:
        assert parameters[name].detach().equal(state[name]), name
    assert not [name for name in parameters if "bilm" in name]
    groups = ("_elmo_lstm._elmo_lstm.backward_layer_1.*", "_elmo_lstm._token_embedder.*")
    assert [sum(bool(re.search(group, name)) for name in parameters) for group in groups] == [4, 13]


def test_layers_can_be_reached_and_trained_alone(pair: Pair) -> None:
    elmo = Elmo(*pair, 1, dropout=0.0)
    layer = elmo._elmo_lstm._elmo_lstm.forward_layer_1
    for parameter in layer.parameters():
        parameter.requires_grad_()
    elmo(batch_to_ids(BATCH))["elmo_representations"][0].square().sum().backward()
    trained = {name for name, p in elmo.named_parameters() if p.grad is not None and p.grad.any()}
    start = "_elmo_lstm._elmo_lstm.forward_layer_1."
    assert {name.removeprefix(start) for name in trained if "mix" not in name} == {
        "input_linearity.weight",
        "state_linearity.weight",
        "state_linearity.bias",
        "state_projection.weight",
    }
    assert layer.state_projection.weight.grad.shape == (16, 32)


def test_bias_holds_the_forget_bias(pair: Pair, bilm: _ElmoBiLm) -> None:
    with h5py.File(pair[1]) as file:
        stored = file["RNN_0/RNN/MultiRNNCell/Cell1/LSTMCell/B"][...]
    i, g, f, o = np.split(stored, 4)  # TensorFlow's order
    expected = np.concatenate([i, f + 1, g, o])
    assert_close(bilm._elmo_lstm.forward_layer_1.state_linearity.bias.detach(), expected)


def changed(module: nn.Module) -> nn.Module:
    with torch.no_grad():
        module.forward_layer_0.input_linearity.weight.mul_(2)
    return module


def test_named_parameters_stay_those_that_compute(pair: Pair, bilm: _ElmoBiLm) -> None:
    loaded = _ElmoBiLm(*pair)
    loaded.load_state_dict({n: t.clone() for n, t in bilm.state_dict().items()}, assign=True)
    double = _ElmoBiLm(*pair).double().float()
    emptied = _ElmoBiLm(*pair).to("meta").to_empty(device="cpu")
    emptied.load_state_dict(bilm.state_dict())
    pickled = pickle.loads(pickle.dumps(bilm))
    names = [name for name, _ in bilm.named_parameters()]
    before = top(bilm)
    changed(bilm._elmo_lstm)
    bilm._elmo_lstm.reset_states()
    expected = top(bilm)
    assert not expected.allclose(before, atol=1e-3)
    for other in (loaded, double, emptied, pickled, copy.deepcopy(loaded)):
        assert [name for name, _ in other.named_parameters()] == names
        other._elmo_lstm.reset_states()
        changed(other._elmo_lstm)
        assert top(other).allclose(expected, atol=1e-6)


def test_unknown_tensors_are_not_loaded(bilm: _ElmoBiLm) -> None:
    for name in ("_elmo_lstm.forward_layer_9.bias", "_token_embedder.char_conv_9.bias", "x"):
        with pytest.raises(RuntimeError, match=f"Unexpected.*{re.escape(name)}"):
            bilm.load_state_dict({**bilm.state_dict(), name: torch.zeros(1)})


def test_token_embedder_gives_the_token_layer(bilm: _ElmoBiLm) -> None:
    ids = batch_to_ids(BATCH)
    output, whole = bilm._token_embedder(ids), bilm(ids)
    assert output["mask"].equal(whole["mask"])
    x = output["token_embedding"]
    assert x.shape == (4, 6, 16)
    assert_close((x * output["mask"][..., None]).numpy(), whole["activations"][0][..., :16].numpy())
    # Padding is spelled, too: by zeros.
    padding = x[~output["mask"]]
    assert padding.any() and (padding == padding[0]).all()


def test_token_embedder_can_be_trained(pair: Pair) -> None:
    encoder = _ElmoCharacterEncoder(*pair, requires_grad=True)
    encoder(batch_to_ids(BATCH))["token_embedding"].square().sum().backward()
    assert all(p.grad is not None and p.grad.any() for p in encoder.parameters())
    names = {name for name, _ in encoder.named_parameters()}
    assert {"_char_embedding_weights", "char_conv_0.weight", "_projection.bias"} <= names
    assert not any(p.requires_grad for p in _ElmoCharacterEncoder(*pair).parameters())


def test_token_embedder_matches_allennlp(fixtures: Path) -> None:
    folder = fixtures / "allennlp-elmo"
    encoder = _ElmoCharacterEncoder(folder / "options.json", folder / "lm_weights.hdf5")
    words = (folder / "vocab_test.txt").read_text(encoding="utf-8").strip().split("\n")
    output = encoder(batch_to_ids([words]))
    with h5py.File(folder / "elmo_token_embeddings.hdf5") as file:
        expected = file["embedding"][...]
    got, mask = remove_sentence_boundaries(output["token_embedding"], output["mask"])
    assert mask.all()
    np.testing.assert_allclose(got[0].numpy(), expected, atol=2e-6, rtol=0)
    for place, mark in ((0, "<S>"), (2, "</S>")):
        x = encoder(batch_to_ids([[mark]]))["token_embedding"][0]
        assert x[place].equal(x[1])


def test_token_embedder_knows_its_files(pair: Pair, bilm: _ElmoBiLm) -> None:
    assert bilm._token_embedder._options == json.loads(pair[0].read_text())
    assert bilm._token_embedder._weight_file == pair[1]


def test_token_embedder_is_not_needed_for_cached_words(pair: Pair) -> None:
    elmo = Elmo(*pair, 1, dropout=0.0, vocab_to_cache=["@@PADDING@@", "cat", "sat"])
    words = torch.tensor([[1, 2]])
    expected = elmo(batch_to_ids([["cat", "sat"]]))["elmo_representations"][0]
    elmo.reset_states()
    del elmo._elmo_lstm._token_embedder
    got = elmo.to(torch.float32)(torch.zeros(1, 2, 50, dtype=torch.int64), words)
    assert got["elmo_representations"][0].equal(expected)


def test_words_are_cached_later(bilm: _ElmoBiLm) -> None:
    expected = top(bilm, [["cat", "sat"]])
    bilm.create_cached_cnn_embeddings(["@@PADDING@@", "cat", "sat"])
    bilm._elmo_lstm.reset_states()
    output = bilm(torch.zeros(1, 2, 50, dtype=torch.int64), torch.tensor([[1, 2]]))
    assert output["activations"][-1].equal(expected)


@pytest.mark.parametrize("dtype", [torch.bool, torch.int64, torch.float32])
def test_boundaries_are_removed(bilm: _ElmoBiLm, dtype: torch.dtype) -> None:
    output = bilm(batch_to_ids(BATCH))
    vectors = output["activations"][-1]
    got, mask = remove_sentence_boundaries(vectors, output["mask"].to(dtype))
    assert mask.dtype == torch.bool
    assert mask.tolist() == [[k < len(s) for k in range(4)] for s in BATCH]
    for row, sentence in enumerate(BATCH):
        assert got[row, : len(sentence)].equal(vectors[row, 1 : len(sentence) + 1])
        assert not got[row, len(sentence) :].any()


def test_module_in_place_of_the_files(pair: Pair, bilm: _ElmoBiLm) -> None:
    ids = batch_to_ids(BATCH)
    expected = Elmo(*pair, 1, dropout=0.0)(ids)["elmo_representations"][0]
    got = Elmo(None, None, 1, dropout=0.0, module=bilm)(ids)["elmo_representations"][0]
    assert got.equal(expected)


def test_mixes_are_listed(pair: Pair) -> None:
    elmo = Elmo(*pair, 2)
    assert elmo._scalar_mixes == [elmo.scalar_mix_0, elmo.scalar_mix_1]
    other = copy.deepcopy(elmo)
    assert other._scalar_mixes == [other.scalar_mix_0, other.scalar_mix_1]
    assert len(nn.ModuleList(elmo._scalar_mixes)) == 2


def test_from_params(pair: Pair) -> None:
    params = {
        "options_file": str(pair[0]),
        "weight_file": str(pair[1]),
        "num_output_representations": 2,
        "do_layer_norm": "false",
        "dropout": "0.25",
        "keep_sentence_boundaries": True,
        "scalar_mix_parameters": [0.0, 1.0, 2.0],
    }
    elmo = Elmo.from_params(params)
    assert len(elmo._scalar_mixes) == 2 and elmo._dropout.p == 0.25
    assert not elmo.scalar_mix_1.do_layer_norm
    assert [p.item() for p in elmo.scalar_mix_1.scalar_parameters] == [0.0, 1.0, 2.0]
    assert elmo(batch_to_ids([["a"]]))["mask"].shape == (1, 3)
    assert not params  # all taken, as AllenNLP's assert_empty expects


def test_from_params_refuses_what_it_does_not_know(pair: Pair) -> None:
    files = {"options_file": str(pair[0]), "weight_file": str(pair[1])}
    with pytest.raises(ConfigError, match="num_output_representations"):
        Elmo.from_params(dict(files))
    with pytest.raises(ConfigError, match=r"'droput'.*expected.*dropout"):
        Elmo.from_params({**files, "num_output_representations": 1, "droput": 0.1})
    with pytest.raises(ConfigError, match="requires_grad='maybe'"):
        Elmo.from_params({**files, "num_output_representations": 1, "requires_grad": "maybe"})


def test_embedder_has_an_indexer(pair: Pair) -> None:
    class Token:
        def __init__(self, text: str) -> None:
            self.text = text

    indexer = ElmoEmbedder(*pair).indexer
    sentence = ["The", "고양이", "<S>"]
    expected = batch_to_ids([sentence])[0].tolist()
    assert indexer.tokens_to_indices(sentence) == {"elmo_tokens": expected}
    tokens = [Token(word) for word in sentence]
    assert indexer.tokens_to_indices(tokens, None, "characters") == {"characters": expected}
    assert indexer.tokens_to_indices([], None, "characters") == {"characters": []}


def test_embedder_with_a_trained_model_gives_arrays(pair: Pair) -> None:
    embedder = ElmoEmbedder(*pair)
    expected = embedder.embed_batch(BATCH)
    embedder.reset_states()
    embedder.elmo_bilm.requires_grad_()
    for a, b in zip(embedder.embed_batch(BATCH), expected, strict=True):
        assert_close(a, b)


def test_character_ids_of_one_sentence_are_refused_by_the_parts(bilm: _ElmoBiLm) -> None:
    for part in (bilm, bilm._token_embedder):
        with pytest.raises(InputError, match=r"\(sentences, tokens, 50\)"):
            part(batch_to_ids([["a"]])[0])


@pytest.mark.parametrize("requires_grad", [False, True])
def test_replicas_of_data_parallel_train_the_original(
    pair: Pair, replicate: Callable[[nn.Module], nn.Module], requires_grad: bool
) -> None:
    elmo = Elmo(*pair, 1, requires_grad=requires_grad, dropout=0.0)
    ids = batch_to_ids(BATCH)
    result = replicate(elmo)(ids)["elmo_representations"][0]
    assert result.allclose(elmo(ids)["elmo_representations"][0], atol=1e-6)
    result.square().sum().backward()
    assert all(p.grad is not None and p.grad.any() for p in elmo.parameters() if p.requires_grad)
