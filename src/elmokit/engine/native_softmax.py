"""The sampled softmax by the native kernel, with gradients: the same as `nn.sampled_softmax_loss`.

A part of the rows at a time: their logits, probabilities and gradients, while they are in the
cache. The parts run side by side, each with sums of its own for the gradients of the samples.
"""

import ctypes
from ctypes import POINTER, c_int, c_int64, c_void_p
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import embedding

from .native import Kernel, declare, equal_parts, num_threads, side_by_side


class _Job(ctypes.Structure):
    _fields_ = [
        *((name, c_int64) for name in ("num_rows", "dim", "num_samples")),
        *((name, c_void_p) for name in (
            "h", "targets", "hits", "weight", "offsets", "samples", "sample_offsets", "to_logits",
            "from_logits", "largest", "total", "truth", "grad_true", "grad_h", "grad_samples",
            "grad_offsets", "scratch",
        )),
    ]  # fmt: skip


declare("softmax_pack", POINTER(_Job), c_int)
declare("softmax_run", POINTER(_Job))
declare("softmax_scratch", POINTER(_Job), result=c_int64)
declare("add_rows", c_int64, c_int64, c_void_p, c_void_p, c_void_p, c_void_p)


class Sampled(NamedTuple):
    """The words that the softmax compares with: see `nn.sampled_softmax_loss`."""

    samples: Tensor
    log_expected: Tensor


def sampled_softmax_losses(
    hs: list[Tensor],
    targets: Tensor,
    weight: Tensor,
    bias: Tensor,
    sampled: Sampled,
    isa: str | None = None,
) -> Tensor:
    """The loss of each direction, (2,), from its outputs (N, P) and its part of targets (2, N)."""
    losses: Tensor = _Losses.apply(  # type: ignore[no-untyped-call]
        Kernel(isa), targets, sampled, weight, bias, *hs
    )
    return losses


class _Rows:
    """Some rows of one direction, with their results."""

    def __init__(self, h: Tensor, targets: Tensor, hits: Tensor, num_samples: int) -> None:
        self.h, self.targets, self.hits = h, targets, hits
        self.largest, self.total, self.truth, self.grad_true = h.new_empty(4, len(h))
        self.grad_h = torch.empty_like(h)
        self.grad_samples = h.new_empty(num_samples, h.shape[1])
        self.grad_offsets = h.new_zeros(num_samples)

    def loss(self) -> Tensor:
        """-Σ log p(targets)."""
        losses: Tensor = self.largest + self.total.log() - self.truth
        return losses.sum()


class _Losses(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, kernel: Kernel, targets: Tensor, sampled: Sampled, weight: Tensor, bias: Tensor,
        *hs: Tensor,
    ) -> Tensor:  # fmt: skip
        samples = sampled.samples
        sample_of = torch.full_like(bias, -1, dtype=torch.long)
        sample_of[samples] = torch.arange(len(samples))
        hits = sample_of[targets]
        cuts = equal_parts(len(hs[0]), max(1, num_threads() // len(hs)))
        directions = [
            [_Rows(h[a:b], t[a:b], hit[a:b], len(samples)) for a, b in cuts]
            for h, t, hit in zip(map(Tensor.contiguous, hs), targets, hits, strict=True)
        ]
        _run(kernel, [rows for parts in directions for rows in parts], weight,
             bias - sampled.log_expected, samples)  # fmt: skip
        ctx.kernel, ctx.directions, ctx.samples, ctx.shape = (
            kernel, directions, samples, weight.shape,
        )  # fmt: skip
        sums = [torch.stack([rows.loss() for rows in parts]).sum() for parts in directions]
        return torch.stack(sums)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        kernel, directions, ctx.directions = ctx.kernel, ctx.directions, None
        if directions is None:
            raise RuntimeError("the gradients of a native softmax can be asked for once only")
        weight, bias = upstream.new_zeros(ctx.shape), upstream.new_zeros(ctx.shape[0])
        grad_h = []
        for factor, parts in zip(upstream, directions, strict=True):
            for rows in parts:
                weight.index_add_(0, ctx.samples, rows.grad_samples, alpha=float(factor))
                bias.index_add_(0, ctx.samples, rows.grad_offsets, alpha=float(factor))
                true = rows.grad_true.mul_(factor)
                bias.index_add_(0, rows.targets, true)
                kernel.lib.elmokit_add_rows(
                    kernel.isa, *rows.h.shape, rows.targets.data_ptr(), true.data_ptr(),
                    rows.h.data_ptr(), weight.data_ptr(),
                )  # fmt: skip
            grad_h.append(torch.cat([rows.grad_h for rows in parts]).mul_(factor))
        return None, None, None, weight, bias, *grad_h


def _run(
    kernel: Kernel, parts: list[_Rows], weight: Tensor, offsets: Tensor, samples: Tensor
) -> None:
    """Fill the results of the parts."""
    weight, rows = weight.contiguous(), embedding(samples, weight)
    sample_offsets = offsets[samples]
    width = kernel.round_up(weight.shape[1], kernel.panel)
    to_logits = rows.new_empty(weight.shape[1], kernel.round_up(len(rows), kernel.panel))
    from_logits = rows.new_empty(len(rows), width)
    jobs, scratches = [], []
    for part in parts:
        job = _Job(
            *part.h.shape, len(rows), part.h.data_ptr(), part.targets.data_ptr(),
            part.hits.data_ptr(), weight.data_ptr(), offsets.data_ptr(), rows.data_ptr(),
            sample_offsets.data_ptr(), to_logits.data_ptr(), from_logits.data_ptr(),
            *(t.data_ptr() for t in (
                part.largest, part.total, part.truth, part.grad_true, part.grad_h,
                part.grad_samples, part.grad_offsets,
            )), None,
        )  # fmt: skip
        scratches.append(torch.empty(kernel.lib.elmokit_softmax_scratch(kernel.isa, job)))
        job.scratch = scratches[-1].data_ptr()
        jobs.append(job)
    pack, run = kernel.lib.elmokit_softmax_pack, kernel.lib.elmokit_softmax_run
    side_by_side([partial(pack, kernel.isa, jobs[0], is_back) for is_back in (0, 1)])
    side_by_side([partial(run, kernel.isa, job) for job in jobs])
