"""Make `tests/reference/`: what the original programs compute from tiny models of our own.

    benchmarks/peers/install.sh benchmarks/.peers allennlp simple_elmo manylangs
    python benchmarks/peers/make_reference.py [--peers FOLDER] [--out FOLDER]

`tests/reference_models.py` holds the models (seeded random weights in the published layouts) and
the sentences. Each program runs in its own environment and reads the files itself; this script
imports nothing of elmokit. The versions of the programs are in `activations.npz`, too.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT / "tests"))
import reference_models as models  # noqa: E402

# The names of an LSTM in a checkpoint of the trainer, and those of its parts in an official file.
CELL = re.compile(r"(RNN_\d)/.*cell_(\d)/.*?(kernel|bias|projection/kernel)")
PARTS = {"kernel": "W_0", "bias": "B", "projection/kernel": "W_P_0"}


def allennlp(folder, arrays):
    """All layers from a zero state, and those of a second batch that goes on from the first."""
    import torch
    from allennlp.modules.elmo import _ElmoBiLm, batch_to_ids

    for place in sorted((folder / "official").iterdir()):
        if not models.OFFICIAL[place.name]["lstm"]["use_skip_connections"]:
            continue  # AllenNLP refuses them
        bilm = _ElmoBiLm(str(place / "options.json"), str(place / "weights.hdf5")).eval()
        sentences = models.sentences(place.name)
        half = len(sentences) // 2
        for name, batch in (("zero", sentences), ("first", sentences[:half]),
                            ("carried", sentences[half:])):  # fmt: skip
            if name != "carried":
                bilm._elmo_lstm.reset_states()
            with torch.no_grad():
                layers = torch.stack(bilm(batch_to_ids(batch))["activations"], dim=1)[:, :, 1:-1]
            if name != "first":
                save(arrays, f"{place.name}/{name}", batch, layers.numpy())
    return f"allennlp {version('allennlp')}, torch {version('torch')}"


def simple_elmo(folder, arrays):
    """All layers from a zero state; a TensorFlow checkpoint, and its score of a sentence."""
    os.environ |= {"TF_USE_LEGACY_KERAS": "1", "TF_CPP_MIN_LOG_LEVEL": "3"}
    import simple_elmo as library
    import tensorflow as tf

    for place in sorted((folder / "official").iterdir()):
        batch = models.sentences(place.name)
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            model = library.ElmoModel()
            model.load(str(place), max_batch_size=len(batch))
            session.run(tf.compat.v1.global_variables_initializer())
            ids = model.batcher.batch_sentences(batch)
            layers = session.run(
                model.sentence_embeddings_op["lm_embeddings"], {model.sentence_character_ids: ids}
            )
        save(arrays, f"{place.name}/zero", batch, layers)
    write_checkpoint(folder / "checkpoint", tf)
    arrays["checkpoint/losses"] = losses(folder / "checkpoint", tf)
    return f"simple_elmo {version('simple_elmo')}, tensorflow {tf.__version__}"


def write_checkpoint(folder, tf):
    """Save the graph of the trainer with our weights, as bilm-tf saves its runs."""
    from simple_elmo.training import LanguageModel

    folder.mkdir()
    (folder / "options.json").write_text(json.dumps(models.CHECKPOINT))
    (folder / "vocab.txt").write_text("\n".join(models.VOCAB) + "\n", encoding="utf-8")
    weights = models.official_weights(models.CHECKPOINT, seed=100) | models.softmax_weights()
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        with tf.compat.v1.variable_scope("lm"):
            LanguageModel(dict(models.CHECKPOINT), False)
        for variable in tf.compat.v1.global_variables():
            name = variable.op.name.removeprefix("lm/")
            if cell := CELL.fullmatch(name):
                direction, layer, part = cell.groups()
                name = f"{direction}/RNN/MultiRNNCell/Cell{layer}/LSTMCell/{PARTS[part]}"
            variable.load(weights.pop(name), session)
        assert not weights, sorted(weights)
        tf.compat.v1.train.Saver().save(session, str(folder / "model.ckpt"), write_meta_graph=False)


def losses(folder, tf):
    """The trainer's mean loss of a sentence, forward and backward, by the full softmax."""
    from simple_elmo.data import UnicodeCharsVocabulary
    from simple_elmo.training import LanguageModel

    vocab = UnicodeCharsVocabulary(str(folder / "vocab.txt"), 50)
    tokens = models.SCORED.split()
    ids, characters = vocab.encode(tokens, split=False), vocab.encode_chars(tokens, split=False)
    back, back_characters = ids[::-1], characters[::-1]
    steps = len(tokens) + 1
    options = models.CHECKPOINT | {"batch_size": 1, "unroll_steps": steps}
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        with tf.compat.v1.variable_scope("lm"):
            model = LanguageModel(options, False)
        tf.compat.v1.train.Saver().restore(session, str(folder / "model.ckpt"))
        feed = {
            model.tokens_characters: characters[None, :-1],
            model.tokens_characters_reverse: back_characters[None, :-1],
            model.next_token_id: ids[None, 1:],
            model.next_token_id_reverse: back[None, 1:],
        }
        return np.array(session.run(model.individual_losses, feed), np.float32)


