"""The code of the README runs and prints what the README says."""

import contextlib
import io
import re
import shlex
from pathlib import Path

import pytest
import typer

ROOT = Path(__file__).resolve().parents[1]
PAGES = {"README.md": 4, "README.ko.md": 2}


def blocks(page: str) -> list[tuple[str, str]]:
    """The language and the text of each code block."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return re.findall(r"^```(\w*)\n(.*?)^```", text, re.M | re.S)


@pytest.mark.parametrize("page", PAGES)
def test_python_blocks_run_and_print_what_follows(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names = {
        "texts": ["One text .", "And another ."],
        "lines": ["a b", "c"],
        "batch_of_token_lists": [["a", "b"], ["c"]],
        "task_loss": lambda features: features.sum(),
    }
    found = blocks(page)
    num_run = num_checked = 0
    for (language, code), (_, after) in zip(found, [*found[1:], ("", "")], strict=True):
        if language != "python":
            continue
        printed = io.StringIO()
        scope = dict(names) if "compat" in code else names
        with contextlib.redirect_stdout(printed):
            exec(compile(code, page, "exec"), scope)
        num_run += 1
        if printed.getvalue():
            assert printed.getvalue() == after
            num_checked += 1
    assert num_run >= PAGES[page] and num_checked >= 1


@pytest.mark.parametrize("page", PAGES)
def test_commands_and_their_options_exist(page: str) -> None:
    from elmokit.cli import app

    lines = [c for _, text in blocks(page) for c in re.findall(r"^elmokit ([^#\n]*)", text, re.M)]
    assert {"info", "embed", "similar", "pretrain"} <= {line.split()[0] for line in lines}
    for line in lines:
        name, *rest = shlex.split(line)
        command = typer.main.get_command(app).commands[name]
        command = getattr(command, "commands", {}).get(rest[0], command)
        known = {option for parameter in command.params for option in parameter.opts}
        assert {word for word in rest if word.startswith("-")} <= known, line


def test_the_number_of_languages_is_that_of_the_list() -> None:
    from elmokit import list_models

    languages = {entry.language for entry in list_models()} - {"protein", "und"}
    many = [entry for entry in list_models() if re.fullmatch("manylangs-[a-z]{2,3}", entry.name)]
    num_many = sum(entry.status == "listed" for entry in many)
    assert f"{len(languages)} languages in all" in (ROOT / "README.md").read_text("utf-8")
    assert f"ELMoForManyLangs {num_many}개 언어" in (ROOT / "README.ko.md").read_text("utf-8")


@pytest.mark.parametrize("page", PAGES)
def test_sentence_install_and_example_fit_on_one_screen(page: str) -> None:
    lines = (ROOT / page).read_text(encoding="utf-8").splitlines()
    fences = [number for number, line in enumerate(lines) if line.startswith("```")]
    install, example, printed = (slice(*fences[i : i + 2]) for i in (0, 2, 4))
    assert any("pip install" in line for line in lines[install])
    assert "from elmokit import Elmo" in lines[example]
    assert any(line.startswith("<Sentence:") for line in lines[printed]) and printed.stop < 40


@pytest.mark.parametrize("page", PAGES)
def test_speed_and_results_are_on_the_page(page: str) -> None:
    text, english = ((ROOT / p).read_text(encoding="utf-8") for p in (page, "README.md"))
    times = set(re.findall(r"\d+\.\d(?=x|배)", text))
    assert len(times) >= 4 and times <= set(re.findall(r"\d+\.\d(?=x)", english))
    results = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
    for task in ("entities, English (F1)", "sentiment, SST-5 (accuracy)"):
        row = next(line for line in results.splitlines() if line.startswith(f"| {task} |"))
        baseline, with_elmo = (cell.split()[0] for cell in row.split("|")[2:4])
        assert baseline in text and with_elmo in text, task


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    links = re.findall(r"\]\(([^)#\s]+)", text)
    assert links
    for link in links:
        assert link.startswith("https://") or (ROOT / link).is_file(), link
