"""x W' + b by the native kernel, with gradients."""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from ..engine.native_product import Product, multiply
from ..engine.native_training import TrainingKernel
from .native_recurrence import available


def linear(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """`torch.nn.functional.linear` for rows x, (N, X)."""
    if not available(x):
        return F.linear(x, weight, bias)
    y: Tensor = _Linear.apply(TrainingKernel(), x, weight, bias)  # type: ignore[no-untyped-call]
    return y


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, kernel: TrainingKernel, x: Tensor, weight: Tensor, bias: Tensor
    ) -> Tensor:
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
