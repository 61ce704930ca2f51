"""`Elmo`: a biLM that reads text, and the vectors, files and predictions of it."""

import logging
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any, Literal, Self, overload

import numpy as np
import torch
from torch import Tensor, nn
from tqdm.auto import tqdm

from ..config import ElmoConfig, MixConfig, Normalization, StateMode, one_of
from ..engine import (
    CarriedStates,
    Embedder,
    Engine,
    EngineName,
    Precision,
    Request,
    StartStates,
    padded,
)
from ..engine.likelihood import Perplexity, SentenceScore
from ..errors import ConfigError, InputError, quoted
from ..files.folders import output_path
from ..formats.catalogue.install import local_copy
from ..formats.checkpoint import OPTIONAL, Checkpoint
from ..formats.load import read_checkpoint, upload
from ..formats.official import read_official
from ..formats.save import save_folder
from ..layers import (
    EMPTY,
    SENTENCE_LAYERS,
    Direction,
    Empty,
    Layers,
    Pooling,
    halves,
    joined,
    layer_weights,
    normalise,
    poolers,
)
from ..nn import BiLm, BiLmOutput, BiLmState, ScalarMix, Softmax
from ..text.batch import batches
from ..text.ids import TokenIndexer, Vocab
from ..text.reader import Reader, TextOrTokens, as_sentences, check_iterable, check_sentence
from ..text.sentences import WARM_UP_SENTENCES, FoundMode, TextMode, with_text_mode
from ..text.tokenize import FunctionTokenizer, Token, TokenizerFunction, words
from .common_directions import CommonDirections
from .execution import (
    CACHE_WORDS,
    MAX_BATCH_TOKENS,
    Device,
    DType,
    Execution,
    check_batch_size,
    find_dtype,
    num_words,
    windows,
)
from .language_model import LanguageModel, Substitutes
from .sentence import Sentence, Vectors

log = logging.getLogger(__name__)


