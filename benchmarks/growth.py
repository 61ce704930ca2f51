"""Time and memory against the length of a text: both should grow as they must, and no faster.

    python benchmarks/growth.py --text corpus.txt.xz --json growth.json

Streams the first 1k, 3k, … tokens of a text through the small published shape (random weights),
each length in a process of its own, and prints tokens/s and peak memory; a straight line has a
constant rate, and flat memory does not depend on the length.
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

LENGTHS = (1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000)


def sentences(path: Path, num_tokens: int) -> Iterator[list[str]]:
    """Sentences of about 25 tokens with `num_tokens` in all; the text repeats if it must."""
    from elmokit.files.read import read_lines
    from elmokit.text.tokenize import load_tokenizer, words

    tokenizer = load_tokenizer("regex")
    left = num_tokens
    while True:
        for line in read_lines(path):
            tokens = words(tokenizer, line)
            for start in range(0, len(tokens), 25):
                sentence = tokens[start : start + 25][:left]
                left -= len(sentence)
                yield sentence
                if left == 0:
                    return


def measure(path: Path, num_tokens: int, threads: int) -> dict[str, float]:
    """One length, in this process."""
    import torch

    from elmokit import Elmo, ElmoConfig, bench

    torch.set_num_threads(threads)
    torch.manual_seed(0)
    elmo = Elmo(ElmoConfig()).eval()
    text = sentences(path, num_tokens)
    elmo.embed(["a warm-up sentence"])
    before, start = bench.peak_memory_mb(), time.perf_counter()
    done = sum(len(vectors) for vectors in elmo.embed_stream(text, batch_size=128))
    seconds = time.perf_counter() - start
    assert done == num_tokens
    return {
        "tokens": num_tokens,
        "seconds": seconds,
        "tokens_per_s": num_tokens / seconds,
        "mb_above_model": bench.peak_memory_mb() - before,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--text", type=Path, required=True)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--only", type=int, help="one length, in this process")
    args = parser.parse_args()
    if args.only:
        print(json.dumps(measure(args.text, args.only, args.threads)))
        return
    rows = []
    for length in LENGTHS:
        command = [sys.executable, __file__, "--text", str(args.text), "--only", str(length)]
        command += ["--threads", str(args.threads)]
        output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        rows.append(json.loads(output))
        bar = "#" * round(rows[-1]["tokens_per_s"] / 200)
        print(
            f"{length:9,} tokens {rows[-1]['seconds']:8.2f} s "
            f"{rows[-1]['tokens_per_s']:8.0f} tok/s "
            f"{rows[-1]['mb_above_model']:6.0f} MB above the model  {bar}",
            flush=True,
        )
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
