"""The vectors of an `Elmo`: of tokens, of sentences, of words alone."""

import logging
from collections.abc import Iterable, Iterator, Sequence
from math import inf
from typing import overload

import numpy as np
import torch
from torch import Tensor
from tqdm.auto import tqdm

from ..engine import Request
from ..errors import ConfigError, InputError, quoted
from ..layers import Direction, Layers, halves, layer_weights
from ..nn import ScalarMix
from ..pooling import Pooling, normalise, poolers
from ..text.batch import batches
from ..text.groups import grouped
from ..text.reader import TextOrTokens, as_sentences, check_iterable, check_sentence
from .language import LanguageElmo
from .limits import MAX_BATCH_TOKENS, check_batch_size
from .sentence import Sentence, Vectors

log = logging.getLogger(__name__)


class Elmo(LanguageElmo):
    """Word vectors that depend on the whole sentence.

    Make one with `from_pretrained` or `from_files`; the constructor gives random weights.

    >>> elmo = Elmo.from_pretrained("my-elmo")                              # doctest: +SKIP
    >>> vectors = elmo.embed(["He has a gift.", "The gift was wrapped."])   # doctest: +SKIP
    """

    @overload
    def embed(  # type: ignore[overload-overlap]
        self,
        inputs: str,
        *,
        layers: Layers = "average",
        direction: Direction = "both",
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
        batch_size: int = 128,
        show_progress_bar: bool | None = None,
    ) -> list[Vectors]: ...

    def embed(
        self,
        inputs: TextOrTokens | Iterable[TextOrTokens],
        *,
        layers: Layers = "average",
        direction: Direction = "both",
        batch_size: int = 128,
        show_progress_bar: bool | None = None,
    ) -> Vectors | list[Vectors]:
        """One vector a token: (T, D) a sentence, or (L, T, D) with `layers="all"`.

        The result does not depend on the batch size, the order or the other sentences: to the last
        bit with the C kernel, to rounding (about 1e-6) with torch alone.

        Args:
            inputs: A text (the result is then its array alone), texts, or lists of tokens.
            layers: `average`, `top`, `all`, a number (0 is the context-free token), `mix` for
                the learned weights of the mix `default`, or `mix:NAME`.
            direction: `forward` or `backward` for that half of each vector only.
            batch_size: Sentences that run together, at most.
            show_progress_bar: None shows one if the log level is INFO or lower.
        """
        check_batch_size(batch_size)
        sentences = [self.reader.tokens(s) for s in as_sentences(inputs)]
        vectors = self._embed(sentences, layers, direction, batch_size, show_progress_bar)
        return vectors[0] if isinstance(inputs, str) else vectors

    @overload
    def annotate(  # type: ignore[overload-overlap]
        self, inputs: str, *, layers: Layers = "average", batch_size: int = 128
    ) -> Sentence: ...

    @overload
    def annotate(
        self, inputs: Iterable[TextOrTokens], *, layers: Layers = "average", batch_size: int = 128
    ) -> list[Sentence]: ...

    def annotate(
        self,
        inputs: TextOrTokens | Iterable[TextOrTokens],
        *,
        layers: Layers = "average",
        batch_size: int = 128,
    ) -> Sentence | list[Sentence]:
        """Tokens, their places in the text and their vectors together, one `Sentence` per text.

        Example:
            >>> sentence = elmo.annotate("He has a gift for music.")     # doctest: +SKIP
            >>> sentence.tokens[3], sentence["gift"].shape               # doctest: +SKIP
            ('gift', (256,))

        Args:
            inputs: A text (the result is then its `Sentence` alone), texts, or lists of tokens.
            layers: As in `embed`.
            batch_size: Sentences that run together, at most.
        """
        check_batch_size(batch_size)
        given = as_sentences(inputs)
        spans = [self.reader.spans(item) if isinstance(item, str) else None for item in given]
        tokens = [
            self.reader.tokens(item) if span is None else [token.text for token in span]
            for item, span in zip(given, spans, strict=True)
        ]
        vectors = self._embed(tokens, layers, "both", batch_size, show_bar=False)
        sentences = [
            Sentence(
                item if isinstance(item, str) else None,
                tuple(words),
                None if span is None else tuple((token.start, token.end) for token in span),
                rows,
            )
            for item, span, words, rows in zip(given, spans, tokens, vectors, strict=True)
        ]
        return sentences[0] if isinstance(inputs, str) else sentences

    def embed_stream(
        self,
        inputs: Iterable[TextOrTokens],
        *,
        layers: Layers = "average",
        direction: Direction = "both",
        batch_size: int = 64,
    ) -> Iterator[Vectors]:
        """The arrays of `embed`, one after the other, for inputs of any number.

        Some sentences are read ahead. With carried state, each `batch_size` sentences are a call.
        """
        check_batch_size(batch_size)
        if isinstance(inputs, str):
            raise InputError("embed_stream reads many sentences; for one text use embed(text)")
        items = enumerate(check_iterable(inputs))
        sentences = (self.reader.tokens(check_sentence(item, i)) for i, item in items)
        is_call = self.config.state == "carry"
        limits = (batch_size, inf) if is_call else (16 * batch_size, 4 * MAX_BATCH_TOKENS)
        for window in grouped(sentences, len, max_items=limits[0], max_size=limits[1]):
            yield from self._embed(window, layers, direction, batch_size, show_bar=False)

    def encode(
        self,
        inputs: TextOrTokens | Iterable[TextOrTokens],
        *,
        layers: Layers = "average",
        pooling: Pooling | Sequence[Pooling] = "mean",
        normalize_embeddings: bool = False,
        batch_size: int = 128,
        show_progress_bar: bool | None = None,
    ) -> Vectors:
        """One vector a sentence, (n, D); (D,) for a single text.

        Args:
            inputs: As in `embed`; a sentence without tokens is an error.
            layers: As in `embed`, but `all`.
            pooling: `mean`, `max`, `first` or `last`, or several to concatenate.
            normalize_embeddings: Scale each vector to length one.
            batch_size: Sentences that run together, at most.
            show_progress_bar: None shows one if the log level is INFO or lower.
        """
        check_batch_size(batch_size)
        pools = poolers(pooling)
        if layers == "all":
            raise ConfigError("layers='all': a sentence has one vector; choose one layer or a mix")
        sentences = [self.reader.tokens(s) for s in as_sentences(inputs)]
        for i, sentence in enumerate(sentences):
            if not sentence:
                raise InputError(f"sentence {i} is empty: nothing to pool")
        vectors = self._embed(sentences, layers, "both", batch_size, show_progress_bar)
        pooled = [np.concatenate([pool(v) for pool in pools]) for v in vectors]
        result = np.stack(pooled) if pooled else np.zeros((0, self.dim * len(pools)), np.float32)
        result = normalise(result) if normalize_embeddings else result
        return result[0] if isinstance(inputs, str) else result

    def similarity(self, a: Vectors, b: Vectors) -> Vectors:
        """The cosine of each row of `a` with each row of `b`."""
        return normalise(np.atleast_2d(a)) @ normalise(np.atleast_2d(b)).T

    def token_vectors(self, words: Iterable[str]) -> Vectors:
        """x_k of each word without any context, (n, D / 2), to be used like GloVe.

        Layer 0 of a token is this vector twice, [x_k; x_k].
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

    def _embed(
        self,
        sentences: Sequence[Sequence[str]],
        layers: Layers,
        direction: Direction,
        batch_size: int,
        show_bar: bool | None,
    ) -> list[Vectors]:
        """The vectors of tokenised sentences, in their order."""
        states = self._states()
        mix = self._mix(layers)
        if mix is None:
            weights = layer_weights(layers, self.num_layers)
        elif mix.layer_norm:
            weights = torch.eye(self.num_layers)
        else:
            weights = (mix.gamma * mix.weights()).detach().float().cpu()[None]
        wanted = halves(direction)
        normalised = mix is not None and mix.layer_norm
        # To normalise a layer takes both halves of it, whichever is wanted.
        request = Request(weights, (0, 1) if normalised else wanted, with_state=states.carries)
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


def _to_numpy(t: Tensor) -> Vectors:
    array: Vectors = t.float().cpu().numpy()
    return array
