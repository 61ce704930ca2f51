"""AllenNLP's names for the tensors of a biLM, as its trained models save them, and ours."""

import torch
from torch import Tensor

from ...config import ElmoConfig
from ...io.names import Rule, same


def rules(config: ElmoConfig) -> list[Rule]:
    """The table between `nn.BiLm.state_dict()` and that of AllenNLP's `_ElmoBiLm`."""
    cnn, embedder = "encoder.char_cnn.", "_token_embedder."
    assert config.encoder.char_cnn is not None
    table = [same(cnn + "embedding.weight", embedder + "_char_embedding_weights")]
    for part in ("weight", "bias"):
        for i in range(len(config.encoder.char_cnn.filters)):
            table.append(same(f"{cnn}convolutions.{i}.{part}", f"{embedder}char_conv_{i}.{part}"))
        for k in range(config.encoder.char_cnn.num_highway):
            ours = f"{cnn}highways.{k}."
            table.append(
                # [transform; carry], and their carry gate opens the input, ours the transform.
                Rule((f"{ours}transform.{part}", f"{ours}carry.{part}"),
                     (f"{embedder}_highways._layers.{k}.{part}",),
                     lambda t: (t[: len(t) // 2], -t[len(t) // 2 :]),
                     lambda transform, carry: (torch.cat([transform, -carry]),))
            )  # fmt: skip
        if config.encoder.projected:
            table.append(same(f"encoder.projection.{part}", f"{embedder}_projection.{part}"))
    for direction in ("forward", "backward"):
        for layer in range(config.lstm.num_layers):
            ours = f"{direction}_lm.layers.{layer}."
            table += _lstm_rules(ours, f"_elmo_lstm.{direction}_layer_{layer}.", config)
    return table


def _lstm_rules(ours: str, theirs: str, config: ElmoConfig) -> list[Rule]:
    dim, forget_bias = config.lstm.dim, config.lstm.forget_bias

    def add_forget_bias(bias: Tensor, sign: float) -> tuple[Tensor]:
        # AllenNLP adds the forget bias when it reads the weights, we when we use them.
        shift = torch.zeros_like(bias)
        shift[dim : 2 * dim] = sign * forget_bias
        return (bias + shift,)

    table = [
        same(ours + "input_weight", theirs + "input_linearity.weight"),
        same(ours + "recurrent_weight", theirs + "state_linearity.weight"),
        Rule((ours + "bias",), (theirs + "state_linearity.bias",),
             lambda t: add_forget_bias(t, -1), lambda t: add_forget_bias(t, 1)),
    ]  # fmt: skip
    if config.lstm.projected:
        table.append(same(ours + "projection", theirs + "state_projection.weight"))
    return table
