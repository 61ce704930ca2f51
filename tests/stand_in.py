"""A stand-in for a GPU that has no float64, as Apple's MPS has none; its values lie on the CPU.

It goes by the name of torch's `meta` device, the only one besides the CPU that every torch can
address. As on a GPU, operations with tensors of both devices fail, and so does `numpy()`.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from elmokit.model import execution

NAME = "meta"
# What takes tensors of both devices on a GPU, too: copies, and indices and lengths on the CPU.
MIXED = {
    f"aten::{name}"
    for name in (
        "copy_", "_to_copy", "index", "index_put_", "_index_put_impl_", "_pack_padded_sequence",
        "_pad_packed_sequence", "_pack_padded_sequence_backward",
    )
}  # fmt: skip


class Remote(torch.Tensor):
    """A tensor on the stand-in."""

    held: torch.Tensor

    @staticmethod
    def __new__(cls, held: torch.Tensor) -> "Remote":
        return torch.Tensor._make_wrapper_subclass(  # type: ignore[attr-defined]
            cls, held.shape, strides=held.stride(), dtype=held.dtype, device=NAME
        )

    def __init__(self, held: torch.Tensor) -> None:
        if held.dtype == torch.float64:
            raise TypeError("the device has no float64")
        self.held = held

    def tolist(self) -> Any:  # which torch refuses to subclasses
        return self.cpu().tolist()

    @classmethod
    def __torch_dispatch__(cls, *_: object, **__: object) -> Any:
        raise RuntimeError("the stand-in is gone; its tensors cannot be used any more")


class StandIn(TorchDispatchMode):
    """While it is entered, there is a device `meta` that computes."""

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        if torch._C._dispatch_has_kernel_for_dispatch_key(
            function.name(), "CompositeImplicitAutograd"
        ):
            with self:
                return function.decompose(*args, **kwargs)
        tensors = [x for x in tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor)]
        remote = [x for x in tensors if isinstance(x, Remote)]
        to_remote = bool(remote)
        if (target := kwargs.get("device")) is not None:
            to_remote = torch.device(target).type == NAME
            kwargs["device"] = torch.device("cpu")
        local = [x for x in tensors if not isinstance(x, Remote) and x.ndim]
        if any(x.is_meta for x in local):
            raise RuntimeError(f"{function}: a tensor that has lost its values")
        if remote and local and function.name().partition(".")[0] not in MIXED:
            raise RuntimeError(f"{function}: tensors of two devices")
        # Inside, tensors are to be neither inference tensors nor part of a graph.
        with torch.inference_mode(False), torch.no_grad():
            args, kwargs = tree_map(
                lambda x: x.held if isinstance(x, Remote) else x, (args, kwargs)
            )
            result = function(*args, **kwargs)
            # Operations in place return their argument.
            same = {id(x): x for x in local} | {id(x.held): x for x in remote}

            def place(x: Any) -> Any:
                if not isinstance(x, torch.Tensor) or not to_remote:
                    return x
                return same[id(x)] if id(x) in same else Remote(x)

            return tree_map(place, result)


@contextmanager
def stand_in(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The name of a device to pass to elmokit, which computes but has no float64."""
    with monkeypatch.context() as patch, StandIn():
        patch.setattr(execution, "_named_device", torch.device)
        for name in ("tensor", "as_tensor"):
            patch.setattr(torch, name, _made_here(getattr(torch, name)))
        yield NAME


def _made_here(make: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """`torch.tensor` on the CPU and then moved: for `meta` it would drop the values at once."""

    def made(data: Any, *, device: Any = None, **options: Any) -> torch.Tensor:
        x = make(data, **options)
        return x if device is None else x.to(device)

    return made
