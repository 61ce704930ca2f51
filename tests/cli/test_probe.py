"""`elmokit probe` prints tables and JSON, and fails in one line."""

import json
from pathlib import Path
from typing import Any

import pytest

import elmokit

HOMOGRAPHS = Path(elmokit.__file__).parent / "builtin" / "examples" / "en_homographs.tsv"


@pytest.fixture
def conllu(tmp_path: Path) -> Path:
    path = tmp_path / "t.conllu"
    rows = [("the", "DET"), ("dog", "NOUN"), ("runs", "VERB")]
    rest = "\t_" * 6
    lines = [f"{i}\t{w}\t_\t{t}{rest}" for i, (w, t) in enumerate(rows, 1)]
    path.write_text(("\n".join(lines) + "\n\n") * 4, encoding="utf-8")
    return path


@pytest.fixture
def wsd(tmp_path: Path) -> list[object]:
    """Arguments for a word of two senses, one of which is in the training data."""
    key, other = "bank%1:17:01::", "bank%1:14:00::"
    tokens = [["the", "the", "DT", []], ["bank", "bank", "NN", [other]]]
    (tmp_path / "s.jsonl").write_text(json.dumps({"tokens": tokens}) + "\n")
    (tmp_path / "index.sense").write_text(f"{key} 1 1 9\n{other} 2 2 3\n")
    folder = tmp_path / "toy"
    folder.mkdir()
    word = '<instance id="i" lemma="bank" pos="NOUN">bank</instance>'
    (folder / "toy.data.xml").write_text(f"<corpus><sentence>{word}</sentence></corpus>")
    (folder / "toy.gold.key.txt").write_text(f"i {other}\n")
    options = ["--train", tmp_path / "s.jsonl", "--test", folder]
    return [*options, "--wordnet", tmp_path / "index.sense"]


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    path = tmp_path / "p.tsv"
    rows = ["id\tscore\tsentence1\tsentence2"]
    rows += [f"{i}\t{i}.5\tA dog runs .\t{text}" for i, text in enumerate(("No", "A dog", "Dogs"))]
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return path


def test_pos(run: Any, model: Path, conllu: Path, tmp_path: Path) -> None:
    vectors = tmp_path / "v.txt"
    vectors.write_text("the 1 0\ndog 0 1\n")
    options = ("--train", conllu, "--dev", conllu, "--static", vectors)
    result = json.loads(run("probe", "pos", model, *options, "--json").stdout)
    assert result["accuracy"]["most frequent tag"] == result["accuracy"]["0"] == 1
    assert result["static_coverage"] == pytest.approx(2 / 3)
    table = run("probe", "pos", model, *options, "--max-sentences", 2).stdout
    assert "trained on 2 sentences (6 tokens), scored on 12 tokens" in table


def test_wsd(run: Any, model: Path, wsd: list[object]) -> None:
    result = json.loads(run("probe", "wsd", model, *wsd, "--json").stdout)
    assert result["f1"]["first sense"] == {"toy": 0, "all": 0}
    assert result["f1"]["2"] == {"toy": 1, "all": 1}
    assert "first sense    0.0    0.0" in run("probe", "wsd", model, *wsd).stdout


def test_similarity(run: Any, model: Path, pairs: Path) -> None:
    options = ("--data", pairs, "--pooling", "mean,max")
    result = json.loads(run("probe", "similarity", model, *options, "--json").stdout)
    assert list(result["spearman"]) == ["0", "1", "2", "average"]
    assert result["pairs"] == 3 and result["pooling"] == ["mean", "max"]
    assert "3 pairs, pooling mean + max" in run("probe", "similarity", model, *options).stdout


def test_homographs(run: Any, model: Path) -> None:
    options = ("--data", HOMOGRAPHS)
    result = json.loads(run("probe", "homographs", model, *options, "--json").stdout)
    assert result["accuracy"]["0"]["bank"] == 0.5 and result["occurrences"]["all"] == 80
    assert run("probe", "homographs", model, *options).stdout.startswith("word ")


