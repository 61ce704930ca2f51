"""An `nn.BiLm` by the best means of the machine: the same numbers, fast."""

import logging
import threading
import zlib
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ..errors import ConfigError, quoted
from ..nn import BiLm, BiLmState, ProjectedLstm, TokenEncoder, TokenIds
from . import gradient, native
from .native_encoder import NativeEncoder
from .native_lstm import NativeLayer
from .packed import PackedRun, Request
from .plain import GRADIENT_TOLERANCE, INT8_TOLERANCE, TOLERANCE, agree, run_plain
from .torch_encoder import TorchEncoder
from .torch_lstm import Int8Layer, TorchLayer

log = logging.getLogger(__name__)

EngineName: TypeAlias = Literal["auto", "native", "torch", "plain"] | str
Precision: TypeAlias = Literal["float32", "int8"]

CHECKED_WORDS, CHECKED_LENGTHS = 4, (4, 3)
"""The input on which an engine compares itself with `nn`: words, and tokens of each sentence."""

WHOLE = 8192
"""Elements of the largest tensor that is always compared whole."""

SAMPLED = 256
"""Elements of a larger one that are compared, about."""

_BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}

Bits: TypeAlias = NDArray[np.integer]


class Engine:
    """A biLM prepared for inference; it follows when the weights change or move.

    Whenever it prepares weights, it compares itself with `nn` on a short input. Where they differ
    by more than rounding, `nn` does the work, with a warning: whoever changes a cell in `nn` gets
    right vectors slowly, not wrong ones fast.

    Args:
        bilm: The model.
        name: `native` (or `native:avx2` and the like) for the C kernel, `torch` for torch alone,
            `plain` for `nn.BiLm` as it is written, `auto` for the kernel where it can run, unless
            `ELMOKIT_ISA` says otherwise.
        precision: `int8` computes the LSTM products in 8 bits: faster on large models, inexact.
    """

    def __init__(self, bilm: BiLm, name: EngineName = "auto", precision: Precision = "float32"):
        self.bilm = bilm
        self.requested = _check_name(name)
        self.precision = _check_precision(precision, bilm)
        self._prepared: dict[object, tuple[tuple[object, ...], Any]] = {}
        self._num_prepared = 0
        """LSTM layers prepared so far."""
        self._checked: dict[str, tuple[object, bool]] = {}
        """What was compared with `nn` last, encoder and LSTMs, and whether they agree."""
        self._fingerprints: dict[nn.Module, Fingerprint] = {}
        self._lock = threading.Lock()

    @property
    def isa(self) -> str | None:
        """The instruction set of the kernel; None where torch does the work."""
        weight = self.bilm.forward_lm.layers[0].bias
        fits = weight.device.type == "cpu" and weight.dtype == torch.float32
        kind, _, isa = self.requested.partition(":")
        if kind in ("torch", "plain") or self.precision == "int8" or not fits:
            return None
        return isa or native.chosen() or (native.available()[-1] if kind == "native" else None)

    @property
    def name(self) -> str:
        """What does the work, for people: `native (avx2)`, `torch`, `torch (int8)`, `plain`."""
        if self.is_plain:
            return "plain"
        if self.isa is not None:
            return f"native ({self.isa})"
        return "torch (int8)" if self.precision == "int8" else "torch"

    @property
    def is_plain(self) -> bool:
        """Whether `nn.BiLm` itself does the work, because that was asked for."""
        return self.requested == "plain"

    def token_vectors(self, ids: TokenIds) -> Tensor:
        """x_k of each word, (N, P)."""
        x: Tensor
        if not self.is_plain:
            encoder = self._prepare("encoder", self.bilm.encoder, self._make_encoder)
            x = encoder(ids)
            if self._encoder_agrees(encoder, ids, x):
                return x
        x = self.bilm.encoder(ids)
        return x

    def run(
        self,
        x: Tensor,
        index: NDArray[np.int64],
        lengths: NDArray[np.int64],
        request: Request,
        state: BiLmState | None = None,
    ) -> tuple[Tensor, BiLmState]:
        """The requested vectors, (S, tokens, P · directions), and the state after each sentence.

        Args:
            x: Token vectors of the distinct words, (N, P).
            index: For every token of every sentence in turn, its row of `x`.
            lengths: Tokens of each sentence, its two boundaries included.
            request: What to compute.
            state: Where each sentence starts; None for zeros.
        """
        if state is None:
            state = BiLmState.zeros(self.bilm.config.lstm, len(lengths), like=x)
        if not len(lengths):
            width = x.shape[1] * len(request.directions)
            return x.new_zeros(len(request.weights), 0, width), state
        if not self.is_plain:
            layers = self._layers(request)
            if self._layers_agree(x):
                lstm = self.bilm.config.lstm
                return PackedRun(lstm, layers, x, index, lengths, request, state).result()
        return run_plain(self.bilm, x, index, lengths, request, state)

    def run_with_gradients(
        self,
        ids: TokenIds,
        index: NDArray[np.int64],
        lengths: NDArray[np.int64],
        state: BiLmState | None = None,
    ) -> tuple[Tensor, BiLmState]:
        """All layers, (L, tokens, 2 P), as functions of the weights, and the states; see `run`.

        The tokens are among the distinct words `ids`, boundaries included. No gradient flows into
        `state`.
        """
        config = self.bilm.config
        everything = Request(torch.eye(config.num_layers), with_state=True, boundaries=True)
        is_plain = self.is_plain or not len(lengths) or not self._gradients_agree(ids)
        x = self._encode(ids, is_plain)
        if state is None:
            state = BiLmState.zeros(config.lstm, len(lengths), like=x)
        if not len(lengths):
            return x.new_zeros(config.num_layers, 0, 2 * x.shape[1]), state
        run = self._run_differentiably(is_plain)
        return run(self.bilm, x, index, lengths, everything, state)

    def _layers(self, request: Request) -> list[list[NativeLayer | TorchLayer]]:
        """The prepared LSTM layers that a request needs, by direction."""
        stacks = (self.bilm.forward_lm, self.bilm.backward_lm)
        return [
            [
                self._prepare((d, j), stacks[d].layers[j], self._make_layer)
                for j in range(request.num_lstm_layers)
            ]
            for d in request.directions
        ]

    def _make_layer(self, layer: ProjectedLstm) -> Any:
        if self.precision == "int8":
            return Int8Layer(layer)
        return NativeLayer(layer, native.Kernel(self.isa)) if self.isa else TorchLayer(layer)

    def _make_encoder(self, encoder: TokenEncoder) -> Callable[[TokenIds], Tensor]:
        return (
            NativeEncoder(encoder, native.Kernel(self.isa)) if self.isa else TorchEncoder(encoder)
        )

    def _encoder_agrees(self, encoder: object, ids: TokenIds, x: Tensor) -> bool:
        """Whether the prepared encoder gives what `nn` gives, by the first words it is given."""
        known, agrees = self._checked.get("encoder", (None, True))
        if known is not encoder and len(x):
            few = TokenIds(*(None if part is None else part[:CHECKED_WORDS] for part in ids))
            want = self.bilm.encoder(few)
            tolerance = TOLERANCE[x.dtype]
            agrees = self._compare("encoder", encoder, [x[:CHECKED_WORDS]], [want], tolerance)
        return agrees

    def _layers_agree(self, like: Tensor) -> bool:
        """Whether the prepared LSTMs give what `nn` gives, by two short random sentences."""
        known, agrees = self._checked.get("LSTMs", (0, True))
        if known != self._num_prepared:
            arguments = self._short_input(like)
            request = arguments[3]
            run = PackedRun(self.bilm.config.lstm, self._layers(request), *arguments)
            got, after = run.result()
            want, expected = run_plain(self.bilm, *arguments)
            tolerance = INT8_TOLERANCE if self.precision == "int8" else TOLERANCE[like.dtype]
            found, wanted = (got, *after), (want, *expected)
            agrees = self._compare("LSTMs", self._num_prepared, found, wanted, tolerance)
        return agrees

    def _gradients_agree(self, ids: TokenIds) -> bool:
        """Whether vectors and gradients are those of `nn`, by the first words; asked once."""
        if "gradients" not in self._checked:
            few = TokenIds(*(None if part is None else part[:CHECKED_WORDS] for part in ids))
            weights = [p for p in self.bilm.parameters() if p.requires_grad]
            results: dict[bool, list[Tensor]] = {}
            for is_plain in (False, True):
                with torch.enable_grad():
                    x = self._encode(few, is_plain)
                    arguments = self._short_input(x.detach())
                    index = arguments[1] % len(x)
                    run = self._run_differentiably(is_plain)
                    layers, after = run(self.bilm, x, index, *arguments[2:])
                    loss = layers.square().sum()
                    # A replica of nn.DataParallel has no parameters of its own.
                    grads = torch.autograd.grad(loss, weights, allow_unused=True) if weights else ()
                found = [layers, *after, *(grad for grad in grads if grad is not None)]
                results[is_plain] = [t.detach() for t in found]
            tolerance = GRADIENT_TOLERANCE[x.dtype]
            self._compare("gradients", True, results[False], results[True], tolerance)
        return self._checked["gradients"][1]

    def _encode(self, ids: TokenIds, is_plain: bool) -> Tensor:
        x: Tensor
        encoder, isa = self.bilm.encoder, self.isa or "none"
        x = encoder(ids) if is_plain else gradient.encode(encoder, ids, isa)
        return x

    def _run_differentiably(self, is_plain: bool) -> Callable[..., tuple[Tensor, BiLmState]]:
        return run_plain if is_plain else partial(gradient.run, isa=self.isa or "none")

    def _short_input(
        self, like: Tensor
    ) -> tuple[Tensor, NDArray[np.int64], NDArray[np.int64], Request, BiLmState]:
        """Two short random sentences, as `run` takes them."""
        config = self.bilm.config
        index, lengths = np.arange(sum(CHECKED_LENGTHS)), np.array(CHECKED_LENGTHS)
        generator = torch.Generator().manual_seed(0)
        x = torch.randn(len(index), config.lstm.projection_dim, generator=generator).to(like)
        request = Request(torch.eye(config.num_layers), with_state=True, boundaries=True)
        state = BiLmState.zeros(config.lstm, len(lengths), like=x)
        return x, index, lengths, request, state

    def _compare(
        self, part: str, checked: object, got: Sequence[Tensor], want: Sequence[Tensor],
        tolerance: float,
    ) -> bool:  # fmt: skip
        """Whether a part gives what `nn` gives; the answer is kept for what was `checked`."""
        agrees = all(agree(a, b, tolerance) for a, b in zip(got, want, strict=True))
        if not agrees:
            log.warning(
                "the %s of engine %s differ from elmokit.nn by more than rounding; computing with "
                "elmokit.nn instead, slowly. If you did not change elmokit.nn, please report this",
                part,
                self.name,
            )
        self._checked[part] = (checked, agrees)
        return agrees

    def forget(self) -> None:
        """Prepare everything anew at the next call."""
        with self._lock:
            self._prepared.clear()
            self._fingerprints.clear()

    def mark(self, module: nn.Module | None = None) -> tuple[object, ...]:
        """Something that changes when the weights of a part of the biLM, or of all, do.

        It also changes when another instruction set computes with them.
        """
        module = self.bilm if module is None else module
        fingerprint = self._fingerprints.get(module)
        if fingerprint is None:
            fingerprint = self._fingerprints[module] = Fingerprint(module)
        return (self.isa, fingerprint())

    def _prepare(self, key: object, module: nn.Module, make: Callable[[Any], Any]) -> Any:
        """What `make` made of `module`, made again if its weights have changed since."""
        mark = self.mark(module)
        with self._lock:
            known = self._prepared.get(key)
            if known is None or known[0] != mark:
                with torch.inference_mode(False), torch.no_grad():
                    known = self._prepared[key] = (mark, make(module))
                self._num_prepared += isinstance(module, ProjectedLstm)
            return known[1]

    def __getstate__(self) -> dict[str, Any]:
        return {"bilm": self.bilm, "requested": self.requested, "precision": self.precision}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["bilm"], state["requested"], state["precision"])  # type: ignore[misc]


