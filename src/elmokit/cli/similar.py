"""`elmokit similar`: where a corpus uses words like the one of a query."""

import json
import shutil
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..tables import width_of
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
    parse_layers,
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
        str, typer.Option(metavar="LAYER", help="top, average, mix, mix:NAME, or a number from 0.")
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

    Prints rank, cosine, line number and the sentence with the word that was found in brackets. A
    line that equals the query is found like any other. The corpus can be of any size.
    """
    from ..search import nearest

    mode = text_mode(sentences)
    check_text(corpus)
    elmo = execution.load(model, tokenizer)
    lines = lines_shown(corpus, shows_bar(no_progress, quiet))
    matches = nearest(
        elmo, lines, query, k, parse_layers(layer), same_word=same_word, batch_size=batch_size,
        mode=mode,
    )  # fmt: skip
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
        "tokens": match.tokens,
    }


def _print_matches(matches: list["Match"]) -> None:
    """One line per match; on a terminal cut to its width, around the word that was found."""
    last_line = max(match.index for match in matches) + 1
    widths = len(str(len(matches))), max(4, len(str(last_line)))
    if sys.stdout.isatty():
        typer.secho(f"{'#':>{widths[0]}}  cosine  {'line':>{widths[1]}}", bold=True)
    for rank, match in enumerate(matches, 1):
        head = f"{rank:>{widths[0]}}  {match.score:6.3f}  {match.index + 1:>{widths[1]}}  "
        tokens = match.marked()
        if sys.stdout.isatty():
            room = shutil.get_terminal_size().columns - len(head)
            tokens = _excerpt(tokens, match.position, room)
        print(head + " ".join(tokens))


def _excerpt(tokens: list[str], position: int, width: int) -> list[str]:
    """The tokens around `position` that fit into `width` columns."""
    first = last = position
    used = width_of(tokens[position]) + 4  # an ellipsis and a space on each side
    grows = True
    while grows:
        grows = False
        if first > 0 and used + width_of(tokens[first - 1]) + 1 <= width:
            first, grows = first - 1, True
            used += width_of(tokens[first]) + 1
        if last + 1 < len(tokens) and used + width_of(tokens[last + 1]) + 1 <= width:
            last, grows = last + 1, True
            used += width_of(tokens[last]) + 1
    return [
        *(["…"] if first > 0 else []),
        *tokens[first : last + 1],
        *(["…"] if last + 1 < len(tokens) else []),
    ]
