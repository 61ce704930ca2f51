#!/usr/bin/env bash
# An hour with elmokit, as a new user would spend it, on the bundled English model.
#
#     bash examples/journeys/english.sh          # in an empty folder; writes its files there
#
# Every step checks what it prints, so the script stops where an answer is not the documented one.
set -euo pipefail
shows() { tee /dev/stderr | grep -- "$1" > /dev/null || { echo "expected: $1" >&2; exit 1; }; }

# What is this model?
elmokit info en | shows "English Wikipedia"

# Vectors of my text: one sentence per line. The file says what is in it.
cat > text.txt <<'TEXT'
He has a gift for music.
The gift was wrapped in paper.

She sat on the bank of the river.
TEXT
elmokit embed en text.txt -o vectors.h5 --layers top
python - <<'PYTHON'
from elmokit import read_vectors

vectors = read_vectors("vectors.h5")
print(vectors.metadata["model"], vectors.metadata["layers"])
for entry in vectors:
    print(entry.index, entry.tokens, entry.vectors.shape)
PYTHON

# Where is a word used like mine? The word in brackets, in the text as it was written.
elmokit similar en text.txt "She has a [gift] for languages." -k 2 | shows "a \[gift\] for music"

# How well does the model know a text? An English model knows no Korean, and says so.
echo "배가 고파서 밥을 먹었다." > korean.txt
elmokit evaluate en korean.txt 2>&1 | shows "outside the model's vocabulary"

# A classifier from a few labelled texts: the linear head trains in seconds.
python - <<'PYTHON'
good, bad = ("great", "lovely", "wonderful", "fine"), ("awful", "boring", "terrible", "dull")
rows = [f"a {word} {thing}\t{label}" for label, words in (("good", good), ("bad", bad))
        for word in words for thing in ("film", "story", "song", "cast", "book")]
with open("reviews.tsv", "w") as file:
    file.write("text\tlabel\n" + "\n".join(rows) + "\n")
PYTHON
elmokit train classify --head linear --train reviews.tsv --dev reviews.tsv --model en -o sentiment
echo "what a lovely film" | elmokit predict sentiment --json | shows '"label": "good"'
elmokit info sentiment | shows "classify"

# Names in running text, with their offsets in it.
cat > names.conll <<'DATA'
Anna B-PER
Lee I-PER
lives O
in O
Paris B-LOC
. O

Tom B-PER
came O
to O
London B-LOC
. O
DATA
elmokit train ner --train names.conll --dev names.conll --model en -o names --quiet \
    --set train.epochs=30 --set train.patience=0 --set train.lr=0.005 --set dropout=0
python - <<'PYTHON'
from elmokit import load_task

tagger = load_task("names")
print(tagger)
text = "Anna Lee came to Paris."
result = tagger(text)
print(result)
assert result.entities
for entity in result.entities:
    assert text[entity.start : entity.end] == entity.text
assert [result.text for result in tagger([text, ""])] == [text, ""]
PYTHON
echo "the journey is complete"
