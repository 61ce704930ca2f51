"""`python -m fuzz [--minutes 3] [--seed 1] [CAMPAIGN …]`: all campaigns, and a table."""

import argparse
import json
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from .campaign import CAMPAIGNS

MAX_SHOWN = 5
"""Failures of a target that are printed."""


def main() -> int:
    """Run the campaigns side by side; 1 if anything failed."""
    parser = argparse.ArgumentParser(description="Attack elmokit with damaged input.")
    parser.add_argument("campaigns", nargs="*", metavar="CAMPAIGN")
    parser.add_argument("--minutes", type=float, default=3.0, help="on two cores, about")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    if unknown := {*args.campaigns} - {*CAMPAIGNS}:
        parser.error(f"{', '.join(unknown)}: expected one of {', '.join(CAMPAIGNS)}")
    wanted = {name: CAMPAIGNS[name] for name in args.campaigns or CAMPAIGNS}
    # Two run at a time, unless there is only one.
    scale = min(2, len(wanted)) / sum(wanted.values())
    shares = {name: scale * share for name, share in wanted.items()}

    print(f"{'target':32}{'ok':>12}{'refused':>12}{'failures':>12}", flush=True)
    with ThreadPoolExecutor(2) as pool:
        rows = list(pool.map(partial(_run, args), shares, shares.values()))
    total = sum(rows)
    print(f"seed {args.seed}, {args.minutes:g} minutes: {total} failures")
    return 1 if total else 0


def _run(args: argparse.Namespace, name: str, share: float) -> int:
    """Run a campaign in a process of its own, and print what it finds; its failures."""
    start = time.time()
    seconds = args.minutes * 60 * share
    # It also gets the time of its end, as a process needs a while to start.
    limits = map(str, (args.seed, seconds, start + seconds))
    command = [sys.executable, "-m", "fuzz.campaign", name, *limits]
    total = 0
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            total += _print(**json.loads(line))
    if process.returncode:
        total += _print(name, 0, 0, [f"the process ended with code {process.returncode}"])
    minutes = (time.time() - start) / 60
    print(f"{name}: {minutes:.1f} minutes", file=sys.stderr, flush=True)
    return total


def _print(name: str, ok: int, refused: int, failures: list[str]) -> int:
    """Print a row of the table; its failures."""
    lines = [f"{name:32}{ok:>12,}{refused:>12,}{len(failures):>12,}"]
    lines += [f"    {failure}" for failure in failures[:MAX_SHOWN]]
    print("\n".join(lines), flush=True)
    return len(failures)


if __name__ == "__main__":
    sys.exit(main())
