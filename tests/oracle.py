"""A biLM in plain NumPy, float64, written from the equations: slow, obvious, shares no code.

It knows sentences one at a time, time one step at a time and characters one place at a time: no
batches, no padding of sentences, no packing. What it computes is what every fast path must give.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

Array = np.ndarray
BOS, EOS = "<S>", "</S>"


@dataclass
class State:
    """What both directions remember after a sentence: h (2, L, P) and c (2, L, H)."""

    h: Array
    c: Array


class Oracle:
    """The model of a configuration and of tensors by the names of `Elmo.state_dict()`."""

    def __init__(self, config, tensors, characters=None, words=None) -> None:
        self.config = config
        self.tensors = {name: np.asarray(t, dtype=np.float64) for name, t in tensors.items()}
        self.characters: Mapping[str, int] | None = characters
        self.words: Mapping[str, int] | None = words

    @classmethod
    def of(cls, elmo) -> "Oracle":
        checkpoint = elmo.to_checkpoint()
        return cls(elmo.config, checkpoint.tensors, checkpoint.characters, checkpoint.words)

    # ---------------------------------------------------------------- text

    def boundaries(self) -> tuple[str, str]:
        cnn = self.config.encoder.char_cnn
        unicode = cnn is not None and cnn.characters == "unicode"
        table = cnn is None and self.words is not None and "<bos>" in self.words
        return ("<bos>", "<eos>") if unicode or table else (BOS, EOS)

    def spell(self, word: str) -> list[int]:
        cnn = self.config.encoder.char_cnn
        if cnn.characters == "unicode":
            return unicode_ids(word, self.characters, cnn.max_characters)
        return byte_ids(word, cnn.max_characters)

    def row(self, word: str) -> int:
        cnn = self.config.encoder.char_cnn
        if cnn is not None and cnn.characters == "unicode":
            word = word[: cnn.max_characters - 2]
        unknown = self.words["<UNK>"] if "<UNK>" in self.words else self.words["<oov>"]
        return self.words.get(word, unknown)

    # ---------------------------------------------------------------- θx

    def token(self, word: str) -> Array:
        """x_k of a word."""
        parts = []
        if self.config.encoder.num_words:
            parts.append(self.tensors["bilm.encoder.words.weight"][self.row(word)])
        if self.config.encoder.char_cnn is not None:
            parts.append(self.char_cnn(self.spell(word)))
        return self.project(np.concatenate(parts))

    def project(self, x: Array) -> Array:
        if not self.config.encoder.projected:
            return x
        return self._linear("bilm.encoder.projection", x)

    def char_cnn(self, ids: Sequence[int]) -> Array:
        cnn, name = self.config.encoder.char_cnn, "bilm.encoder.char_cnn."
        spelled = [self.tensors[name + "embedding.weight"][i] for i in ids]
        pooled = []
        for i, (width, number) in enumerate(cnn.filters):
            weight = self.tensors[f"{name}convolutions.{i}.weight"]
            bias = self.tensors[f"{name}convolutions.{i}.bias"]
            best = np.full(number, -np.inf)
            for start in range(len(ids) - width + 1):
                value = bias.copy()
                for place in range(width):
                    value += weight[:, :, place] @ spelled[start + place]
                best = np.maximum(best, value)
            pooled.append(np.maximum(best, 0) if cnn.activation == "relu" else np.tanh(best))
        x = np.concatenate(pooled)
        for k in range(cnn.num_highway):
            gate = _sigmoid(self._linear(f"{name}highways.{k}.carry", x))
            transformed = np.maximum(self._linear(f"{name}highways.{k}.transform", x), 0)
            x = gate * transformed + (1 - gate) * x
        return x

    # ---------------------------------------------------------------- the LSTMs

    def zero_state(self) -> State:
        lstm = self.config.lstm
        return State(
            np.zeros((2, lstm.num_layers, lstm.projection_dim)),
            np.zeros((2, lstm.num_layers, lstm.dim)),
        )

    def layers(self, x: Array, state: State | None = None) -> tuple[Array, State]:
        """All layers (L, T, D) of the token vectors `x` (T, P), as they are: no boundaries."""
        state = state or self.zero_state()
        after = State(state.h.copy(), state.c.copy())
        halves = []
        for direction in (0, 1):
            inputs = list(x) if direction == 0 else list(x)[::-1]
            outputs = [inputs]
            for j in range(self.config.lstm.num_layers):
                y = self._lstm(direction, j, outputs[-1], after)
                if self.config.lstm.skip_connections and j > 0:
                    y = [new + old for new, old in zip(y, outputs[-1])]
                outputs.append(y)
            if direction == 1:
                outputs = [y[::-1] for y in outputs]
            halves.append(outputs)
        width = self.config.lstm.projection_dim
        result = np.zeros((self.config.num_layers, len(x), 2 * width))
        for j in range(self.config.num_layers):
            for t in range(len(x)):
                result[j, t] = np.concatenate([halves[0][j][t], halves[1][j][t]])
        return result, after

    def embed(self, tokens: Sequence[str], state: State | None = None) -> tuple[Array, State]:
        """All layers (L, T, D) of a sentence, which is run between its boundaries."""
        bos, eos = self.boundaries()
        x = np.stack([self.token(word) for word in (bos, *tokens, eos)])
        layers, after = self.layers(x, state)
        return layers[:, 1:-1], after

    def _lstm(self, direction: int, j: int, xs: Sequence[Array], state: State) -> list[Array]:
        """The outputs of one layer of one direction; its row of `state` moves on."""
        lstm = self.config.lstm
        name = f"bilm.{'backward_lm' if direction else 'forward_lm'}.layers.{j}."
        w_input, w_recurrent = (
            self.tensors[name + "input_weight"],
            self.tensors[name + "recurrent_weight"],
        )
        h, c = state.h[direction, j], state.c[direction, j]
        outputs = []
        for x in xs:
            gates = w_input @ x + w_recurrent @ h + self.tensors[name + "bias"]
            i, f, g, o = np.split(gates, 4)
            c = _sigmoid(f + lstm.forget_bias) * c + _sigmoid(i) * np.tanh(g)
            c = _clip(c, lstm.cell_clip)
            h = _sigmoid(o) * np.tanh(c)
            if lstm.projection_dim < lstm.dim:
                h = _clip(self.tensors[name + "projection"] @ h, lstm.proj_clip)
            outputs.append(h)
        state.h[direction, j], state.c[direction, j] = h, c
        return outputs

    def _linear(self, name: str, x: Array) -> Array:
        return self.tensors[name + ".weight"] @ x + self.tensors[name + ".bias"]


def scalar_mix(layers: Array, scalars: Array, gamma: float, *, layer_norm: bool = False) -> Array:
    """γ Σ_j softmax(s)_j h_j of the layers (L, …, D) of one sentence."""
    weights = np.exp(scalars - np.max(scalars))
    weights /= weights.sum()
    mixed = np.zeros(layers.shape[1:])
    for weight, layer in zip(weights, layers):
        if layer_norm:
            layer = (layer - layer.mean()) / np.sqrt(layer.var() + 1e-12)
        mixed += weight * layer
    return gamma * mixed


def byte_ids(word: str, max_characters: int) -> list[int]:
    """[begin] + bytes + [end], padded; every raw id one higher, so that 0 is free."""
    if word in (BOS, EOS):
        raw = [258, 256 if word == BOS else 257, 259]
    else:
        data = b"".join(c.encode() for c in word if not 0xD800 <= ord(c) <= 0xDFFF)
        raw = [258, *data[: max_characters - 2], 259]
    return [i + 1 for i in raw + [260] * (max_characters - len(raw))]


def unicode_ids(word: str, ids: Mapping[str, int], max_characters: int) -> list[int]:
    """Code points between <eow> and <bow>: ELMoForManyLangs exchanged these two."""
    if word in ("<bos>", "<eos>"):
        inner = [ids[word]]
    else:
        inner = [ids.get(c, ids["<oov>"]) for c in word[: max_characters - 2]]
    row = [ids["<eow>"], *inner, ids["<bow>"]]
    return row + [ids["<pad>"]] * (max_characters - len(row))


def _sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def _clip(x: Array, limit: float | None) -> Array:
    return x if limit is None else np.minimum(np.maximum(x, -limit), limit)
