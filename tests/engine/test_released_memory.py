"""What a pass with gradients keeps is released with its results, whether they are asked for or not.

A context of autograd that holds its own output, or a view of it, is in a cycle that Python cannot
see: it is never collected, and training takes more memory with every step.
"""

import gc
from collections.abc import Callable

import numpy as np
import pytest
import torch
from strategies import tiny_config

from elmokit.engine import gradient, native
from elmokit.engine.native_softmax import Sampled, sampled_softmax_losses
from elmokit.nn import BiLm, BiLmState, Softmax, TokenIds

TINY = tiny_config()
PASSES = 4


def contexts() -> int:
    """The contexts of hand-written gradients that are alive."""
    gc.collect()
    kind = torch.autograd.function.BackwardCFunction
    return sum(issubclass(type(o), kind) for o in gc.get_objects())


def encode(bilm: BiLm, softmax: Softmax) -> torch.Tensor:
    words = TokenIds(torch.randint(1, 200, (7, TINY.encoder.char_cnn.max_characters)), None)
    return gradient.encode(bilm.encoder, words)


def read(bilm: BiLm, softmax: Softmax) -> torch.Tensor:
    dim = bilm.config.lstm.projection_dim
    streams = [torch.randn(6, dim, requires_grad=True) for _ in range(2)]
    state = BiLmState.zeros(bilm.config.lstm, 2, like=streams[0])
    outputs, _ = gradient.run_layers(bilm, streams, [2, 2, 2], state)
    return torch.stack(outputs[-1])


def predict(bilm: BiLm, softmax: Softmax) -> torch.Tensor:
    if native.training_set(softmax.weight) is None:
        pytest.skip("the sampled softmax of the kernel needs the kernel")
    width = softmax.weight.shape[1]
    streams = [torch.randn(5, width, requires_grad=True) for _ in range(2)]
    sampled = Sampled(torch.arange(9), torch.full((len(softmax.weight),), -0.5))
    targets = torch.from_numpy(np.arange(10).reshape(2, 5))
    return sampled_softmax_losses(streams, targets, softmax.weight, softmax.bias, sampled)


@pytest.mark.parametrize("with_backward", [True, False])
@pytest.mark.parametrize("run", [encode, read, predict])
def test_nothing_is_kept_from_pass_to_pass(
    run: Callable[[BiLm, Softmax], torch.Tensor], with_backward: bool
) -> None:
    bilm, softmax = BiLm(TINY), Softmax(20, TINY.lstm.projection_dim)
    before = contexts()
    results = [run(bilm, softmax) for _ in range(PASSES)]
    assert contexts() > before  # or there is nothing to release
    if with_backward:
        torch.stack(results).sum().backward()
    del results
    assert contexts() == before
