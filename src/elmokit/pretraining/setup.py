"""What a run starts from: the model, new or loaded, that fits the corpus, and its text."""

import logging
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from ..config import ElmoConfig
from ..corpus.batches import LaneStream, SentenceBatches, SentenceStream, Stream
from ..corpus.corpus import BOS_ID, EOS_ID, UNK_ID, Corpus, Sentences
from ..errors import ConfigError
from ..formats.checkpoint import OPTIONAL, Checkpoint
from ..formats.load import read_checkpoint
from ..model import Elmo, Execution
from ..nn import Softmax
from .config import DataConfig, PretrainConfig
from .objective import BatchReader

log = logging.getLogger(__name__)

WINDOWS_A_LANE = 4
"""Windows that a lane reads in one pass over the text, at least, or there are fewer lanes."""


def fit_to_corpus(config: PretrainConfig, corpus: Corpus) -> PretrainConfig:
    """The configuration with the corpus's tokenizer, vocabulary and character limit."""
    model, info = config.model, corpus.info
    cnn = model.encoder.char_cnn
    if cnn is not None and cnn.characters == "bytes":
        cnn = replace(cnn, max_characters=info.max_characters)
        model = replace(model, encoder=replace(model.encoder, char_cnn=cnn))
    values = model.to_dict() | {
        "num_softmax_words": len(corpus.vocab),
        "tokenizer": info.tokenizer,
        "normalization": info.normalization,
    }
    return replace(config, model=ElmoConfig.from_dict(values, "model"))


def new_model(config: PretrainConfig, corpus: Corpus) -> Elmo:
    """A model with random weights, the same for the same seed.

    Only the biases of the softmax are not random: they start with the logarithms of the words'
    frequencies, so that the first thousands of steps need not be spent on learning these.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.train.seed)
        elmo = Elmo(config.model, vocab=corpus.vocab, requires_grad=True)
    assert elmo.softmax is not None
    elmo.softmax.bias.data.copy_(torch.from_numpy(log_frequencies(corpus)))
    return elmo


def log_frequencies(corpus: Corpus) -> NDArray[np.float32]:
    """log p of each word of the vocabulary as a target, of both directions together."""
    size = len(corpus.vocab)
    counts = corpus.counts[:size].astype(np.float64)
    counts[UNK_ID] += corpus.counts[size:].sum()
    # Every sentence ends once in each direction: with </S> forward, with <S> backward.
    counts[[BOS_ID, EOS_ID]] += len(corpus.train) / 2
    logarithms: NDArray[np.float32] = np.log((counts + 1) / (counts + 1).sum()).astype(np.float32)
    return logarithms


def loaded_model(source: str, corpus: Corpus, seed: int) -> tuple[Elmo, bool]:
    """A published model that is to learn this corpus, and whether its softmax had to be made.

    The softmax gets the corpus's words: those that the model knew keep their rows.
    """
    old = Elmo.from_pretrained(source, device="cpu", tokenizer=corpus.info.tokenizer)
    if old.config.encoder.char_cnn is None:
        raise ConfigError(
            f"{source}: a table of words cannot learn new ones; "
            "expected a model that reads characters"
        )
    checkpoint = old.to_checkpoint()
    size = len(corpus.vocab)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        softmax = Softmax(size, old.config.lstm.projection_dim)
    softmax.bias.data.copy_(torch.from_numpy(log_frequencies(corpus)))
    has_softmax = old.softmax is not None and old.vocab is not None
    if old.softmax is not None and old.vocab is not None:
        known = [(i, old.vocab.id(w)) for i, w in enumerate(corpus.vocab) if w in old.vocab]
        new_rows, old_rows = torch.tensor(known).t()
        softmax.weight.data[new_rows] = old.softmax.weight.data[old_rows]
        softmax.bias.data[new_rows] = old.softmax.bias.data[old_rows]
    checkpoint.tensors = {
        name: t for name, t in checkpoint.tensors.items() if name.startswith(("bilm.", "mixes."))
    } | {f"softmax.{name}": t.detach() for name, t in softmax.state_dict().items()}
    checkpoint.config = replace(
        checkpoint.config,
        num_softmax_words=size,
        normalization=corpus.info.normalization,  # type: ignore[arg-type]
    )
    checkpoint.vocab = corpus.vocab
    return _trainable(checkpoint), not has_softmax


def resumed_model(folder: Path, config: ElmoConfig) -> Elmo:
    """The model that a run has exported, with the architecture that the run began with.

    It is to be trained on: its weights come from a checkpoint of the run.
    """
    checkpoint = read_checkpoint(folder)
    checkpoint.config = config
    for name in OPTIONAL:
        checkpoint.tensors.pop(name, None)
    return _trainable(checkpoint)


def _trainable(checkpoint: Checkpoint) -> Elmo:
    elmo = Elmo.from_checkpoint(checkpoint, Execution(device="cpu", requires_grad=True))
    assert elmo.softmax is not None
    elmo.softmax.requires_grad_(True)
    return elmo


def batch_reader(elmo: Elmo, corpus: Corpus, device: torch.device) -> BatchReader:
    """Word ids of the corpus to the ids that the model reads and predicts."""
    cnn = elmo.config.encoder.char_cnn
    characters: NDArray[np.integer] | None = corpus.characters
    words = None
    is_stored = cnn is not None and cnn.characters == "bytes"
    if not is_stored or elmo.config.encoder.num_words or cnn.max_characters != characters.shape[1]:  # type: ignore[union-attr]
        bos, eos = elmo.indexer.bos, elmo.indexer.eos  # the boundaries as this model calls them
        characters, words = elmo.indexer([bos, eos, *corpus.words[2:]])
    rows = np.arange(corpus.num_words)
    rows[len(corpus.vocab) :] = UNK_ID
    return BatchReader(characters, words, rows, device)


def training_stream(
    sentences: Sentences, config: DataConfig, seed: int, processes: int = 1
) -> Stream:
    """The training text, read as the configuration says.

    A small text gets fewer lanes, so that each of them has something to read.
    """
    if config.reading == "lanes":
        if config.lanes % processes:
            raise ConfigError(
                f"data.lanes={config.lanes}: expected a multiple of {processes} processes"
            )
        most = (len(sentences.tokens) + len(sentences)) // (WINDOWS_A_LANE * config.unroll)
        lanes = min(config.lanes, max(1, most // processes) * processes)
        if lanes < config.lanes:
            log.warning("a small text: %d lanes instead of %d", lanes, config.lanes)
        return LaneStream(sentences, lanes, config.unroll, seed)
    batches = SentenceBatches(sentences, config.batch_tokens, config.max_length, seed)
    return SentenceStream(batches)


def held_out_batches(sentences: Sentences, max_tokens: int | None) -> SentenceBatches:
    """The held-out text, or sentences from everywhere in it, whole and in batches."""
    if max_tokens is not None and len(sentences.tokens) > max_tokens:
        every = -(-len(sentences.tokens) // max_tokens)
        chosen = [sentences[i] for i in range(0, len(sentences), every)]
        offsets = np.cumsum([0, *map(len, chosen)])
        sentences = Sentences(np.concatenate(chosen), offsets)
    longest = max(1, int(sentences.lengths.max()))
    return SentenceBatches(sentences, 4096, longest, seed=None)