class Fingerprint:
    """Something of a module's parameters that changes when they do.

    torch counts changes (`_version`), but fused optimisers and whatever goes through `p.data` or
    NumPy escape that count. So the values are compared as well: small tensors whole, large ones at
    a few hundred elements that are spread over all rows and columns. An optimiser may move only
    some rows of an embedding, those of the words of its batch, so an embedding that is being
    trained is read whole. What can still escape is a change of single elements by hand.

    Views of the elements to compare are kept from call to call: making one takes twenty times as
    long as reading it. Each keeps its tensor alive, so an address never means another tensor.
    """

    def __init__(self, module: nn.Module) -> None:
        self.module = module
        self._views: dict[tuple[object, ...], Bits] = {}

    def __call__(self) -> tuple[object, ...]:
        marks: list[object] = []
        known, views = self._views, dict[tuple[object, ...], Bits]()
        for module in self.module.modules():
            is_table = isinstance(module, nn.Embedding)
            for p in module._parameters.values():  # faster than parameters()
                if p is None:
                    continue
                is_partial = is_table and p.requires_grad  # how a step may change it
                key = (p.data_ptr(), p.stride(), p.dtype, is_partial)
                view = known.get(key)
                if view is None:
                    view = _sample(p, is_partial)
                if p.is_cpu:
                    views[key] = view
                marks += (key, 0 if p.is_inference() else p._version, _read(view))
        self._views = views
        return tuple(marks)


