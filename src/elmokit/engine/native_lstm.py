"""One recurrent layer over packed rows by the native kernel: for inference, or with gradients.

With gradients, the products of all rows with the input come first, then what depends on the step
before, the directions side by side in threads. The results are the same from run to run for a given
number of threads.
"""

import ctypes
from collections.abc import Callable, Sequence
from ctypes import POINTER, c_float, c_int64, c_void_p
from functools import partial
from itertools import zip_longest
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from ..nn import LstmState, ProjectedLstm
from .native import (
    Kernel,
    block_gates,
    declare,
    equal_parts,
    num_threads,
    pack,
    pointer,
    side_by_side,
)  # fmt: skip
from .native_product import LinearStruct, NativeLinear, Product, multiply
from .torch_lstm import last_outputs, last_rows, rows_before

NUM_PARAMETERS = 4
"""Tensors at the beginning of a `Cell`, the ones that learn."""


class _Layer(ctypes.Structure):
    _fields_ = [
        ("dim", c_int64), ("output_dim", c_int64), ("input", LinearStruct), ("recurrent", c_void_p),
        ("projection", c_void_p), ("cell_clip", c_float), ("proj_clip", c_float),
    ]  # fmt: skip


class _Job(ctypes.Structure):
    _fields_ = [
        ("rows", c_void_p), ("gates", c_void_p), ("index", c_void_p), ("counts", c_void_p),
        ("num_steps", c_int64), ("first", c_int64), ("end", c_int64), ("adds_input", c_int64),
        ("h", c_void_p), ("c", c_void_p), ("out", c_void_p),
        ("scratch", c_void_p),
    ]  # fmt: skip


class _Run(ctypes.Structure):
    _fields_ = [
        ("num_steps", c_int64), ("num_sentences", c_int64), ("dim", c_int64),
        ("output_dim", c_int64), ("counts", c_void_p),
        ("recurrent", c_void_p), ("projection", c_void_p), ("recurrent_back", c_void_p),
        ("projection_back", c_void_p), ("cell_clip", c_float), ("proj_clip", c_float),
        ("gates", c_void_p), ("c", c_void_p), ("m", c_void_p), ("raw", c_void_p), ("h", c_void_p),
        ("is_gru", c_int64),
    ]  # fmt: skip


class _Gradients(ctypes.Structure):
    _fields_ = [("grad_h", c_void_p), ("grad_c", c_void_p), ("grad_bias", c_void_p)]


declare("lstm_run", POINTER(_Layer), POINTER(_Job))
declare("lstm_scratch_size", POINTER(_Layer), POINTER(_Job), result=c_int64)
declare("layer_forward", POINTER(_Run), c_int64, c_int64)
declare("layer_backward", POINTER(_Run), POINTER(_Gradients), c_int64, c_int64)


