"""What scripts import: AllenNLP's `Elmo` and `ScalarMix`, and AllenNLP 0.9's `ElmoEmbedder`."""

import inspect
import json
import logging
from collections.abc import Iterable, Iterator, MutableMapping, Sequence
from itertools import islice
from pathlib import Path
from typing import IO, Any, Literal, Self, TypeAlias, TypedDict

import h5py
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from tqdm.auto import tqdm

from ...errors import ConfigError, InputError, quoted
from ...files.folders import output_path
from ...files.write import new_hdf5, whole_file
from .bilm import ElmoBiLm, remove_sentence_boundaries
from .ids import ELMoTokenCharactersIndexer, batch_to_ids

log = logging.getLogger(__name__)

_DEFAULT_FOLDER = (
    "https://allennlp.s3.amazonaws.com/models/elmo/2x4096_512_2048cnn_2xhighway/"
    "elmo_2x4096_512_2048cnn_2xhighway_"
)
DEFAULT_OPTIONS_FILE = f"{_DEFAULT_FOLDER}options.json"
DEFAULT_WEIGHT_FILE = f"{_DEFAULT_FOLDER}weights.hdf5"
DEFAULT_BATCH_SIZE = 64

OutputFormat: TypeAlias = Literal["all", "top", "average"]
Vectors: TypeAlias = NDArray[np.float32]


class ScalarMix(nn.Module):
    """γ Σ_j softmax(s)_j h_j, with the parameters `scalar_parameters.0` … and `gamma`.

    Regularisers, optimiser groups and state dicts find these names, as they do in AllenNLP. The
    state dict of an `elmokit.nn.ScalarMix` (`scalars`, `gamma`) loads, too.

    Args:
        mixture_size: Layers to mix.
        do_layer_norm: Normalise each layer first, by one mean and variance over the whole batch
            (sentence boundaries included), so that results depend on the batch.
        initial_scalar_parameters: The weights before the softmax; zeros by default.
        trainable: False freezes the weights and γ.
    """

    def __init__(
        self,
        mixture_size: int,
        do_layer_norm: bool = False,
        initial_scalar_parameters: Sequence[float] | None = None,
        trainable: bool = True,
    ) -> None:
        super().__init__()
        self.mixture_size = mixture_size
        self.do_layer_norm = do_layer_norm
        initial = [0.0] * mixture_size
        if initial_scalar_parameters is not None:
            initial = list(initial_scalar_parameters)
            if len(initial) != mixture_size:
                raise ConfigError(
                    f"scalar mix parameters {initial}: expected {mixture_size}, one per layer"
                )
        self.scalar_parameters = nn.ParameterList(
            nn.Parameter(torch.tensor([float(value)]), requires_grad=trainable) for value in initial
        )
        self.gamma = nn.Parameter(torch.ones(1), requires_grad=trainable)

    def __call__(self, tensors: Tensor | Sequence[Tensor], mask: Tensor | None = None) -> Tensor:
        mixed: Tensor = super().__call__(tensors, mask)
        return mixed

    def forward(self, tensors: Tensor | Sequence[Tensor], mask: Tensor | None = None) -> Tensor:
        """The mix of the layers.

        Args:
            tensors: One tensor per layer, all of one shape (…, D).
            mask: Real tokens, (…), of any type: what is not zero is real. Layer norm needs it.
        """
        if len(tensors) != self.mixture_size:
            raise ConfigError(f"{len(tensors)} layers given to a mix of {self.mixture_size}")
        layers = tensors if isinstance(tensors, Tensor) else torch.stack(list(tensors))
        if self.do_layer_norm:
            if mask is None:
                raise ConfigError("do_layer_norm=True needs the mask of real tokens")
            if mask.shape != layers.shape[1:-1]:
                raise ConfigError(
                    f"mask of shape {tuple(mask.shape)}: expected {tuple(layers.shape[1:-1])}, "
                    "the shape of the layers without their last axis"
                )
            # An integer mask would index.
            real = mask.bool()
            layers = torch.stack([_normalise(layer, real) for layer in layers])
        weights = self.gamma * torch.softmax(torch.cat(list(self.scalar_parameters)), dim=0)
        dtype = torch.promote_types(weights.dtype, layers.dtype)
        mixed: Tensor = torch.tensordot(weights.to(dtype), layers.to(dtype), dims=1)
        return mixed

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        scalars = state_dict.get(f"{prefix}scalars")
        if isinstance(scalars, Tensor) and len(scalars) == self.mixture_size:
            del state_dict[f"{prefix}scalars"]
            for j, value in enumerate(scalars):
                state_dict[f"{prefix}scalar_parameters.{j}"] = value.reshape(1)
        gamma = state_dict.get(f"{prefix}gamma")
        if isinstance(gamma, Tensor) and gamma.ndim == 0:
            state_dict[f"{prefix}gamma"] = gamma.reshape(1)
        super()._load_from_state_dict(state_dict, prefix, *args)


