#!/usr/bin/env bash
# 처음 쓰는 분이 한국어 모델로 한 시간 동안 해 볼 만한 일을 차례로 실행합니다.
#
#     bash examples/journeys/korean.sh           # 빈 폴더에서 실행하세요. 파일은 그 폴더에 만듭니다.
#
# 단계마다 결과를 확인하므로, 문서와 다른 결과가 나오면 거기서 멈춥니다.
set -euo pipefail
shows() { tee /dev/stderr | grep -- "$1" > /dev/null || { echo "expected: $1" >&2; exit 1; }; }

# 어떤 모델인가요?
elmokit info ko | shows "Korean Wikipedia"

# 문장 벡터: 한 줄에 한 문장씩. 빈 줄은 NaN이 됩니다.
cat > text.txt <<'TEXT'
배가 고파서 밥을 먹었다.
배를 타고 섬에 갔다.

그는 1995년에 서울에서 태어났다.
TEXT
elmokit embed ko text.txt -o sentences.npz --level sentence
python - <<'PYTHON'
import numpy as np

vectors = np.load("sentences.npz")["vectors"]
print(vectors.shape)
assert vectors.shape[0] == 4 and np.isnan(vectors[2]).all() and np.isfinite(vectors[:2]).all()
PYTHON

# 비슷한 문맥 찾기: 원문 그대로, 조사까지 보여 줍니다.
elmokit similar ko text.txt "[배]를 타고 여행을 가다" --same-word -k 2 | shows "\[배\]를 타고 섬에 갔다"

# 형태소로 나뉘어도 위치는 원문을 가리킵니다.
python - <<'PYTHON'
from elmokit import Elmo

elmo = Elmo.from_pretrained("ko")
print(elmo)
text = "그는 서울에서 태어났다."
for token in elmo.tokenize_with_offsets(text)[0]:
    print(f"{token.text}\t{text[token.start:token.end]}")
PYTHON

# 라벨이 붙은 문장 몇 개로 만드는 분류기
python - <<'PYTHON'
good, bad = ("재미있는", "훌륭한", "멋진", "감동적인"), ("지루한", "형편없는", "뻔한", "시시한")
rows = [f"{word} {thing}\t{label}" for label, words in (("긍정", good), ("부정", bad))
        for word in words for thing in ("영화", "이야기", "노래", "배우", "책")]
with open("reviews.tsv", "w", encoding="utf-8") as file:
    file.write("text\tlabel\n" + "\n".join(rows) + "\n")
PYTHON
elmokit train classify --head linear --train reviews.tsv --dev reviews.tsv --model ko -o sentiment
echo "정말 훌륭한 영화" | elmokit predict sentiment --json | shows '"label": "긍정"'

# 개체명 인식: 개체명은 원문의 글자 그대로 돌려줍니다.
cat > names.conll <<'DATA'
김민수 B-PER
는 O
부산 B-LOC
에서 O
태어나 O
었 O
다 O
. O

이영희 B-PER
는 O
서울 B-LOC
에 O
가 O
았 O
다 O
. O
DATA
elmokit train ner --train names.conll --dev names.conll --model ko -o names --quiet \
    --set train.epochs=30 --set train.patience=0 --set train.lr=0.005 --set dropout=0
python - <<'PYTHON'
from elmokit import load_task

tagger = load_task("names")
text = "김민수는 서울에서 태어났다."
result = tagger(text)
print(result)
assert result.entities
for entity in result.entities:
    assert text[entity.start : entity.end] == entity.text
PYTHON
echo "여기까지입니다"
