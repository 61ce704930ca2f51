"""Matrix products by the native kernel, and linear maps: prepared for inference, or with gradients.

Where the kernel has AVX, training with its products reaches 83 to 98 % of the rate of torch's BLAS
(`benchmarks/train_speed.py`), and they need none of torch's threads.
"""

import ctypes
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from ctypes import POINTER, c_int64, c_void_p
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from .native import (
    ISAS,
    Kernel,
    chosen,
    declare,
    equal_parts,
    kept_from_torch,
    num_threads,
    pack,
    pointer,
    side_by_side,
    training_set,
)  # fmt: skip

PORTABLE = 0
"""The instruction set without AVX: torch's BLAS is faster there."""


class _Product(ctypes.Structure):
    _fields_ = [
        ("num_rows", c_int64), ("num_columns", c_int64), ("depth", c_int64),
        ("a", c_void_p), ("a_row", c_int64), ("a_depth", c_int64),
        ("b", c_void_p), ("b_depth", c_int64), ("b_column", c_int64),
        ("bias", c_void_p), ("adds", c_int64), ("out", c_void_p), ("out_row", c_int64),
        ("panels", c_void_p), ("is_packed", c_int64), ("block", c_void_p),
    ]  # fmt: skip


class LinearStruct(ctypes.Structure):
    _fields_ = [
        ("input_dim", c_int64), ("output_dim", c_int64), ("weight", c_void_p), ("bias", c_void_p),
    ]  # fmt: skip


declare("product_panels", POINTER(_Product), result=c_int64)
declare("product_block", result=c_int64)
declare("multiply_matrices", POINTER(_Product))
declare("linear", POINTER(LinearStruct), c_void_p, c_int64, c_int64, c_int64, c_void_p)


class Product(NamedTuple):
    """out = a b + bias; matrices of float32, of which `a` and `b` may be transposed."""

    a: Tensor
    b: Tensor
    out: Tensor
    bias: Tensor | None = None

    def rows(self, first: int, end: int) -> "Product":
        """Some rows of it."""
        return self._replace(a=self.a[first:end], out=self.out[first:end])

    def columns(self, first: int, end: int) -> "Product":
        """Some columns of it."""
        bias = None if self.bias is None else self.bias[first:end]
        return Product(self.a, self.b[:, first:end], self.out[:, first:end], bias)


def threads_of_the_kernel(device: torch.device) -> AbstractContextManager[None]:
    """Around a step of training: torch gets one thread where the kernel does the large products."""
    is_ours = device.type == "cpu" and chosen() not in (None, ISAS[PORTABLE])
    return kept_from_torch() if is_ours else nullcontext()


def multiply(kernel: Kernel, products: Sequence[Product]) -> None:
    """Fill `out` of products that do not depend on each other."""
    threads = num_threads()
    calls = []
    for product in products:
        if kernel.isa == PORTABLE or 0 in (*product.a.shape, *product.b.shape):
            _multiply_by_torch(product)
        elif threads > 1 and len(products) % threads:
            calls += [_call(kernel, part) for part in _parts(kernel, product, threads)]
        else:
            calls.append(_call(kernel, product))
    side_by_side(calls)


def _parts(kernel: Kernel, product: Product, number: int) -> list[Product]:
    """Rows where they are copied, else columns, which are: no copy is made twice."""
    num_rows, num_columns = product.out.shape
    if product.a.stride(1) != 1 or num_columns < number * kernel.panel:
        return [product.rows(*part) for part in equal_parts(num_rows, number)]
    return [product.columns(*part) for part in equal_parts(num_columns, number, kernel.panel)]


def _call(kernel: Kernel, product: Product) -> Callable[[], None]:
    a, b, out, bias = product
    assert out.stride(1) == 1 and 1 in a.stride() and 1 in b.stride()
    struct = _Product(
        *out.shape, a.shape[1], a.data_ptr(), *a.stride(), b.data_ptr(), *b.stride(),
        pointer(bias), False, out.data_ptr(), out.stride(0), None, False, None,
    )  # fmt: skip
    lib = kernel.lib
    panels = torch.empty(lib.elmokit_product_panels(kernel.isa, struct))
    block = torch.empty(lib.elmokit_product_block(kernel.isa))
    struct.panels, struct.block = panels.data_ptr(), block.data_ptr()
    return partial(_run, kernel, struct, product, panels, block)


def _run(kernel: Kernel, struct: _Product, *kept: object) -> None:
    """The product; `kept` is what its pointers point to."""
    kernel.lib.elmokit_multiply_matrices(kernel.isa, struct)


def _multiply_by_torch(product: Product) -> None:
    a, b, out, bias = product
    if bias is None:
        torch.mm(a, b, out=out)
    else:
        torch.addmm(bias, a, b, out=out)


class NativeLinear:
    """x W + b for contiguous rows of `input_dim`; the output may be padded with zeros."""

    def __init__(self, kernel: Kernel, weight: Tensor, bias: Tensor) -> None:
        self.kernel = kernel
        weight, bias = weight.detach(), bias.detach()
        self.output_dim = kernel.round_up(len(weight), kernel.panel)
        self.weight = pack(F.pad(weight, (0, 0, 0, self.output_dim - len(weight))), kernel.panel)
        self.bias = F.pad(bias, (0, self.output_dim - len(weight)))
        self.struct = LinearStruct(
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


def linear(x: Tensor, weight: Tensor, bias: Tensor, isa: str | None = None) -> Tensor:
    """`torch.nn.functional.linear` for rows x, (N, X); `isa` as in `training_set`."""
    chosen_set = training_set(x, isa)
    if chosen_set is None:
        return F.linear(x, weight, bias)
    y: Tensor = _LinearWithGradient.apply(Kernel(chosen_set), x, weight, bias)  # type: ignore[no-untyped-call]
    return y


class _LinearWithGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, kernel: Kernel, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        x, weight = x.contiguous(), weight.contiguous()
        y = x.new_empty(len(x), len(weight))
        multiply(kernel, [Product(x, weight.t(), y, bias)])
        ctx.kernel = kernel
        ctx.save_for_backward(x, weight)
        return y

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        grad = grad.contiguous()
        dx, dweight = torch.empty_like(x), torch.empty_like(weight)
        multiply(ctx.kernel, [Product(grad, weight, dx), Product(grad.t(), x, dweight)])
        return None, dx, dweight, grad.sum(dim=0)
