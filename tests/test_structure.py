"""Imports point one way, and `import elmokit` stays light."""

import ast
import subprocess
import sys
from pathlib import Path

from strategies import make_tiny

import elmokit

PACKAGE = Path(elmokit.__file__).parent

# From the top down: a part may import from parts below it, and from itself.
LEVELS = [
    {"__main__"},
    {"cli", "compat"},
    {"reproduce"},
    {"probes"},
    {"tasks"},
    {"pretraining", "search", "embed_file", "bench"},
    {"model", "corpus"},
    {"engine", "figures", "formats", "vectors", "layers", "pooling"},
    {"files"},
    {"nn", "text", "builtin"},
    {"config"},
    {"errors"},
]
LEVEL_OF = {part: level for level, parts in enumerate(LEVELS) for part in parts}


def imported_parts(path: Path) -> set[str]:
    """The top-level parts of elmokit that a module imports, wherever in it."""
    depth = len(path.relative_to(PACKAGE).parts)
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            if node.level == depth:
                names = [node.module] if node.module else [alias.name for alias in node.names]
                found |= {name.split(".")[0] for name in names if name != "__version__"}
            elif node.level == 0 and (node.module or "").startswith("elmokit."):
                found.add(str(node.module).split(".")[1])
    return found


def test_imports_point_down() -> None:
    modules = [path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py"]
    assert len(modules) > 20
    wrong = []
    for path in modules:
        part = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
        for other in imported_parts(path) - {part}:
            if LEVEL_OF[other] <= LEVEL_OF[part]:
                wrong.append(f"{path.relative_to(PACKAGE)} imports {other}")
    assert not wrong


def test_nn_imports_torch_and_config_only() -> None:
    for path in (PACKAGE / "nn").glob("*.py"):
        assert imported_parts(path) <= {"config"}, path


def modules_after(code: str) -> set[str]:
    """The modules that a fresh interpreter has loaded after running `code`."""
    code += "; import sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_model_pulls_in_no_extra_and_no_command_line() -> None:
    loaded = modules_after("from elmokit import Elmo")
    assert "torch" in loaded
    assert (
        loaded & {"typer", "huggingface_hub", "pyarrow", "kiwipiepy", "spacy", "sklearn"} == set()
    )


def test_loading_a_model_stays_light(tmp_path: Path) -> None:
    make_tiny().save_pretrained(tmp_path / "tiny")
    path = str(tmp_path / "tiny")
    loaded = modules_after(f"from elmokit import Elmo; Elmo.from_pretrained({path!r})")
    # Two seconds that some initialisers on the meta device cost.
    assert "torch._dynamo" not in loaded


def test_package_and_command_line_start_without_torch() -> None:
    assert "torch" not in modules_after("import elmokit")
    assert "torch" not in modules_after("import elmokit.cli")
