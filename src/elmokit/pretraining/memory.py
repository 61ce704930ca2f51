"""How much memory a run takes, told before it begins; and that it keeps what it has."""

import ctypes
import sys

from ..config import ElmoConfig
from .config import PretrainConfig

_FLOAT = 4
_PROGRAM = 350 << 20
"""Python with torch, before it does anything."""
SOFTMAX_ROWS = 256
"""Rows of a chunk of the full softmax, as in `nn.softmax`, which would import torch."""
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3
"""Parameters of glibc's `mallopt`."""
_DISTINCT_WORDS = 0.45
"""Distinct words of a batch, as a share of its tokens."""


def memory_estimate(config: PretrainConfig, vocab_size: int) -> int:
    """Bytes that training takes on one device; measured, it was within a tenth.

    Args:
        config: The run.
        vocab_size: Words of the softmax.
    """
    copies = 3 if config.train.optimizer == "adagrad" else 4  # weights, gradients, averages
    weights = num_weights(config.model, vocab_size) * copies
    return _PROGRAM + _FLOAT * (weights + _activations(config, vocab_size))


def num_weights(model: ElmoConfig, vocab_size: int) -> int:
    """Trained numbers of a model with a softmax of so many words."""
    encoder, lstm = model.encoder, model.lstm
    cnn, width = encoder.char_cnn, lstm.projection_dim
    total = encoder.num_words * encoder.word_dim + (vocab_size * (width + 1))
    if cnn is not None:
        num_filters = sum(n for _, n in cnn.filters)
        total += cnn.num_characters * cnn.dim + sum(n * (w * cnn.dim + 1) for w, n in cnn.filters)
        total += cnn.num_highway * 2 * num_filters * (num_filters + 1)
    if encoder.projected:
        total += (encoder.unprojected_dim + 1) * width
    layer = 4 * lstm.dim * (2 * width + 1) + (lstm.dim * width if lstm.dim != width else 0)
    return total + 2 * lstm.num_layers * layer


def _activations(config: PretrainConfig, vocab_size: int) -> int:
    """Numbers that a step keeps for its gradients."""
    data, lstm, cnn = config.data, config.model.lstm, config.model.encoder.char_cnn
    tokens = data.batch_tokens if data.reading == "sentences" else data.lanes * data.unroll
    dim, width = lstm.dim, lstm.projection_dim
    # Gates, cell and output of each layer, its input and its dropout; gradients of one layer.
    kept = 2 * tokens * (lstm.num_layers * (6 * dim + 5 * width) + 5 * dim)
    if cnn is not None:
        num_filters = sum(n for _, n in cnn.filters)
        kept += int(_DISTINCT_WORDS * tokens) * num_filters * (4 + 5 * cnn.num_highway)
    # The softmax in chunks; the whole vocabulary of one when the held-out text is measured.
    samples = min(config.softmax.num_samples, vocab_size)
    return kept + 3 * SOFTMAX_ROWS * vocab_size + 3 * samples * width


def keep_freed_memory() -> None:
    """Let freed memory stay with the process instead of going back to the system.

    Every step needs the same large buffers. Returning them costs thousands of page faults per
    step: 1 % of the time with one thread, 6 % with two. Does nothing where there is no glibc.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is not None:
        mallopt(_MMAP_THRESHOLD, 32 << 20)  # the largest that glibc accepts
        mallopt(_TRIM_THRESHOLD, 1 << 30)
        mallopt(_TOP_PAD, 64 << 20)
