"""`ELMOKIT_ISA` chooses the instruction set, of inference and of training."""

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from strategies import make_tiny, tiny_config
from typer.testing import CliRunner

from elmokit import Elmo
from elmokit.cli import app
from elmokit.engine import Engine, native
from elmokit.engine.native import Kernel
from elmokit.errors import ConfigError

SETS = native.available()
needs_kernel = pytest.mark.skipif(not SETS, reason="the native kernel is not built")


def test_the_kernel_is_built_where_there_is_a_compiler() -> None:
    compilers = [os.environ.get("CC", "").partition(" ")[0], "cc", "gcc", "clang"]
    if os.environ.get("ELMOKIT_PURE") == "1" or not any(map(shutil.which, filter(None, compilers))):
        pytest.skip("no compiler, or no kernel wanted")
    assert SETS, "there is a compiler, but no kernel that loads; install with pip install -v ."


@needs_kernel
@pytest.mark.parametrize("isa", SETS)
def test_the_variable_chooses_the_set(isa: str, monkeypatch: pytest.MonkeyPatch) -> None:
    elmo = make_tiny()
    expected = elmo.embed(["a cat sat"])[0]
    monkeypatch.setenv("ELMOKIT_ISA", isa)
    assert elmo.engine == f"native ({isa})"
    np.testing.assert_allclose(elmo.embed(["a cat sat"])[0], expected, atol=1e-5)
    assert native.ISAS[Kernel().isa] == isa


def test_none_leaves_the_work_to_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ELMOKIT_ISA", "none")
    assert make_tiny().engine == "torch"
    assert not native.can_train(torch.zeros(1))


def test_an_empty_value_is_none_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ELMOKIT_ISA", raising=False)
    best = make_tiny().engine
    monkeypatch.setenv("ELMOKIT_ISA", "")
    assert make_tiny().engine == best


@needs_kernel
def test_an_explicit_engine_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    bilm = make_tiny().bilm
    monkeypatch.setenv("ELMOKIT_ISA", "portable")
    assert Engine(bilm, f"native:{SETS[-1]}").isa == SETS[-1]
    assert Engine(bilm, "native").isa == "portable"  # it names no set
    assert Engine(bilm, "torch").isa is None
    monkeypatch.setenv("ELMOKIT_ISA", "none")
    assert Engine(bilm, "native").isa == SETS[-1]
    monkeypatch.setenv("ELMOKIT_ISA", "mmx")
    assert Engine(bilm, f"native:{SETS[-1]}").isa == SETS[-1]
    assert Engine(bilm, "torch").isa is None


@pytest.mark.parametrize("value", ["mmx", "AVX2", "torch", " avx2"])
def test_an_unknown_set_is_an_error_of_one_line(
    value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ELMOKIT_ISA", value)
    elmo = Elmo(tiny_config())  # which may never compute
    for use in (lambda: elmo.embed("a b"), Kernel, lambda: elmo.engine):
        with pytest.raises(ConfigError, match=r"^ELMOKIT_ISA='.*': expected portable, avx2") as e:
            use()
        assert "\n" not in str(e.value)


def test_a_set_that_the_machine_does_not_have_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "available", lambda: ("portable", "avx2"))
    monkeypatch.setenv("ELMOKIT_ISA", "avx512")
    with pytest.raises(ConfigError, match=r"ELMOKIT_ISA='avx512': .* has portable, avx2, none"):
        make_tiny().embed("a b")
    monkeypatch.setattr(native, "available", lambda: ())
    monkeypatch.setenv("ELMOKIT_ISA", "portable")
    with pytest.raises(ConfigError, match=r"ELMOKIT_ISA='portable': .* has none"):
        make_tiny().embed("a b")


@pytest.mark.parametrize("isa", [*SETS, "none"])
def test_commands_show_the_set_in_use(
    isa: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_tiny().save_pretrained(tmp_path / "tiny")
    monkeypatch.setenv("ELMOKIT_ISA", isa)
    name = "torch" if isa == "none" else f"native ({isa})"
    model = str(tmp_path / "tiny")
    info = CliRunner().invoke(app, ["info", model])
    assert f"{name}, on the CPU" in " ".join(info.stdout.split()), info.output
    if isa == "none":
        monkeypatch.setattr("elmokit.bench.sgemm_rate", lambda: 1e9)
        bench = CliRunner().invoke(app, ["bench", model, "--rounds", "1", "--json"])
        assert json.loads(bench.stdout)["engine"] == name


def test_commands_refuse_an_unknown_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_tiny().save_pretrained(tmp_path / "tiny")
    monkeypatch.setenv("ELMOKIT_ISA", "mmx")
    result = CliRunner().invoke(app, ["info", str(tmp_path / "tiny")])
    assert result.exit_code != 0
    assert "ELMOKIT_ISA='mmx'" in result.stderr and "Traceback" not in result.stderr
