"""The programs under test as processes of their own that answer JSON lines (see `peers/`)."""

import json
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


@dataclass
class Worker:
    """One program with one model loaded."""

    name: str
    command: list[str]
    options: Path
    weights: Path
    threads: int
    extra: dict[str, Any] = field(default_factory=dict)
    load_seconds: float = 0.0
    peak_rss_mb: float = 0.0

    def __enter__(self) -> "Worker":
        self.process = subprocess.Popen(
            self.command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            encoding="utf-8",
        )
        first = {"options": str(self.options), "weights": str(self.weights)}
        self.load_seconds = self.ask({**first, "threads": self.threads, **self.extra})[
            "load_seconds"
        ]
        return self

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """The answer to one request."""
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        answer: dict[str, Any] = json.loads(line) if line else {"error": "the program has ended"}
        if "error" in answer:
            raise RuntimeError(f"{self.name}: {answer['error']}")
        return answer

    def seconds(self, sentences: list[list[str]], result: Path | None = None) -> float:
        """Wall time of one call that embeds `sentences`; the vectors go to `result`."""
        answer = self.ask({"sentences": sentences, "return": str(result) if result else None})
        self.peak_rss_mb = answer["peak_rss_mb"]
        return float(answer["seconds"])

    def __exit__(self, *_: object) -> None:
        assert self.process.stdin
        self.process.stdin.close()
        self.process.wait()


def peers(folder: Path, options: Path, weights: Path, threads: int) -> list[Worker]:
    """AllenNLP and simple_elmo, where `peers/install.sh` has installed them."""
    found = []
    for name in ("allennlp", "simple_elmo"):
        python = folder / name / "bin" / "python"
        if python.exists():
            script = HERE / "peers" / f"{name}_worker.py"
            found.append(Worker(name, [str(python), str(script)], options, weights, threads))
    return found


def own(engine: str, options: Path, weights: Path, threads: int) -> Worker:
    """elmokit with one of its engines; `torch:int8` for 8 bits."""
    is_int8 = engine.endswith(":int8")
    extra = {"engine": engine.removesuffix(":int8"), "precision": "int8" if is_int8 else "float32"}
    command = [sys.executable, str(HERE / "peers" / "elmokit_worker.py")]
    return Worker(engine, command, options, weights, threads, extra)
