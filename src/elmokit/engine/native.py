"""The native kernel: the same layer and filters in C, loaded through ctypes.

It is built with the package where a compiler is there (`hatch_build.py`); where it is not, torch
does the work. Every call names the instruction set, so that tests can run each that a machine has.
The environment variable `ELMOKIT_ISA` names one for all calls that leave it open.
"""

import ctypes
import os
import sys
from ctypes import POINTER, c_float, c_int, c_int64, c_void_p
from functools import cache
from itertools import pairwise
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.functional import pad

from ..errors import ConfigError
from ..nn import ProjectedLstm

ISAS = ("portable", "avx2", "avx512")
"""Instruction sets by their numbers in dispatch.c, the best last."""

_K_BLOCK = 512  # as in kernel.c


class _Linear(ctypes.Structure):
    _fields_ = [
        ("input_dim", c_int64), ("output_dim", c_int64), ("weight", c_void_p), ("bias", c_void_p),
    ]  # fmt: skip


class _Layer(ctypes.Structure):
    _fields_ = [
        ("dim", c_int64), ("output_dim", c_int64), ("input", _Linear), ("recurrent", c_void_p),
        ("projection", c_void_p), ("cell_clip", c_float), ("proj_clip", c_float),
    ]  # fmt: skip


class _Job(ctypes.Structure):
    _fields_ = [
        ("rows", c_void_p), ("gates", c_void_p), ("index", c_void_p), ("counts", c_void_p),
        ("num_steps", c_int64), ("first", c_int64), ("end", c_int64), ("adds_input", c_int64),
        ("h", c_void_p), ("c", c_void_p), ("out", c_void_p),
        ("scratch", c_void_p),
    ]  # fmt: skip


class Filters(ctypes.Structure):
    _fields_ = [
        ("width", c_int64), ("num_filters", c_int64), ("num_padded", c_int64),
        ("num_characters", c_int64), ("max_characters", c_int64), ("stride", c_int64),
        ("table", c_void_p), ("bias", c_void_p),
    ]  # fmt: skip


@cache
def library() -> ctypes.CDLL | None:
    """The kernel, or None where it was not built."""
    name = "_kernel.dll" if sys.platform == "win32" else "_kernel.so"
    path = Path(__file__).with_name(name)
    if not path.is_file():
        return None
    try:
        lib = ctypes.CDLL(str(path))
    except OSError:  # built for another machine
        return None
    lib.elmokit_vector_length.argtypes = [c_int]
    lib.elmokit_vector_length.restype = c_int64
    lib.elmokit_vectors_together.argtypes = [c_int]
    lib.elmokit_vectors_together.restype = c_int64
    lib.elmokit_lstm_run.argtypes = [c_int, POINTER(_Layer), POINTER(_Job)]
    lib.elmokit_char_cnn.argtypes = [
        c_int,
        POINTER(Filters),
        c_void_p,
        c_int64,
        c_void_p,
        c_void_p,
    ]
    lib.elmokit_lstm_scratch_size.argtypes = [POINTER(_Layer), POINTER(_Job)]
    lib.elmokit_lstm_scratch_size.restype = c_int64
    lib.elmokit_linear.argtypes = [
        c_int,
        POINTER(_Linear),
        c_void_p,
        c_int64,
        c_int64,
        c_int64,
        c_void_p,
    ]
    lib.elmokit_highway.argtypes = [c_int, c_int64, c_int64, c_void_p, c_void_p]
    lib.elmokit_activate.argtypes = [c_int, c_int64, c_int, c_void_p]
    for name in ("lstm_run", "linear", "highway", "activate", "char_cnn"):
        getattr(lib, f"elmokit_{name}").restype = None
    return lib


def available() -> tuple[str, ...]:
    """The instruction sets that the kernel can use on this machine, the best last."""
    return _sets_of(library())


@cache
def _sets_of(lib: ctypes.CDLL | None) -> tuple[str, ...]:
    if lib is None:
        return ()
    return tuple(isa for i, isa in enumerate(ISAS) if lib.elmokit_vector_length(i) > 0)


