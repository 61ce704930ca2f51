"""`make demo`: what ELMo is, shown with the bundled models, in a minute.

    python examples/demo.py [--en MODEL] [--ko MODEL] [-o demo.png]

One word has one static vector, whatever it means; ELMo gives it another one in every sentence.
Korean is shown if its model is bundled or given.
"""

import argparse
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from elmokit import Elmo
from elmokit.formats.catalogue.entries import builtin_names
from elmokit.probes import read_homographs
from elmokit.probes.homographs import nearness
from elmokit.search import nearest
from elmokit.text.reader import parse_marked

DATA = Path(__file__).parent / "data"

MAL = ["장군은 [말]을 타고 성으로 갔다.", "그는 아무 [말]도 하지 않았다."]
PLAY = [
    "She wrote a [play] for the theatre.",
    "He will [play] for the club next season.",
    "She can [play] the guitar.",
]
ENGLISH = {
    "배": "bae", "눈": "nun", "말": "mal", "밤": "bam", "다리": "dari", "과일": "pear",
    "선박": "ship", "날씨": "snow", "동물": "horse", "언어": "speech", "시간": "night",
    "열매": "chestnut", "시설": "bridge",
}  # fmt: skip
"""For a picture, whose font may have no Korean letters; 신체 is the eye, the leg or the belly."""
Margins = NDArray[np.float32]
COLORS = ["#d55e00", "#0072b2"]


def occurrences(elmo: Elmo, sentences: list[str]) -> NDArray[np.float32]:
    """The vectors of the bracketed word of each sentence: (sentences, layers, values)."""
    found = [parse_marked(elmo.reader, sentence) for sentence in sentences]
    vectors = elmo.embed([tokens for tokens, _ in found], layers="all", show_progress_bar=False)
    return np.stack([v[:, place] for v, (_, place) in zip(vectors, found, strict=True)])


def cosine(a: NDArray[np.float32], b: NDArray[np.float32]) -> float:
    return float(a @ b / (np.linalg.norm(a) * np.linalg.norm(b)))


def show_tutorials(models: dict[str, Elmo]) -> None:
    """Cosines on the top layer of a word in a sentence to itself in two others."""
    rows = (DATA / "tutorials.tsv").read_text("utf-8").splitlines()[1:]
    for language, *sentences in (row.split("\t") for row in rows):
        if language not in models:
            continue
        word, *others = occurrences(models[language], sentences)[:, -1]
        same, other = (cosine(word, vector) for vector in others)
        print(f"\n    {sentences[0]}")
        print(f"      {same:.3f}  {sentences[1]}")
        print(f"      {other:.3f}  {sentences[2]}  (another meaning)")
        if same <= other:
            print("             the model gets this one wrong")


def show_nearest(elmo: Elmo, queries: list[str], lines: list[str]) -> None:
    """The contexts in a small text that use the word alike."""
    for query in queries:
        print(f"\n    {query}")
        for layer in range(1, elmo.num_layers):
            print(f"      nearest on layer {layer}")
            for match in nearest(elmo, lines, query, k=3, layer=layer, same_word=True):
                print(f"        {match.score:.2f}  {lines[match.index]}")


def between(elmo: Elmo, path: Path) -> list[tuple[str, list[str], NDArray[np.bool_], Margins]]:
    """Of each word of a table: its first two senses, which of the two each occurrence has, and
    where it is between them; the words that are told apart best come first."""
    table = read_homographs(path)
    found = []
    for word in dict.fromkeys(row.word for row in table):
        senses = list(dict.fromkeys(r.sense for r in table if r.word == word))[:2]
        rows = [r for r in table if r.word == word and r.sense in senses]
        marked = [f"{r.text[: r.start]}[{r.text[r.start : r.end]}]{r.text[r.end :]}" for r in rows]
        is_second = np.array([r.sense == senses[1] for r in rows])
        first, second = nearness(occurrences(elmo, marked)[:, -1], is_second.astype(int))
        at = second - first
        found.append((word, senses, is_second, at))
    return sorted(found, key=lambda row: -np.mean((row[3] > 0) == row[2]))


def draw(models: dict[str, Elmo], path: Path) -> None:
    """Every occurrence of some words between their two meanings."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7 * len(models), 4.2), layout="constrained")
    panels = figure.subplots(1, len(models), squeeze=False)[0]
    for axes, (name, elmo) in zip(panels, models.items(), strict=True):
        words = between(elmo, DATA / f"{name}_homographs.tsv")
        limit = max(float(np.abs(at).max()) for *_, at in words)
        for y, (word, senses, is_second, at) in enumerate(words):
            axes.scatter(at, y + 0.16 * (2 * is_second - 1), s=36, alpha=0.8,
                         color=[COLORS[int(second)] for second in is_second])  # fmt: skip
            for sense, color, x, side in zip(senses, COLORS, (0.01, 0.99), ("left", "right")):
                label = {"눈": "eye", "다리": "leg"}.get(word, "body") if sense == "신체" else sense
                axes.text(x, y, ENGLISH.get(label, label), color=color, ha=side, va="center",
                          transform=axes.get_yaxis_transform())  # fmt: skip
        axes.axvline(0, color="#888", lw=1)
        axes.set_yticks(range(len(words)), [ENGLISH.get(row[0], row[0]) for row in words])
        axes.set(xlim=(-1.6 * limit, 1.6 * limit), ylim=(len(words) - 0.5, -0.5), xticks=[])
        axes.set_xlabel(
            "nearer to one meaning  |  nearer to the other (a static vector: on the line)"
        )
        axes.set_title("Each dot is a word in a sentence, its colour what it means there")
    figure.savefig(path, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--en", default="en")
    parser.add_argument("--ko", default="ko" if "ko" in builtin_names() else None)
    parser.add_argument("-o", "--output", type=Path, default=Path("demo.png"))
    args = parser.parse_args()
    sources = {"en": args.en, "ko": args.ko}
    models = {name: Elmo.from_pretrained(path) for name, path in sources.items() if path}

    print("\nThe tutorials' sentences: is a word nearer to itself where it means the same?")
    show_tutorials(models)
    print("\nWhich contexts are most alike? play, in examples/data/play.txt")
    show_nearest(models["en"], PLAY, (DATA / "play.txt").read_text("utf-8").splitlines())
    if "ko" in models:
        print("\nThe same in Korean: 말 is a horse, and what is said")
        table = read_homographs(DATA / "ko_homographs.tsv")
        show_nearest(models["ko"], MAL, [row.text for row in table])
    print("\nWhat could stand here? Both language models, one from each side\n")
    for query in ("The film was [released] in 1995.", "She sat on the [bank] of the river."):
        words = [s.word for s in models["en"].substitutes(query, k=6).best]
        print(f"    {query:<40} {', '.join(words)}")
    try:
        draw(models, args.output)
        print(f"\nA picture of words between their meanings, the clearest first: {args.output}")
        print("(What is not told apart there, and why: docs/models.md)\n")
    except ImportError:
        print("\nFor a picture of words between their meanings: pip install 'elmokit[plot]'\n")


if __name__ == "__main__":
    main()
