"""AllenNLP 0.9's `ElmoEmbedder`: all layers of tokenised sentences as arrays, and as a file."""

import json
import logging
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import IO, Literal, TypeAlias

import h5py
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
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
