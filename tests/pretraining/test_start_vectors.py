"""Static vectors as the start of a run."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from strategies import assert_refused, make_tiny

from elmokit.corpus.corpus import Corpus
from elmokit.pretraining import run as run_module
from elmokit.pretraining import start_vectors as vectors_module
from elmokit.pretraining.config import PretrainConfig
from elmokit.pretraining.records import read_log
from elmokit.pretraining.run import pretrain
from elmokit.pretraining.setup import batch_reader, fit_to_corpus, new_model
from elmokit.pretraining.start_vectors import (
    NOISE,
    embed_similarities,
    kiwi_vectors,
    read_start_vectors,
    rotate,
    start_from_vectors,
)
from elmokit.vectors.static import StaticVectors

DIM = 6


@pytest.fixture
def vectors(corpus: Path, tmp_path: Path) -> Path:
    """A file with vectors for all but three of the corpus's words, and for others."""
    words = [*Corpus.open(corpus).words[6:], "elsewhere"]
    matrix = np.random.default_rng(3).normal(size=(len(words), DIM)) + 1
    lines = [f"{word} {' '.join(map(str, row))}" for word, row in zip(words, matrix)]
    path = tmp_path / "vectors.txt"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.fixture
def quick(config: PretrainConfig) -> PretrainConfig:
    return config.override("train.vector_steps=40")


def cosines(matrix: np.ndarray) -> np.ndarray:
    unit = matrix / np.linalg.norm(matrix, axis=1, keepdims=True)
    return unit @ unit.T


@pytest.mark.parametrize("width", [6, 20])
def test_rotation_keeps_angles(width: int) -> None:
    matrix = np.random.default_rng(0).normal(size=(50, 6)).astype(np.float32) * 7 + 3
    rotated = rotate(matrix, width, seed=1)
    assert rotated.shape == (50, width)
    np.testing.assert_allclose(rotated.std(), 1, rtol=1e-5)
    np.testing.assert_allclose(cosines(rotated), cosines(matrix - matrix.mean(axis=0)), atol=1e-5)
    assert not np.allclose(rotated, rotate(matrix, width, seed=2))


def test_narrow_vectors_keep_the_strongest_components() -> None:
    generator = np.random.default_rng(0)
    strong = generator.normal(size=(200, 4)) @ generator.normal(size=(4, 30))
    matrix = (strong + 1e-3 * generator.normal(size=(200, 30))).astype(np.float32)
    np.testing.assert_allclose(
        cosines(rotate(matrix, 4, seed=1)), cosines(matrix - matrix.mean(axis=0)), atol=1e-2
    )


def test_softmax_and_encoder_start_from_the_vectors(
    corpus: Path, vectors: Path, quick: PretrainConfig
) -> None:
    text = Corpus.open(corpus)
    config = fit_to_corpus(quick, text)
    plain, elmo = new_model(config, text), new_model(config, text)
    found = read_start_vectors(vectors, text, 8, seed=1)
    assert found.words.tolist() == list(range(6, text.num_words))
    assert found.coverage == (text.num_words - 6) / (text.num_words - 3)
    reader = batch_reader(elmo, text, torch.device("cpu"))
    fractions: list[float] = []
    record = start_from_vectors(
        elmo, found, text, reader, steps=300, seed=1, on_progress=fractions.append
    )
    assert elmo.softmax is not None and plain.softmax is not None
    rows, random = elmo.softmax.weight.detach(), plain.softmax.weight.detach()
    torch.testing.assert_close(rows[:6], random[:6])  # no vector: as before
    targets = torch.from_numpy(found.targets)
    unit = targets / targets.norm(dim=1, keepdim=True)
    torch.testing.assert_close(rows[6:], unit + NOISE * random[6:])
    torch.testing.assert_close(elmo.softmax.bias, plain.softmax.bias)
    with torch.no_grad():
        x = elmo.bilm.encoder(reader.token_ids(found.words))
    error = float((x - targets).square().mean())
    assert error < 0.7 and abs(record["error"] - error) < 0.15
    assert record["steps"] == 300 and fractions[-1] == 1 and len(fractions) == 300


def test_a_run_starts_from_vectors_and_resumes_without_them(
    corpus: Path, vectors: Path, quick: PretrainConfig, tmp_path: Path
) -> None:
    whole = tmp_path / "whole"
    pretrain(corpus, whole, quick, vectors=vectors, device="cpu")
    record = json.loads((whole / "run.json").read_text())["vectors"]
    assert record["source"] == str(vectors) and record["steps"] == 40 and 0 < record["error"] < 1.5
    assert "static vectors of vectors.txt, which cover 94% of the vocabulary" in (
        whole / "README.md"
    ).read_text(encoding="utf-8")
    pretrain(corpus, tmp_path / "plain", quick, device="cpu")
    assert _losses(tmp_path / "plain") != _losses(whole)
    assert "random weights" in (tmp_path / "plain" / "README.md").read_text(encoding="utf-8")

    def stop(row: dict[str, Any]) -> None:
        if row["step"] == 3:
            raise RuntimeError("killed")

    with pytest.raises(RuntimeError):
        pretrain(corpus, tmp_path / "run", quick, vectors=vectors, device="cpu", on_row=stop)
    vectors.unlink()
    pretrain(corpus, tmp_path / "run", quick, device="cpu", resume=True)
    assert _losses(tmp_path / "run") == _losses(whole)
    assert json.loads((tmp_path / "run" / "run.json").read_text())["vectors"] == record