class Elmo(nn.Module):
    """Word vectors that depend on the whole sentence.

    Make one with `from_pretrained` or `from_files`; the constructor gives random weights.

    >>> elmo = Elmo.from_pretrained("my-elmo")                              # doctest: +SKIP
    >>> vectors = elmo.embed(["He has a gift.", "The gift was wrapped."])   # doctest: +SKIP

    Attributes:
        config: The architecture and how text is read.
        bilm: The language models, frozen unless `requires_grad=True`.
        mixes: Learned layer weights by name; `default` is always there.
        softmax: The output layer, where the checkpoint has one.
        vocab: The words of the softmax.
        format: What the model was read from, in words.
        notes: What a user should know about that.
        source: The name or path that `from_pretrained` was given; None for other models.
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
        if not isinstance(config, ElmoConfig):
            shown = quoted(config)
            raise ConfigError(
                f"Elmo({shown}) makes a new model from an ElmoConfig; to load one: "
                f"Elmo.from_pretrained({shown})"
            )
        super().__init__()
        self.config = config
        self.format = "new model with random weights"
        self.notes: list[str] = []
        self.source: str | None = None
        self.vocab = vocab
        self.reader = Reader(config.tokenizer, config.normalization)
        self.bilm = BiLm(config).requires_grad_(requires_grad)
        self.softmax = None
        if config.num_softmax_words:
            softmax = Softmax(config.num_softmax_words, config.lstm.projection_dim)
            self.softmax = softmax.requires_grad_(requires_grad)
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

    # Files

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
        try:
            execution = Execution(
                device=device, dtype=dtype, requires_grad=requires_grad, engine=engine,
                precision=precision, cache_words=cache_words,
            )  # fmt: skip
            elmo = cls._from_read(checkpoint, execution, state, tokenizer, normalization)
        except ConfigError as e:
            raise ConfigError(f"{source}: {e}") from e
        elmo.source = str(source)
        return elmo

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
        state: StateMode | None = None,
        tokenizer: str | TokenizerFunction | None = None,
        normalization: Normalization | Literal["as saved"] | None = "as saved",
        requires_grad: bool = False,
        engine: EngineName = "auto",
        precision: Precision = "float32",
        cache_words: int = CACHE_WORDS,
    ) -> Self:
        """The model of an official pair of files: `options.json` and HDF5 weights.

        Args:
            options: The options file, or its address; likewise for the files that follow.
            weights: The HDF5 weights.
            vocab: Words, one per line, of `softmax` or of `token_embeddings`.
            softmax: HDF5 file of the softmax weights.
            token_embeddings: HDF5 file of cached token vectors, to read words by `vocab` instead
                of by their characters.
            device: As in `from_pretrained`, like all that follow.
            state: By default as `elmokit convert` noted in the options, or else `zero`; likewise
                the tokenizer and the normalisation.
        """
        paths = {"vocab": vocab, "softmax": softmax, "token_embeddings": token_embeddings}
        checkpoint = read_official(
            local_copy(options),
            local_copy(weights),
            **{name: local_copy(path) if path else None for name, path in paths.items()},
        )
        try:
            execution = Execution(
                device=device, dtype=dtype, requires_grad=requires_grad, engine=engine,
                precision=precision, cache_words=cache_words,
            )  # fmt: skip
            return cls._from_read(checkpoint, execution, state, tokenizer, normalization)
        except ConfigError as e:
            raise ConfigError(f"{options}: {e}") from e

    @classmethod
    def _from_read(
        cls,
        checkpoint: Checkpoint,
        execution: Execution,
        state: StateMode | None,
        tokenizer: str | TokenizerFunction | None,
        normalization: Normalization | Literal["as saved"] | None,
    ) -> Self:
        """The model of a checkpoint that was read from files, with the text settings asked for."""
        changes: dict[str, Any] = {} if state is None else {"state": state}
        if tokenizer is not None:
            changes["tokenizer"] = tokenizer if isinstance(tokenizer, str) else None
        if normalization != "as saved":
            changes["normalization"] = normalization
        checkpoint.config = replace(checkpoint.config, **changes)
        elmo = cls.from_checkpoint(checkpoint, execution)
        if tokenizer is not None and not isinstance(tokenizer, str):
            # A configuration cannot hold a function.
            elmo.reader = Reader(tokenizer, elmo.config.normalization)
        return elmo

    @classmethod
    def from_checkpoint(cls, checkpoint: Checkpoint, execution: Execution | None = None) -> Self:
        """The model of a `Checkpoint`, whose tensors it takes over."""
        execution = execution or Execution()
        with torch.device("meta"):
            elmo = cls(
                checkpoint.config,
                vocab=checkpoint.vocab,
                characters=checkpoint.characters,
                words=checkpoint.words,
                requires_grad=execution.requires_grad,
                engine=execution.engine,
                precision=execution.precision,
                cache_words=execution.cache_words,
            )
        tensors = dict(checkpoint.tensors)
        warm = [tensors.pop(name, None) for name in OPTIONAL]
        if not checkpoint.config.mixes:
            fresh = ScalarMix(elmo.num_layers).state_dict()
            tensors |= {f"mixes.default.{name}": value for name, value in fresh.items()}
        with torch.no_grad():
            elmo.load_state_dict(tensors, strict=True, assign=True)
        elmo.warm_h, elmo.warm_c = warm
        elmo.format, elmo.notes = checkpoint.format, checkpoint.notes
        elmo.bilm.requires_grad_(execution.requires_grad)
        return execution.apply(elmo)

    def to_checkpoint(self) -> Checkpoint:
        """The model as `formats` writes it: float32 on the CPU, copied only where needed."""
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
        save_folder(self.to_checkpoint(), output_path(folder), find_dtype(dtype))

    def push_to_hub(self, repo_id: str, *, private: bool = False) -> str:
        """Put the model on the Hugging Face Hub; returns its address."""
        with tempfile.TemporaryDirectory() as folder:
            self.save_pretrained(folder)
            return upload(Path(folder), repo_id, private=private)

    # The model

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

    def __repr__(self) -> str:
        num_parameters = sum(p.numel() for p in self.bilm.parameters())
        softmax = "" if self.softmax is None else f", softmax of {len(self.softmax.weight):,} words"
        return (
            f"<Elmo {self.source or self.format}: {num_parameters:,} parameters{softmax}\n"
            f" {self.dim} values per vector, layers 0..{self.num_layers - 1}, "
            f"tokenizer {self.reader.tokenizer.name}, state {self.config.state}\n"
            f" engine {self.engine} on {self.device}, {str(self.dtype).removeprefix('torch.')}>"
        )

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
        """The tokens of each text, with their offsets in it: `text[token.start:token.end]`."""
        sentences = as_sentences(texts)
        for i, text in enumerate(sentences):
            if not isinstance(text, str):
                raise InputError(f"sentence {i} is a list of tokens; only a text has offsets")
        return [self.reader.spans(text) for text in sentences if isinstance(text, str)]

    # Vectors

    @overload
    def embed(  # type: ignore[overload-overlap]
        self,
        inputs: str,
        *,
        layers: Layers = "average",
        direction: Direction = "both",
        sentences: TextMode | None = None,
        batch_size: int = 128,
        show_progress_bar: bool | None = None,
    ) -> Vectors: ...

    @overload
    def embed(
        self,
        inputs: Iterable[TextOrTokens],
        *,
        layers: Layers = "average",
        direction: Direction = "both",
        sentences: TextMode | None = None,
        batch_size: int = 128,
        show_progress_bar: bool | None = None,
    ) -> list[Vectors]: ...

    def embed(
        self,
        inputs: TextOrTokens | Iterable[TextOrTokens],
        *,
        layers: Layers = "average",
        direction: Direction = "both",
        sentences: TextMode | None = None,
        batch_size: int = 128,
        show_progress_bar: bool | None = None,
    ) -> Vectors | list[Vectors]:
        """One vector per token: (T, D) for each sentence, or (L, T, D) with `layers="all"`.

        The result does not depend on the batch size, the order or the other sentences: to the last
        bit with the C kernel, to rounding (about 1e-6) with torch alone.

        Args:
            inputs: A text (the result is then its array alone), texts, or lists of tokens.
            layers: `average`, `top`, `all`, a number (0 is the context-free token, -1 the last
                layer), `mix` for the learned weights of the mix `default`, or `mix:NAME`.
            direction: `forward` or `backward` for that half of each vector only.
            sentences: `lines` reads each text as one sentence. `split` reads each of its sentences
                on its own, and the array has the tokens of all of them in order; lists of tokens
                stay one sentence. `auto` looks at the texts to choose. None is `lines`, with a
                warning at the first text that looks like several sentences.
            batch_size: Sentences that run together, at most.
            show_progress_bar: None shows one if the log level is INFO or lower.
        """
        read = list(self._read(as_sentences(inputs), sentences))
        vectors = self._embed_read(read, layers, direction, batch_size, show_progress_bar)
        return vectors[0] if isinstance(inputs, str) else vectors

    @overload
    def annotate(  # type: ignore[overload-overlap]
        self,
        inputs: str,
        *,
        layers: Layers = "average",
        sentences: TextMode | None = None,
        batch_size: int = 128,
    ) -> Sentence: ...

    @overload
    def annotate(
        self,
        inputs: Iterable[TextOrTokens],
        *,
        layers: Layers = "average",
        sentences: TextMode | None = None,
        batch_size: int = 128,
    ) -> list[Sentence]: ...

    def annotate(
        self,
        inputs: TextOrTokens | Iterable[TextOrTokens],
        *,
        layers: Layers = "average",
        sentences: TextMode | None = None,
        batch_size: int = 128,
    ) -> Sentence | list[Sentence]:
        """Tokens, their offsets in the text and their vectors together, one `Sentence` per text.

        Example:
            >>> sentence = elmo.annotate("He has a gift for music.")     # doctest: +SKIP
            >>> sentence.tokens[3], sentence["gift"].shape               # doctest: +SKIP
            ('gift', (256,))

        Args:
            inputs: A text (the result is then its `Sentence` alone), texts, or lists of tokens.
            layers: As in `embed`.
            sentences: As in `embed`.
            batch_size: Sentences that run together, at most.
        """
        items, mode = self._with_mode(as_sentences(inputs), sentences)
        given = list(items)
        spans = [
            self.reader.spans_of_sentences(item, mode) if isinstance(item, str) else None
            for item in given
        ]
        read = [
            [self.reader.tokens(item)]
            if found is None
            else [[token.text for token in sentence] for sentence in found]
            for item, found in zip(given, spans, strict=True)
        ]
        vectors = self._embed_read(read, layers, "both", batch_size, show_bar=False)
        annotated = [
            Sentence(
                item if isinstance(item, str) else None,
                tuple(chain.from_iterable(words)),
                None if found is None else tuple((t.start, t.end) for part in found for t in part),
                rows,
            )
            for item, found, words, rows in zip(given, spans, read, vectors, strict=True)
        ]
        return annotated[0] if isinstance(inputs, str) else annotated

    def embed_stream(
        self,
        inputs: Iterable[TextOrTokens],
        *,
        layers: Layers = "average",
        direction: Direction = "both",
        sentences: TextMode | None = None,
        batch_size: int = 64,
    ) -> Iterator[Vectors]:
        """The arrays of `embed`, one after the other, for inputs of any number.

        Some sentences are read ahead; `sentences="auto"` looks at up to 10,000 texts first. With
        carried state, each `batch_size` sentences are a call.
        """
        if isinstance(inputs, str):
            raise InputError("embed_stream reads many sentences; for one text use embed(text)")
        items = enumerate(check_iterable(inputs))
        read = self._read((check_sentence(item, i) for i, item in items), sentences)
        carries = self.config.state == "carry"
        for window in windows(read, num_words, carries=carries, batch_size=batch_size):
            yield from self._embed_read(window, layers, direction, batch_size, show_bar=False)

    def encode(
        self,
        inputs: TextOrTokens | Iterable[TextOrTokens],
        *,
        layers: Layers = SENTENCE_LAYERS,
        pooling: Pooling | Sequence[Pooling] = "mean",
        remove: CommonDirections | int | None = None,
        normalize_embeddings: bool = False,
        empty: Empty = "raise",
        sentences: TextMode | None = None,
        batch_size: int = 128,
        show_progress_bar: bool | None = None,
    ) -> Vectors:
        """One vector per sentence, (n, D); (D,) for a single text.

        Args:
            inputs: As in `embed`.
            layers: As in `embed`, but `all`. The default, the context-free layer 0, is the best for
                comparing sentences (docs/guide.md); to classify them, compare with `average`.
            pooling: `mean`, `max`, `first` or `last`, or several to concatenate.
            remove: What all vectors have in common and similarities are better without: the mean
                and so many principal components of these inputs, or the `CommonDirections` of a
                larger text, with which a vector does not depend on the other inputs.
            normalize_embeddings: Scale each vector to length one.
            empty: What a sentence without tokens is: an error (`raise`), a row of zeros (`zero`),
                or a row of NaN (`nan`).
            sentences: As in `embed`; a text that is split has one vector, pooled over all its
                tokens.
            batch_size: Sentences that run together, at most.
            show_progress_bar: None shows one if the log level is INFO or lower.
        """
        pools = poolers(pooling)
        one_of("empty", empty, EMPTY)
        if layers == "all":
            raise ConfigError("layers='all': a sentence has one vector; choose one layer or a mix")
        read = list(self._read(as_sentences(inputs), sentences))
        for i, text in enumerate(read):
            if not any(text) and empty == "raise":
                raise InputError(
                    f"sentence {i} is empty: nothing to pool; empty='zero' or 'nan' gives it a row"
                )
        vectors = self._embed_read(read, layers, "both", batch_size, show_progress_bar)
        fill = np.nan if empty == "nan" else 0
        result = np.full((len(vectors), self.dim * len(pools)), fill, np.float32)
        for row, array in zip(result, vectors, strict=True):
            if len(array):
                row[:] = np.concatenate([pool(array) for pool in pools])
        if remove is not None:
            filled = np.array([len(array) > 0 for array in vectors], bool)
            if not isinstance(remove, CommonDirections):
                remove = CommonDirections.fit(result[filled], remove)
            result[filled] = remove.removed(result[filled])
        result = normalise(result) if normalize_embeddings else result
        return result[0] if isinstance(inputs, str) else result

    def similarity(self, a: Vectors, b: Vectors) -> Vectors:
        """The cosine of each row of `a` with each row of `b`, (n, m).

        Example:
            >>> a, b = elmo.encode(["A cat sat."]), elmo.encode(["A dog sat."])  # doctest: +SKIP
            >>> elmo.similarity(a, b)                                            # doctest: +SKIP
        """
        first, second = _as_rows("a", a), _as_rows("b", b)
        if first.shape[1] != second.shape[1]:
            raise InputError(
                f"similarity: a has {first.shape[1]} values per vector and b {second.shape[1]}; "
                "encode both with the same model, layers and pooling"
            )
        return normalise(first) @ normalise(second).T

    def token_vectors(self, words: Iterable[str]) -> Vectors:
        """x_k of each word without any context, (n, D / 2), to be used like GloVe.

        A word has the same vector in every sentence: the character CNN reads its letters alone,
        before any LSTM. For vectors that depend on the sentence use `embed`, whose layer 0 is this
        vector twice, [x_k; x_k].
        """
        if isinstance(words, str):
            raise InputError(f"token_vectors({words!r:.40}): expected a list of words")
        tokens = self.reader.tokens(check_sentence(words, 0))
        if not tokens:
            return np.zeros((0, self.dim // 2), np.float32)
        with torch.inference_mode():
            distinct = list(dict.fromkeys(tokens))
            rows = {word: i for i, word in enumerate(distinct)}
            vectors = _to_numpy(self._embedder.token_vectors(distinct))
            return vectors[[rows[word] for word in tokens]]

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

    # The language model

    @overload
    def score(  # type: ignore[overload-overlap]
        self, inputs: str, *, sentences: TextMode | None = None, batch_size: int = 128
    ) -> SentenceScore: ...

    @overload
    def score(
        self,
        inputs: Iterable[TextOrTokens],
        *,
        sentences: TextMode | None = None,
        batch_size: int = 128,
    ) -> list[SentenceScore]: ...

    def score(
        self,
        inputs: TextOrTokens | Iterable[TextOrTokens],
        *,
        sentences: TextMode | None = None,
        batch_size: int = 128,
    ) -> SentenceScore | list[SentenceScore]:
        """How likely each sentence is, as sums of natural log probabilities.

        The forward LM predicts each word and the end of the sentence from what is before, the
        backward LM each word and the start of the sentence from what is after. A word outside the
        softmax vocabulary is read by its characters and predicted as `<UNK>`. A sentence without
        words has the score of its boundary alone.

        Args:
            inputs: A text (the result is then its score alone), texts, or lists of tokens.
            sentences: As in `embed`; the score of a text that is split is the sum of its
                sentences' scores.
            batch_size: Sentences that run together, at most.
        """
        read = list(self._read(as_sentences(inputs), sentences))
        scores = LanguageModel(self).scores(read, batch_size)
        return scores[0] if isinstance(inputs, str) else scores

    def score_stream(
        self,
        inputs: Iterable[TextOrTokens],
        *,
        sentences: TextMode | None = None,
        batch_size: int = 128,
    ) -> Iterator[SentenceScore]:
        """The scores of `score`, one after the other, for inputs of any number.

        Some sentences are read ahead. With carried state, each `batch_size` sentences are a call.
        """
        yield from LanguageModel(self).score_stream(inputs, sentences, batch_size)

    def perplexity(
        self,
        inputs: Iterable[TextOrTokens],
        *,
        streams: int | None = None,
        sentences: TextMode | None = None,
        batch_size: int = 128,
    ) -> Perplexity:
        """The perplexity of a text, forward, backward and their mean; it may be of any length.

        It also has the bits per character, which compare between vocabularies as well. A warning
        says when more than 20 % of the words are outside the vocabulary.

        Args:
            inputs: Texts, or lists of tokens.
            streams: None scores each sentence as `score` does. A number reads the text as
                bilm-tf's trainer does: so many lanes side by side, each taking the next sentence
                when it has ended one, with states that are zero at first and then carried from
                sentence to sentence; the tail that does not fill all lanes is left out.
            sentences: As in `embed`.
            batch_size: Sentences that run together, at most, without `streams`.
        """
        return LanguageModel(self).perplexity(inputs, streams, sentences, batch_size)

    def substitutes(
        self, text: TextOrTokens, k: int = 10, *, index: int | None = None
    ) -> Substitutes:
        """The words that fit best at the position of one word of a sentence.

        The word itself is hidden. If the two sides are independent given the word w,
        p(w | both) ∝ p(w | left) p(w | right) / p(w), the forward LM after all words before the
        position and the backward LM before all words after it. `probability` is that, normalised
        over the vocabulary without its special words. A checkpoint does not say how frequent its
        words are, but its vocabulary is sorted by frequency: p(w) is Zipf's law, 1 over the rank.

        Args:
            text: A text with one word in brackets, as in "She sat on the [bank] of the river", or
                a text or tokens without brackets and `index`.
            k: Words to return, at most.
            index: Number of the hidden token, from 0.
        """
        return LanguageModel(self).substitutes(text, k, index)

    # Mixes and states

    def add_mix(
        self,
        name: str = "default",
        *,
        layer_norm: bool = False,
        dropout: float = 0.0,
        trainable: bool = True,
        replace: bool = False,
    ) -> ScalarMix:
        """A new `ScalarMix` of this model's layers, saved with it under `name`.

        Args:
            name: What `layers="mix:NAME"` calls it.
            layer_norm: Normalise each layer first.
            dropout: Applied to the mix while training.
            trainable: False freezes the weights and γ.
            replace: Replace a mix of that name and its weights. The mix `default` that every
                model has is replaced without it as long as it has not been trained.
        """
        MixConfig(layer_norm=layer_norm, dropout=dropout, trainable=trainable)
        is_taken = hasattr(self.mixes, name) and name not in self.mixes  # "keys", "forward", …
        if not name.isidentifier() or is_taken:
            raise ConfigError(
                f"mix {quoted(name)}: expected a name made of letters, digits and _ "
                "that is no attribute of torch.nn.ModuleDict"
            )
        if name in self.mixes and not replace and not self._is_untouched(name):
            raise ConfigError(
                f"mix {quoted(name)}: the model has one already; take elmo.mixes[{quoted(name)}], "
                "choose another name, or pass replace=True to lose its weights"
            )
        mix = ScalarMix(
            self.num_layers, layer_norm=layer_norm, dropout=dropout, trainable=trainable
        )
        self.mixes[name] = mix.to(self.device, self.dtype)
        return mix

    def _is_untouched(self, name: str) -> bool:
        """Whether a mix is the `default` that every model has, as it was made."""
        mix = self.mixes[name]
        assert isinstance(mix, ScalarMix)
        options = MixConfig(
            layer_norm=mix.layer_norm, dropout=mix.dropout.p, trainable=mix.trainable
        )
        is_new = not mix.scalars.any() and bool(mix.gamma == 1)
        return name == "default" and options == MixConfig() and is_new

    def reset_state(self) -> None:
        """Forget what `state="carry"` carried."""
        self._carried = None

    def warm_up(self, inputs: Iterable[TextOrTokens]) -> None:
        """Compute the state of `state="warm"` from a text; it is saved with the model.

        It is the mean of the states in which the sentences end when they are read in turn, each
        from where the one before stopped. It stays as it is when the weights change.
        """
        if isinstance(inputs, str):
            raise InputError("warm_up reads many sentences; wrap a single text as [text]")
        states = CarriedStates(BiLmState.zeros(self.config.lstm, 1, like=self._parameter()))
        request = Request(torch.eye(self.num_layers), with_state=True)
        ends = []
        with torch.inference_mode():
            for i, item in enumerate(check_iterable(inputs)):
                tokens = self.reader.tokens(check_sentence(item, i))
                _, after = self._embedder.run([tokens], request, states.start([0]))
                states.finish([0], after)
                ends.append(after)
            if not ends:
                raise InputError("warm_up: expected at least one sentence")
            means = [torch.stack(parts).mean(dim=0) for parts in zip(*ends, strict=True)]
        self.warm_h, self.warm_c = (mean.clone() for mean in means)

    def _with_mode(
        self, texts: Iterable[TextOrTokens], sentences: TextMode | None
    ) -> tuple[Iterator[TextOrTokens], FoundMode | None]:
        """The texts, and how their sentences are found."""
        found, mode = with_text_mode(texts, sentences)
        if mode == "split" and self.config.state == "carry":
            raise ConfigError(
                "sentences='split': state='carry' continues each text where the one before it "
                "stopped, so a text cannot be several sentences; use state='zero' or 'lines'"
            )
        return found, mode

    def _read(
        self, texts: Iterable[TextOrTokens], sentences: TextMode | None
    ) -> Iterator[list[list[str]]]:
        """The tokens of each sentence of each text."""
        found, mode = self._with_mode(texts, sentences)
        return (self.reader.sentences(text, mode) for text in found)

    def _embed_read(
        self,
        read: Sequence[Sequence[Sequence[str]]],
        layers: Layers,
        direction: Direction,
        batch_size: int,
        show_bar: bool | None,
    ) -> list[Vectors]:
        """The vectors of each text, from those of its sentences."""
        flat = list(chain.from_iterable(read))
        vectors = self._embed(flat, layers, direction, batch_size, show_bar)
        return list(joined(vectors, map(len, read)))

    def _embed(
        self,
        sentences: Sequence[Sequence[str]],
        layers: Layers,
        direction: Direction,
        batch_size: int,
        show_bar: bool | None,
    ) -> list[Vectors]:
        """The vectors of tokenised sentences, in their order."""
        check_batch_size(batch_size)
        states = self._states()
        mix, wanted = self._mix(layers), halves(direction)
        if mix is None:
            request = Request(layer_weights(layers, self.num_layers), wanted, states.carries)
        elif mix.layer_norm:
            # To normalise a layer takes both halves of it, whichever is wanted.
            request = Request(torch.eye(self.num_layers), (0, 1), states.carries)
        else:
            weights = (mix.gamma * mix.weights()).detach().float().cpu()[None]
            request = Request(weights, wanted, states.carries)
        results: list[Vectors] = [np.empty(0, np.float32)] * len(sentences)
        show = log.isEnabledFor(logging.INFO) if show_bar is None else show_bar
        lengths = [len(sentence) + 2 for sentence in sentences]
        with (
            torch.inference_mode(),
            tqdm(total=len(sentences), unit=" sentences", disable=not show) as bar,
        ):
            for rows in batches(lengths, batch_size, MAX_BATCH_TOKENS):
                group = [sentences[i] for i in rows]
                vectors, after = self._embedder.run(group, request, states.start(rows))
                states.finish(rows, after)
                for i, vector in zip(rows, vectors, strict=True):
                    if mix is not None and mix.layer_norm:
                        # One sentence at a time, so that its neighbours do not matter.
                        vector = mix.combine(vector) if vector.shape[1] else vector[0]
                        vector = torch.cat(
                            [vector.chunk(2, dim=-1)[half] for half in wanted], dim=-1
                        )
                    elif layers != "all":
                        vector = vector[0]
                    results[i] = _to_numpy(vector)
                bar.update(len(rows))
        return results

    def _mix(self, layers: Layers) -> ScalarMix | None:
        """The mix that `layers` names; None if it names no mix."""
        if not isinstance(layers, str) or not (layers == "mix" or layers.startswith("mix:")):
            return None
        name = layers.removeprefix("mix").removeprefix(":") or "default"
        if name not in self.mixes:
            raise ConfigError(
                f"layers={quoted(layers)}: the model has no such mix; "
                f"it has {', '.join(self.mixes)}"
            )
        mix = self.mixes[name]
        assert isinstance(mix, ScalarMix)
        return mix

    def _states(self) -> StartStates:
        """How sentences start, by the model's configuration."""
        if self.config.state == "zero":
            return StartStates()
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
        return StartStates(BiLmState(self.warm_h, self.warm_c))

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
        ids = self._embedder.ids(batch.words)
        vectors, after = self._embedder.engine.run_with_gradients(
            ids, batch.index, batch.lengths, state
        )
        lengths = torch.from_numpy(batch.lengths).to(self.device)
        mask = (
            torch.arange(int(batch.lengths.max(initial=2)), device=self.device) < lengths[:, None]
        )
        layers = padded(vectors, mask)
        # Without the boundaries: the first position, and the last real one.
        mask = mask[:, 2:]
        return BiLmOutput(layers[:, :, 1:-1] * mask[..., None], mask, after)

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


def _as_rows(name: str, vectors: object) -> Vectors:
    """Vectors as the rows of a matrix, or an error that says how to get some."""
    try:
        rows = np.atleast_2d(np.asarray(vectors))
    except ValueError:  # arrays of different lengths, as `embed` gives them
        rows = np.empty((0, 0, 0))
    if rows.dtype.kind not in "fiu" or rows.ndim != 2:
        raise InputError(
            f"similarity: {name} is {quoted(vectors)}; expected vectors, one per row. For texts: "
            "elmo.similarity(elmo.encode(a), elmo.encode(b))"
        )
    return rows


def _to_numpy(t: Tensor) -> Vectors:
    array: Vectors = t.float().cpu().numpy()
    return array
