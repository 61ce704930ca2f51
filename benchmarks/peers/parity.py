"""Our `compat.allennlp` beside AllenNLP itself, case by case: one table.

    benchmarks/peers/install.sh benchmarks/.peers allennlp
    python benchmarks/peers/parity.py OPTIONS.json WEIGHTS.hdf5 [--peers FOLDER]

Both sides run the functions of `allennlp_reference.py`: random Unicode batches in a row (so that
the carried state is compared, too), dropout with equal seeds, gradients of every parameter, steps
of SGD with a penalty, states changed by hand, models that elmokit wrote, state dicts of the other
side, and `ScalarMix` under every type of mask. Fails where a difference is more than rounding.
"""

import argparse
import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from allennlp_reference import MASKS, l2_penalty, run

from elmokit import Elmo as Model
from elmokit import ElmoConfig
from elmokit.compat import allennlp
from elmokit.config import CharCnnConfig, EncoderConfig, LstmConfig
from elmokit.formats.load import read_checkpoint
from elmokit.formats.save import write_checkpoint

HERE = Path(__file__).resolve().parent
OURS = SimpleNamespace(
    Elmo=allennlp.Elmo,
    ElmoBiLm=allennlp._ElmoBiLm,
    ElmoCharacterEncoder=allennlp._ElmoCharacterEncoder,
    ScalarMix=allennlp.ScalarMix,
    batch_to_ids=allennlp.batch_to_ids,
    remove_boundaries=allennlp.remove_sentence_boundaries,
    penalty=l2_penalty,
)
ALPHABETS = (
    "abcdefghij",
    "0123456789.,",
    "가나다라마바사한국어",
    "éßñøçăß",
    "日本語漢字",
    "😀🎉👩🏽‍🚀",
    "\u0301\u200b\x00",
)


def batches(seed: int, number: int) -> list[list[list[str]]]:
    """Random sentences: empty ones, single tokens, long words, marks in the text."""
    rng = random.Random(seed)

    def word() -> str:
        if rng.random() < 0.05:
            return rng.choice(["<S>", "</S>", "<UNK>", "", "@@PADDING@@", "x" * 48, "x" * 49])
        letters = rng.choice(ALPHABETS)
        return "".join(rng.choice(letters) for _ in range(rng.choice([1, 2, 3, 5, 8, 30])))

    result = []
    for _ in range(number):
        lengths = [rng.choice([0, 1, 2, 5, 9, 20]) for _ in range(rng.choice([1, 2, 4, 7]))]
        lengths[rng.randrange(len(lengths))] = rng.choice([1, 3, 12])  # AllenNLP needs one token
        result.append([[word() for _ in range(n)] for n in lengths])
    return result


def cases(options: str, weights: str, folder: Path) -> dict[str, Any]:
    """The names and arguments of all comparisons."""
    files = {"options": options, "weights": weights}
    table = elmo_cases(files)
    vocabulary = ["@@PADDING@@", "@@UNKNOWN@@", "the", "cat", "고양이", "<S>", "x" * 60]
    known = [[[rng % 6 + 1 for rng in range(k, k + n)] for n in (4, 4, 4)] for k in range(3)]
    spelled = [[[vocabulary[w] for w in row] for row in batch] for batch in known]
    table["cached words"] = table["plain"] | {
        "arguments": {"num_output_representations": 1, "vocab_to_cache": vocabulary},
        "batches": spelled,
        "word_ids": known,
    }
    ours = write_pair(read_checkpoint(weights), folder / "rewritten")
    table["pair rewritten by elmokit"] = table["plain"] | ours
    ours = write_pair(random_model().to_checkpoint(), folder / "random")
    table["random pair by elmokit"] = table["fine-tuned"] | ours
    table["our state dict in AllenNLP"] = table["plain"] | {"state_dict_in": str(folder / "our.th")}
    table["their state dict here"] = table["plain"] | {"state_dict_out": str(folder / "their.th")}
    return table | part_cases(files) | training_cases(files) | mix_cases()


