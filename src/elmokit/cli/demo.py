"""`elmokit demo`: what ELMo is, shown with the bundled models and their example sentences.

One word has one static vector, whatever it means; ELMo gives it another one in every sentence.
"""

from collections.abc import Iterator
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from ..errors import ConfigError, FileError, MissingExtra
from .options import Force
from .report import reported

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ..model import Elmo

    Vectors: TypeAlias = NDArray[np.float32]
    Word: TypeAlias = tuple[str, list[str], NDArray[np.bool_], Vectors]

EXAMPLES = Path(__file__).parents[1] / "builtin" / "examples"
"""The example sentences that are installed with elmokit."""
SIGNATURE = b"Software\0elmokit demo"
"""What a PNG file says that this command wrote."""
SIGNED_WITHIN = 4096

PLAY = [
    "She wrote a [play] for the theatre.",
    "He will [play] for the club next season.",
    "She can [play] the guitar.",
]
MAL = ["장군은 [말]을 타고 성으로 갔다.", "그는 아무 [말]도 하지 않았다."]
GAPS = ["The film was [released] in 1995.", "She sat on the [bank] of the river."]
ENGLISH = {
    "배": "bae", "눈": "nun", "말": "mal", "밤": "bam", "다리": "dari", "과일": "pear",
    "선박": "ship", "날씨": "snow", "동물": "horse", "언어": "speech", "시간": "night",
    "열매": "chestnut", "시설": "bridge",
}  # fmt: skip
"""For a picture, whose font may have no Korean letters; 신체 is the eye, the leg or the belly."""
BODY = {"눈": "eye", "다리": "leg"}
COLORS = ["#d55e00", "#0072b2"]


@reported
def demo_cli(
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="FILE.png", help="The picture.")
    ] = Path("demo.png"),
    en: Annotated[str, typer.Option("--en", metavar="MODEL", help="The English model.")] = "en",
    ko: Annotated[str, typer.Option("--ko", metavar="MODEL", help="The Korean model.")] = "ko",
    force: Force = False,
) -> None:
    """Show what ELMo is with the bundled models, in a minute.

    Prints how alike a word is to itself in other sentences, and draws words between their
    meanings (needs elmokit[plot]). Korean needs elmokit[ko]. A picture that this command wrote is
    replaced, any other file only with --force.
    """
    _check_output(output, force)
    from ..model import Elmo
    from ..probes import read_homographs

    models = {"en": Elmo.from_pretrained(en)}
    with suppress(MissingExtra):
        korean = Elmo.from_pretrained(ko)
        korean.reader.tokens(MAL[0])  # which fails where its tokenizer is not installed
        models["ko"] = korean

    print("1. Is a word nearer to itself where it means the same?")
    print("   (cosines on the top layer; ← wrong: the model thinks otherwise)")
    _show_tutorials(models)
    print("\n2. Which sentences use a word alike? The nearest three for each sense of “play”")
    _show_nearest(models["en"], PLAY, (EXAMPLES / "play.txt").read_text("utf-8").splitlines())
    if "ko" in models:
        print("\n3. The same in Korean: 말 is a horse, or what somebody says")
        table = read_homographs(EXAMPLES / "ko_homographs.tsv")
        _show_nearest(models["ko"], MAL, [row.text for row in table])
    else:
        print("\n3. The same in Korean needs Kiwi: pip install 'elmokit[ko]'")
    print("\n4. Which words could stand here? (both language models, one from each side)\n")
    for query in GAPS:
        words = [found.word for found in models["en"].substitutes(query, k=6).best]
        print(f"   {query}\n      {', '.join(words)}")
    if find_spec("matplotlib") is None:
        print("\n5. A picture of words between their meanings needs: pip install 'elmokit[plot]'")
        return
    _draw(models, output)
    print(f"\n5. A picture of words between their meanings, the clearest first: {output}")


def _check_output(path: Path, force: bool) -> None:
    """Refuse a picture in place of a file that this command did not write."""
    if path.suffix.lower() != ".png":
        raise ConfigError(f"-o {path}: the picture is a PNG file; give a name that ends in .png")
    if path.is_dir():
        raise FileError(f"{path} is a folder; give the picture another name with -o")
    if not path.exists() or force:
        return
    try:
        with path.open("rb") as file:
            is_ours = SIGNATURE in file.read(SIGNED_WITHIN)
    except OSError as e:
        raise FileError(f"{path} cannot be read: {e.strerror or e}") from e
    if not is_ours:
        raise FileError(
            f"{path} exists, and elmokit demo did not write it; give the picture another name "
            "with -o, or overwrite it with --force"
        )