def manylangs(folder, arrays):
    """All layers from a zero state, by the program's own reader."""
    from elmoformanylangs import Embedder

    for place in sorted((folder / "manylangs").iterdir()):
        batch = models.sentences(place.name)
        found = Embedder(str(place), batch_size=len(batch)).sents2elmo(batch, output_layer=-2)
        arrays[f"{place.name}/zero"] = np.concatenate(found, axis=1)
    return f"elmoformanylangs {version('elmoformanylangs')}, torch {version('torch')}"


PROGRAMS = {function.__name__: function for function in (allennlp, simple_elmo, manylangs)}


def save(arrays, name, batch, layers):
    """Keep (layers, tokens of all sentences, D) of a padded batch."""
    rows = [layer[:, : len(tokens)] for layer, tokens in zip(layers, batch)]
    arrays[name] = np.concatenate(rows, axis=1)


def main():
    """Write the models, run every program on them, and keep what they say."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peers", type=Path, default=HERE.parent / ".peers")
    parser.add_argument("--out", type=Path, default=ROOT / "tests" / "reference")
    parser.add_argument("--program", choices=PROGRAMS, help=argparse.SUPPRESS)
    parser.add_argument("--models", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.program:  # inside the environment of that program
        arrays = {}
        arrays["program"] = np.array(PROGRAMS[arguments.program](arguments.models, arrays))
        np.savez(arguments.out, **{f"{arguments.program}/{n}": a for n, a in arrays.items()})
        return
    arguments.out.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        folder, arrays = Path(temporary), {}
        for write, kind, names in (
            (models.write_official, "official", models.OFFICIAL),
            (models.write_manylangs, "manylangs", models.MANYLANGS),
        ):
            for name in names:
                weights = write(folder / kind / name, name)
                arrays[f"digest/{name}"] = np.array(models.digest(weights))
        for name in PROGRAMS:
            python = arguments.peers / name / "bin" / "python"
            if not python.exists():
                sys.exit(f"{python} is missing; run {HERE / 'install.sh'}")
            result = folder / f"{name}.npz"
            command = [python, "-W", "ignore", __file__, "--program", name, "--models", folder]
            subprocess.run([*command, "--out", result], check=True)
            arrays |= np.load(result)
        for path in (folder / "checkpoint").glob("*.*"):  # but not `checkpoint`, a path
            (arguments.out / path.name).write_bytes(path.read_bytes())
    np.savez_compressed(arguments.out / "activations.npz", **arrays)
    for name in PROGRAMS:
        print(arrays[f"{name}/program"])
    size = sum(path.stat().st_size for path in arguments.out.iterdir())
    print(f"{len(arrays)} arrays, {size / 1000:.1f} kB in {arguments.out}")


if __name__ == "__main__":
    main()