@pytest.mark.parametrize(
    ("verb", "options", "mention"),
    [
        ("pos", ("--train", "no.conllu", "--dev", "no.conllu"), "no.conllu"),
        ("pos", ("--train", "x", "--dev", "x", "--tag", "tags"), "upos or xpos"),
        ("wsd", ("--train", "a", "--test", "b", "--wordnet", "no.sense"), "no.sense"),
        ("similarity", ("--data", "no.tsv"), "no.tsv"),
        ("similarity", ("--data", HOMOGRAPHS, "--pooling", "sum"), "pooling='sum'"),
        ("similarity", ("--data", HOMOGRAPHS), "en_homographs.tsv"),
        ("homographs", ("--data", "no.tsv"), "no.tsv"),
    ],
)
def test_failure_is_one_line(
    run: Any, model: Path, verb: str, options: tuple[object, ...], mention: str
) -> None:
    result = run("probe", verb, model, *options, "-q", code=1)
    assert result.stdout == "" and mention in result.stderr
    assert result.stderr.startswith("elmokit: ") and result.stderr.count("\n") == 1


def test_help_fits_a_terminal(run: Any) -> None:
    assert "homographs" in run("probe", "--help").stdout
    for verb in ("pos", "wsd", "similarity", "homographs"):
        assert all(len(line) <= 80 for line in run("probe", verb, "-h").stdout.splitlines())


def test_homographs_with_training_data(run: Any, model: Path) -> None:
    result = json.loads(run("probe", "homographs", model, "--train", HOMOGRAPHS, "--json").stdout)
    assert set(result["accuracy"]) == {"0", "1", "2", "average", "majority"}
    options = ("--train", HOMOGRAPHS, "--dev", HOMOGRAPHS)
    assert "80 to score" in run("probe", "homographs", model, *options).stdout
    for wrong in ([], ["--data", HOMOGRAPHS, "--train", HOMOGRAPHS], ["--dev", HOMOGRAPHS]):
        assert "expected either --data" in run("probe", "homographs", model, *wrong, code=1).stderr


def test_wic(run: Any, model: Path, tmp_path: Path) -> None:
    path = tmp_path / "wic.tsv"
    path.write_text("word\tsentence1\tsentence2\tsame\na\t[a] b\t[a] b\ttrue\n")
    options = ("--train", path, "--dev", path)
    assert json.loads(run("probe", "wic", model, *options, "--json").stdout)["accuracy"]["1"] == 1
    assert "1 training pairs, 1 to score" in run("probe", "wic", model, *options).stdout


def test_minimal_pairs(run: Any, tmp_path: Path) -> None:
    path = tmp_path / "pairs.jsonl"
    path.write_text(
        '{"good": "She has seen him.", "bad": "Him seen has she.", "phenomenon": "x"}\n'
    )
    result = json.loads(run("probe", "minimal-pairs", "en", path, "--json").stdout)
    assert result["pairs"] == {"x": 1, "all": 1}
    assert "phenomenon" in run("probe", "minimal-pairs", "en", path).stdout


def test_all_measures_side_by_side(run: Any, model: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    (data / "wic" / "ko-kobest").mkdir(parents=True)
    for name in ("train", "dev"):
        text = "word\tsentence1\tsentence2\tsame\na\t[a] b\t[a] b\ttrue\n"
        (data / "wic" / "ko-kobest" / f"{name}.tsv").write_text(text)
    (data / "pos" / "ko-kaist").mkdir(parents=True)
    rest = "\t_" * 6
    for name in ("train", "dev"):
        lines = [f"{i}\t{w}\t_\t{t}{rest}" for i, (w, t) in enumerate([("a", "X"), ("b", "Y")], 1)]
        path = data / "pos" / "ko-kaist" / f"{name}.conllu"
        path.write_text(("\n".join(lines) + "\n\n") * 4, encoding="utf-8")
    (data / "korsts").mkdir()
    rows = [f"{i}.5\ta b\t{text}" for i, text in enumerate(("a", "a b", "c"))]
    (data / "korsts" / "dev.tsv").write_text("score\tsentence1\tsentence2\n" + "\n".join(rows))
    result = run("probe", "all", model, "ko", "--data", data, "--language", "ko")
    assert result.stdout.splitlines()[0].split()[0] == "measure"
    assert "same sense or not, accuracy" in result.stdout
    assert "similarity of ko done, 6 of 6" in result.stderr
    facts = json.loads(
        run("probe", "all", model, "--data", data, "--language", "ko", "--json", "-q").stdout
    )
    assert [row["measure"] for row in facts] == ["pos", "wic", "similarity"]
    assert (
        "expected en or ko"
        in run("probe", "all", model, "--data", data, "--language", "fr", code=1).stderr
    )
    assert "no pos/en-ewt" in run("probe", "all", model, "--data", data, code=1).stderr
