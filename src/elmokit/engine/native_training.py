"""One recurrent layer and the character filters by the native kernel, forward and backward.

The buffers and calls that `train/native_recurrence.py` and `train/native_cnn.py` make gradients of.
"""

import ctypes
from collections.abc import Callable, Sequence
from ctypes import POINTER, c_float, c_int, c_int64, c_void_p
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from ..nn import LstmState
from .native import Kernel, available, block_gates, chosen, pack, pointer
from .native_product import Product, declare_products


class _Run(ctypes.Structure):
    _fields_ = [
        ("num_steps", c_int64), ("num_rows", c_int64), ("dim", c_int64), ("output_dim", c_int64),
        ("recurrent", c_void_p), ("projection", c_void_p), ("recurrent_back", c_void_p),
        ("projection_back", c_void_p), ("cell_clip", c_float), ("proj_clip", c_float),
        ("gates", c_void_p), ("c", c_void_p), ("m", c_void_p), ("raw", c_void_p), ("h", c_void_p),
        ("is_gru", c_int64),
    ]  # fmt: skip


class _Gradients(ctypes.Structure):
    _fields_ = [("grad_h", c_void_p), ("grad_c", c_void_p), ("grad_bias", c_void_p)]


class Bank(ctypes.Structure):
    """The filters of one width."""

    _fields_ = [
        ("width", c_int64), ("num_filters", c_int64), ("num_characters", c_int64),
        ("max_characters", c_int64), ("stride", c_int64), ("table", c_void_p), ("bias", c_void_p),
    ]  # fmt: skip


class TrainingKernel(Kernel):
    """The kernel with one instruction set, that of `ELMOKIT_ISA` or the best if none is named."""

    def __init__(self, isa: str | None = None) -> None:
        super().__init__(isa or chosen() or available()[-1])
        rows = [c_int64, c_int64]
        words = [POINTER(Bank), c_void_p, c_int64]
        for name, types in (
            ("layer_forward", [POINTER(_Run), *rows]),
            ("layer_backward", [POINTER(_Run), POINTER(_Gradients), *rows]),
            ("filters_forward", [*words, c_void_p, c_void_p, c_void_p]),
            ("filters_backward", [*words, c_void_p, c_void_p, *rows, c_void_p]),
        ):
            function = getattr(self.lib, f"elmokit_{name}")
            function.argtypes, function.restype = [c_int, *types], None
        declare_products(self.lib)


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
    """One layer over one dense batch: the weights packed, and all that the backward pass needs.

    Args:
        cell: The layer.
        x: Its input, (T, B, X).
        state: Where the rows start.
        kernel: The kernel.
    """

    def __init__(self, cell: Cell, x: Tensor, state: LstmState, kernel: TrainingKernel) -> None:
        self.kernel, self.cell = kernel, cell
        is_projected = cell.projection is not None
        self.dim = kernel.round_up(cell.dim, kernel.panel)
        self.output_dim = kernel.round_up(cell.output_dim) if is_projected else self.dim
        steps, rows, _ = x.shape
        self.x = x.detach().flatten(0, 1)
        self.h = x.new_empty(1 + steps, rows, self.output_dim)
        self.h[0] = pad(state.h.detach(), (0, self.output_dim - cell.output_dim))
        if cell.is_gru:
            self.c = self.h
        else:
            self.c = x.new_empty(1 + steps, rows, self.dim)
            self.c[0] = pad(state.c.detach(), (0, self.dim - cell.dim))
        self.m = x.new_empty(steps, rows, self.dim) if is_projected else self.h[1:]
        self.raw = None
        if is_projected and cell.proj_clip is not None:
            self.raw = x.new_empty(steps, rows, self.output_dim)
        self._pack()
        self._struct = _Run(
            steps, rows, self.dim, self.output_dim, self._recurrent.data_ptr(),
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
        """All steps of some rows, in the calling thread."""
        self.kernel.lib.elmokit_layer_forward(self.kernel.isa, self._struct, first, end)

    def outputs(self) -> Tensor:
        """(T, B, P)."""
        return self.h[1:, :, : self.cell.output_dim].contiguous()

    def state(self) -> LstmState:
        """Where the rows are after the last step, apart from the buffers."""
        c = self.c[-1, :, : self.cell.dim]
        limit = self.cell.cell_clip
        h = self.h[-1, :, : self.cell.output_dim].clone()
        return LstmState(h, c.clone() if limit is None else c.clamp(-limit, limit))


class TrainingGradients:
    """The backward pass of a run, which it uses up: the gates become their gradients.

    Args:
        run: The run, its forward pass done.
        grad: dL/d(outputs), (T, B, P).
        parts: Rows that one call takes, as many as there are calls.
    """

    def __init__(self, run: TrainingRun, grad: Tensor, parts: Sequence[tuple[int, int]]) -> None:
        self.run = run
        extra = run.output_dim - run.cell.output_dim
        self.grad_h = (
            pad(grad, (0, extra)) if extra else grad.clone(memory_format=torch.contiguous_format)
        )
        self.grad_c = grad.new_zeros(grad.shape[1], run.dim)
        self.grad_bias = grad.new_zeros(len(parts), 4 * run.dim)
        self.calls = [self._call(part, bias) for part, bias in zip(parts, self.grad_bias)]

    def _call(self, part: tuple[int, int], bias: Tensor) -> Callable[[], None]:
        kernel, run = self.run.kernel, self.run._struct
        struct = _Gradients(self.grad_h.data_ptr(), self.grad_c.data_ptr(), bias.data_ptr())
        return lambda: kernel.lib.elmokit_layer_backward(kernel.isa, run, struct, *part)

    def products(self, needs_x: bool) -> list[Product]:
        """What `weights` and `inputs` need, when the calls are done."""
        run, gates = self.run, self.run.gates.t()
        before = run.h[:-1].flatten(0, 1)
        self._by_input = gates.new_empty(len(gates), run.x.shape[1])
        self._by_output = gates.new_empty(len(gates), run.output_dim)
        found = [Product(gates, run.x, self._by_input), Product(gates, before, self._by_output)]
        if run.cell.projection is not None:
            grad_h, m = self.grad_h.flatten(0, 1).t(), run.m.flatten(0, 1)
            self._projection = gates.new_empty(len(grad_h), m.shape[1])
            found.append(Product(grad_h, m, self._projection))
        if needs_x:
            self._x = torch.empty_like(run.x)
            found.append(Product(run.gates, run.input_weight, self._x))
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

    def inputs(self) -> Tensor:
        """dL/dx, (T, B, X)."""
        return self._x.view(*self.grad_h.shape[:2], self.run.x.shape[1])

    def _unblock(self, blocked: Tensor) -> Tensor:
        """What `block_gates` made of rows i, f, g, o, undone."""
        run, width = self.run, blocked.shape[1]
        gates = blocked.reshape(-1, 4, run.kernel.lanes, width).transpose(0, 1)
        gates = gates.reshape(4, run.dim, width)[:, : run.cell.dim]
        return gates.reshape(4 * run.cell.dim, width)
