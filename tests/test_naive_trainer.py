"""The plain loop of `benchmarks/naive_trainer.py`: the same model as ours, and it learns."""

from typing import Any

import numpy as np
import pytest
import torch
from benchmark_scripts import load_script
from strategies import tiny_config

from elmokit import ElmoConfig
from elmokit.config import LstmConfig
from elmokit.nn import BiLm, Softmax, TokenIds

naive = load_script("naive_trainer")
NUM_WORDS, VOCAB_SIZE, UNKNOWN = 30, 20, 2


def batch(num_sentences: int = 6, length: int = 5) -> tuple[Any, Any]:
    """Sentences of words in and outside of the vocabulary, and the spelling of all words."""
    random = np.random.default_rng(0)
    words = random.integers(2, NUM_WORDS, (num_sentences, length + 2))
    words[:, 0], words[:, -1] = 0, 1
    return words, random.integers(1, 262, (NUM_WORDS, 50)).astype(np.uint16)


def copy_of_ours(bilm: BiLm, softmax: Softmax, trainer: Any) -> None:
    """Give the trainer the weights of our model."""
    trainer.encoder.load_state_dict(bilm.encoder.state_dict())
    trainer.softmax.load_state_dict(softmax.state_dict())
    for ours, theirs in zip((bilm.forward_lm, bilm.backward_lm), trainer.directions, strict=True):
        for lstm, cell in zip(ours.layers, theirs, strict=True):
            weights = [lstm.input_weight, lstm.recurrent_weight]
            cell.gates.weight.data = torch.cat(weights, dim=1).detach().clone()
            cell.gates.bias.data = lstm.bias.detach().clone()
            if lstm.projection is not None:
                cell.projection.weight.data = lstm.projection.detach().clone()


def our_loss(bilm: BiLm, softmax: Softmax, words: Any, characters: Any) -> torch.Tensor:
    ids = TokenIds(torch.as_tensor(characters[words.ravel()].astype(np.int64)), None)
    x = bilm.encoder(ids).view(*words.shape, -1)
    top = bilm(x, torch.full((len(words),), words.shape[1])).layers[-1]
    ahead, back = top.chunk(2, dim=-1)
    targets = torch.as_tensor(np.where(words < VOCAB_SIZE, words, UNKNOWN))
    forward = softmax.log_likelihood(ahead[:, :-1].flatten(0, 1), targets[:, 1:].flatten())
    backward = softmax.log_likelihood(back[:, 1:].flatten(0, 1), targets[:, :-1].flatten())
    return -(forward.mean() + backward.mean()) / 2


@pytest.mark.parametrize(
    "config",
    [
        tiny_config(lstm=LstmConfig(dim=32, projection_dim=16, cell_clip=0.4, proj_clip=0.3)),
        tiny_config(lstm=LstmConfig(dim=16, projection_dim=16, cell_clip=None, num_layers=3)),
        tiny_config(lstm=LstmConfig(dim=32, projection_dim=16, skip_connections=False)),
    ],
    ids=["clipped", "unprojected", "no-skip"],
)
def test_loss_and_gradients_are_those_of_our_model(config: ElmoConfig) -> None:
    torch.manual_seed(1)
    bilm, softmax = BiLm(config), Softmax(VOCAB_SIZE, 16)
    with torch.no_grad():
        for parameter in bilm.parameters():
            parameter.mul_(2)  # strong enough to reach the clips
    trainer = naive.NaiveTrainer(config, VOCAB_SIZE, None, seed=0, dropout=0.0)
    copy_of_ours(bilm, softmax, trainer)
    words, characters = batch()

    expected = our_loss(bilm, softmax, words, characters)
    found = trainer.loss(words, characters)
    torch.testing.assert_close(found, expected)
    expected.backward()
    found.backward()
    torch.testing.assert_close(trainer.softmax.weight.grad, softmax.weight.grad)
    pairs = zip(trainer.encoder.parameters(), bilm.encoder.parameters(), strict=True)
    for theirs, ours in pairs:
        torch.testing.assert_close(theirs.grad, ours.grad)
    for j, lstm in enumerate(bilm.backward_lm.layers):
        grads = [lstm.input_weight.grad, lstm.recurrent_weight.grad]
        torch.testing.assert_close(trainer.directions[1][j].gates.weight.grad, torch.cat(grads, 1))


@pytest.mark.parametrize("num_samples", [None, 8])
def test_loss_falls_on_a_toy_batch(num_samples: int | None) -> None:
    trainer = naive.NaiveTrainer(tiny_config(), VOCAB_SIZE, num_samples, seed=0)
    words, characters = batch(num_sentences=3, length=4)
    for _ in range(120):
        trainer.step(words, characters)
    trainer.num_samples, trainer.dropout = None, 0.0
    targets = np.where(words < VOCAB_SIZE, words, UNKNOWN)[:, 1:]
    p = np.unique(targets, return_counts=True)[1] / targets.size
    without_context = -(p * np.log(p)).sum()
    assert trainer.loss(words, characters).item() < 0.6 * without_context


def test_same_seed_same_run() -> None:
    words, characters = batch()
    losses = []
    for _ in range(2):
        trainer = naive.NaiveTrainer(tiny_config(), VOCAB_SIZE, 8, seed=3)
        losses.append([trainer.step(words, characters) for _ in range(3)])
    assert losses[0] == losses[1]


def test_sampling_every_word_is_the_softmax_of_corrected_logits() -> None:
    """The target stands once in the sum although it is among the candidates too."""
    trainer = naive.NaiveTrainer(tiny_config(), 5, 5, seed=0)
    h, targets = torch.randn(40, 16), torch.randint(5, (40,))
    _, num_tries = naive.log_uniform(np.random.default_rng(7), 5, 5)
    p = np.log1p(1 / np.arange(1, 6)) / np.log(6)
    correction = torch.tensor(np.log(1 - (1 - p) ** num_tries), dtype=torch.float32)
    logits = h @ trainer.softmax.weight.T + trainer.softmax.bias - correction
    trainer.random = np.random.default_rng(7)
    found = trainer.sampled_loss(h, targets, 5)
    torch.testing.assert_close(found, torch.nn.functional.cross_entropy(logits, targets))


def test_candidates_are_distinct_and_log_uniform() -> None:
    """How often each word is among the candidates, against its formula given the tries."""
    random = np.random.default_rng(0)
    rounds, vocab_size, num_samples = 3000, 50, 10
    seen, expected = np.zeros(vocab_size), np.zeros(vocab_size)
    for _ in range(rounds):
        found, num_tries = naive.log_uniform(random, vocab_size, num_samples)
        assert len(set(found.tolist())) == len(found) == num_samples <= num_tries
        seen[found] += 1
        p = np.log1p(1 / (np.arange(vocab_size) + 1)) / np.log(vocab_size + 1)
        assert p.sum() == pytest.approx(1)
        expected += 1 - (1 - p) ** num_tries
    # The formula of the expected count is itself approximate for distinct candidates.
    np.testing.assert_allclose(seen / rounds, expected / rounds, atol=0.03)
    assert seen.argmax() == 0


def test_more_candidates_than_words_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"num_samples=6: expected 1\.\.5"):
        naive.log_uniform(np.random.default_rng(0), 5, 6)