def _sample(p: Tensor, is_whole: bool) -> Bits:
    """The bits of some elements, or of all; on the CPU a view of them."""
    bits = p.detach().view(_BITS[p.element_size()])
    # As it lies in memory: a view of a transposed matrix, too, is one row without holes.
    bits = bits.permute(sorted(range(bits.ndim), key=bits.stride().__getitem__, reverse=True))
    if bits.is_contiguous() and bits.numel() > WHOLE and not is_whole:
        # An odd step meets every column of a matrix whose width is a power of two.
        bits = bits.view(-1)[:: bits.numel() // SAMPLED | 1]
    return bits.cpu().numpy()


def _read(view: Bits) -> object:
    """The elements themselves, or a checksum of many."""
    return view.tobytes() if view.size <= WHOLE else zlib.crc32(np.ascontiguousarray(view).data)


def _check_name(name: str) -> str:
    kind, _, isa = name.partition(":")
    if kind not in ("auto", "native", "torch", "plain") or (
        isa and (kind != "native" or isa not in native.ISAS)
    ):
        raise ConfigError(
            f"engine={quoted(name)}: expected 'auto', 'native', 'torch', 'plain' or 'native:' and "
            f"one of {', '.join(native.ISAS)}"
        )
    if kind == "native" and (not native.available() or (isa and isa not in native.available())):
        have = ", ".join(native.available()) or "no kernel at all (it is built with the package)"
        raise ConfigError(f"engine={quoted(name)}: not on this machine, which has {have}")
    return name


def _check_precision(precision: str, bilm: BiLm) -> Precision:
    if precision == "float32":
        return "float32"
    if precision != "int8":
        raise ConfigError(f"precision={quoted(precision)}: expected 'float32' or 'int8'")
    if not Int8Layer.is_available():
        raise ConfigError(f"precision='int8': torch {torch.__version__} has no 8-bit products")
    if bilm.config.lstm.dim < 2048:
        log.warning(
            "precision='int8' is slower than float32 for LSTMs of %d units; it pays from 2048 on",
            bilm.config.lstm.dim,
        )
    return "int8"
