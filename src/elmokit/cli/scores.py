"""The scores of a task run on labelled data, of one of its seeds or of all."""

import json
from collections.abc import Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import Any, TypeAlias

from ..errors import ConfigError
from .options import check_text

Scores: TypeAlias = dict[str, Any]


def task_scores(
    run: str, texts: Sequence[str], bilm: str | None, seed: int | None, all_seeds: bool, device: str
) -> tuple[dict[str, list[Scores]], str]:
    """The scores of each seed that is asked for by data file, and the name of the main score.

    Args:
        run: Folder of the run.
        texts: Files or folders of labelled data.
        bilm: Where the biLM is now.
        seed: Which seed; None for the best on the development data.
        all_seeds: All of them instead.
        device: Any torch device.
    """
    from ..tasks.runs.files import seed_numbers
    from ..tasks.runs.load import load_seeds, load_task

    for text in texts:
        if not Path(text).is_dir():  # a task may read a folder of files
            check_text(text)
    if all_seeds and "-" in texts and len(seed_numbers(Path(run))) > 1:
        raise ConfigError("--all-seeds: expected a file, which can be read for each seed")
    results: dict[str, list[Scores]] = {text: [] for text in texts}
    metric = ""
    models = (
        load_seeds(run, model=bilm, device=device)
        if all_seeds
        else [load_task(run, model=bilm, seed=seed, device=device)]
    )
    for trained in models:
        for text, rows in results.items():
            rows.append({"seed": trained.seed, **trained.evaluate(text)})
        metric = trained.task.metric
    return results, metric


def print_task_scores(results: dict[str, list[Scores]], metric: str, as_json: bool) -> None:
    """Print the scores of one seed, or what all come to, for each data file."""
    for i, (text, rows) in enumerate(results.items()):
        name = {"text": text} if len(results) > 1 else {}
        if as_json:
            scores = _summary(rows, metric) if len(rows) > 1 else rows[0]
            print(json.dumps({**name, **scores}, ensure_ascii=False))
            continue
        if name:
            print(f"{'' if i == 0 else chr(10)}{text}")
        _print(rows, metric)


def _print(rows: list[Scores], metric: str) -> None:
    if len(rows) == 1:
        _print_one(rows[0])
        return
    summary = _summary(rows, metric)
    for row in rows:
        print(f"seed {row['seed']:<7}  {metric} {row[metric]:.4f}")
    print(f"{'mean':<12}  {metric} {summary['mean']:.4f} ± {summary['deviation']:.4f}")


def _summary(rows: list[Scores], metric: str) -> Scores:
    values = [row[metric] for row in rows]
    return {"metric": metric, "mean": mean(values), "deviation": stdev(values), "seeds": rows}


def _print_one(metrics: Scores) -> None:
    for name, value in metrics.items():
        if isinstance(value, dict):
            for label, scores in value.items():
                print(f"  {label:<12}  {_in_words(scores)}")
        else:
            print(f"{name:<12}  {_in_words(value)}")


def _in_words(value: Any) -> str:
    if isinstance(value, dict):
        return "  ".join(f"{name} {_in_words(inner)}" for name, inner in value.items())
    return f"{value:.4f}" if isinstance(value, float) else f"{value:,}"