def test_a_run_killed_while_it_fits_starts_with_its_vectors_again(
    corpus: Path, vectors: Path, quick: PretrainConfig, tmp_path: Path
) -> None:
    def stop(name: str, share: float) -> None:
        if share > 0.5:
            raise RuntimeError("killed")

    run = tmp_path / "run"
    with pytest.raises(RuntimeError):
        pretrain(corpus, run, quick, vectors=vectors, device="cpu", on_stage=stop)
    aside = vectors.rename(tmp_path / "aside")
    assert_refused(lambda: pretrain(corpus, run, quick, resume=True), str(vectors))
    aside.rename(vectors)
    pretrain(corpus, run, quick, device="cpu", resume=True)
    assert json.loads((run / "run.json").read_text())["vectors"]["steps"] == 40


def test_a_run_killed_right_after_it_kept_its_start_resumes_without_the_vectors(
    corpus: Path, vectors: Path, quick: PretrainConfig, tmp_path: Path, monkeypatch: Any
) -> None:
    def stop(folder: Path, state: Any) -> None:
        save_state(folder, state)
        raise RuntimeError("killed")

    run, save_state = tmp_path / "run", run_module.save_state
    with monkeypatch.context() as patched, pytest.raises(RuntimeError):
        patched.setattr(run_module, "save_state", stop)
        pretrain(corpus, run, quick, vectors=vectors, device="cpu")
    record = json.loads((run / "run.json").read_text())
    assert record["vectors"]["coverage"] > 0.9
    del record["vectors"]["coverage"]  # as older releases left it
    (run / "run.json").write_text(json.dumps(record))
    vectors.unlink()
    pretrain(corpus, run, quick, device="cpu", resume=True)
    assert "static vectors of vectors.txt |" in (run / "README.md").read_text(encoding="utf-8")
    record["vectors"]["coverage"] = "all"
    (run / "run.json").write_text(json.dumps(record))
    assert_refused(lambda: pretrain(corpus, run, quick, resume=True), "vectors.coverage='all'")


def test_mistakes_are_told_and_leave_nothing_behind(
    corpus: Path, vectors: Path, quick: PretrainConfig, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    make_tiny().save_pretrained(tmp_path / "model")
    source = str(tmp_path / "model")
    assert_refused(
        lambda: pretrain(corpus, run, quick, source=source, vectors=vectors), "--from", "vectors"
    )
    assert_refused(lambda: pretrain(corpus, run, quick, vectors=tmp_path / "no"), "no", "No such")
    (tmp_path / "other").write_text("elsewhere 1 2 3\n")
    assert_refused(
        lambda: pretrain(corpus, run, quick, vectors=tmp_path / "other"), "no vector for any word"
    )
    assert not run.exists()
    pretrain(corpus, run, quick, vectors=vectors, device="cpu")
    assert_refused(
        lambda: pretrain(corpus, run, quick, vectors=tmp_path / "other", resume=True),
        "started from",
        "without --vectors",
    )
    pretrain(corpus, run, quick, vectors=vectors, device="cpu", resume=True)


def test_a_model_card_of_somebody_else_stays(
    corpus: Path, quick: PretrainConfig, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    pretrain(corpus, run, quick.override("train.max_steps=2"), device="cpu")
    (run / "README.md").write_text("mine")
    pretrain(corpus, run, quick, device="cpu", resume=True)
    assert (run / "README.md").read_text() == "mine"
    pretrain(corpus, run, quick.override("train.max_steps=2"), device="cpu", force=True)
    assert (run / "README.md").read_text() == "mine"


def test_cosines_to_anchors_give_the_vectors_back() -> None:
    generator = np.random.default_rng(0)
    points = generator.normal(size=(300, 10))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    anchors = np.arange(0, 300, 15)
    similarities = (points[anchors] @ points.T).astype(np.float32)
    similarities[:, 7] = -1e5  # has no vector
    found = embed_similarities(similarities, anchors)
    assert found.shape == (300, 10) and not found[7].any()
    kept = np.arange(300) != 7
    np.testing.assert_allclose(found[kept] @ found[kept].T, cosines(points[kept]), atol=1e-4)


def test_kiwi_has_vectors_for_morphemes(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("kiwipiepy", minversion="0.21")
    monkeypatch.setattr(vectors_module, "NUM_ANCHORS", 24)
    found = kiwi_vectors()
    assert isinstance(found, StaticVectors) and found.dim <= 24
    assert {"배", "눈", "빨갛", "ㄴ다", "는"} <= found.words.keys() and "" not in found.words
    matrix = found.matrix - found.matrix.mean(axis=0)
    red, blue, eat = (matrix[found.words[word]] for word in ("빨갛", "파랗", "은행"))
    assert _cosine(red, blue) > _cosine(red, eat)


def _cosine(a: np.ndarray, b: np.ndarray) -> float:
    return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))


def _losses(run: Path) -> list[tuple[int, float]]:
    return [(row["step"], row["loss"]) for row in read_log(run / "log.jsonl")]
