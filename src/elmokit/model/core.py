"""What an `Elmo` is: language models, their text, their states, and the call for task models."""

import logging
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn

from ..config import ElmoConfig, MixConfig
from ..engine import (
    CarriedStates,
    Embedder,
    Engine,
    EngineName,
    Precision,
    Request,
    StartStates,
    WarmStates,
    ZeroStates,
)
from ..errors import ConfigError, InputError, quoted
from ..nn import BiLm, BiLmOutput, BiLmState, ScalarMix, Softmax
from ..text.index import TokenIndexer
from ..text.reader import Reader, TextOrTokens, as_sentences, check_sentence
from ..text.tokenize import Token, words
from ..text.vocab import Vocab
from ..text.warmup import WARM_UP_SENTENCES

log = logging.getLogger(__name__)

CACHE_WORDS = 50_000
"""Words remembered by default: 26 MB for the small published model, 102 MB for the original."""


class ElmoCore(nn.Module):
    """A biLM that reads text; `Elmo` adds loading, saving and vectors for users.

    Attributes:
        config: The architecture and how text is read.
        bilm: The language models, frozen unless `requires_grad=True`.
        mixes: Learned layer weights by name; `default` is always there.
        softmax: The output layer, where the checkpoint has one.
        vocab: The words of the softmax.
        format: What the model was read from, in words.
        notes: What a user should know about that.
    """

    def __init__(
        self,
        config: ElmoConfig,
        *,
        vocab: Vocab | None = None,
        characters: dict[str, int] | None = None,
        words: dict[str, int] | None = None,
        requires_grad: bool = False,
        engine: EngineName = "auto",
        precision: Precision = "float32",
        cache_words: int = CACHE_WORDS,
    ) -> None:
        super().__init__()
        self.config = config
        self.format = "new model with random weights"
        self.notes: list[str] = []
        self.vocab = vocab
        self.reader = Reader(config.tokenizer, config.normalization)
        self.bilm = BiLm(config).requires_grad_(requires_grad)
        self.softmax = (
            Softmax(config.num_softmax_words, config.lstm.projection_dim).requires_grad_(
                requires_grad
            )
            if config.num_softmax_words
            else None
        )
        self.mixes = nn.ModuleDict()
        for name, mix in (config.mixes or {"default": MixConfig()}).items():
            self.add_mix(name, **mix.to_dict())
        self.register_buffer("warm_h", None)
        self.register_buffer("warm_c", None)
        self.warm_h: Tensor | None
        self.warm_c: Tensor | None
        self._indexer = TokenIndexer(config.encoder, characters, words)
        self._embedder = Embedder(Engine(self.bilm, engine, precision), self._indexer, cache_words)
        self._carried: CarriedStates | None = None
        # The built-in warm state: the weights that gave it, the tensor, and the tensor's version.
        self._built_in: tuple[object, Tensor, int] | None = None

    @property
    def dim(self) -> int:
        """Width of each vector, both directions together."""
        return self.config.dim

    @property
    def num_layers(self) -> int:
        """Layers of each token, the context-free one included."""
        return self.config.num_layers

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.bilm.forward_lm.layers[0].bias.device

    @property
    def dtype(self) -> torch.dtype:
        """Type of the weights."""
        return self.bilm.forward_lm.layers[0].bias.dtype

    @property
    def engine(self) -> str:
        """What computes the vectors: `native (avx2)`, `torch`, `torch (int8)`."""
        return self._embedder.engine.name

    @property
    def indexer(self) -> TokenIndexer:
        """What turns words into the ids that the encoder reads."""
        return self._indexer

    def clear_cache(self, *, weights: bool = False) -> None:
        """Forget the token vectors that are remembered from call to call.

        Args:
            weights: Also forget what was prepared from the weights. Every optimiser step and every
                change of a whole tensor is noticed without it; it is needed after a change of
                single elements that bypasses torch, such as `p.data[0, 1] = 2`.
        """
        self._embedder.cache.clear()
        if weights:
            self._embedder.engine.forget()
            if self._has_built_in_state():
                self.warm_h = self.warm_c = self._built_in = None

    def tokenize(self, inputs: TextOrTokens | Iterable[TextOrTokens]) -> list[list[str]]:
        """The tokens of each sentence, as the model will read them."""
        return [self.reader.tokens(sentence) for sentence in as_sentences(inputs)]

    def tokenize_with_offsets(self, texts: str | Iterable[str]) -> list[list[Token]]:
        """The tokens of each text, with their places in it: `text[token.start:token.end]`."""
        return [self.reader.spans(text) for text in ([texts] if isinstance(texts, str) else texts)]

    def forward(self, inputs: TextOrTokens | Iterable[TextOrTokens]) -> BiLmOutput:
        """All layers of a batch of sentences, as tensors for a task model.

        Returns:
            layers (L, B, T, D), zero where the shorter sentences end; mask (B, T), True for real
            tokens; state, the LSTM states after each sentence.
        """
        sentences = [self.reader.tokens(s) for s in as_sentences(inputs)]
        states = self._states()
        rows = range(len(sentences))
        if any(p.requires_grad for p in self.bilm.parameters()) and torch.is_grad_enabled():
            output = self._forward_with_gradient(sentences, states.start(rows))
        else:
            output = self._forward_frozen(sentences, states.start(rows))
        states.finish(rows, output.state)
        return output

    def add_mix(
        self,
        name: str = "default",
        *,
        layer_norm: bool = False,
        dropout: float = 0.0,
        trainable: bool = True,
    ) -> ScalarMix:
        """A new `ScalarMix` of this model's layers, saved with it under `name`."""
        MixConfig(layer_norm=layer_norm, dropout=dropout, trainable=trainable)
        is_taken = hasattr(self.mixes, name) and name not in self.mixes  # "keys", "forward", …
        if not name.isidentifier() or is_taken:
            raise ConfigError(
                f"mix {quoted(name)}: expected a name made of letters, digits and _ "
                "that is no attribute of torch.nn.ModuleDict"
            )
        mix = ScalarMix(
            self.num_layers, layer_norm=layer_norm, dropout=dropout, trainable=trainable
        )
        self.mixes[name] = mix.to(self.device, self.dtype)
        return mix

    def reset_state(self) -> None:
        """Forget what `state="carry"` carried."""
        self._carried = None

    def warm_up(self, inputs: Iterable[TextOrTokens]) -> None:
        """Compute the state of `state="warm"` from a text; it is saved with the model.

        It is the mean of the states in which the sentences end when they are read in turn, each
        from where the one before stopped. It stays as it is when the weights change.
        """
        states = CarriedStates(BiLmState.zeros(self.config.lstm, 1, like=self._parameter()))
        request = Request(torch.eye(self.num_layers), with_state=True)
        ends = []
        with torch.inference_mode():
            for i, item in enumerate(inputs):
                tokens = self.reader.tokens(check_sentence(item, i))
                _, after = self._embedder.run([tokens], request, states.start([0]))
                states.finish([0], after)
                ends.append(after)
            if not ends:
                raise InputError("warm_up: expected at least one sentence")
            means = [torch.stack(parts).mean(dim=0) for parts in zip(*ends, strict=True)]
        self.warm_h, self.warm_c = (mean.clone() for mean in means)

    def _states(self) -> StartStates:
        """How sentences start, by the model's configuration."""
        if self.config.state == "zero":
            return ZeroStates()
        if self.config.state == "carry":
            like = self._parameter()
            if self._carried is None:
                self._carried = CarriedStates(BiLmState.zeros(self.config.lstm, 0, like=like))
            # The weights may have moved since the call before.
            moved = (part.to(like) for part in self._carried.state)
            self._carried.state = BiLmState(*moved)
            return self._carried
        mark = self._embedder.engine.mark
        if self._built_in and self._has_built_in_state() and self._built_in[0] != mark():
            self.warm_h = self.warm_c = None
        if self.warm_h is None or self.warm_c is None:
            log.info("no warm state is stored; computing it from the built-in sentences")
            reader = self.reader
            self.warm_up(
                words(reader.tokenizer, sentence, reader.normalization)
                for sentence in WARM_UP_SENTENCES
            )
            assert self.warm_h is not None
            self._built_in = (mark(), self.warm_h, self.warm_h._version)
        assert self.warm_h is not None and self.warm_c is not None
        return WarmStates(BiLmState(self.warm_h, self.warm_c))

    def _has_built_in_state(self) -> bool:
        """Whether the warm state is the built-in one, and nobody has loaded another over it."""
        if self._built_in is None:
            return False
        _, state, version = self._built_in
        return self.warm_h is state and state._version == version

    def _forward_with_gradient(
        self, sentences: Sequence[Sequence[str]], state: BiLmState | None
    ) -> BiLmOutput:
        batch = self._embedder.batch(sentences)
        lengths = torch.from_numpy(batch.lengths).to(self.device)
        x = self.bilm.encoder(self._embedder.ids(batch.words))
        rows = torch.from_numpy(batch.index).to(self.device)
        longest = int(batch.lengths.max(initial=2))
        padded = x.new_zeros(len(sentences), longest, x.shape[1])
        places = torch.arange(longest, device=self.device) < lengths[:, None]
        padded = padded.masked_scatter(places[..., None], x[rows])
        output = self.bilm(padded, lengths, state)
        # Without the boundaries: the first position, and the last real one.
        mask = output.mask[:, 2:]
        return BiLmOutput(output.layers[:, :, 1:-1] * mask[..., None], mask, output.state)

    def _forward_frozen(
        self, sentences: Sequence[Sequence[str]], state: BiLmState | None
    ) -> BiLmOutput:
        request = Request(torch.eye(self.num_layers), with_state=True)
        with torch.no_grad():
            vectors, after = self._embedder.run(sentences, request, state)
        longest = max(map(len, sentences), default=0)
        layers = self._parameter().new_zeros(self.num_layers, len(sentences), longest, self.dim)
        for i, vector in enumerate(vectors):
            layers[:, i, : vector.shape[1]] = vector
        lengths = torch.tensor([len(s) for s in sentences], device=self.device)
        mask = torch.arange(longest, device=self.device) < lengths[:, None]
        return BiLmOutput(layers, mask, after)

    def _parameter(self) -> Tensor:
        return self.bilm.forward_lm.layers[0].bias.detach()
