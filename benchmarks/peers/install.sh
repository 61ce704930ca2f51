#!/usr/bin/env bash
# A virtual environment for each of the old ELMo libraries, for benchmarks and parity checks.
#
#     benchmarks/peers/install.sh [FOLDER [PEER ...]]
#
# FOLDER is benchmarks/.peers by default; PEER is allennlp, simple_elmo or manylangs, the first two
# by default. None of them installs on today's Python by its own requirements; what is pinned here
# works on Python 3.11 (see the comments). Run again, it repairs what is missing and skips what is there.
# PYTHON names the interpreter (default: python3.11). Takes some minutes and 4 GB.
set -euo pipefail

folder=${1:-"$(dirname "${BASH_SOURCE[0]}")/../.peers"}
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
peers=("${@:2}")
[[ ${#peers[@]} -gt 0 ]] || peers=(allennlp simple_elmo)
for peer in "${peers[@]}"; do
    [[ $peer == allennlp || $peer == simple_elmo || $peer == manylangs ]] || {
        echo "unknown peer $peer: expected allennlp, simple_elmo or manylangs" >&2
        exit 2
    }
done
python=${PYTHON:-python3.11}
torch="torch==2.13.0"

# make_venv NAME PROBE: true if the environment is wanted and has yet to be filled.
make_venv() {
    local venv="$folder/$1"
    [[ " ${peers[*]} " == *" $1 "* ]] || return 1
    if [[ -x "$venv/bin/python" ]] && "$venv/bin/python" -W ignore -c "$2" >/dev/null 2>&1; then
        echo "$1: already there ($venv)"
        return 1
    fi
    [[ -x "$venv/bin/python" ]] || "$python" -m venv "$venv"
    echo "$1: installing into $venv"
}

install() {
    local venv="$folder/$1"
    shift
    "$venv/bin/python" -m pip install --quiet "$@"
}

if make_venv allennlp "import allennlp.modules.elmo"; then
    # Its own pins (torch<1.13, spacy<3.4, …) cannot be met on 3.11, so it comes without them.
    install allennlp "$torch" numpy h5py "setuptools<81"
    install allennlp --no-deps allennlp==2.10.1
    install allennlp transformers==4.40.2 huggingface_hub==0.25.2 spacy cached_path lmdb dill \
        base58 more_itertools fairscale scikit-learn scipy nltk tensorboardX termcolor
    # AllenNLP imports torchvision for images, and a torchvision that does not match the CPU
    # torch fails at import. An empty package is enough for text.
    site=$("$folder/allennlp/bin/python" -c "import sysconfig; print(sysconfig.get_path('purelib'))")
    mkdir -p "$site/torchvision/ops"
    touch "$site/torchvision/__init__.py" "$site/torchvision/ops/__init__.py" \
        "$site/torchvision/ops/boxes.py"
    "$folder/allennlp/bin/python" -W ignore -c "import allennlp.modules.elmo"
fi

# Keras 3 has no LSTMCell of the kind that simple_elmo uses; tf-keras brings it back.
export TF_USE_LEGACY_KERAS=1 TF_CPP_MIN_LOG_LEVEL=3
if make_venv simple_elmo "import simple_elmo"; then
    install simple_elmo tensorflow-cpu==2.21.* tf-keras smart_open pandas scipy scikit-learn h5py
    install simple_elmo --no-deps simple_elmo==0.9.2
    "$folder/simple_elmo/bin/python" -W ignore -c "import simple_elmo"
fi
if make_venv manylangs "import elmoformanylangs"; then
    # Newer versions of overrides refuse its signatures.
    install manylangs "$torch" numpy h5py overrides==3.1.0
    install manylangs --no-deps elmoformanylangs==0.0.4.post2
    "$folder/manylangs/bin/python" -W ignore -c "import elmoformanylangs"
fi
echo "peers are ready in $folder"
