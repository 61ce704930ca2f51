"""`elmokit bench` measures every engine that the machine has."""

import json
from pathlib import Path

import pytest
from strategies import make_tiny
from typer.testing import CliRunner

from elmokit.cli import app
from elmokit.engine import native


def test_bench_tells_rates_of_every_engine(tmp_path: Path) -> None:
    make_tiny().save_pretrained(tmp_path / "tiny")
    (tmp_path / "text").write_text("a cat sat\n\non a mat today\n", encoding="utf-8")
    arguments = ["bench", str(tmp_path / "tiny"), "--rounds", "1", "--text", str(tmp_path / "text")]
    result = CliRunner().invoke(app, [*arguments, "--json"])
    assert result.exit_code == 0, result.output
    facts = json.loads(result.stdout)
    engines = {"torch", *(f"native ({isa})" for isa in native.available())}
    assert {row["engine"] for row in facts["rows"]} == engines
    assert len(facts["rows"]) == 3 * len(engines)
    assert all(row["tokens_per_s"] > 0 for row in facts["rows"])
    assert facts["sgemm_gflops"] > 0 and facts["peak_rss_mb"] > 0


@pytest.mark.long
def test_bench_prints_a_table(tmp_path: Path) -> None:
    make_tiny().save_pretrained(tmp_path / "tiny")
    result = CliRunner().invoke(app, ["bench", str(tmp_path / "tiny"), "--rounds", "1"])
    assert result.exit_code == 0, result.output
    assert "one sentence" in result.stdout and "of sgemm" in result.stdout