def _normalise(layer: Tensor, real: Tensor) -> Tensor:
    """One mean and variance over all real tokens; padding is shifted too, as in AllenNLP."""
    variance, mean = torch.var_mean(layer[real], correction=0)
    # float16 has nothing as small as 1e-13.
    tiny = 1e-4 if layer.dtype == torch.float16 else 1e-13
    return (layer - mean) / torch.sqrt(variance + tiny)


class ElmoOutput(TypedDict):
    """One (B, T, D) per representation, and the mask (B, T) of real tokens."""

    elmo_representations: list[Tensor]
    mask: Tensor


class Elmo(nn.Module):
    """ELMo for a task model, with AllenNLP's signature, numbers, parameters and state dict.

    docs/compat.md lists the differences.

    Args:
        options_file: The `options.json`, or its address.
        weight_file: The HDF5 weights, or their address.
        num_output_representations: Mixes to learn: `scalar_mix_0`, `scalar_mix_1` …
        requires_grad: Whether the biLM is trained, too.
        do_layer_norm: Normalise each layer over the whole batch before mixing.
        dropout: Applied to each representation while training.
        vocab_to_cache: The words behind `word_inputs`. Words are cached as they come, so this
            only says how those are spelled.
        keep_sentence_boundaries: Return the vectors of both boundaries, too: (B, T + 2, D).
        scalar_mix_parameters: Layer weights before the softmax, which then are not trained.
        module: Used in place of the biLM; has `num_layers` and `get_output_dim()`, and returns
            `activations` and `mask`, both with the boundaries.
    """

    def __init__(
        self,
        options_file: str | Path | None,
        weight_file: str | Path | None,
        num_output_representations: int,
        requires_grad: bool = False,
        do_layer_norm: bool = False,
        dropout: float = 0.5,
        vocab_to_cache: Sequence[str] | None = None,
        keep_sentence_boundaries: bool = False,
        scalar_mix_parameters: Sequence[float] | None = None,
        module: nn.Module | None = None,
    ) -> None:
        super().__init__()
        if module is not None and (options_file is not None or weight_file is not None):
            raise ConfigError("module is used in place of files: pass None for both of them")
        if module is None:
            module = ElmoBiLm(options_file, weight_file, requires_grad, vocab_to_cache)
        self._elmo_lstm = module
        self._keep_sentence_boundaries = keep_sentence_boundaries
        self._dropout = nn.Dropout(p=dropout)
        self._num_mixes = num_output_representations
        num_layers = self._elmo_lstm.num_layers
        assert isinstance(num_layers, int)
        for k in range(num_output_representations):
            mix = ScalarMix(
                num_layers,
                do_layer_norm=do_layer_norm,
                initial_scalar_parameters=scalar_mix_parameters,
                trainable=scalar_mix_parameters is None,
            )
            self.add_module(f"scalar_mix_{k}", mix)

    @classmethod
    def from_params(cls, params: MutableMapping[str, Any]) -> Self:
        """The model of a section of an AllenNLP configuration, whose keys are taken out of it.

        Args:
            params: The arguments of `Elmo` by name: a dict, or AllenNLP's `Params`.
        """
        given = {name: params.pop(name) for name in list(params)}
        known = list(inspect.signature(cls).parameters)
        if unknown := [name for name in given if name not in known]:
            raise ConfigError(
                f"{quoted(unknown[0])} in the parameters: expected {', '.join(known)}"
            )
        if missing := [name for name in known[:3] if name not in given]:
            raise ConfigError(f"parameters without {', '.join(missing)}")
        for name in ("requires_grad", "do_layer_norm", "keep_sentence_boundaries"):
            if name in given:
                given[name] = _flag(name, given[name])
        if "dropout" in given:
            given["dropout"] = float(given["dropout"])
        return cls(**given)

    @property
    def _scalar_mixes(self) -> list[ScalarMix]:
        # Not a list of its own, which nn.DataParallel would not replicate.
        return [getattr(self, f"scalar_mix_{k}") for k in range(self._num_mixes)]

    def get_output_dim(self) -> int:
        """Width of each representation."""
        dim: int = self._elmo_lstm.get_output_dim()  # type: ignore[operator]
        return dim

    def reset_states(self) -> None:
        """Start the next batch from zeros, not from where the last one stopped."""
        self._elmo_lstm.reset_states()  # type: ignore[operator]

    def forward(self, inputs: Tensor, word_inputs: Tensor | None = None) -> ElmoOutput:
        """The representations of a batch.

        Args:
            inputs: Character ids (B, T, 50), or (B, T1, T2, 50) for texts of several sentences.
            word_inputs: Ids of words in `vocab_to_cache`, (B, T); 0 is padding.
        """
        if inputs.ndim < 3:
            raise InputError(
                f"inputs of shape {tuple(inputs.shape)}: expected (sentences, tokens, 50), "
                "as batch_to_ids makes it"
            )
        outer = inputs.shape[:-2]
        inputs = inputs.reshape(outer.numel(), *inputs.shape[-2:])
        if word_inputs is not None:
            word_inputs = word_inputs.reshape(outer.numel(), inputs.shape[1])
        output = self._elmo_lstm(inputs, word_inputs)
        layers, mask = torch.stack(list(output["activations"])), output["mask"].bool()
        # Layer norm counts the boundaries, so they go after the mix.
        mixed = [mix(layers, mask) for mix in self._scalar_mixes]
        if not self._keep_sentence_boundaries:
            mixed = [remove_sentence_boundaries(vectors, mask)[0] for vectors in mixed]
            mask = mask[:, 2:]
        return {
            "elmo_representations": [self._dropout(v).reshape(*outer, *v.shape[1:]) for v in mixed],
            "mask": mask.reshape(*outer, mask.shape[1]),
        }


