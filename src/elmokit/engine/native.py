"""The native kernel: the same layer and filters in C, loaded through ctypes.

It is built with the package where a compiler is there (`hatch_build.py`); where it is not, torch
does the work. Every call names the instruction set, so that tests can run each that a machine has.
"""

import ctypes
import sys
from collections.abc import Callable
from ctypes import POINTER, c_float, c_int, c_int64, c_void_p
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from ..nn import CharCnn, ProjectedLstm
from .spelling import response_table

ISAS = ("portable", "avx2", "avx512")
"""Instruction sets by their numbers in dispatch.c, the best last."""

MIN_WORDS_A_THREAD = 16

_K_BLOCK = 512  # as in kernel.c

Call: TypeAlias = Callable[[], None]


class _Layer(ctypes.Structure):
    _fields_ = [
        ("dim", c_int64), ("output_dim", c_int64), ("input", c_void_p), ("recurrent", c_void_p),
        ("bias", c_void_p), ("projection", c_void_p), ("cell_clip", c_float),
        ("proj_clip", c_float),
    ]  # fmt: skip


class _Job(ctypes.Structure):
    _fields_ = [
        ("rows", c_void_p), ("gates", c_void_p), ("index", c_void_p), ("counts", c_void_p),
        ("num_steps", c_int64),
        ("first", c_int64), ("end", c_int64), ("h", c_void_p), ("c", c_void_p), ("out", c_void_p),
        ("scratch", c_void_p),
    ]  # fmt: skip


class _Filters(ctypes.Structure):
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
        POINTER(_Filters),
        c_void_p,
        c_int64,
        c_void_p,
        c_void_p,
    ]
    lib.elmokit_lstm_scratch_size.argtypes = [POINTER(_Layer), POINTER(_Job)]
    lib.elmokit_lstm_scratch_size.restype = c_int64
    lib.elmokit_lstm_inputs.argtypes = [c_int, POINTER(_Layer), c_void_p, c_int64, c_void_p]
    for name in ("lstm_run", "lstm_inputs", "char_cnn"):
        getattr(lib, f"elmokit_{name}").restype = None
    return lib


def available() -> tuple[str, ...]:
    """The instruction sets that the kernel can use on this machine, the best last."""
    lib = library()
    if lib is None:
        return ()
    return tuple(isa for i, isa in enumerate(ISAS) if lib.elmokit_vector_length(i) > 0)