def elmo_cases(files: dict[str, str]) -> dict[str, Any]:
    """Batches in a row through `Elmo`, evaluated or in training mode."""
    arguments: dict[str, dict[str, Any]] = {
        "plain": {},
        "two representations": {"num_output_representations": 2},
        "layer norm": {"do_layer_norm": True},
        "boundaries": {"keep_sentence_boundaries": True},
        "layer norm, boundaries": {"do_layer_norm": True, "keep_sentence_boundaries": True},
        "fixed mix": {"scalar_mix_parameters": [-9e10, 1.0, -9e10]},
        "fixed mix, layer norm": {"scalar_mix_parameters": [0.3, -1, 2], "do_layer_norm": True},
        "fine-tuned": {"requires_grad": True},
        "fine-tuned, layer norm": {"requires_grad": True, "do_layer_norm": True},
    }
    table: dict[str, Any] = {}
    for i, (name, values) in enumerate(arguments.items()):
        table[name] = {
            **files,
            "kind": "elmo_batches",
            "batches": batches(i, 6),
            "arguments": {"num_output_representations": 1, **values},
        }
    three = {"num_output_representations": 3}
    for name, values in (("three mixes", {}), ("three mixes, layer norm", {"do_layer_norm": True})):
        table[name] = table["plain"] | {"arguments": {**three, **values}, "unequal_mixes": 3}
    for p in (0, 0.5, 1):
        table[f"dropout {p}, training"] = table["plain"] | {
            "arguments": {**three, "dropout": p},
            "train": True,
        }
    return table


def part_cases(files: dict[str, str]) -> dict[str, Any]:
    """What scripts reach for inside of `Elmo`."""
    sizes = {len(batch): batch for batch in batches(1, 40)}
    one = {**files, "arguments": {"num_output_representations": 1}}
    three = {**files, "arguments": {"num_output_representations": 3, "requires_grad": True}}
    return {
        "states, by hand": one | {"kind": "elmo_states", "batches": [sizes[7], sizes[4], sizes[1]]},
        "token embedder, boundaries": one | {"kind": "parts", "batches": batches(2, 4)},
        "names and shapes": three | {"kind": "names"},
    }


def training_cases(files: dict[str, str]) -> dict[str, Any]:
    """Steps of SGD with a penalty on the parameters that a regular expression finds."""
    table = {}
    for name, pattern, values in (
        ("scalars", ".*scalar_parameters.*", {}),
        ("scalars, fine-tuned", ".*scalar_parameters.*", {"requires_grad": True}),
        (
            "LSTM, layer norm",
            "_elmo_lstm.*_layer_1",
            {"requires_grad": True, "do_layer_norm": True},
        ),
        ("everything", ".*", {"requires_grad": True}),
    ):
        table[f"SGD, penalty: {name}"] = {
            **files,
            "kind": "elmo_training",
            "batches": batches(3, 5),
            "regulariser": pattern,
            "arguments": {"num_output_representations": 2, "dropout": 0, **values},
            "train": True,
            "unequal_mixes": 2,
        }
    return table


def mix_cases() -> dict[str, Any]:
    """`ScalarMix` alone, under every type of mask."""
    return {
        f"mix of {layers}{', layer norm' if norm else ''}": {
            "kind": "mixes",
            "masks": MASKS,
            "layers": layers,
            "layer_norm": norm,
        }
        for layers in ("float32", "float64", "float16")
        for norm in (False, True)
    }


def write_pair(checkpoint: Any, folder: Path) -> dict[str, str]:
    """An official pair, written by elmokit."""
    write_checkpoint(checkpoint, folder / "weights.hdf5")
    return {"options": str(folder / "options.json"), "weights": str(folder / "weights.hdf5")}


def random_model() -> Model:
    """Strong random weights, other widths than the given model's."""
    torch.manual_seed(3)
    cnn = CharCnnConfig(dim=8, filters=((1, 16), (3, 32), (5, 64), (7, 128)), num_highway=1)
    lstm = LstmConfig(dim=256, projection_dim=64, num_layers=2)
    model = Model(ElmoConfig(encoder=EncoderConfig(char_cnn=cnn), lstm=lstm))
    with torch.no_grad():
        for parameter in model.bilm.parameters():
            parameter.mul_(1.5)
    return model