def _flag(name: str, value: object) -> bool:
    """A truth value, which in a configuration may be a text."""
    named = {"true": True, "false": False}
    if isinstance(value, str) and value in named:
        return named[value]
    if isinstance(value, bool):
        return value
    raise ConfigError(f"{name}={quoted(value)}: expected true or false")


class ElmoEmbedder:
    """The layers of each token, (3, T, D) a sentence, with AllenNLP's signature and numbers.

    The LSTM state is carried from batch to batch, so vectors depend on what was embedded before;
    `reset_states()` forgets it. `elmokit.Elmo.embed(..., layers="all")` does not depend on it.

    Args:
        options_file: The `options.json` or its address; the original English model by default.
        weight_file: The HDF5 weights or their address.
        cuda_device: Number of the GPU; -1 for the CPU.
    """

    def __init__(
        self,
        options_file: str | Path = DEFAULT_OPTIONS_FILE,
        weight_file: str | Path = DEFAULT_WEIGHT_FILE,
        cuda_device: int = -1,
    ) -> None:
        self.indexer = ELMoTokenCharactersIndexer()
        self.elmo_bilm = ElmoBiLm(options_file, weight_file)
        self.cuda_device = cuda_device
        if cuda_device >= 0:
            self.elmo_bilm = self.elmo_bilm.cuda(cuda_device)

    def reset_states(self) -> None:
        """Start the next batch from zeros."""
        self.elmo_bilm.reset_states()

    def batch_to_embeddings(self, batch: Sequence[Sequence[str]]) -> tuple[Tensor, Tensor]:
        """All layers of a batch, (B, 3, T, D), and its mask (B, T) of ones and zeros."""
        output = self.elmo_bilm(batch_to_ids(batch))
        activations = torch.stack(output["activations"])
        layers, mask = remove_sentence_boundaries(activations, output["mask"])
        return layers.transpose(0, 1), mask.long()

    def embed_sentence(self, sentence: Sequence[str]) -> Vectors:
        """All layers of one tokenised sentence, (3, T, D)."""
        return self.embed_batch([sentence])[0]

    def embed_batch(self, batch: Sequence[Sequence[str]]) -> list[Vectors]:
        """All layers of each tokenised sentence, (3, T, D); (3, 0, D) for one without tokens."""
        if not any(len(sentence) for sentence in batch):
            # As in AllenNLP, the state does not see a batch of nothing.
            shape = (self.elmo_bilm.num_layers, 0, self.elmo_bilm.get_output_dim())
            return [np.zeros(shape, np.float32) for _ in batch]
        layers = self.batch_to_embeddings(batch)[0].detach().cpu().numpy()
        # Copies, so that one kept sentence does not keep the whole batch.
        return [layers[i, :, : len(sentence)].copy() for i, sentence in enumerate(batch)]

    def embed_sentences(
        self, sentences: Iterable[Sequence[str]], batch_size: int = DEFAULT_BATCH_SIZE
    ) -> Iterator[Vectors]:
        """The arrays of `embed_batch`, one after the other, for any number of sentences."""
        if batch_size < 1:
            raise ConfigError(f"batch_size={batch_size}: expected 1 or more")
        remaining = iter(sentences)
        while batch := list(islice(remaining, batch_size)):
            yield from self.embed_batch(batch)

    def embed_file(
        self,
        input_file: IO[str],
        output_file_path: str | Path,
        output_format: OutputFormat = "all",
        batch_size: int = DEFAULT_BATCH_SIZE,
        forget_sentences: bool = False,
        use_sentence_keys: bool = False,
    ) -> None:
        """Write the vectors of a file of whitespace-tokenised lines to an HDF5 file.

        Dataset `"0"` is the first line and so on; `sentence_to_index` holds one JSON text
        {sentence: key}, in which the last of equal sentences wins.

        Args:
            input_file: An open text file; closed in the end. A blank line is an error.
            output_file_path: The HDF5 file to write.
            output_format: `all` (3, T, D); `top` or `average` (T, D).
            batch_size: Sentences that run together.
            forget_sentences: Leave `sentence_to_index` out.
            use_sentence_keys: Sentences as keys in place of numbers; a repeated one is skipped.
        """
        if output_format not in ("all", "top", "average"):
            raise ConfigError(
                f"output_format={quoted(output_format)}: expected one of 'all', 'top', 'average'"
            )
        with input_file:
            sentences = [line.strip() for line in input_file]
        if blank := [i for i, sentence in enumerate(sentences) if not sentence]:
            raise InputError(f"the input file has empty lines at the indexes {blank}; remove them")
        arrays = self.embed_sentences((sentence.split() for sentence in sentences), batch_size)
        progress = tqdm(arrays, total=len(sentences), unit=" sentences", disable=None)
        path = output_path(output_file_path)
        with whole_file(path) as temporary, new_hdf5(temporary) as (file, sink):
            keys: set[str] = set()
            for i, (sentence, layers) in enumerate(zip(sentences, progress, strict=True)):
                key = sentence if use_sentence_keys else str(i)
                if key in keys:
                    log.warning("sentence %d is already in the file and skipped: %s", i, key)
                    continue
                keys.add(key)
                sink.check()
                try:
                    file[key] = _reduced(layers, output_format)
                except (ValueError, OSError) as e:
                    if not use_sentence_keys:
                        raise
                    # "/" makes groups of a key, and these may collide.
                    raise InputError(f"sentence {i} cannot be a key ({quoted(key)}): {e}") from e
            if not forget_sentences and not use_sentence_keys:
                index = {sentence: str(i) for i, sentence in enumerate(sentences)}
                stored = file.create_dataset("sentence_to_index", (1,), dtype=h5py.string_dtype())
                stored[0] = json.dumps(index)


def _reduced(layers: Vectors, output_format: OutputFormat) -> Vectors:
    if output_format == "all":
        return layers
    reduced: Vectors = layers[-1] if output_format == "top" else layers.mean(axis=0)
    return reduced
