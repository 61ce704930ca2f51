"""AllenNLP's names for the tensors of a biLM: in `named_parameters()` and in state dicts."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from ...config import ElmoConfig
from ...formats.checkpoint import Rule, renamed, to_theirs


class Names(nn.Module):
    """A branch of AllenNLP's module tree, whose parameters another module uses and saves."""

    def put(self, path: str, parameter: nn.Parameter) -> None:
        """Show a parameter as `path`, which may lead through other branches."""
        head, _, rest = path.partition(".")
        if not rest:
            self.register_parameter(head, parameter)
            return
        branch = self._modules.get(head)
        if branch is None:
            branch = Names()
            self.add_module(head, branch)
        assert isinstance(branch, Names)
        branch.put(rest, parameter)

    def _save_to_state_dict(self, *args: Any) -> None:
        pass

    def _load_from_state_dict(self, *args: Any) -> None:
        pass


class Renamed(Names):
    """Modules of ours that show, save and load their tensors by AllenNLP's names."""

    def hold(self, **inner: nn.Module) -> None:
        """Take in the modules of ours."""
        self._inner = tuple(inner)
        for name, module in inner.items():
            self.add_module(name, module)
        self.show_names()
        for name in inner:
            # The name of a parameter is the first under which it is found, so ours come last.
            self._modules[name] = self._modules.pop(name)
        # load_state_dict(assign=True) replaces parameters.
        self.register_load_state_dict_post_hook(_show_names)  # type: ignore[no-untyped-call]

    def rules(self) -> Iterator[Rule]:
        """The table between our names and theirs, both as seen from this module."""
        raise NotImplementedError

    def show_names(self) -> None:
        """Show each parameter by AllenNLP's name."""
        ours = {
            f"{name}.{key}": parameter
            for name in self._inner
            for key, parameter in self.get_submodule(name).named_parameters()
        }
        for rule in self.rules():
            for name, shown in zip(rule.ours, _shown(rule), strict=True):
                self.put(shown, ours[name])

    def _apply(self, *args: Any, **kwargs: Any) -> Any:
        super()._apply(*args, **kwargs)  # type: ignore[no-untyped-call]
        self.show_names()
        return self

    def state_dict(
        self, *, destination: Any = None, prefix: str = "", keep_vars: bool = False
    ) -> Any:
        state = super().state_dict(destination=destination, prefix=prefix, keep_vars=keep_vars)
        inner = tuple(f"{prefix}{name}." for name in self._inner)
        ours = {
            name.removeprefix(prefix): state.pop(name)
            for name in list(state)
            if name.startswith(inner)
        }
        for name, tensor in to_theirs(list(self.rules()), ours).items():
            state[prefix + name] = tensor
        return state

    def _load_from_state_dict(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        local_metadata: Any,
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        for rule in self.rules():
            theirs = [prefix + name for name in rule.theirs]
            if all(name in state_dict for name in theirs):
                ours = rule.to_ours(*(state_dict.pop(name) for name in theirs))
                state_dict.update((prefix + name, t) for name, t in zip(rule.ours, ours))
        inner = tuple(f"{prefix}{name}." for name in self._inner)
        unexpected_keys += [
            name for name in state_dict if name.startswith(prefix) and not name.startswith(inner)
        ]


def encoder_rules(config: ElmoConfig) -> Iterator[Rule]:
    """The table between `nn.TokenEncoder` and AllenNLP's `_ElmoCharacterEncoder`."""
    assert config.encoder.char_cnn is not None
    cnn = "encoder.char_cnn."
    yield renamed(cnn + "embedding.weight", "_char_embedding_weights")
    for i in range(len(config.encoder.char_cnn.filters)):
        for part in ("weight", "bias"):
            yield renamed(f"{cnn}convolutions.{i}.{part}", f"char_conv_{i}.{part}")
    for k in range(config.encoder.char_cnn.num_highway):
        for part in ("weight", "bias"):
            ours = f"{cnn}highways.{k}."
            # [transform; carry], and their carry gate opens the input, ours the transform.
            yield Rule((f"{ours}transform.{part}", f"{ours}carry.{part}"),
                       (f"_highways._layers.{k}.{part}",),
                       lambda t: (t[: len(t) // 2], -t[len(t) // 2 :]),
                       lambda transform, carry: (torch.cat([transform, -carry]),))  # fmt: skip
    if config.encoder.projected:
        for part in ("weight", "bias"):
            yield renamed(f"encoder.projection.{part}", f"_projection.{part}")


def lstm_rules(config: ElmoConfig) -> Iterator[Rule]:
    """The table between the LSTMs of `nn.BiLm` and AllenNLP's `ElmoLstm`."""
    names = {
        "input_weight": "input_linearity.weight",
        "recurrent_weight": "state_linearity.weight",
        "bias": "state_linearity.bias",
    }
    if config.lstm.projected:
        names["projection"] = "state_projection.weight"
    for layer in range(config.lstm.num_layers):
        for direction in ("forward", "backward"):
            for ours, theirs in names.items():
                yield renamed(
                    f"{direction}_lm.layers.{layer}.{ours}", f"{direction}_layer_{layer}.{theirs}"
                )


def _show_names(module: Renamed, _: object) -> None:
    module.show_names()


def _shown(rule: Rule) -> list[str]:
    """The names in `named_parameters()`: theirs, extended where they join several of ours."""
    if len(rule.ours) == len(rule.theirs):
        return list(rule.theirs)
    (joined,) = rule.theirs
    return [f"{joined.rpartition('.')[0]}.{'.'.join(o.split('.')[-2:])}" for o in rule.ours]