def write_changed_state(case: dict[str, Any], path: str) -> None:
    """A model of ours whose weights were moved a little, saved by its state dict."""
    elmo = allennlp.Elmo(case["options"], case["weights"], **case["arguments"])
    with torch.no_grad():
        for parameter in elmo.parameters():
            parameter.mul_(1.02).add_(1e-4)
    torch.save(elmo.state_dict(), path)


def compare(case: dict[str, Any], name: str, reference: Any) -> dict[str, float]:
    """The greatest difference of each kind, as a share of the greatest value where that is > 1.

    For gradients it is a share of the greatest gradient of the same step: those of the scalars
    are small differences of large sums.
    """
    got = {key: t.detach().double().numpy() for key, t in run(case, OURS).items()}
    want = {k.partition("|")[2]: reference[k] for k in reference if k.startswith(f"{name}|")}
    assert got.keys() == want.keys(), (name, sorted(got.keys() ^ want.keys()))
    worst: dict[str, float] = {}
    steps = {key: "/".join(key.split("/")[:2]) for key in got if key.startswith("gradients/")}
    largest: dict[str, float] = {}
    for key, step in steps.items():
        largest[step] = max(largest.get(step, 0.0), float(np.abs(want[key]).max(initial=0)))
    for key, array in got.items():
        expected = want[key].astype(np.float64)
        assert expected.shape == array.shape, (name, key, expected.shape, array.shape)
        # Infinities and the like have to be the same.
        assert (np.isfinite(expected) == np.isfinite(array)).all(), (name, key)
        finite = np.isfinite(expected)
        difference = np.abs(expected - array, where=finite, out=np.zeros_like(array))
        scale = max(1.0, np.abs(expected[finite]).max(initial=0))
        if key in steps:
            scale = largest[steps[key]] or 1.0
        kind = key.partition("/")[0]
        worst[kind] = max(worst.get(kind, 0.0), difference.max(initial=0) / scale)
    return worst


def tolerance(case: dict[str, Any], kind: str) -> float:
    """What rounding explains."""
    if kind in ("ids", "mask"):
        return 0.0
    return 1e-2 if case.get("layers") == "float16" else 1e-5


def main() -> None:
    """Run both sides, print the table, and fail where a difference is more than rounding."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("options")
    parser.add_argument("weights")
    parser.add_argument("--peers", type=Path, default=HERE.parent / ".peers")
    arguments = parser.parse_args()
    python = arguments.peers / "allennlp" / "bin" / "python"
    if not python.exists():
        sys.exit(f"{python} is missing; run {HERE / 'install.sh'}")
    with tempfile.TemporaryDirectory() as folder:
        table = cases(arguments.options, arguments.weights, Path(folder))
        write_changed_state(table["plain"], f"{folder}/our.th")
        (Path(folder) / "cases.json").write_text(json.dumps(table))
        command = [python, "-W", "ignore", HERE / "allennlp_reference.py"]
        subprocess.run([*command, f"{folder}/cases.json", f"{folder}/reference.npz"], check=True)
        # What AllenNLP saved is what we load.
        for case in table.values():
            if "state_dict_out" in case:
                case["state_dict_in"] = case.pop("state_dict_out")
        if report(table, np.load(f"{folder}/reference.npz")):
            sys.exit(1)


def report(table: dict[str, Any], reference: Any) -> int:
    """Print one row per case; the number of figures that are more than rounding."""
    kinds = ("vectors", "ids", "mask", "states", "gradients", "weights", "loss")
    print(f"{'greatest difference':36}" + "".join(f"{kind:>10}" for kind in kinds))
    wrong = 0
    for name, case in table.items():
        worst = compare(case, name, reference)
        wrong += sum(value > tolerance(case, kind) for kind, value in worst.items())
        shown = (f"{worst[kind]:10.1e}" if kind in worst else " " * 10 for kind in kinds)
        print(f"{name:36}" + "".join(shown).rstrip())
    print(f"{len(reference.files)} arrays compared, {wrong} figures beyond rounding")
    return wrong


if __name__ == "__main__":
    main()
