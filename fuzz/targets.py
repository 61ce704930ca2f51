"""What is damaged: a folder or file of every kind, and what is then done with it."""

import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure

from elmokit import Corpus, Elmo, ElmoConfig, PrepareConfig, load_task, prepare, train_task
from elmokit.cli.info import describe
from elmokit.config import CharCnnConfig, EncoderConfig, LstmConfig
from elmokit.files.read import read_lines
from elmokit.formats.load import FORMATS
from elmokit.formats.save import write_checkpoint
from elmokit.formats.tensor_bundle import read_bundle, write_bundle
from elmokit.pretraining.config import DataConfig, PretrainConfig, SoftmaxConfig, TrainConfig
from elmokit.pretraining.records import run_status
from elmokit.pretraining.run import pretrain
from elmokit.pretraining.setup import training_stream
from elmokit.tasks.registry import find_task
from elmokit.text.ids import Vocab
from elmokit.text.reader import Reader
from elmokit.vectors.static import read_static_vectors

from .experiments import TAGS, make_data_sets, run_experiment

Figure.savefig = lambda self, path, **_: Path(path).touch()  # type: ignore[method-assign,assignment]
# Drawing is slow, and writes a file like any other.


@dataclass(frozen=True, slots=True)
class Target:
    """Something that can be damaged.

    Attributes:
        make: Writes it to a path, whole.
        use: Does with it what a user would.
    """

    make: Callable[[Path], None]
    use: Callable[[Path], object]


def tiny(seed: int = 0, with_softmax: bool = True) -> Elmo:
    """A model of a few kilobytes."""
    torch.manual_seed(seed)
    cnn = CharCnnConfig(dim=4, filters=((1, 4), (2, 4)))
    lstm = LstmConfig(dim=8, projection_dim=4, cell_clip=3.0, proj_clip=3.0)
    words = ("<S>", "</S>", "<UNK>", "the", "gift", "배")
    config = ElmoConfig(
        encoder=EncoderConfig(char_cnn=cnn), lstm=lstm,
        num_softmax_words=len(words) if with_softmax else 0,
    )  # fmt: skip
    return Elmo(config, vocab=Vocab(words) if with_softmax else None).eval()


def _use_model(path: Path) -> None:
    elmo = Elmo.from_pretrained(path, device="cpu")
    elmo.embed([["a", "gift"], ["배"]], layers="all")
    describe(str(path))


def _model(format: Any) -> Callable[[Path], None]:
    return lambda path: void(write_checkpoint(tiny().to_checkpoint(), path, format))


def void(_: object) -> None:
    """Nothing."""


def _hub_module(path: Path) -> None:
    write_checkpoint(tiny(with_softmax=False).to_checkpoint(), path / "tf", "tf")
    variables = {
        name.replace("lm/", "bilm/", 1)
        .replace("rnn/multi_rnn_cell/cell_", "RNN/MultiRNNCell/Cell")
        .replace("/lstm_cell", "/rnn/lstm_cell"): value
        for name, value in read_bundle(path / "tf" / "model.ckpt").items()
    }
    variables |= {"aggregation/weights": np.zeros(3, np.float32)}
    variables |= {"aggregation/scaling": np.ones((), np.float32)}
    (path / "variables").mkdir()
    write_bundle(path / "variables" / "variables", variables)
    for file in (path / "tf").iterdir():
        file.unlink()
    (path / "tf").rmdir()


def many_langs(seed: int = 0) -> Elmo:
    """A model with a table of words, as ELMoForManyLangs has them."""
    torch.manual_seed(seed)
    special = ("<oov>", "<pad>", "<bos>", "<eos>", "<bow>", "<eow>")
    letters = [*special, *"abcdé한글🙂"]
    cnn = CharCnnConfig(
        characters="unicode", num_characters=len(letters), dim=4, filters=((1, 4), (2, 4))
    )
    words = ("<oov>", "<pad>", "<bos>", "<eos>", "gift")
    encoder = EncoderConfig(char_cnn=cnn, num_words=len(words), word_dim=3)
    config = ElmoConfig(encoder=encoder, lstm=LstmConfig(dim=8, projection_dim=4, forget_bias=0.0))
    ids = {letter: i for i, letter in enumerate(letters)}
    return Elmo(config, characters=ids, words={word: i for i, word in enumerate(words)}).eval()


def _many_langs(path: Path) -> None:
    write_checkpoint(many_langs().to_checkpoint(), path, "manylangs")


def _zip(format: Any) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        folder = path.with_suffix(".d")
        write_checkpoint(tiny().to_checkpoint(), folder, format)
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for file in sorted(folder.iterdir()):
                archive.write(file, file.name)

    return make


def write_text(path: Path, number: int = 60) -> None:
    """A text of short lines."""
    chance = np.random.default_rng(0)
    words = ["the", "gift", "of", "배", "a", "river", "bank"]
    lines = (" ".join(chance.choice(words, 6).tolist()) for _ in range(number))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def make_corpus(path: Path) -> None:
    """A prepared corpus."""
    text = path.with_suffix(".txt")
    write_text(text)
    config = PrepareConfig(tokenizer="whitespace", sentences="lines", valid_fraction=0.1)
    prepare([text], path, config, workers=1)


