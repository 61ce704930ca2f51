"""How an `Elmo` comes from files and goes to them."""

import logging
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, Self, TypeAlias, cast

import torch

from ..config import MixConfig, Normalization, StateMode
from ..engine import EngineName, Precision
from ..errors import ConfigError, quoted
from ..io.catalogue.install import local_copy
from ..io.checkpoint import OPTIONAL, Checkpoint
from ..io.hub import upload
from ..io.load import read_checkpoint
from ..io.official import read_official
from ..io.output import output_path
from ..io.save import save_native
from ..nn import ScalarMix
from ..text.reader import Reader
from ..text.tokenize import TokenizerFunction
from ..text.tokenizers.function import FunctionTokenizer
from .core import CACHE_WORDS, ElmoCore
from .device import Device, find_device

log = logging.getLogger(__name__)

DType: TypeAlias = Literal["float64", "float32", "float16", "bfloat16"] | torch.dtype


class PretrainedElmo(ElmoCore):
    """An `ElmoCore` that loads every published format and saves our own."""

    @classmethod
    def from_pretrained(
        cls,
        source: str | Path,
        *,
        revision: str | None = None,
        device: Device = None,
        dtype: DType = "float32",
        state: StateMode | None = None,
        tokenizer: str | TokenizerFunction | None = None,
        normalization: Normalization | Literal["as saved"] | None = "as saved",
        requires_grad: bool = False,
        engine: EngineName = "auto",
        precision: Precision = "float32",
        cache_words: int = CACHE_WORDS,
    ) -> Self:
        """The model at `source`, whatever published format it has.

        Args:
            source: Name of a bundled model (`en`, `ko`) or of a published one, which is downloaded
                once (`elmokit models` lists them); a folder in any published format, one of its
                files, an archive of it, its address; or the id of a model on the Hugging Face Hub.
            revision: Version of a Hub model.
            device: Any torch device; by default CUDA where there is one, else the CPU.
            dtype: Type of the weights and of the arithmetic.
            state: Where the LSTMs start a sentence: `zero`, `warm` or `carry`; by default as the
                model was saved, which is `zero` for all published formats.
            tokenizer: `regex`, `whitespace`, `characters`, `kiwi`, `spacy:en`, or a function from a
                text to tokens (strings, or strings with offsets). By default as saved, or else
                `regex`, with a warning when the model is first given a text.
            normalization: Unicode form for all tokens (NFC by default), or None for none.
            requires_grad: Whether the biLM is to be trained, too.
            engine: `native` for the C kernel, `torch` for torch alone, `plain` for `elmokit.nn` as
                it is written (slow), `auto` for the best.
            precision: `int8` for 8-bit products in the LSTMs: faster for large models, inexact.
            cache_words: Words whose token vectors are remembered from call to call.
        """
        checkpoint = read_checkpoint(source, revision)
        changes: dict[str, Any] = {"state": state, "tokenizer": tokenizer}
        changes = {name: value for name, value in changes.items() if value is not None}
        function = _split_off_function(changes)
        if normalization != "as saved":
            changes["normalization"] = normalization
        try:
            checkpoint.config = replace(checkpoint.config, **changes)
            elmo = cls.from_checkpoint(
                checkpoint,
                device=device,
                dtype=dtype,
                requires_grad=requires_grad,
                engine=engine,
                precision=precision,
                cache_words=cache_words,
            )
            return elmo._with_tokenizer(function)
        except ConfigError as e:
            raise ConfigError(f"{source}: {e}") from e

    @classmethod
    def from_files(
        cls,
        options: str | Path,
        weights: str | Path,
        *,
        vocab: str | Path | None = None,
        softmax: str | Path | None = None,
        token_embeddings: str | Path | None = None,
        device: Device = None,
        dtype: DType = "float32",
        state: StateMode = "zero",
        tokenizer: str | TokenizerFunction | None = None,
        normalization: Normalization | None = "NFC",
        requires_grad: bool = False,
        engine: EngineName = "auto",
        precision: Precision = "float32",
        cache_words: int = CACHE_WORDS,
    ) -> Self:
        """The model of an official pair of files: `options.json` and HDF5 weights.

        Args:
            options: The options file, or its address; likewise for the files that follow.
            weights: The HDF5 weights.
            vocab: Words, one a line, of `softmax` or of `token_embeddings`.
            softmax: HDF5 file of the softmax weights.
            token_embeddings: HDF5 file of cached token vectors, to read words by `vocab` instead
                of by their characters.
            device: As in `from_pretrained`, like all that follow.
            dtype: Type of the weights and of the arithmetic.
            state: Where the LSTMs start a sentence.
            tokenizer: For texts that are not yet tokenised; None is `regex`, with a warning.
            normalization: Unicode form for all tokens.
            requires_grad: Whether the biLM is to be trained, too.
            engine: What computes.
            precision: `float32` or `int8`.
            cache_words: Words whose token vectors are remembered from call to call.
        """
        paths = {"vocab": vocab, "softmax": softmax, "token_embeddings": token_embeddings}
        checkpoint = read_official(
            local_copy(options),
            local_copy(weights),
            **{name: local_copy(path) if path else None for name, path in paths.items()},
        )
        changes: dict[str, Any] = {"state": state, "normalization": normalization}
        changes["tokenizer"] = tokenizer
        function = _split_off_function(changes)
        checkpoint.config = replace(checkpoint.config, **changes)
        elmo = cls.from_checkpoint(
            checkpoint,
            device=device,
            dtype=dtype,
            requires_grad=requires_grad,
            engine=engine,
            precision=precision,
            cache_words=cache_words,
        )
        return elmo._with_tokenizer(function)

    @classmethod
    def from_checkpoint(
        cls,
        checkpoint: Checkpoint,
        *,
        device: Device = None,
        dtype: DType = "float32",
        requires_grad: bool = False,
        engine: EngineName = "auto",
        precision: Precision = "float32",
        cache_words: int = CACHE_WORDS,
    ) -> Self:
        """The model of a `Checkpoint`, whose tensors it takes over."""
        with torch.device("meta"):
            elmo = cls(
                checkpoint.config,
                vocab=checkpoint.vocab,
                characters=checkpoint.characters,
                words=checkpoint.words,
                requires_grad=requires_grad,
                engine=engine,
                precision=precision,
                cache_words=cache_words,
            )
        tensors = dict(checkpoint.tensors)
        warm = [tensors.pop(name, None) for name in OPTIONAL]
        if not checkpoint.config.mixes:
            fresh = ScalarMix(elmo.num_layers).state_dict()
            tensors |= {f"mixes.default.{name}": value for name, value in fresh.items()}
        with torch.no_grad():
            elmo.load_state_dict(tensors, strict=True, assign=True)
        elmo.warm_h, elmo.warm_c = warm
        elmo.format = checkpoint.format
        elmo.notes = checkpoint.notes
        elmo.bilm.requires_grad_(requires_grad)
        where, kind = find_device(device), _dtype(dtype)
        if where.type == "mps" and kind == torch.float64:
            raise ConfigError(
                "dtype='float64': MPS has no float64; expected float32 or device='cpu'"
            )
        if where.type != "cpu" and precision == "int8":
            raise ConfigError(
                f"precision='int8': runs on the CPU only; expected float32 or device='cpu', "
                f"not {str(where)!r}"
            )
        return elmo.to(device=where, dtype=kind).eval()

    def _with_tokenizer(self, function: TokenizerFunction | None) -> Self:
        if function is not None:
            self.reader = Reader(function, self.config.normalization)
        return self

    def to_checkpoint(self) -> Checkpoint:
        """The model as `io` writes it: float32 on the CPU, no copies where it is that already."""
        mixes = {
            name: MixConfig(
                layer_norm=mix.layer_norm, dropout=mix.dropout.p, trainable=mix.trainable
            )
            for name, mix in self.mixes.items()
            if isinstance(mix, ScalarMix)
        }
        return Checkpoint(
            config=replace(self.config, mixes=mixes),
            tensors={n: t.detach().float().cpu() for n, t in self.state_dict().items()},
            vocab=self.vocab,
            characters=self._indexer.characters,
            words=self._indexer.words,
            format=self.format,
        )

    def save_pretrained(self, folder: str | Path, *, dtype: DType = "float32") -> None:
        """Write the model, its mixes and its warm state; `from_pretrained(folder)` reads it.

        Args:
            folder: A folder that is new or empty, or holds a model that was saved so, which is
                replaced.
            dtype: Type of the weights.
        """
        if isinstance(self.reader.tokenizer, FunctionTokenizer):
            log.warning(
                "the tokenizer is a Python function and is not saved with the model; pass "
                "tokenizer= again when you load it"
            )
        save_native(self.to_checkpoint(), output_path(folder), _dtype(dtype))

    def push_to_hub(self, repo_id: str, *, private: bool = False) -> str:
        """Put the model on the Hugging Face Hub; returns its address."""
        with tempfile.TemporaryDirectory() as folder:
            self.save_pretrained(folder)
            return upload(Path(folder), repo_id, private=private)


def _split_off_function(changes: dict[str, Any]) -> TokenizerFunction | None:
    """Take a tokenizer that is a function out of the settings, which hold names only."""
    tokenizer = changes.get("tokenizer")
    if tokenizer is None or isinstance(tokenizer, str):
        return None
    changes["tokenizer"] = None
    return cast(TokenizerFunction, tokenizer)


def _dtype(dtype: DType) -> torch.dtype:
    named = {
        "float64": torch.float64,
        "float32": torch.float32,
        "float16": torch.float16,
        "bfloat16": torch.bfloat16,
    }
    for name, value in named.items():
        if dtype in (name, value):
            return value
    raise ConfigError(f"dtype={quoted(dtype)}: expected one of {', '.join(named)}")
