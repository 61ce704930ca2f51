"""The linear classifier learns what is linear, and the mix finds the layer that tells."""

import pytest
import torch
from strategies import assert_refused

from elmokit.probes.linear import Features, LinearSettings, predict, train_linear


def clusters(num_rows: int = 300, dim: int = 6, shift: float = 4.0) -> tuple[torch.Tensor, ...]:
    """Three classes around points far from each other, of values of very different sizes."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(num_rows) % 3
    rows = torch.randn(num_rows, dim, generator=generator)
    rows[torch.arange(num_rows), labels] += shift
    return (rows * torch.logspace(-3, 3, dim)).half()[None], labels


def test_separable_classes_are_learned() -> None:
    rows, labels = clusters(shift=20)
    probe = train_linear(Features(rows), labels, 3, LinearSettings())
    assert torch.equal(predict(probe, Features(rows)), labels)


def test_agrees_with_scikit_learn() -> None:
    linear_model = pytest.importorskip("sklearn.linear_model")
    rows, labels = clusters(shift=1.5)
    probe = train_linear(Features(rows), labels, 3, LinearSettings(weight_decay=0, epochs=100))
    x = ((rows.float() - probe.mean) * probe.scale)[0].numpy()
    expected = linear_model.LogisticRegression(C=1e6).fit(x, labels.numpy()).predict(x)
    agreement = (predict(probe, Features(rows)).numpy() == expected).mean()
    assert agreement > 0.98


def test_training_is_deterministic_and_seeded() -> None:
    rows, labels = clusters(shift=1)
    weights = [
        train_linear(Features(rows), labels, 3, LinearSettings(seed=seed, epochs=2)).linear.weight
        for seed in (1, 1, 2)
    ]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


def test_mix_prefers_the_layer_with_the_answer() -> None:
    rows, labels = clusters()
    noise = torch.randn(rows.shape, generator=torch.Generator().manual_seed(1)).half()
    features = Features(torch.cat([noise, rows, noise.flip(1)]))
    probe = train_linear(features, labels, 3, LinearSettings(epochs=100))
    assert probe.mix is not None
    assert int(probe.mix.weights().argmax()) == 1
    assert (predict(probe, features) == labels).float().mean() > 0.97


def test_average_reads_the_mean_of_the_layers() -> None:
    layers = torch.arange(12.0).half().reshape(2, 3, 2)
    got = Features(layers, average=True).rows(torch.tensor([2, 0]))
    assert torch.equal(got, layers.float().mean(0, keepdim=True)[:, [2, 0]])


def test_constant_values_do_no_harm() -> None:
    rows, labels = clusters(shift=20)
    rows = torch.cat([rows, torch.full_like(rows, 7)], dim=-1)
    probe = train_linear(Features(rows), labels, 3, LinearSettings())
    assert torch.equal(predict(probe, Features(rows)), labels)


def test_bad_settings_are_refused() -> None:
    assert_refused(lambda: LinearSettings(epochs=0), "epochs=0")
    assert_refused(lambda: LinearSettings(learning_rate=-1), "learning_rate=-1")