class NativeLayer:
    """A `ProjectedLstm` packed for the kernel, its sizes padded to whole vectors."""

    def __init__(self, layer: ProjectedLstm, kernel: Kernel) -> None:
        config = layer.config
        self.kernel = kernel
        self.dim = kernel.round_up(config.dim)
        self.output_dim = kernel.round_up(config.projection_dim)
        extra = self.output_dim - config.projection_dim
        bias = layer.bias.detach().clone()
        bias[config.dim : 2 * config.dim] += config.forget_bias
        # The input products of a layer are those of a linear map to [unit block][gate][lane].
        self.products = NativeLinear(
            kernel,
            block_gates(pad(layer.input_weight.detach(), (0, extra)), self.dim, kernel.lanes),
            block_gates(bias[:, None], self.dim, kernel.lanes)[:, 0],
        )
        recurrent = pad(layer.recurrent_weight.detach(), (0, extra))
        recurrent = block_gates(recurrent, self.dim, kernel.lanes)
        blocks = recurrent.view(-1, kernel.panel, self.output_dim)
        self.recurrent = blocks.transpose(1, 2).contiguous()
        self.projection = None
        if layer.projection is not None:
            padded = pad(layer.projection.detach(), (0, self.dim - config.dim, 0, extra))
            self.projection = pack(padded, kernel.panel)
        self.struct = _Layer(
            self.dim, self.output_dim, self.products.struct, self.recurrent.data_ptr(),
            pointer(self.projection), config.cell_clip or 0.0,
            (config.proj_clip or 0.0) if config.projected else 0.0,
        )  # fmt: skip

    def recur(
        self,
        rows: Tensor | None,
        table: Tensor | None,
        index: Tensor | None,
        counts: Tensor,
        h: Tensor,
        c: Tensor,
        out: Tensor,
        sentences: tuple[int, int],
        adds_input: bool,
    ) -> None:
        """Run some sentences of a packed batch; all tensors have padded widths.

        Args:
            rows: The layer's input, packed; None if there is a table.
            table: Input products by `products`.
            index: For each packed row its row of `table`.
            counts: Sentences active at each step.
            h: Outputs before the first step; they move on in place.
            c: Cells before the first step; they move on in place.
            out: The layer's output, packed.
            sentences: The first and the end of those to run.
            adds_input: Whether `rows` are added to the output, as a residual.
        """
        lib = self.kernel.lib
        job = _Job(
            pointer(rows), pointer(table), pointer(index), counts.data_ptr(), len(counts),
            *sentences, adds_input, h.data_ptr(), c.data_ptr(), out.data_ptr(), None,
        )  # fmt: skip
        scratch = torch.empty(lib.elmokit_lstm_scratch_size(self.kernel.isa, self.struct, job))
        job.scratch = scratch.data_ptr()
        lib.elmokit_lstm_run(self.kernel.isa, self.struct, job)


class Cell(NamedTuple):
    """A recurrent layer of D units as the kernel reads it: four sums for each unit.

    Those of an LSTM are i, f, g and o. Those of a gated recurrent unit are r, z, what the input
    gives to n, and what the state gives to it; it has no projection and no clip.
    """

    input_weight: Tensor
    """(4 D, X)."""
    recurrent_weight: Tensor
    """(4 D, P)."""
    bias: Tensor
    """(4 D)."""
    projection: Tensor | None = None
    """(P, D); None where P is D."""
    cell_clip: float | None = None
    proj_clip: float | None = None
    is_gru: bool = False

    @property
    def dim(self) -> int:
        return len(self.bias) // 4

    @property
    def output_dim(self) -> int:
        return self.recurrent_weight.shape[1]


