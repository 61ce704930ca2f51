"""Our `compat.allennlp.Elmo` beside the real one, on random Unicode batches: one table.

    benchmarks/peers/install.sh
    python benchmarks/peers/parity.py OPTIONS.json WEIGHTS.hdf5 [--peers FOLDER]

Every case runs several batches in a row, so that the carried state is compared, too. The last
rows use a model that elmokit wrote, and models that went through the other side's `state_dict`.
"""

import argparse
import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch

from elmokit import Elmo as Model
from elmokit import ElmoConfig
from elmokit.compat.allennlp import Elmo, batch_to_ids
from elmokit.config import CharCnnConfig, EncoderConfig, LstmConfig
from elmokit.io.load import read_checkpoint
from elmokit.io.save import write_checkpoint

HERE = Path(__file__).resolve().parent
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
    arguments: dict[str, dict[str, Any]] = {
        "plain": {},
        "two mixes": {"num_output_representations": 2},
        "layer norm": {"do_layer_norm": True},
        "boundaries": {"keep_sentence_boundaries": True},
        "layer norm, boundaries": {"do_layer_norm": True, "keep_sentence_boundaries": True},
        "fixed mix": {"scalar_mix_parameters": [-9e10, 1.0, -9e10]},
        "fixed mix, layer norm": {"scalar_mix_parameters": [0.3, -1, 2], "do_layer_norm": True},
        "fine-tuned": {"requires_grad": True},
        "fine-tuned, layer norm": {"requires_grad": True, "do_layer_norm": True},
    }
    table = {}
    for i, (name, values) in enumerate(arguments.items()):
        case = {"options": options, "weights": weights, "batches": batches(i, 6)}
        table[name] = case | {"arguments": {"num_output_representations": 1, **values}}

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
    table["random pair by elmokit"] = table["plain"] | ours
    table["our state dict in AllenNLP"] = table["plain"] | {"state_dict_in": str(folder / "our.th")}
    table["their state dict here"] = table["plain"] | {"state_dict_out": str(folder / "their.th")}
    return table


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


def write_changed_state(case: dict[str, Any], path: str) -> Elmo:
    """A model of ours whose weights were moved a little, saved by its state dict."""
    elmo = Elmo(case["options"], case["weights"], **case["arguments"])
    with torch.no_grad():
        for parameter in elmo.parameters():
            parameter.mul_(1.02).add_(1e-4)
    torch.save(elmo.state_dict(), path)
    return elmo


def compare(case: dict[str, Any], name: str, reference: Any) -> dict[str, float]:
    """The greatest absolute differences of one case."""
    elmo = Elmo(case["options"], case["weights"], **case["arguments"]).eval()
    for way in ("state_dict_in", "state_dict_out"):
        if case.get(way):
            elmo.load_state_dict(torch.load(case[way], weights_only=True))
    worst: dict[str, float] = {}
    for i, batch in enumerate(case["batches"]):
        words = torch.tensor(case["word_ids"][i]) if case.get("word_ids") else None
        ids = batch_to_ids(batch)
        output = elmo(ids, words)
        got = {"ids": ids, "mask": output["mask"]}
        got |= {f"elmo_{k}": v for k, v in enumerate(output["elmo_representations"])}
        if case["arguments"].get("requires_grad"):
            elmo.zero_grad()
            sum(v.square().sum() for v in output["elmo_representations"]).backward()
            lstm = elmo._elmo_lstm.bilm.backward_lm.layers[1].input_weight.grad
            got["gradients"] = torch.cat([lstm.flatten(), elmo.scalar_mix_0.gamma.grad.reshape(1)])
        for what, tensor in got.items():
            want = reference[f"{name}/{i}/{what}"]
            assert want.shape == tuple(tensor.shape), (name, i, what, want.shape, tensor.shape)
            difference = np.abs(want.astype(np.float64) - tensor.detach().double().numpy())
            scale = max(1.0, float(np.abs(want).max(initial=0))) if what == "gradients" else 1.0
            kind = what.partition("_")[0]
            worst[kind] = max(worst.get(kind, 0.0), float(difference.max(initial=0)) / scale)
    return worst


def main() -> None:
    """Run both sides and print the table."""
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
        reference = np.load(f"{folder}/reference.npz")
        print(
            f"{'greatest absolute difference':34} {'vectors':>9} {'ids':>5} {'mask':>5} gradients"
        )
        for name, case in table.items():
            worst = compare(case, name, reference)
            gradients = f"{worst['gradients']:9.1e}" if "gradients" in worst else ""
            print(
                f"{name:34} {worst['elmo']:9.1e} {worst['ids']:5g} {worst['mask']:5g} {gradients}"
            )


if __name__ == "__main__":
    main()
