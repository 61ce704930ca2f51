"""What elmokit computes, as numbers: to prove that a change of the code changed nothing else.

    python scripts/behaviour.py DATA FIXTURES -o before.json      # with the code as it was
    python scripts/behaviour.py DATA FIXTURES --same before.json  # with the code as it is

Vectors of every fixture, bundled model and engine; scores and substitutes; losses of short
pre-training runs and of every task. All must be equal to the last bit, except where a biLM is
fine-tuned (1e-5). DATA holds the task data of the experiments, FIXTURES the reference checkpoints.
Takes a few minutes on two cores.
"""

import argparse
import gzip
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from elmokit import Elmo, PrepareConfig, prepare

TEXTS = (
    "My watch was a birthday gift .", "He has a gift for music .", "Yes", "배 가 고프 다",
    "Antidisestablishmentarianism is a very long word indeed", "",
)  # fmt: skip
SENTENCES = [text.split() for text in TEXTS]
SMALL_WORDS = ("words.dim=8", "words.char_filters=8", "train.epochs=2", "train.batch_size=8")
TASKS = {
    "ner": ("lstm_dim=8",),
    "sentiment": ("dim=8", "maxout_pieces=2"),
    "squad": ("gru_dim=8",),
    "snli": (),
    "srl": ("lstm_dim=8", "lstm_layers=2"),
    "coref": (),
}
NUM_EXAMPLES = 24


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("fixtures", type=Path)
    parser.add_argument("-o", "--output", type=Path)
    parser.add_argument("--same", type=Path, metavar="FILE", help="what must come out")
    parser.add_argument("--only", help="one of vectors, losses, tasks")
    args = parser.parse_args()
    found: dict[str, object] = {}
    with tempfile.TemporaryDirectory() as folder:
        if args.only in (None, "vectors"):
            found |= vectors(args.fixtures)
        if args.only in (None, "losses"):
            found |= losses(Path(folder))
        if args.only in (None, "tasks"):
            found |= tasks(args.data, Path(folder))
    if args.output:
        args.output.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    if args.same:
        compare(json.loads(args.same.read_text(encoding="utf-8")), found)


def compare(before: dict[str, object], after: dict[str, object]) -> None:
    """Exit with the names of what differs."""
    different = [
        name
        for name, value in after.items()
        if name in before and not is_same(before[name], value, "finetune" in name)
    ]
    new = sorted(after.keys() - before.keys())
    print(f"{len(after)} results, {len(different)} differ, {len(new)} are new")
    for name in [*different, *new]:
        print(f"  {name}: {before.get(name)} → {after.get(name)}"[:200])
    sys.exit(bool(different))


def is_same(before: object, after: object, is_close: bool) -> bool:
    if not is_close:
        return before == after
    return bool(np.allclose(before, after, rtol=1e-5, atol=1e-5))  # type: ignore[arg-type]


def digest(arrays: Iterable[np.ndarray]) -> str:
    """The bytes of some arrays in a few letters."""
    total = hashlib.sha256()
    for array in arrays:
        total.update(repr(array.shape).encode() + np.ascontiguousarray(array).tobytes())
    return total.hexdigest()[:16]


def engines() -> list[str]:
    from elmokit.engine import native

    return ["torch", *(f"native:{isa}" for isa in native.available())]


def vectors(fixtures: Path) -> dict[str, object]:
    """Digests of what models compute."""
    found: dict[str, object] = {}
    sources = {
        "official": fixtures / "allennlp-elmo", "tf": fixtures / "tf-checkpoint",
        "manylangs": fixtures / "manylangs" / "word-and-char",
        "manylangs-char": fixtures / "manylangs" / "char-only", "en": "en", "ko": "ko",
    }  # fmt: skip
    for name, source in sources.items():
        for engine in engines():
            elmo = Elmo.from_pretrained(source, engine=engine, device="cpu")
            key = f"{name}, {engine}"
            for layers in ("all", "average"):
                found[f"{key}, {layers}"] = digest(elmo.embed(SENTENCES, layers=layers))
            found[f"{key}, alone"] = digest([elmo.embed([s])[0] for s in SENTENCES])
            found[f"{key}, encode"] = digest([elmo.encode(SENTENCES[:-1])])
            found[f"{key}, words"] = digest([elmo.token_vectors(["gift", "배"])])
            output = elmo(SENTENCES[:3])
            found[f"{key}, call"] = digest([output.layers.numpy(), output.mask.numpy()])
            if elmo.softmax is not None and elmo.vocab is not None:
                scores = elmo.score(SENTENCES[:4])
                found[f"{key}, scores"] = [repr(s.forward) + repr(s.backward) for s in scores]
                found[f"{key}, substitutes"] = str(elmo.substitutes(SENTENCES[0], index=5, k=5))
        for state in ("warm", "carry"):
            elmo = Elmo.from_pretrained(source, state=state, device="cpu", engine="torch")
            twice = [*elmo.embed(SENTENCES), *elmo.embed(SENTENCES)]
            found[f"{name}, {state}"] = digest(twice)
    return found


