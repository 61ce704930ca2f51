"""`elmokit probe`: what the layers of a model know."""

import json
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, Protocol, TypeAlias, get_args

import typer

from ..config import StateMode
from ..errors import ConfigError
from .options import ExecutionOptions, Json, Model, Quiet, Tokenizer, check_text
from .report import Progress, model_facts, reported, say, vocabulary_facts

if TYPE_CHECKING:
    from ..layers import Pooling
    from ..model import Elmo

log = logging.getLogger(__name__)

Tagset: TypeAlias = Literal["upos", "xpos"]

MaxSentences = Annotated[
    int | None,
    typer.Option(metavar="N", min=1, help="Train on N sentences only, at even distances."),
]
WicFile = "TSV: word, two sentences with the [word], same (true or false)."

probe_app = typer.Typer(
    name="probe",
    help="Measure what a model knows: tags, senses, similarity, grammar.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


class Result(Protocol):
    """What every probe returns; `str` of it is a table."""

    def to_dict(self) -> dict[str, object]:
        """The result as JSON holds it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Common(ExecutionOptions):
    """The options of every probe."""

    as_json: Json = False
    quiet: Quiet = False

    def load(
        self, source: str, tokenizer: str | None = None, state: StateMode | None = None
    ) -> "Elmo":
        """The model at `source`, with a line about it."""
        elmo = ExecutionOptions.load(self, source, tokenizer, state)
        if not self.quiet:
            say(f"{source}: {model_facts(elmo)}")
        return elmo

    def show(self, name: str, probe: Callable[[], Result]) -> None:
        """Run a probe and print what it found."""
        progress = Progress(self.quiet)
        progress(f"measuring {name}")
        with progress.alive(f"measuring {name}"):
            result = probe()
        print(json.dumps(result.to_dict(), ensure_ascii=False) if self.as_json else result)


@probe_app.command("pos")
@reported
def pos_cli(
    model: Model,
    train: Annotated[
        Path, typer.Option(metavar="FILE", help="CoNLL-U to learn from; .gz and .xz too.")
    ],
    dev: Annotated[Path, typer.Option(metavar="FILE", help="CoNLL-U to score.")],
    tag: Annotated[str, typer.Option(metavar="COLUMN", help="upos or xpos.")] = "upos",
    static: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="GloVe, word2vec or fastText vectors, as a baseline."),
    ] = None,
    split: Annotated[
        bool | None,
        typer.Option(
            "--split/--whole",
            help="Read words as the model's tokenizer splits them, or whole; default: split by "
            "kiwi.",
        ),
    ] = None,
    max_sentences: MaxSentences = None,
    epochs: Annotated[int, typer.Option(min=1, help="Passes over the training data.")] = 20,
    seed: Annotated[int, typer.Option(min=0, help="Of the order of the training data.")] = 1,
    *,
    common: Common,
) -> None:
    """Read part-of-speech tags off each layer.

    Table 6 of the paper: one linear classifier for each layer, their average and a learned mix;
    beside them the most frequent tag of each word and static vectors. Layers are kept in memory in
    half precision.
    """
    if tag not in get_args(Tagset):
        raise ConfigError(f"--tag {tag}: expected upos or xpos")
    from ..probes import LinearSettings, pos_probe, splits_words
    from ..tasks.parts.conll import read_conllu
    from ..vectors.static import read_static_vectors

    column: Tagset = "upos" if tag == "upos" else "xpos"
    data = [read_conllu(path, tag=column) for path in (train, dev)]
    words = {token for sentences in data for s in sentences for token in s.tokens}
    vectors = None if static is None else read_static_vectors(static, words)
    elmo = common.load(model)
    probe = partial(
        pos_probe, elmo, *data, split=splits_words(elmo) if split is None else split,
        max_sentences=max_sentences, static=vectors,
        settings=LinearSettings(epochs=epochs, seed=seed),
    )  # fmt: skip
    common.show("parts of speech", probe)


@probe_app.command("wsd")
@reported
def wsd_cli(
    model: Model,
    train: Annotated[
        list[Path],
        typer.Option("--train", metavar="FILE", help="SemCor as JSON lines; may be repeated."),
    ],
    test: Annotated[
        list[Path],
        typer.Option(
            "--test", metavar="DIR", help="Folder of NAME.data.xml and its key; may be repeated."
        ),
    ],
    wordnet: Annotated[Path, typer.Option(metavar="FILE", help="WordNet's index.sense.")],
    max_sentences: MaxSentences = None,
    *,
    common: Common,
) -> None:
    """Find word senses by the nearest average.

    Table 5 of the paper. The averages are those of each sense in SemCor, by cosine; a word that it
    does not have gets WordNet's first sense. Prints the F1 of each layer on each test set and on
    all together.
    """
    from ..probes import read_semcor, read_sense_index, read_sense_set, wsd_probe

    senses = read_sense_index(wordnet)
    tests = [read_sense_set(folder) for folder in test]
    sentences = [sentence for path in train for sentence in read_semcor(path)]
    elmo = common.load(model)
    probe = partial(wsd_probe, elmo, sentences, tests, senses, max_sentences=max_sentences)
    common.show("word senses", probe)


@probe_app.command("similarity")
@reported
def similarity_cli(
    model: Model,
    data: Annotated[
        Path, typer.Option("--data", metavar="FILE", help="TSV with score, sentence1, sentence2.")
    ],
    pooling: Annotated[
        str, typer.Option(metavar="NAME", help="mean, max, first or last; several as mean,max.")
    ] = "mean",
    tokenizer: Tokenizer = None,
    *,
    common: Common,
) -> None:
    """Correlate sentence similarity with human judgements.

    The cosine of pooled sentence vectors against gold scores, as in KorSTS and STS. Prints
    Pearson's and Spearman's correlation for each layer. Nothing is trained.
    """
    from ..layers import poolers
    from ..probes import similarity_probe
    from ..tasks.parts.lines import read_pairs

    check_text(str(data))
    pools: list[Pooling] = [*pooling.split(",")]  # type: ignore[list-item]
    poolers(pools)
    elmo = common.load(model, tokenizer)
    pairs = read_pairs(data, elmo.reader.tokens)
    common.show("similarity", partial(similarity_probe, elmo, pairs, pooling=pools))


@probe_app.command("homographs")
@reported
def homographs_cli(
    model: Model,
    data: Annotated[
        Path | None,
        typer.Option("--data", metavar="FILE", help="TSV: word, sense, sentence with the [word]."),
    ] = None,
    train: Annotated[
        Path | None,
        typer.Option("--train", metavar="FILE", help="Learn the senses from this table."),
    ] = None,
    dev: Annotated[
        Path | None,
        typer.Option("--dev", metavar="FILE", help="Score this one; default: a fifth of --train."),
    ] = None,
    tokenizer: Tokenizer = None,
    *,
    common: Common,
) -> None:
    """Tell the meanings of a word apart, in any language.

    With --data, a small table: each occurrence is given the sense to whose other occurrences it
    has the largest mean cosine. With --train, the sense whose average in training is nearest.
    """
    from ..probes import (
        homograph_probe,
        read_homographs,
        split_by_sentence,
        trained_homograph_probe,
    )

    if (data is None) == (train is None) or (dev is not None and train is None):
        raise ConfigError("expected either --data FILE, or --train FILE and perhaps --dev FILE")
    if data is not None:
        occurrences = read_homographs(data)
        elmo = common.load(model, tokenizer)
        common.show("homographs", partial(homograph_probe, elmo, occurrences))
    elif train is not None:
        learned = read_homographs(train)
        parts = split_by_sentence(learned) if dev is None else (learned, read_homographs(dev))
        elmo = common.load(model, tokenizer)
        common.show("homographs", partial(trained_homograph_probe, elmo, *parts))


@probe_app.command("wic")
@reported
def wic_cli(
    model: Model,
    train: Annotated[Path, typer.Option("--train", metavar="FILE", help=WicFile)],
    dev: Annotated[Path, typer.Option("--dev", metavar="FILE", help="The same, to score.")],
    tokenizer: Tokenizer = None,
    *,
    common: Common,
) -> None:
    """Is a word used in the same sense in two sentences?

    The cosine of the word's two vectors, with a threshold that is learned on the training pairs
    for each layer.
    """
    from ..probes import read_wic, wic_probe

    pairs = [read_wic(path) for path in (train, dev)]
    elmo = common.load(model, tokenizer)
    common.show("words in context", partial(wic_probe, elmo, *pairs))


@probe_app.command("minimal-pairs")
@reported
def minimal_pairs_cli(
    model: Model,
    data: Annotated[
        Path, typer.Argument(metavar="FILE", help="JSON lines: good, bad, paradigm, phenomenon.")
    ],
    tokenizer: Tokenizer = None,
    *,
    common: Common,
) -> None:
    """Does the language model prefer the acceptable sentence?

    The share of pairs in which it is likelier: forward, backward, and by both together. --json also
    has the shares by paradigm.
    """
    from ..probes import minimal_pairs_probe, read_minimal_pairs

    pairs = read_minimal_pairs(data)
    elmo = common.load(model, tokenizer)
    common.show("minimal pairs", partial(minimal_pairs_probe, elmo, pairs))


@probe_app.command("all")
@reported
def all_cli(
    models: Annotated[list[str], typer.Argument(metavar="MODEL…", help="One model, or several.")],
    data: Annotated[
        Path, typer.Option("--data", metavar="DIR", help="Folder of data sets (docs/reproduce.md).")
    ],
    language: Annotated[str, typer.Option(metavar="LANGUAGE", help="en or ko.")] = "en",
    max_sentences: Annotated[
        int, typer.Option("--max-sentences", min=1, help="Training sentences of pos and wsd.")
    ] = 6000,
    *,
    common: Common,
) -> None:
    """Run every measure there is for a language, for models side by side."""
    from ..reproduce.probes import comparison, measure, measures

    names = list(measures(language))
    loaded = [(model, common.load(model)) for model in dict.fromkeys(models)]
    results = []
    progress = Progress(common.quiet)
    for warning in _vocabulary_warnings(loaded, names):
        log.warning("%s", warning)
    with progress.alive(f"measuring {', '.join(names)}"):
        for name, model, measured in measure(loaded, data, language, max_sentences):
            results.append((name, model, measured))
            if not common.quiet:
                say(f"{name} of {model} done, {len(results)} of {len(names) * len(loaded)}")
    if common.as_json:
        vocabularies = {model: vocabulary_facts(elmo) for model, elmo in loaded}
        rows = [
            {"measure": n, "model": m, "vocabulary": vocabularies[m], "result": found}
            for n, m, (_, found) in results
        ]
        print(json.dumps(rows, ensure_ascii=False))
    else:
        print(comparison(results))


def _vocabulary_warnings(loaded: "Sequence[tuple[str, Elmo]]", names: Sequence[str]) -> list[str]:
    """What to know of models that predict other words, where a measure is of predictions."""
    facts = {model: vocabulary_facts(elmo) for model, elmo in loaded}
    known = {model: found for model, found in facts.items() if found is not None}
    if "minimal pairs" not in names or len({f["fingerprint"] for f in known.values()}) < 2:
        return []
    sizes = ", ".join(f"{model} {found['words']:,} words" for model, found in known.items())
    return [
        f"the models have different vocabularies ({sizes}); minimal pairs depend on them, as a "
        "word outside of one counts as <UNK>"
    ]
