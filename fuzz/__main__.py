"""`python -m fuzz [--minutes 3] [--seed 1] [CAMPAIGN …]`: all campaigns, and a table."""

import argparse
import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

from .campaign import CAMPAIGNS

MAX_SHOWN = 5
"""Failures of a target that are printed."""


def main() -> int:
    """Run the campaigns side by side; 1 if anything failed."""
    parser = argparse.ArgumentParser(description="Attack elmokit with damaged input.")
    parser.add_argument("campaigns", nargs="*", default=CAMPAIGNS, metavar="CAMPAIGN")
    parser.add_argument("--minutes", type=float, default=3.0, help="on two cores, about")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    seconds = args.minutes * 60 * 2 / len(args.campaigns)

    def run(name: str) -> list[dict[str, object]]:
        command = [sys.executable, "-m", "fuzz.campaign", name, str(args.seed), str(seconds)]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
        rows = [json.loads(line) for line in done.stdout.splitlines()]
        if done.returncode:
            failure = f"the process ended with code {done.returncode}"
            rows.append({"name": name, "ok": 0, "refused": 0, "failures": [failure]})
        return rows

    with ThreadPoolExecutor(2) as pool:
        rows = [row for found in pool.map(run, args.campaigns) for row in found]
    print(f"{'target':24}{'ok':>12}{'refused':>12}{'failures':>12}")
    for row in rows:
        failures = row["failures"]
        assert isinstance(failures, list)
        print(f"{row['name']!s:24}{row['ok']:>12,}{row['refused']:>12,}{len(failures):>12,}")
        for failure in failures[:MAX_SHOWN]:
            print(f"    {failure}")
    total = sum(len(row["failures"]) for row in rows)  # type: ignore[arg-type]
    print(f"seed {args.seed}, {args.minutes:g} minutes: {total} failures")
    return 1 if total else 0


if __name__ == "__main__":
    sys.exit(main())
