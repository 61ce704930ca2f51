"""`nn` is what runs: as the engine `plain`, and wherever a fast engine differs from it."""

import numpy as np
import pytest
import torch
from strategies import ENGINES, make_tiny
from torch import Tensor

from elmokit import Elmo
from elmokit.engine.plain import agree
from elmokit.nn import Highway, LstmState, ProjectedLstm

SENTENCES = [["He", "has", "a", "gift", "."], ["Yes"], [], ["배", "가"]]


def vectors(elmo: Elmo, engine: str) -> list[np.ndarray]:
    """All layers by another engine."""
    other = Elmo(elmo.config, engine=engine)
    other.load_state_dict(elmo.state_dict())
    return other.embed(SENTENCES, layers="all")


def gradients(elmo: Elmo, engine: str) -> list[Tensor]:
    """The gradients of all weights of the biLM, by another engine."""
    other = Elmo(elmo.config, engine=engine)
    other.load_state_dict(elmo.state_dict())
    other.bilm.requires_grad_(True)
    output = other([s for s in SENTENCES if s])
    (output.layers.square().sum() + output.state.c.square().sum()).backward()
    return [p.grad for p in other.bilm.parameters()]


def weaken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Change the LSTM cell in one place."""
    step = ProjectedLstm.step

    def weaker(self: ProjectedLstm, inputs: Tensor, state: LstmState) -> LstmState:
        h, c = step(self, inputs, state)
        return LstmState(0.9 * h, c)

    monkeypatch.setattr(ProjectedLstm, "step", weaker)


@pytest.mark.parametrize("engine", ENGINES)
def test_plain_agrees_with_every_engine(engine: str, caplog: pytest.LogCaptureFixture) -> None:
    elmo = make_tiny()
    for got, want in zip(vectors(elmo, engine), vectors(elmo, "plain"), strict=True):
        np.testing.assert_allclose(got, want, atol=2e-6)
    assert "differ" not in caplog.text


@pytest.mark.parametrize("engine", ENGINES)
def test_a_changed_cell_changes_the_vectors_of_every_engine(
    engine: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    elmo = make_tiny()
    before = vectors(elmo, "plain")
    weaken(monkeypatch)
    want, got = vectors(elmo, "plain"), vectors(elmo, engine)
    assert not np.allclose(want[0], before[0], atol=1e-3)
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(a, b, atol=2e-6)
    assert caplog.text.count("differ from elmokit.nn") == 1


@pytest.mark.parametrize("engine", ENGINES)
def test_plain_has_the_gradients_of_every_engine(
    engine: str, caplog: pytest.LogCaptureFixture
) -> None:
    elmo = make_tiny()
    for got, want in zip(gradients(elmo, engine), gradients(elmo, "plain"), strict=True):
        torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5 * float(want.abs().max()))
    assert "differ" not in caplog.text


@pytest.mark.parametrize("engine", ENGINES)
def test_a_changed_cell_changes_the_gradients_of_every_engine(
    engine: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    elmo = make_tiny()
    before = gradients(elmo, "plain")
    weaken(monkeypatch)
    want, got = gradients(elmo, "plain"), gradients(elmo, engine)
    assert not all(torch.allclose(a, b, rtol=1e-2) for a, b in zip(want, before, strict=True))
    assert all(torch.equal(a, b) for a, b in zip(got, want, strict=True))
    assert caplog.text.count("gradients of engine") == 1


@pytest.mark.parametrize("engine", ENGINES)
def test_a_changed_encoder_changes_the_vectors_of_every_engine(
    engine: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(Highway, "forward", lambda self, x: self.transform(x))
    elmo = make_tiny()
    for got, want in zip(vectors(elmo, engine), vectors(elmo, "plain"), strict=True):
        np.testing.assert_allclose(got, want, atol=2e-6)
    assert "encoder" in caplog.text


def test_the_check_follows_the_weights(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    elmo = make_tiny()
    elmo.embed(SENTENCES)
    weaken(monkeypatch)
    elmo.embed(SENTENCES)  # prepared before
    assert "differ" not in caplog.text
    with torch.no_grad():
        elmo.bilm.forward_lm.layers[0].bias.add_(0.1)
    elmo.embed(SENTENCES)
    assert "differ" in caplog.text


def test_weights_that_are_not_numbers_agree() -> None:
    x = torch.tensor([1.0, torch.nan, torch.inf])
    assert agree(x, x, 1e-4) and agree(x + 1e-5, x, 1e-4)
    assert not agree(x, torch.tensor([1.0, 2.0, torch.inf]), 1e-4)
    assert not agree(torch.tensor([1.01]), torch.tensor([1.0]), 1e-4)
