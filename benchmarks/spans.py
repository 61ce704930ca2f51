"""How many answers of a SQuAD or KorQuAD file a tokenizer can give back exactly.

python benchmarks/spans.py FILE [--tokenizer kiwi]
"""

import argparse
from pathlib import Path

from elmokit.tasks.squad.model import SquadConfig
from elmokit.tasks.squad.task import answer_scores, read_squad
from elmokit.text.reader import Reader


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--tokenizer", default="regex")
    arguments = parser.parse_args()
    reader = Reader(arguments.tokenizer)
    questions = read_squad(arguments.file, SquadConfig(), reader, is_training=False)
    found = []
    for question in questions:
        texts = [
            question.passage.text[slice(*question.passage.characters(span))]
            for span in question.spans
        ]
        right = [text for text in texts if text in question.answers]
        found.append([*right, *texts, ""][0])
    exact = sum(text in q.answers for text, q in zip(found, questions, strict=True))
    scores = answer_scores([q.answers for q in questions], found, [q.rules for q in questions])
    print(f"{len(questions):,} questions; exact characters {exact / len(questions):.2%}")
    print(f"by the official rules: exact match {scores['exact_match']:.4f}, F1 {scores['f1']:.4f}")


if __name__ == "__main__":
    main()
