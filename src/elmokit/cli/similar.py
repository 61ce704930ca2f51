"""`elmokit similar`: where a corpus uses words like the one of a query."""

import json
import shutil
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .options import (
    BatchSize,
    ExecutionOptions,
    Json,
    Model,
    NoProgress,
    Quiet,
    TextSentences,
    Tokenizer,
    check_text,
    lines_shown,
    text_mode,
)
from .report import reported, say, shows_bar

if TYPE_CHECKING:
    from ..search import Match


@reported
def similar_cli(
    model: Model,
    corpus: Annotated[
        str,
        typer.Argument(
            metavar="CORPUS", help="Text, one sentence per line; .gz and .xz too; - is stdin."
        ),
    ],
    query: Annotated[
        str,
        typer.Argument(metavar="QUERY", help='Sentence with one [word], as in "the river [bank]".'),
    ],
    k: Annotated[int, typer.Option("-k", min=1, help="Occurrences to show, at most.")] = 10,
    layer: Annotated[
        str,
        typer.Option(
            metavar="LAYER",
            help="top, average, mix, mix:NAME, or a number: 0 is the first, -1 the last.",
        ),
    ] = "top",
    same_word: Annotated[
        bool, typer.Option("--same-word", help="Only the same word, in any case (much faster).")
    ] = False,
    sentences: TextSentences = None,
    tokenizer: Tokenizer = None,
    batch_size: BatchSize = 128,
    *,
    execution: ExecutionOptions,
    as_json: Json = False,
    no_progress: NoProgress = False,
    quiet: Quiet = False,
) -> None:
    """Find words that a corpus uses like the [word] of a query.

    Prints rank, cosine, line number and the line as it is in the corpus, with the word that was
    found in brackets; on a terminal, the part of it around the word. A line that equals the query
    is found like any other. The corpus can be of any size.
    """
    from ..search import nearest

    mode = text_mode(sentences)
    check_text(corpus)
    elmo = execution.load(model, tokenizer)
    lines = lines_shown(corpus, shows_bar(no_progress, quiet))
    matches = nearest(
        elmo, lines, query, k, layer, same_word=same_word, batch_size=batch_size, mode=mode
    )
    if as_json:
        print(json.dumps([_as_dict(i, m) for i, m in enumerate(matches, 1)], ensure_ascii=False))
    elif matches:
        _print_matches(matches)
    elif not quiet:
        say("the word does not occur in the corpus")


def _as_dict(rank: int, match: "Match") -> dict[str, Any]:
    return {
        "rank": rank,
        "score": round(match.score, 6),
        "line": match.index + 1,
        "position": match.position,
        "word": match.tokens[match.position],
        "text": match.text,
        "start": match.start,
        "end": match.end,
        "tokens": match.tokens,
    }


def is_terminal() -> bool:
    """Whether people read along."""
    return sys.stdout.isatty()


def _print_matches(matches: list["Match"]) -> None:
    """One line per match: the word in its context on a terminal, the whole text elsewhere."""
    last_line = max(match.index for match in matches) + 1
    widths = len(str(len(matches))), max(4, len(str(last_line)))
    as_excerpts = is_terminal()
    if as_excerpts:
        typer.secho(f"{'#':>{widths[0]}}  cosine  {'line':>{widths[1]}}", bold=True)
    columns = shutil.get_terminal_size().columns
    mark_width = max(match.mark_width() for match in matches)
    for rank, match in enumerate(matches, 1):
        head = f"{rank:>{widths[0]}}  {match.score:6.3f}  {match.index + 1:>{widths[1]}}  "
        room = columns - len(head)
        print(head + (match.in_context(room, mark_width) if as_excerpts else match.marked()))