class TrainingRun:
    """One layer over packed rows (N, X): its packed weights, and what the backward pass needs."""

    def __init__(
        self, cell: Cell, x: Tensor, counts: Tensor, state: LstmState, kernel: Kernel
    ) -> None:
        self.kernel, self.cell, self.counts = kernel, cell, counts
        is_projected = cell.projection is not None
        self.dim = kernel.round_up(cell.dim, kernel.panel)
        self.output_dim = kernel.round_up(cell.output_dim) if is_projected else self.dim
        number, num_rows = len(state.h), len(x)
        self.num_sentences = number
        self.x = x.detach().contiguous()
        self.h = x.new_empty(number + num_rows, self.output_dim)
        self.h[:number] = pad(state.h.detach(), (0, self.output_dim - cell.output_dim))
        if cell.is_gru:
            self.c = self.h
        else:
            self.c = x.new_empty(number + num_rows, self.dim)
            self.c[:number] = pad(state.c.detach(), (0, self.dim - cell.dim))
        self.m = x.new_empty(num_rows, self.dim) if is_projected else self.h[number:]
        self.raw = None
        if is_projected and cell.proj_clip is not None:
            self.raw = x.new_empty(num_rows, self.output_dim)
        self._pack()
        self._struct = _Run(
            len(counts), number, self.dim, self.output_dim, counts.data_ptr(),
            self._recurrent.data_ptr(),
            pointer(self._projection), self._recurrent_back.data_ptr(),
            pointer(self._projection_back), cell.cell_clip or 0.0, cell.proj_clip or 0.0,
            self.gates.data_ptr(), self.c.data_ptr(), self.m.data_ptr(), pointer(self.raw),
            self.h.data_ptr(), cell.is_gru,
        )  # fmt: skip

    def _pack(self) -> None:
        """Copy the weights as the kernel reads them."""
        kernel, cell = self.kernel, self.cell
        extra = self.output_dim - cell.output_dim
        bias = block_gates(cell.bias.detach()[:, None], self.dim, kernel.lanes)[:, 0]
        self.input_weight = block_gates(cell.input_weight.detach(), self.dim, kernel.lanes)
        self.gates = self.x.new_empty(len(self.x), 4 * self.dim)
        self.input_product = Product(self.x, self.input_weight.t(), self.gates, bias)
        recurrent = pad(cell.recurrent_weight.detach(), (0, extra))
        recurrent = block_gates(recurrent, self.dim, kernel.lanes)
        panels = recurrent.view(-1, kernel.panel, self.output_dim)
        self._recurrent = panels.transpose(1, 2).contiguous()
        self._recurrent_back = pack(recurrent.t(), kernel.panel)
        self._projection = self._projection_back = None
        if cell.projection is not None:
            weight = pad(cell.projection.detach(), (0, self.dim - cell.dim, 0, extra))
            self._projection = pack(weight, kernel.panel)
            panels = weight.view(self.output_dim, -1, kernel.panel)
            self._projection_back = panels.transpose(0, 1).contiguous()

    def forward(self, first: int, end: int) -> None:
        """All steps of some sentences, in the calling thread."""
        self.kernel.lib.elmokit_layer_forward(self.kernel.isa, self._struct, first, end)

    def outputs(self) -> Tensor:
        """(N, P)."""
        return self.h[self.num_sentences :, : self.cell.output_dim].contiguous()

    def last_cells(self) -> Tensor:
        """The cells after each sentence's last step, (B, D)."""
        last = last_rows(self.counts, self.num_sentences)
        c, limit = self.c[last, : self.cell.dim], self.cell.cell_clip
        if limit is not None:  # a sentence without a step keeps the cell it started from
            c = torch.where((last >= self.num_sentences)[:, None], c.clamp(-limit, limit), c)
        return c

    def rows_before(self) -> Tensor:
        """h before each row, (N, output_dim)."""
        is_even = not len(self.counts) or bool(self.counts[-1] == self.num_sentences)
        if is_even:  # all sentences of one length
            return self.h[: len(self.x)]
        return self.h[rows_before(self.counts, self.num_sentences)]


