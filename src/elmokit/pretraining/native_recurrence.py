"""One recurrent layer of each direction by the native kernel, with gradients.

First the products of all steps with the input, then what depends on the step before; the directions
side by side in threads. The results are the same from run to run for a given number of threads.
"""

from collections.abc import Sequence
from functools import partial
from itertools import zip_longest
from typing import Any

import torch
from torch import Tensor

from ..engine import native
from ..engine.native_product import multiply
from ..engine.native_training import Cell, TrainingGradients, TrainingKernel, TrainingRun
from ..engine.threads import equal_parts, num_threads, side_by_side
from ..nn import LstmState, ProjectedLstm

NUM_PARAMETERS = 4
"""Tensors at the beginning of a `Cell`, the ones that learn."""


def available(tensor: Tensor) -> bool:
    """Whether the kernel is there, is wanted, and can work on such a tensor."""
    fits = tensor.device.type == "cpu" and tensor.dtype == torch.float32
    # Autocast would hand it products of another type.
    fits = fits and not torch.is_autocast_enabled("cpu")
    return fits and native.chosen() is not None


def lstm_cell(layer: ProjectedLstm) -> Cell:
    """A layer of the biLM, the forget bias in its bias."""
    config = layer.config
    i, f, g, o = layer.bias.chunk(4)
    return Cell(
        layer.input_weight,
        layer.recurrent_weight,
        torch.cat([i, f + config.forget_bias, g, o]),
        layer.projection,
        config.cell_clip,
        config.proj_clip,
    )


def recur(
    cells: Sequence[Cell],
    inputs: Sequence[Tensor],
    states: Sequence[LstmState],
    isa: str | None = None,
) -> tuple[list[Tensor], list[LstmState]]:
    """One layer of each direction: outputs (T, B, P) and the states after the last step.

    The outputs must not be changed in place, and their gradients can be asked for once.

    Args:
        cells: The layer of each direction.
        inputs: What each reads, (T, B, X), in its own order of time.
        states: Where each starts; no gradient flows into them.
        isa: The instruction set; None for that of `ELMOKIT_ISA` or the best.
    """
    kernel = TrainingKernel(isa)
    runs: list[TrainingRun] = [None] * len(cells)  # type: ignore[list-item]

    def pack(number: int) -> None:
        with torch.no_grad():  # which holds for one thread only
            runs[number] = TrainingRun(cells[number], inputs[number], states[number], kernel)

    side_by_side([partial(pack, number) for number in range(len(cells))])
    differentiable = [
        tensor for cell, x in zip(cells, inputs) for tensor in (x, *cell[:NUM_PARAMETERS])
    ]
    outputs = _Recurrence.apply(runs, *differentiable)  # type: ignore[no-untyped-call]
    return list(outputs), [run.state() for run in runs]


class _Recurrence(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, runs: list[TrainingRun], *tensors: Tensor | None) -> tuple[Tensor, ...]:
        parts = _row_parts(runs)
        multiply(runs[0].kernel, [run.input_product for run in runs])
        side_by_side([partial(run.forward, *part) for run in runs for part in parts])
        ctx.runs = runs
        ctx.save_for_backward(*tensors)  # the check that nobody changes them before
        return tuple(run.outputs() for run in runs)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        _ = ctx.saved_tensors
        runs, ctx.runs = ctx.runs, None
        if runs is None:
            raise RuntimeError("the gradients of a native layer can be asked for once only")
        parts = _row_parts(runs)
        passes = [TrainingGradients(run, grad, parts) for run, grad in zip(runs, grads)]
        side_by_side([call for one in passes for call in one.calls])
        needs_x = ctx.needs_input_grad[1 :: 1 + NUM_PARAMETERS]
        products = [one.products(needs) for one, needs in zip(passes, needs_x, strict=True)]
        multiply(runs[0].kernel, [p for same in zip_longest(*products) for p in same if p])
        result: list[Tensor | None] = [None]
        for one, needs in zip(passes, needs_x):
            result += [one.inputs() if needs else None, *one.weights()]
        return tuple(result)


def _row_parts(runs: Sequence[TrainingRun]) -> list[tuple[int, int]]:
    """The rows that each thread takes where there are more threads than directions."""
    num_rows = runs[0].h.shape[1]
    return equal_parts(num_rows, max(1, num_threads() // len(runs)))
