"""Which device computes, and that none but the CPU ever sees float64."""

import ast
import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from stand_in import stand_in
from strategies import assert_close, assert_refused, make_tiny, tiny_config
from task_data import TRAIN, WORDS

import elmokit
from elmokit import Elmo
from elmokit.compat import allennlp
from elmokit.formats.load import read_checkpoint
from elmokit.formats.save import write_checkpoint
from elmokit.model import execution
from elmokit.model.execution import find_device
from elmokit.tasks.runs.load import load_task
from elmokit.tasks.runs.train import train_task
from elmokit.tasks.snli import SnliConfig
from elmokit.text.ids import Vocab

PACKAGE = Path(elmokit.__file__).parent
TEXTS = ["He has a gift for music .", "My watch was a birthday gift .", "", "배 가 고프 다"]
PAIRS = (
    '{"sentence1": "A man runs .", "sentence2": "He moves .", "gold_label": "entailment"}\n'
    '{"sentence1": "A man runs .", "sentence2": "He sleeps .", "gold_label": "contradiction"}\n'
)
FRAMES = '{"words": ["He", "came", "."], "frames": [{"pred": 1, "tags": ["B-ARG0", "B-V", "O"]}]}\n'
VOCAB = ("<S>", "</S>", "<UNK>", "a", "gift", "has", "He", "watch")