def _show_tutorials(models: "dict[str, Elmo]") -> None:
    """The cosines of a word in a sentence to itself in two others."""
    rows = (EXAMPLES / "tutorials.tsv").read_text("utf-8").splitlines()[1:]
    for language, *sentences in (row.split("\t") for row in rows):
        if language not in models:
            continue
        word, *others = _occurrences(models[language], sentences)[:, -1]
        same, other = (_cosine(word, vector) for vector in others)
        verdict = "" if same > other else "  ← wrong"
        print(f"\n   {sentences[0]}")
        print(f"      {same:.3f}  same meaning   {sentences[1]}")
        print(f"      {other:.3f}  other meaning  {sentences[2]}{verdict}")


def _show_nearest(elmo: "Elmo", queries: list[str], lines: list[str]) -> None:
    """The sentences of a small text that use the word alike, by the top layer."""
    from ..search import nearest

    for query in queries:
        print(f"\n   {query}")
        for match in nearest(elmo, lines, query, k=3, same_word=True):
            print(f"      {match.score:.3f}  {lines[match.index]}")


def _occurrences(elmo: "Elmo", sentences: list[str]) -> "Vectors":
    """The vectors of the bracketed word of each sentence: (sentences, layers, values)."""
    import numpy as np

    from ..text.reader import parse_marked

    found = [parse_marked(elmo.reader, sentence) for sentence in sentences]
    vectors = elmo.embed([tokens for tokens, _ in found], layers="all", show_progress_bar=False)
    return np.stack([v[:, place] for v, (_, place) in zip(vectors, found, strict=True)])


def _cosine(a: "Vectors", b: "Vectors") -> float:
    import numpy as np

    return float(a @ b / (np.linalg.norm(a) * np.linalg.norm(b)))


def _draw(models: "dict[str, Elmo]", path: Path) -> None:
    """Every occurrence of some words between their two meanings."""
    from matplotlib.figure import Figure

    from ..files.write import whole_file

    figure = Figure(figsize=(7 * len(models), 4.2), layout="constrained")
    panels = figure.subplots(1, len(models), squeeze=False)[0]
    for axes, (name, elmo) in zip(panels, models.items(), strict=True):
        _draw_words(axes, list(_between(elmo, EXAMPLES / f"{name}_homographs.tsv")))
    with whole_file(path) as temporary:
        figure.savefig(temporary, format="png", dpi=120, metadata={"Software": "elmokit demo"})


def _draw_words(axes: Any, words: "list[Word]") -> None:
    """One line per word, the words that are told apart best first."""
    import numpy as np

    words = sorted(words, key=lambda row: -float(np.mean((row[3] > 0) == row[2])))
    limit = max(float(np.abs(at).max()) for *_, at in words)
    for y, (word, senses, is_second, at) in enumerate(words):
        colors = [COLORS[int(second)] for second in is_second]
        axes.scatter(at, y + 0.16 * (2 * is_second - 1), s=36, alpha=0.8, color=colors)
        for sense, color, x, side in zip(senses, COLORS, (0.01, 0.99), ("left", "right")):
            label = BODY.get(word, "body") if sense == "신체" else ENGLISH.get(sense, sense)
            at_edge = axes.get_yaxis_transform()
            axes.text(x, y, label, color=color, ha=side, va="center", transform=at_edge)
    axes.axvline(0, color="#888", lw=1)
    axes.set_yticks(range(len(words)), [ENGLISH.get(row[0], row[0]) for row in words])
    axes.set(xlim=(-1.6 * limit, 1.6 * limit), ylim=(len(words) - 0.5, -0.5), xticks=[])
    axes.set_xlabel("nearer to one meaning  |  nearer to the other (a static vector: on the line)")
    axes.set_title("Each dot is the word in one sentence; its colour is what it means there")


def _between(elmo: "Elmo", path: Path) -> "Iterator[Word]":
    """For each word of a table: its first two senses, which occurrences have the second, and how
    much nearer each occurrence is to the second."""
    import numpy as np

    from ..probes import read_homographs
    from ..probes.homographs import nearness

    table = read_homographs(path)
    for word in dict.fromkeys(row.word for row in table):
        senses = list(dict.fromkeys(r.sense for r in table if r.word == word))[:2]
        rows = [r for r in table if r.word == word and r.sense in senses]
        marked = [f"{r.text[: r.start]}[{r.text[r.start : r.end]}]{r.text[r.end :]}" for r in rows]
        is_second = np.array([r.sense == senses[1] for r in rows])
        first, second = nearness(_occurrences(elmo, marked)[:, -1], is_second.astype(int))
        yield word, senses, is_second, second - first