class NativeLayer:
    """A `ProjectedLstm` packed for the kernel, its sizes padded to whole vectors."""

    def __init__(self, layer: ProjectedLstm, isa: str) -> None:
        config = layer.config
        self.isa = ISAS.index(isa)
        lanes = _lanes(self.isa)
        self.dim = _round_up(config.dim, lanes)
        self.output_dim = _round_up(config.projection_dim, lanes)
        bias = layer.bias.detach().clone()
        bias[config.dim : 2 * config.dim] += config.forget_bias
        self.bias = self._block(bias[:, None], lanes)
        extra = self.output_dim - config.projection_dim
        panel = _together(self.isa) * lanes
        self.input, self.recurrent = (
            self._block(pad(weight.detach(), (0, extra)), lanes)
            .view(-1, panel, self.output_dim)
            .transpose(1, 2)
            .contiguous()
            for weight in (layer.input_weight, layer.recurrent_weight)
        )
        self.projection = None
        if layer.projection is not None:
            padded = pad(layer.projection.detach(), (0, self.dim - config.dim, 0, extra))
            self.projection = _pack_projection(padded, panel)
        self.struct = _Layer(
            self.dim, self.output_dim, self.input.data_ptr(), self.recurrent.data_ptr(),
            self.bias.data_ptr(), _pointer(self.projection), config.cell_clip or 0.0,
            (config.proj_clip or 0.0) if config.projected else 0.0,
        )  # fmt: skip

    def _block(self, weight: Tensor, lanes: int) -> Tensor:
        """Rows i, f, g, o as [unit block][gate][lane]."""
        gates = weight.view(4, -1, weight.shape[1])
        gates = pad(gates, (0, 0, 0, self.dim - gates.shape[1]))
        gates = gates.view(4, -1, lanes, weight.shape[1]).transpose(0, 1)
        return gates.reshape(4 * self.dim, weight.shape[1]).contiguous()

    def products(self, x: Tensor, out: Tensor) -> None:
        """The input products plus bias of rows of padded width, to be used by an index."""
        lib = library()
        assert lib is not None
        lib.elmokit_lstm_inputs(self.isa, self.struct, x.data_ptr(), len(x), out.data_ptr())

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
        """
        lib = library()
        assert lib is not None
        job = _Job(
            _pointer(rows), _pointer(table), _pointer(index), counts.data_ptr(), len(counts),
            *sentences, h.data_ptr(), c.data_ptr(), out.data_ptr(), None,
        )  # fmt: skip
        scratch = torch.empty(lib.elmokit_lstm_scratch_size(self.struct, job))
        job.scratch = scratch.data_ptr()
        lib.elmokit_lstm_run(self.isa, self.struct, job)


class NativeFilters:
    """A `FilterBank` by the kernel.

    Args:
        cnn: The filters.
        isa: The instruction set.
        each: Runs calls side by side.
    """

    def __init__(self, cnn: CharCnn, isa: str, each: Callable[[list[Call]], None]) -> None:
        self.isa = ISAS.index(isa)
        self.each = each
        lanes = _lanes(self.isa)
        self.num_characters = cnn.embedding.num_embeddings
        self.banks: list[tuple[int, int, Tensor, Tensor]] = []
        for conv in cnn.convolutions:
            assert isinstance(conv, nn.Conv1d) and conv.bias is not None
            extra = _round_up(conv.out_channels, lanes) - conv.out_channels
            table = pad(response_table(cnn.embedding, conv), (0, extra)).contiguous()
            bias = pad(conv.bias.detach(), (0, extra))
            self.banks.append((conv.kernel_size[0], conv.out_channels, table, bias))

    def __call__(self, characters: Tensor, lengths: Tensor) -> Tensor:
        low, high = (int(end) for end in torch.aminmax(characters)) if len(characters) else (0, 0)
        if low < 0 or high >= self.num_characters:
            raise IndexError(f"character ids {low}..{high} outside 0..{self.num_characters - 1}")
        out = torch.empty(len(characters), sum(number for _, number, _, _ in self.banks))
        number = max(1, min(torch.get_num_threads(), len(characters) // MIN_WORDS_A_THREAD))
        parts = [t.contiguous().chunk(number) for t in (characters, lengths, out)]
        self.each([partial(self._fill, *part) for part in zip(*parts, strict=True)])
        return out

    def _fill(self, characters: Tensor, lengths: Tensor, out: Tensor) -> None:
        lib = library()
        assert lib is not None
        column = 0
        for width, number, table, bias in self.banks:
            struct = _Filters(
                width, number, table.shape[2], table.shape[1], characters.shape[1], out.shape[1],
                table.data_ptr(), bias.data_ptr(),
            )  # fmt: skip
            lib.elmokit_char_cnn(
                self.isa, struct, characters.data_ptr(), len(characters), lengths.data_ptr(),
                out[:, column:].data_ptr(),
            )  # fmt: skip
            column += number


def _pack_projection(weight: Tensor, panel: int) -> Tensor:
    """(P, H) as [K block][panel of P][depth][columns], flat."""
    blocks = [
        weight[p : p + panel, k : k + _K_BLOCK].t().reshape(-1)
        for k in range(0, weight.shape[1], _K_BLOCK)
        for p in range(0, weight.shape[0], panel)
    ]
    return torch.cat(blocks)


def _lanes(isa: int) -> int:
    lib = library()
    assert lib is not None
    return int(lib.elmokit_vector_length(isa))


def _together(isa: int) -> int:
    lib = library()
    assert lib is not None
    return int(lib.elmokit_vectors_together(isa))


def _round_up(n: int, multiple: int) -> int:
    return -(-n // multiple) * multiple


def _pointer(t: Tensor | None) -> Any:
    return None if t is None else t.data_ptr()
