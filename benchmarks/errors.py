"""What one task model gets right that another does not, on the same data.

    python benchmarks/errors.py RUN OTHER DEV [--train TRAIN] [--show 10]

RUN and OTHER are runs of `elmokit train` for ner, srl, classify, snli or squad, such as a baseline
and the same model with ELMo; of each, all seeds are counted together. With TRAIN, entities are
also told apart by whether the training data have them.
"""

import argparse
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from elmokit.files.read import read_json
from elmokit.tasks.parts.tags import spans
from elmokit.tasks.runs.load import TrainedTask, load_task
from elmokit.tasks.squad.task import f1

QUESTION_WORDS = ("who", "what", "when", "where", "which", "why", "how")


class Case(NamedTuple):
    """Something to get right (a span, a label, an answer), and what each run made of it."""

    group: tuple[str, ...]
    """What it is counted under."""
    text: str
    gold: str
    found: tuple[str, str]


def models(run: Path) -> Iterator[TrainedTask]:
    """The model of each seed."""
    for seed in read_json(run / "metrics.json")["seeds"]:
        yield load_task(run, seed=int(seed["seed"]))


def span_cases(
    examples: Sequence[Any], runs: Sequence[Sequence[Any]], is_known: Callable[[str], bool | None]
) -> Iterator[Case]:
    """Every entity or argument of the data, and what was found in its place."""
    for i, example in enumerate(examples):
        for label, start, end in spans(example.tags):
            if label == "V":
                continue
            text = " ".join(example.tokens[start:end])
            known = is_known(text)
            groups = (f"type {label}", f"{min(end - start, 3)}{'+' * (end - start > 2)} tokens")
            if known is not None:
                groups += ("in the training data" if known else "not in the training data",)
            found = [_fault(spans(run[i]), label, start, end) for run in runs]
            context = " ".join(example.tokens[max(start - 5, 0) : end + 5])
            yield Case(groups, f"{text}  ({context})", "right", (found[0], found[1]))


def label_cases(examples: Sequence[Any], runs: Sequence[Sequence[Any]]) -> Iterator[Case]:
    """Every text or pair of texts of the data, and the label that it was given."""
    for i, example in enumerate(examples):
        is_pair = hasattr(example, "premise")
        tokens = (*example.premise, "|", *example.hypothesis) if is_pair else example.tokens
        number = len(tokens)
        length = "up to 10" if number <= 10 else "11 to 20" if number <= 20 else "more than 20"
        groups = (f"label {example.label}", f"{length} tokens")
        found = [run[i]["label"] for run in runs]
        text = " ".join(tokens)
        yield Case(groups, f"{example.label}: {text:.100}", example.label, (found[0], found[1]))


def answer_cases(examples: Sequence[Any], runs: Sequence[Sequence[Any]]) -> Iterator[Case]:
    """Every question, and whether its answer is right, in part or not."""
    for i, example in enumerate(examples):
        said = [run[i]["answer"] for run in runs]
        found = [_answered(example, answer) for answer in said]
        length = len(example.answers[0].split())
        asked = next((w for w in map(str.lower, example.tokens) if w in QUESTION_WORDS), "other")
        groups = (f"asks {asked}", f"{min(length, 4)}{'+' * (length > 3)} words")
        text = f"{example.text}  {example.answers[0]!r:.40}, said {said[1]!r:.40}"
        yield Case(groups, text, "right", (found[0], found[1]))


def report(cases: Sequence[Case], names: Sequence[str], show: int) -> None:
    """Print the table of groups, who is right where, and some that only the first gets right."""
    groups = sorted({g for case in cases for g in case.group})
    print(f"{'':28}{'number':>8}{names[0]:>28}{names[1]:>28}")
    for group in ["all", *groups]:
        members = [c for c in cases if group == "all" or group in c.group]
        shares = [100 * _mean(c.found[k] == c.gold for c in members) for k in (0, 1)]
        print(f"{group:28}{len(members):>8}{shares[0]:>27.1f}%{shares[1]:>27.1f}%")
    sides = Counter((c.found[0] == c.gold, c.found[1] == c.gold) for c in cases)
    only = f"only {names[0]} {sides[True, False]}, only {names[1]} {sides[False, True]}"
    print(f"both right {sides[True, True]}, neither {sides[False, False]}, {only}")
    for k, name in enumerate(names):
        wrong = Counter(f"{c.gold} → {c.found[k]}" for c in cases if c.found[k] != c.gold)
        print(f"{name}: {', '.join(f'{what} {number}' for what, number in wrong.most_common(8))}")
    lost = [c for c in cases if c.found[0] == c.gold != c.found[1]]
    print(f"some of the {len(lost)} that only {names[0]} gets right:")
    for case in lost[:: max(1, len(lost) // max(1, show))][:show]:
        print(f"  {case.found[1]}: {case.text}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("other", type=Path)
    parser.add_argument("dev", type=Path)
    parser.add_argument("--train", type=Path)
    parser.add_argument("--show", type=int, default=10)
    args = parser.parse_args()
    pairs = list(zip(models(args.run), models(args.other), strict=True))
    cases: list[Case] = []
    for pair in pairs:
        task = pair[0]
        examples = task.task.read(args.dev, task.config, task.reader, is_training=False)
        examples = [e for e in examples if all(task.task.sentences(e))]
        found = [model.predict(examples) for model in pair]
        if task.task.name in ("ner", "srl"):
            cases += span_cases(examples, found, _known(task, args.train))
            spurious = [_spurious(examples, run) for run in found]
            print(f"spans that are none: {spurious[0]} against {spurious[1]}")
        elif task.task.name == "squad":
            cases += answer_cases(examples, found)
        else:
            cases += label_cases(examples, found)
    report(cases, (args.run.name, args.other.name), args.show)


def _known(task: TrainedTask, train: Path | None) -> Callable[[str], bool | None]:
    if train is None:
        return lambda text: None
    sentences = task.task.read(train, task.config, task.reader, is_training=True)
    known = {" ".join(s.tokens[i:j]) for s in sentences for _, i, j in spans(s.tags)}
    return lambda text: text in known


def _fault(found: Sequence[tuple[str, int, int]], label: str, start: int, end: int) -> str:
    """What became of a span."""
    if (label, start, end) in found:
        return "right"
    if any((i, j) == (start, end) for _, i, j in found):
        return "other type"
    if any(i < end and start < j for _, i, j in found):
        return "other ends"
    return "not found"


def _answered(example: Any, answer: str) -> str:
    """How good an answer is."""
    score = max(f1(answer, gold, example.rules) for gold in example.answers)
    return "right" if score == 1 else "in part" if score else "wrong"


def _spurious(examples: Sequence[Any], run: Sequence[Any]) -> int:
    """Found spans that overlap with none."""
    number = 0
    for example, tags in zip(examples, run, strict=True):
        gold = spans(example.tags)
        number += sum(not any(i < e and s < j for _, s, e in gold) for _, i, j in spans(tags))
    return number


def _mean(values: Iterator[bool]) -> float:
    rows = list(values)
    return sum(rows) / max(1, len(rows))


if __name__ == "__main__":
    main()
