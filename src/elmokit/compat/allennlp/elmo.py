"""AllenNLP's `Elmo`: character ids → learned mixes of the layers."""

import inspect
from collections.abc import MutableMapping, Sequence
from pathlib import Path
from typing import Any, Self, TypedDict

import torch
from torch import Tensor, nn

from ...errors import ConfigError, InputError, quoted
from .bilm import ElmoBiLm, remove_sentence_boundaries
from .scalar_mix import ScalarMix


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
