"""`elmokit substitutes`: the words that fit in the place of one word of a sentence."""

import json
from typing import TYPE_CHECKING, Annotated

import typer

from .options import ExecutionOptions, Json, Model, Quiet, Tokenizer
from .report import reported, say

if TYPE_CHECKING:
    from ..model import Substitutes


@reported
def substitutes_cli(
    model: Model,
    text: Annotated[
        str,
        typer.Argument(
            metavar="TEXT", help='Sentence with one [word], as in "the [bank] of the river".'
        ),
    ],
    k: Annotated[int, typer.Option("-k", min=1, help="Words to show, at most.")] = 10,
    tokenizer: Tokenizer = None,
    *,
    execution: ExecutionOptions,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Find the words that fit best in the place of the [word] of a sentence.

    The word itself is hidden. Prints rank, probability, the log probabilities of both directions
    (forward given all that is to the left, backward given all that is to the right) and the word;
    the word that was there comes last, if it is not among them.
    """
    found = execution.load(model, tokenizer).substitutes(text, k)
    if as_json:
        original = found.original and found.original._asdict()
        best = [substitute._asdict() for substitute in found.best]
        print(json.dumps({"best": best, "original": original}, ensure_ascii=False))
        return
    _print_found(found)
    if found.original is None and not quiet:
        say("the word itself is outside of the model's vocabulary")


def _print_found(found: "Substitutes") -> None:
    rows = list(found.best)
    original = found.original
    if original is not None and original not in rows:
        rows.append(original)
    width = max(4, len(f"{rows[-1].rank:,}") if rows else 0)
    print(f"{'rank':>{width}}  probability  forward  backward  word")
    for row in rows:
        word = f"[{row.word}]" if row == original else row.word
        print(
            f"{row.rank:>{width},}  {row.probability:11.4f}  {row.forward:7.2f}  "
            f"{row.backward:8.2f}  {word}"
        )