def chosen() -> str | None:
    """The instruction set to use where none is named; None for torch.

    It is the one that `ELMOKIT_ISA` names, or the best.
    """
    have = available()
    name = os.environ.get("ELMOKIT_ISA")
    if not name:
        return have[-1] if have else None
    if name not in (*ISAS, "none"):
        raise ConfigError(f"ELMOKIT_ISA={name!r}: expected {', '.join(ISAS)} or none (torch)")
    if name not in (*have, "none"):
        raise ConfigError(
            f"ELMOKIT_ISA={name!r}: not on this machine, which has {', '.join((*have, 'none'))}"
        )
    return None if name == "none" else name


class Kernel:
    """The kernel with one instruction set."""

    def __init__(self, isa: str) -> None:
        loaded = library()
        assert loaded is not None
        self.lib = loaded
        self.isa = ISAS.index(isa)
        self.lanes = int(loaded.elmokit_vector_length(self.isa))
        self.panel = int(loaded.elmokit_vectors_together(self.isa)) * self.lanes

    def round_up(self, n: int, multiple: int = 0) -> int:
        """`n` as a whole number of vectors, or of `multiple`."""
        multiple = multiple or self.lanes
        return -(-n // multiple) * multiple


class NativeLinear:
    """x W + b for contiguous rows of `input_dim`; the output may be padded with zeros."""

    def __init__(self, kernel: Kernel, weight: Tensor, bias: Tensor) -> None:
        self.kernel = kernel
        self.output_dim = kernel.round_up(len(weight), kernel.panel)
        self.weight = pack(pad(weight, (0, 0, 0, self.output_dim - len(weight))), kernel.panel)
        self.bias = pad(bias, (0, self.output_dim - len(weight)))
        self.struct = _Linear(
            weight.shape[1], self.output_dim, self.weight.data_ptr(), self.bias.data_ptr()
        )

    def __call__(self, x: Tensor, out: Tensor) -> Tensor:
        """Fill `out`, (N, output_dim), and return it."""
        return self.fill(x, out, 0, self.output_dim)

    def fill(self, x: Tensor, out: Tensor, first: int, end: int) -> Tensor:
        """Fill some columns of `out`, whole panels, and return it."""
        kernel = self.kernel
        kernel.lib.elmokit_linear(
            kernel.isa, self.struct, x.data_ptr(), len(x), first, end, out.data_ptr()
        )
        return out

    def parts(self, number: int) -> list[tuple[int, int]]:
        """About equal ranges of columns, whole panels, at most `number`."""
        panels = self.output_dim // self.kernel.panel
        cuts = [self.kernel.panel * (panels * i // number) for i in range(number + 1)]
        return [(a, b) for a, b in pairwise(cuts) if b > a]


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
        scratch = torch.empty(lib.elmokit_lstm_scratch_size(self.struct, job))
        job.scratch = scratch.data_ptr()
        lib.elmokit_lstm_run(self.kernel.isa, self.struct, job)


def block_gates(weight: Tensor, dim: int, lanes: int) -> Tensor:
    """Rows i, f, g, o as [unit block][gate][lane], each gate padded to `dim` rows."""
    gates = weight.view(4, -1, weight.shape[1])
    gates = pad(gates, (0, 0, 0, dim - gates.shape[1]))
    gates = gates.view(4, -1, lanes, weight.shape[1]).transpose(0, 1)
    return gates.reshape(4 * dim, weight.shape[1]).contiguous()


def pack(weight: Tensor, panel: int) -> Tensor:
    """(N, K) as [K block][panel of N][depth][columns], flat."""
    blocks = [
        weight[p : p + panel, k : k + _K_BLOCK].t().reshape(-1)
        for k in range(0, weight.shape[1], _K_BLOCK)
        for p in range(0, weight.shape[0], panel)
    ]
    return torch.cat(blocks)


def pointer(t: Tensor | None) -> int | None:
    """Where a tensor's data are, as ctypes wants it."""
    return None if t is None else t.data_ptr()
