"""One run over several processes, each with some rows of every batch (`torchrun`, DDP)."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
from torch import distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from ..model.execution import find_device


@dataclass(frozen=True, slots=True)
class World:
    """This process among those of the run."""

    rank: int = 0
    size: int = 1
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))

    @property
    def is_first(self) -> bool:
        """Whether this process is the one that writes."""
        return self.rank == 0

    def rows(self) -> slice:
        """The rows of a batch that are this process's."""
        return slice(self.rank, None, self.size)

    def wrap(self, module: nn.Module) -> nn.Module:
        """The module with gradients that are the mean over the processes."""
        if self.size == 1:
            return module
        ids = [self.device.index] if self.device.type == "cuda" else None
        return DistributedDataParallel(module, device_ids=ids, broadcast_buffers=False)

    def sum(self, values: torch.Tensor) -> torch.Tensor:
        """The sum of a tensor over the processes."""
        if self.size > 1:
            dist.all_reduce(values)
        return values

    def join(self, values: torch.Tensor, dim: int) -> torch.Tensor:
        """The rows of all processes, in the order that the batch had; each has as many."""
        if self.size == 1:
            return values
        parts = [torch.empty_like(values) for _ in range(self.size)]
        dist.all_gather(parts, values.contiguous())
        return torch.stack(parts, dim=dim + 1).flatten(dim, dim + 1)

    def agree(self, value: float) -> float:
        """The value that the first process has."""
        if self.size == 1:
            return value
        # The bits, as an integer: not every device has float64.
        bits = torch.tensor([value], dtype=torch.float64).view(torch.int64).to(self.device)
        dist.broadcast(bits, 0)
        return float(bits.cpu().view(torch.float64))

    def agree_all(self, *flags: bool) -> tuple[bool, ...]:
        """Which of the flags are set, as the first process sees them."""
        bits = int(self.agree(sum(flag << i for i, flag in enumerate(flags))))
        return tuple(bool(bits >> i & 1) for i in range(len(flags)))

    def wait(self) -> None:
        """Wait for the other processes."""
        if self.size > 1:
            dist.barrier()


@contextmanager
def join_world(device: str | None = None) -> Iterator[World]:
    """The processes that `torchrun` has started, or this one alone."""
    size = int(os.environ.get("WORLD_SIZE", "1"))
    local = int(os.environ.get("LOCAL_RANK", "0"))
    where = find_device(device)
    if where.type == "cuda" and size > 1:
        where = torch.device("cuda", local)
    if size == 1:
        yield World(device=where)
        return
    if where.type == "cuda":
        torch.cuda.set_device(where)
    dist.init_process_group("nccl" if where.type == "cuda" else "gloo")
    try:
        yield World(dist.get_rank(), size, where)
    finally:
        dist.destroy_process_group()