def machine(monkeypatch: pytest.MonkeyPatch, *, cuda: bool, mps: bool) -> None:
    """Pretend to be a machine with these devices."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: mps)
    execution._mention_mps.cache_clear()


@pytest.mark.parametrize("device", [None, "auto"])
@pytest.mark.parametrize(
    ("cuda", "mps", "chosen"),
    [(True, False, "cuda"), (False, False, "cpu"), (False, True, "cpu"), (True, True, "cuda")],
)
def test_cuda_where_there_is_one_else_the_cpu(
    monkeypatch: pytest.MonkeyPatch, device: str | None, cuda: bool, mps: bool, chosen: str
) -> None:
    machine(monkeypatch, cuda=cuda, mps=mps)
    assert find_device(device) == torch.device(chosen)


def test_a_mac_is_told_once_how_to_use_its_gpu(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    machine(monkeypatch, cuda=False, mps=True)
    for _ in range(3):
        find_device(None)
    find_device("cpu")
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert "device='mps'" in record.getMessage() and "\n" not in record.getMessage()
    caplog.clear()
    machine(monkeypatch, cuda=False, mps=False)
    find_device(None)
    assert not caplog.records


def test_a_device_that_cannot_do_it_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_tiny().save_pretrained(tmp_path / "model")
    load = Elmo.from_pretrained
    assert_refused(lambda: load(tmp_path / "model", device="meta"), "meta")
    monkeypatch.setattr(execution, "_named_device", torch.device)
    assert_refused(
        lambda: load(tmp_path / "model", device="mps", dtype="float64"), "float64", "device='cpu'"
    )
    assert_refused(
        lambda: load(tmp_path / "model", device="mps", precision="int8"), "int8", "device='cpu'"
    )


def test_the_stand_in_has_no_float64(monkeypatch: pytest.MonkeyPatch) -> None:
    with stand_in(monkeypatch) as device:
        x = torch.arange(3.0).to(device)
        assert x.device.type == device and (x + 1).cpu().double().tolist() == [1, 2, 3]
        for call in (
            x.double,
            lambda: torch.tensor([1.0], dtype=torch.float64, device=device),
            lambda: torch.from_numpy(np.ones(2)).to(device),
            lambda: torch.as_tensor(np.ones(2), device=device),
        ):
            with pytest.raises(TypeError, match="no float64"):
                call()
        with pytest.raises(RuntimeError, match="two devices"):
            x + torch.arange(3.0)
        with pytest.raises((TypeError, RuntimeError)):
            x.numpy()


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """The folder of a tiny model with a softmax."""
    config = tiny_config(num_softmax_words=len(VOCAB), tokenizer="whitespace")
    make_tiny(config, vocab=Vocab(VOCAB)).save_pretrained(tmp_path / "model")
    return tmp_path / "model"


def answers(elmo: Elmo) -> dict[str, Any]:
    """What a model can be asked."""
    tokens = TEXTS[0].split()
    found: dict[str, Any] = {
        f"embed {layers}": np.concatenate(elmo.embed(TEXTS, layers=layers), axis=-2)
        for layers in ("average", "all", "top", "mix", 0)
    }
    found["sentences"] = elmo.encode([text for text in TEXTS if text])
    found["words"] = elmo.token_vectors(["gift", "배"])
    found["stream"] = np.concatenate(list(elmo.embed_stream(TEXTS)))
    found["score"] = [(score.forward, score.backward) for score in elmo.score(TEXTS)]
    found["perplexity"] = elmo.perplexity(TEXTS)[:5]
    found["streams"] = elmo.perplexity(TEXTS, streams=2)[:5]
    found["bits"] = elmo.perplexity(TEXTS).bits_per_character
    found["substitutes"] = [s[1:] for s in elmo.substitutes(tokens, 3, index=3).best]
    output = elmo([tokens, ["a"]])
    found["layers"] = output.layers.detach().cpu()
    found["mix"] = elmo.mixes["default"](output.layers, output.mask).detach().cpu()
    return {name: np.asarray(value) for name, value in found.items()}


def test_a_model_answers_on_a_device_as_on_the_cpu(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = answers(Elmo.from_pretrained(model, device="cpu", engine="torch"))
    with stand_in(monkeypatch) as device:
        elmo = Elmo.from_pretrained(model, device=device)
        assert elmo.device.type == device
        got = answers(elmo)
    for name, array in expected.items():
        assert_close(got[name], array)


def test_allennlps_names_compute_on_a_device(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_checkpoint(read_checkpoint(model), tmp_path / "pair", "official")
    files = tmp_path / "pair/options.json", tmp_path / "pair/weights.hdf5"
    ids = allennlp.batch_to_ids([TEXTS[0].split(), ["a"]])

    def run(device: str) -> np.ndarray:
        elmo = allennlp.Elmo(*files, 1, do_layer_norm=True, requires_grad=True).to(device).eval()
        (vectors,) = elmo(ids.to(device))["elmo_representations"]
        vectors.square().sum().backward()
        return np.asarray(vectors.detach().cpu())

    expected = run("cpu")
    with stand_in(monkeypatch) as device:
        assert_close(run(device), expected)


def test_a_task_learns_on_a_device(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tmp_path / "pairs.jsonl"
    data.write_text(PAIRS, encoding="utf-8")
    config = SnliConfig(words=WORDS, train=replace(TRAIN, epochs=1), dim=6)
    with stand_in(monkeypatch) as device:
        train_task("snli", data, data, model, tmp_path / "run", config, device=device)
        assert load_task(tmp_path / "run", device=device).evaluate(data)["examples"] == 2


# Their tensors never leave the CPU.
ON_THE_CPU = {"engine/torch_lstm.py", "engine/packed.py", "probes/layers.py", "probes/pos.py"}
# An integer made of a float64 on the CPU, and the names of the types.
NAMED = {"pretraining/distributed.py", "model/execution.py", "engine/plain.py"}


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda p: p.name)
def test_tensors_become_float64_on_the_cpu_only(path: Path) -> None:
    name = path.relative_to(PACKAGE).as_posix()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        code = ast.unparse(node) if isinstance(node, ast.Attribute) else ""
        if code.endswith(".double"):
            assert code.endswith(".cpu().double") or name in ON_THE_CPU, f"{name}: {code}"
        if code == "torch.float64":
            assert name in ON_THE_CPU | NAMED, f"{name}: {code}"
