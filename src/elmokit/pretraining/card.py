"""The model card of a run: what the model read, what it started from, how well it predicts."""

from pathlib import Path
from typing import Any

from .. import __version__
from ..corpus.corpus import Corpus
from ..files.read import is_there
from ..files.write import whole_file

FIRST_LINE = "<!-- Written by elmokit pretrain. Delete this line to keep your changes. -->"


def write_card(
    folder: Path,
    facts: dict[str, Any],
    corpus: Corpus,
    counts: dict[str, Any],
    perplexity: dict[str, float] | None = None,
) -> None:
    """Write RUN/README.md, unless there is one that somebody else wrote.

    Args:
        folder: The run.
        facts: What is in its run.json.
        corpus: Its text.
        counts: Steps and tokens of the training.
        perplexity: Of all held-out text, at the end of the run.
    """
    path = folder / "README.md"
    if is_there(path) and not _is_ours(path):
        return
    info = corpus.info
    rows = [
        ("Text", _text(corpus)),
        ("Tokens", f"{info.tokenizer} tokenizer, normalised to {info.normalization or 'nothing'}"),
        ("Vocabulary", f"{info.vocab_size:,} words that the softmax predicts"),
        ("Start", _start(facts)),
        ("Training", f"{counts['tokens']:,} tokens in {counts['step']:,} steps"),
    ]
    if perplexity is not None:
        rows.append(
            ("Held-out perplexity", f"{perplexity['forward']:.2f} forward, "
             f"{perplexity['backward']:.2f} backward, over {info.valid_tokens:,} tokens")
        )  # fmt: skip
    table = "\n".join(f"| {name} | {value} |" for name, value in rows)
    with whole_file(path) as temporary:
        temporary.write_text(
            f"{FIRST_LINE}\n# {folder.resolve().name}\n\nA biLM (ELMo) trained by elmokit "
            f"{__version__}. All settings are in `run.json`.\n\n| | |\n|---|---|\n{table}\n",
            encoding="utf-8",
        )


def _is_ours(path: Path) -> bool:
    """Whether we wrote a card; what is no regular file is not read, as that may have no end."""
    if not path.is_file():
        return False
    with path.open(encoding="utf-8", errors="replace") as file:
        return file.read(len(FIRST_LINE)) == FIRST_LINE


def _text(corpus: Corpus) -> str:
    """The inputs of the corpus with their weights, or its folder alone."""
    inputs = corpus.info.report.get("inputs") or []
    parts = [f"{Path(part['name']).name} (weight {part['weight']:g})" for part in inputs]
    total = f"{corpus.info.train_tokens:,} tokens in {corpus.info.train_sentences:,} sentences"
    return f"{total}: {', '.join(parts)}" if len(parts) > 1 else f"{total} of {corpus.folder.name}"


def _start(facts: dict[str, Any]) -> str:
    if facts["source"] is not None:
        return f"the weights of {facts['source']}"
    vectors = facts["vectors"]
    if vectors is None:
        return "random weights"
    name = Path(vectors["source"]).name
    if "coverage" not in vectors:  # a run that was killed before it had counted
        return f"static vectors of {name}"
    return f"static vectors of {name}, which cover {vectors['coverage']:.0%} of the vocabulary"