def losses(folder: Path) -> dict[str, object]:
    """Losses of short pre-training runs."""
    text = folder / "text.txt"
    text_words = "the a cat dog bird sees likes red small house in under tree and runs"
    words = text_words.split()
    generator = np.random.default_rng(1)
    lines = [" ".join(generator.choice(words, 4 + i % 9)) + " ." for i in range(600)]
    text.write_text("\n".join(lines) + "\n", encoding="utf-8")
    reading = PrepareConfig(tokenizer="whitespace", sentences="lines", valid_fraction=0.1)
    prepare([text], folder / "corpus", reading, workers=1)
    found: dict[str, object] = {}
    kinds = {
        "lanes": (), "sentences": ("data.reading=sentences",), "full": ("softmax.loss=full",),
        "adagrad": ("train.optimizer=adagrad",),
    }  # fmt: skip
    isas = [name.removeprefix("native:").replace("torch", "none") for name in engines()]
    for isa in isas:
        for kind, settings in kinds.items():
            run = folder / f"run-{isa}-{kind}"
            settings = (
                "train.max_steps=8", "train.beta2=0.99", "train.log_every=1", "data.lanes=4",
                "data.unroll=8",
                "data.batch_tokens=64", "softmax.num_samples=6", *settings,
            )  # fmt: skip
            elmokit(
                "pretrain", folder / "corpus", "-o", run, "--preset", "tiny", "--device", "cpu",
                *options(settings), isa=isa,
            )  # fmt: skip
            rows = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
            found[f"pretrain, {kind}, {isa}"] = [row["loss"] for row in rows]
    return found


def tasks(data: Path, folder: Path) -> dict[str, object]:
    """Losses and scores of task models, on a few examples."""
    found: dict[str, object] = {}
    for task, settings in TASKS.items():
        train = few_examples(task, data, folder)
        arms = {"none": (), "both": ("--model", "en")}
        if task == "ner":
            arms["finetune"] = ("--model", "en", "--finetune-bilm")
        for arm, more in arms.items():
            run = folder / f"{task}-{arm}"
            place = "input" if arm == "finetune" else arm
            elmokit(
                "train", task, "--train", train, "--dev", train, "-o", run, "--elmo", place,
                "--device", "cpu", *more, *options((*SMALL_WORDS, *settings)), isa="none",
            )  # fmt: skip
            log = (run / "seed-1" / "log.jsonl").read_text(encoding="utf-8").splitlines()
            rows = [json.loads(line) for line in log]
            found[f"{task}, {arm}"] = [row["loss"] for row in rows]
    return found


def few_examples(task: str, data: Path, folder: Path) -> Path:
    """The first examples of a task's development data."""
    if task == "coref":
        target = folder / "coref"
        target.mkdir()
        for path in sorted((data / "coref/litbank/dev").iterdir())[:2]:
            lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
            end = next(i for i, line in enumerate(lines) if i > 300 and not line.strip())
            (target / path.name).write_text("".join([*lines[: end + 1], "#end document\n"]))
        return target
    name, kind = {
        "ner": ("ner/en-ewt/dev.iob2.gz", "blocks"), "sentiment": ("sst5/dev.txt", "lines"),
        "squad": ("squad/dev.json.gz", "squad"), "snli": ("snli/dev.jsonl.gz", "lines"),
        "srl": ("srl/dev.jsonl.gz", "lines"),
    }[task]  # fmt: skip
    raw = (data / name).read_bytes()
    text = (gzip.decompress(raw) if name.endswith(".gz") else raw).decode()
    if kind == "squad":
        values = json.loads(text)
        article = values["data"][0]
        values["data"] = [article | {"paragraphs": article["paragraphs"][:3]}]
        text = json.dumps(values)
    else:
        separator = "\n" if kind == "lines" else "\n\n"
        text = separator.join(text.split(separator)[:NUM_EXAMPLES]) + "\n"
    target = folder / name.replace("/", "-").removesuffix(".gz")
    target.write_text(text, encoding="utf-8")
    return target


def options(settings: Iterable[str]) -> list[str]:
    return [part for setting in settings for part in ("--set", setting)]


def elmokit(*arguments: object, isa: str) -> None:
    """Run the command line."""
    environment = os.environ | {"ELMOKIT_ISA": isa, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "elmokit", *map(str, arguments), "--quiet"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)}\n{done.stderr}")


if __name__ == "__main__":
    main()
