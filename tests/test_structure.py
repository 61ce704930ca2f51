"""Imports point one way, and `import elmokit` stays light."""

import ast
import re
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
    {"engine", "figures", "formats", "vectors", "layers"},
    {"files"},
    {"nn", "text"},
    {"config", "tables"},
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


ARCHITECTURE = Path(__file__).parents[1] / "docs" / "architecture.md"


def test_the_architecture_page_names_the_folders_and_files_that_exist() -> None:
    text = ARCHITECTURE.read_text(encoding="utf-8")
    picture = text.split("```")[1]
    for path in PACKAGE.iterdir():
        if path.is_dir() and path.name not in ("__pycache__", "builtin"):
            assert re.search(rf"\b{path.name}\b", picture), f"{path.name} is not in the picture"
    for name in re.findall(r"`((?:\w+/)+\w+\.(?:py|c))`", text):
        is_outside = name.startswith(("tests/", "native/"))
        root = ARCHITECTURE.parents[1] if is_outside else PACKAGE
        assert (root / name).is_file(), f"{name} does not exist"


def test_no_walk_has_more_than_twelve_hops() -> None:
    walks = ARCHITECTURE.read_text(encoding="utf-8").split("\n### ")[1:]
    assert len(walks) == 4
    for walk in walks:
        numbers = re.findall(r"^(\d+)\. `", walk.split("\n## ")[0], re.MULTILINE)
        assert numbers == [str(i) for i in range(1, len(numbers) + 1)]
        assert 5 <= len(numbers) <= 12


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