def run_config(steps: int) -> PretrainConfig:
    """A run of a few steps."""
    cnn = CharCnnConfig(dim=2, filters=((1, 2), (2, 4)))
    return PretrainConfig(
        model=ElmoConfig(
            encoder=EncoderConfig(char_cnn=cnn), lstm=LstmConfig(dim=8, projection_dim=4)
        ),
        data=DataConfig(lanes=4, unroll=5),
        softmax=SoftmaxConfig(num_samples=4),
        train=TrainConfig(
            epochs=None, max_steps=steps, log_every=1, checkpoint_every=2, vector_steps=5
        ),
    )


def _use_corpus(path: Path) -> None:
    corpus = Corpus.open(path)
    stream = training_stream(corpus.train, DataConfig(lanes=4, unroll=5), seed=1)
    for _ in range(5):
        stream.next()
    [corpus.words[i] for i in corpus.train[0]]
    pretrain(path, path.with_name("new-run"), run_config(1), device="cpu", force=True)


def _make_run(path: Path) -> None:
    make_corpus(path.with_name("corpus"))
    pretrain(path.with_name("corpus"), path, run_config(4), device="cpu")


def _use_run(path: Path) -> None:
    run_status(path)
    pretrain(path.with_name("corpus"), path, run_config(6), device="cpu", resume=True)
    _use_model(path)


def write_tags(path: Path) -> None:
    """Sentences with names."""
    path.write_text(TAGS, encoding="utf-8")


def task_config(epochs: int) -> Any:
    """A tagger of a few units, without a biLM."""
    kind = find_task("ner").config_class
    return kind().override(
        "elmo.place=none", "words.dim=4", "words.min_count=1", "words.char_filters=4",
        "lstm_dim=4", "lstm_layers=1", f"train.epochs={epochs}", "train.batch_size=4",
    )  # fmt: skip


def _make_task(path: Path) -> None:
    data = path.with_name("tags.conll")
    write_tags(data)
    train_task("ner", data, data, None, path, task_config(1), device="cpu")


def _use_task(path: Path) -> None:
    data = path.with_name("tags.conll")
    load_task(path, device="cpu").predict_texts(["Anna met Bob", ""])
    train_task("ner", data, data, None, path, task_config(2), device="cpu", resume=True)


def _make_experiment(path: Path) -> None:
    tiny().save_pretrained(path.with_name("model"))
    make_data_sets(path.with_name("data"))
    run_experiment(path.parent, out=path.name)


def _vectors(path: Path) -> None:
    path.write_text("".join(f"w{i} 0.1 -2 3e-4 {i}\n" for i in range(30)), encoding="utf-8")


def _binary_vectors(path: Path) -> None:
    rows = (f"w{i} ".encode() + np.ones(4, "<f4").tobytes() + b"\n" for i in range(30))
    path.write_bytes(b"30 4\n" + b"".join(rows))


def _reads(task: str, settings: tuple[str, ...] = ()) -> Callable[[Path], object]:
    found = find_task(task)
    config = found.config_class().override(*settings)
    return lambda path: found.read(path, config, Reader("regex"), is_training=True)


def _write(text: str) -> Callable[[Path], None]:
    return lambda path: void(path.write_text(text, encoding="utf-8"))


_SQUAD = """{"version": "1.1", "data": [{"title": "t", "paragraphs": [
{"context": "Bob is in Rome.", "qas": [{"id": "1", "question": "Where?",
"answers": [{"text": "Rome", "answer_start": 10}]}]}]}]}"""
_SRL = '{"words": ["She", "came"], "frames": [{"pred": 1, "tags": ["B-ARG0", "B-V"]}]}\n'
_COREF = "#begin document (d); part 0\nd\t0\t0\tShe\t(0)\nd\t0\t1\ther\t(0)\n#end document\n"
_SNLI = '{"premise": "A man.", "hypothesis": "He", "label": "neutral"}\n'

_MAKERS = {"tf-hub": _hub_module, "manylangs": _many_langs}
MODELS = {
    format.label: Target(_MAKERS.get(format.name, _model(format.name)), _use_model)
    for format in FORMATS
}
MODELS |= {f"{name}.zip": Target(_zip(name), _use_model) for name in ("elmokit", "official")}
FOLDERS = {
    "corpus": Target(make_corpus, _use_corpus),
    "pre-training run": Target(_make_run, _use_run),
    "task run": Target(_make_task, _use_task),
    "experiment": Target(
        _make_experiment, lambda path: run_experiment(path.parent, out=path.name, resume=True)
    ),
}
FILES = {
    "vectors.txt": Target(_vectors, read_static_vectors),
    "vectors.bin": Target(_binary_vectors, read_static_vectors),
    "text.txt": Target(write_text, lambda path: list(read_lines(path))),
    "ner.conll": Target(write_tags, _reads("ner")),
    "sentiment.tsv": Target(_write("label\ttext\ngood\ta film\n" * 5), _reads("sentiment")),
    "trees.txt": Target(_write("(3 (2 a) (4 film))\n" * 5), _reads("sentiment")),
    "snli.jsonl": Target(_write(_SNLI * 5), _reads("snli")),
    "srl.jsonl": Target(_write(_SRL * 5), _reads("srl")),
    "squad.json": Target(_write(_SQUAD), _reads("squad")),
    "coref.conll": Target(_write(_COREF * 3), _reads("coref")),
}