class TrainingGradients:
    """The backward pass of a run, which it uses up: the gates become their gradients.

    Args:
        run: The run, its forward pass done.
        grad: dL/d(outputs), (N, P).
        grad_c: dL/d(last cells), (B, D).
        parts: Sentences that one call takes, as many as there are calls.
    """

    def __init__(
        self, run: TrainingRun, grad: Tensor, grad_c: Tensor, parts: Sequence[tuple[int, int]]
    ) -> None:
        self.run = run
        extra = run.output_dim - run.cell.output_dim
        self.grad_h = (
            pad(grad, (0, extra)) if extra else grad.clone(memory_format=torch.contiguous_format)
        )
        extra_c = run.dim - run.cell.dim
        # A copy of its own: the pass uses it up.
        self.grad_c = pad(grad_c, (0, extra_c)) if extra_c else grad_c.clone()
        self.grad_bias = grad.new_zeros(len(parts), 4 * run.dim)
        self.calls = [self._call(part, bias) for part, bias in zip(parts, self.grad_bias)]

    def _call(self, part: tuple[int, int], bias: Tensor) -> Callable[[], None]:
        kernel, run = self.run.kernel, self.run._struct
        struct = _Gradients(self.grad_h.data_ptr(), self.grad_c.data_ptr(), bias.data_ptr())
        return lambda: kernel.lib.elmokit_layer_backward(kernel.isa, run, struct, *part)

    def products(self, needs_x: bool) -> list[Product]:
        """What `weights` and `inputs` need, when the calls are done."""
        run, gates = self.run, self.run.gates.t()
        before = run.rows_before()
        self._by_input = gates.new_empty(len(gates), run.x.shape[1])
        self._by_output = gates.new_empty(len(gates), run.output_dim)
        found = [Product(gates, run.x, self._by_input), Product(gates, before, self._by_output)]
        if run.cell.projection is not None:
            grad_h = self.grad_h.t()
            self._projection = gates.new_empty(len(grad_h), run.m.shape[1])
            found.append(Product(grad_h, run.m, self._projection))
        if needs_x:
            self.inputs = torch.empty_like(run.x)  # dL/dx
            found.append(Product(run.gates, run.input_weight, self.inputs))
        return found

    def weights(self) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
        """dL/d(input weight, recurrent weight, bias, projection)."""
        dim, output_dim = self.run.cell.dim, self.run.cell.output_dim
        is_projected = self.run.cell.projection is not None
        return (
            self._unblock(self._by_input),
            self._unblock(self._by_output[:, :output_dim]),
            self._unblock(self.grad_bias.sum(dim=0)[:, None])[:, 0],
            self._projection[:output_dim, :dim] if is_projected else None,
        )

    def _unblock(self, blocked: Tensor) -> Tensor:
        """What `block_gates` made of rows i, f, g, o, undone."""
        run, width = self.run, blocked.shape[1]
        gates = blocked.reshape(-1, 4, run.kernel.lanes, width).transpose(0, 1)
        gates = gates.reshape(4, run.dim, width)[:, : run.cell.dim]
        return gates.reshape(4 * run.cell.dim, width)


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
    counts: Sequence[int],
    states: Sequence[LstmState],
    isa: str | None = None,
) -> tuple[list[Tensor], list[LstmState]]:
    """One layer of each direction, as `gradient.recur`.

    The outputs must not be changed in place, and their gradients can be asked for once.
    """
    kernel, steps = Kernel(isa), torch.tensor(counts, dtype=torch.int64)
    runs: list[TrainingRun] = [None] * len(cells)  # type: ignore[list-item]

    def pack(number: int) -> None:
        with torch.no_grad():  # which holds for one thread only
            runs[number] = TrainingRun(cells[number], inputs[number], steps, states[number], kernel)

    side_by_side([partial(pack, number) for number in range(len(cells))])
    differentiable = [
        tensor for cell, x in zip(cells, inputs) for tensor in (x, *cell[:NUM_PARAMETERS])
    ]
    results = _Recurrence.apply(runs, *differentiable)  # type: ignore[no-untyped-call]
    outputs, last_cells = results[: len(runs)], results[len(runs) :]
    ends = [
        LstmState(last_outputs(y, counts, state.h.detach()), c)
        for y, c, state in zip(outputs, last_cells, states, strict=True)
    ]
    return list(outputs), ends


class _Recurrence(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, runs: list[TrainingRun], *tensors: Tensor | None) -> tuple[Tensor, ...]:
        parts = _sentence_parts(runs)
        multiply(runs[0].kernel, [run.input_product for run in runs])
        side_by_side([partial(run.forward, *part) for run in runs for part in parts])
        ctx.runs = runs
        ctx.save_for_backward(*tensors)  # the check that nobody changes them before
        return *(run.outputs() for run in runs), *(run.last_cells() for run in runs)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        _ = ctx.saved_tensors
        runs, ctx.runs = ctx.runs, None
        if runs is None:
            raise RuntimeError("the gradients of a native layer can be asked for once only")
        parts = _sentence_parts(runs)
        passes = [
            TrainingGradients(run, grad, grad_c, parts)
            for run, grad, grad_c in zip(runs, grads, grads[len(runs) :])
        ]
        side_by_side([call for one in passes for call in one.calls])
        needs_x = ctx.needs_input_grad[1 :: 1 + NUM_PARAMETERS]
        products = [one.products(needs) for one, needs in zip(passes, needs_x, strict=True)]
        multiply(runs[0].kernel, [p for kind in zip_longest(*products) for p in kind if p])
        result: list[Tensor | None] = [None]
        for one, needs in zip(passes, needs_x):
            result += [one.inputs if needs else None, *one.weights()]
        return tuple(result)


def _sentence_parts(runs: Sequence[TrainingRun]) -> list[tuple[int, int]]:
    """The sentences that each thread takes where there are more threads than directions."""
    return equal_parts(runs[0].num_sentences, max(1, num_threads() // len(runs)))
