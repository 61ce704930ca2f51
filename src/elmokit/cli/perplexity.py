"""The perplexity of several texts, each on its own and all together."""

import json
import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice, tee
from typing import IO, TYPE_CHECKING, Any, TypeAlias

from ..corpus.corpus import Mode
from ..errors import InputError
from ..text.normalize import normalize
from ..text.sentences import SentenceMode, choose_mode, find_sentences
from .options import lines_shown
from .report import say

if TYPE_CHECKING:
    from ..engine.likelihood import SentenceScore, Tally
    from ..model import Elmo

Row: TypeAlias = dict[str, Any]
_SAMPLED_LINES = 10_000


def perplexities(
    elmo: "Elmo", names: Sequence[str], mode: Mode, bar: bool, streams: int | None,
    batch_size: int, file: IO[str] | None, quiet: bool,
) -> Iterator[Row]:  # fmt: skip
    """The perplexity of each text as plain data, then that of all if there are several.

    `streams` are lanes to read each text in; with None each sentence stands on its own, and its
    scores go to `file` as JSON lines.
    """
    from ..engine.likelihood import Tally

    is_one = len(names) == 1
    total, num_sentences, modes = Tally(), 0, set()
    for name in names:
        text = _Text(elmo, lines_shown(name, bar), mode)
        if text.reason and not quiet:
            say(f"{name}: --sentences {text.mode}: {text.reason}")
        elmo.reset_state()  # each text stands alone
        if streams is not None:
            tally = _in_streams(text, streams)
        else:
            tally = Tally()
            for score, row in _scores(text, batch_size):
                if row["tokens"]:
                    tally.add(score)
                if file is not None:
                    row = row if is_one else {"text": name, **row}
                    file.write(json.dumps(row, ensure_ascii=False) + "\n")
        if not tally.num_tokens:
            raise no_words(name)
        yield _row(name, tally, text.num_sentences, text.mode)
        total.add(tally)
        num_sentences += text.num_sentences
        modes.add(text.mode)
    if not is_one:
        yield _row(None, total, num_sentences, modes.pop() if len(modes) == 1 else "mixed")


class _Text:
    """The sentences of a text as the model's tokens; the mode "auto" looks at the first lines."""

    def __init__(self, elmo: "Elmo", lines: Iterable[str], mode: Mode) -> None:
        self.elmo, self.reason = elmo, ""
        self.lines = iter(lines)
        self.num_sentences = 0
        if mode == "auto":
            sample = list(islice(self.lines, _SAMPLED_LINES))
            choice = choose_mode(sample)
            self.lines = chain(sample, self.lines)
            mode, self.reason = choice.mode, choice.reason
        self.mode: SentenceMode = mode

    def sentences(self) -> Iterator[tuple[int, list[str]]]:
        """The line number and the tokens of every sentence; counts those that have any."""
        reader = self.elmo.reader
        # Prepared corpora were normalised before they were split.
        lines = (normalize(line, reader.normalization) for line in self.lines)
        for number, sentence in find_sentences(lines, self.mode):
            tokens = reader.tokens(sentence)
            self.num_sentences += bool(tokens)
            yield number, tokens


def _scores(text: _Text, batch_size: int) -> Iterator[tuple["SentenceScore", Row]]:
    """The score of each sentence, and its row of the file of scores."""
    numbered, read = tee(text.sentences())
    scores = text.elmo.score_stream((tokens for _, tokens in read), batch_size=batch_size)
    for (number, _), score in zip(numbered, scores, strict=True):
        is_blank = score.num_tokens == 1
        yield (
            score,
            {
                "line": number,
                "forward": 0.0 if is_blank else _number(score.forward),
                "backward": 0.0 if is_blank else _number(score.backward),
                "tokens": 0 if is_blank else score.num_tokens,
            },
        )


def _in_streams(text: _Text, streams: int) -> "Tally":
    from ..engine.likelihood import Tally

    sentences = (tokens for _, tokens in text.sentences() if tokens)
    found = text.elmo.perplexity(sentences, streams=streams)
    forward, backward = (-math.log(value) * found.num_tokens for value in found[:2])
    return Tally(forward, backward, found.num_tokens, found.num_unknown)


def no_words(name: str) -> InputError:
    """The error for a text without words."""
    return InputError(f"{name}: the text has no words, so there is nothing to evaluate")


def _row(name: str | None, tally: "Tally", num_sentences: int, mode: str) -> Row:
    perplexity = tally.perplexity()
    return {
        "text": name,
        "forward": _number(perplexity.forward),
        "backward": _number(perplexity.backward),
        "mean": _number(perplexity.mean),
        "sentences": num_sentences,
        "tokens": perplexity.num_tokens,
        "unknown": perplexity.num_unknown / perplexity.num_tokens,
        "mode": mode,
    }


def _number(value: float) -> float | None:
    """JSON has no infinity and no NaN."""
    return value if math.isfinite(value) else None
