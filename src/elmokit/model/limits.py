"""How much runs together."""

from ..errors import ConfigError

MAX_BATCH_TOKENS = 8192
"""Tokens that run together, whatever the number of sentences; bounds the memory of a batch."""


def check_batch_size(batch_size: int) -> None:
    """An error for a number of sentences that is none."""
    if batch_size < 1:
        raise ConfigError(f"batch_size={batch_size}: expected 1 or more")
