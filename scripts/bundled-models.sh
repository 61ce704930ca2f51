#!/usr/bin/env bash
# Pre-trains the bundled models `en` and `ko`, from plain text to weights.
#
#   RUNS=~/runs TEXT=~/lm GLOVE=~/glove.6B.100d.txt.gz scripts/bundled-models.sh COMMAND [en|ko]
#
#   install   build a wheel of this checkout and install it into a venv of its own, RUNS/venv
#   prepare   TEXT/en-wiki, … → RUNS/en-corpus (minutes), TEXT/ko-wiki, … → RUNS/ko-corpus (an hour)
#   start     start the run in the background, or resume it: one thread, low priority
#   stop      end the run after its step, with a checkpoint
#   pause     stop using the processor, for example around a benchmark
#   continue  end the pause
#   status    how the run is doing
#
# Without en or ko, a command does both. RUNS must be outside the checkout. TEXT holds one folder
# per text, with train-*.txt.xz and valid.txt.xz: en-wiki, en-novels, en-everyday, ko-wiki,
# ko-reviews, ko-everyday. docs/models.md says what is in them. Only `prepare` and the first `start`
# read TEXT and GLOVE.
set -euo pipefail

repository=$(cd "$(dirname "$0")/.." && pwd)
: "${RUNS:?set RUNS to a folder outside the checkout}"
command=${1:?"expected a command: install, prepare, start, stop, pause, continue or status"}
languages=${2:-en ko}
mkdir -p "$RUNS"
RUNS=$(cd "$RUNS" && pwd)
elmokit=$RUNS/venv/bin/elmokit

install() {
    [ -x "$RUNS/venv/bin/pip" ] || python3 -m venv "$RUNS/venv"
    "$RUNS/venv/bin/pip" install --quiet -c "$repository/constraints.txt" torch
    "$RUNS/venv/bin/pip" install --quiet --force-reinstall --no-deps "$repository"
    "$RUNS/venv/bin/pip" install --quiet -c "$repository/constraints.txt" "$repository[ko,plot]"
    "$elmokit" --version
}

# The encyclopaedia is the largest text and the least like everyday language.
prepare() {
    local texts weights tokenizer inputs=() held_out=()
    case $1 in
        en) texts="en-wiki en-novels en-everyday" weights=1,2,3 tokenizer=regex ;;
        ko) texts="ko-wiki ko-reviews ko-everyday" weights=1,1.5,3 tokenizer=kiwi ;;
    esac
    for text in $texts; do
        inputs+=("$TEXT/$text/train-00.txt.xz")
        held_out+=(--valid "$TEXT/$text/valid.txt.xz")
    done
    "$elmokit" prepare "${inputs[@]}" --weight "$weights" "${held_out[@]}" --clean \
        --tokenizer "$tokenizer" --vocab-size 30000 -o "$RUNS/$1-corpus"
}

start() {
    if running "$1"; then
        echo "$1 is running already"
        return
    fi
    local settings=(--resume --set train.beta2=0.999)
    if [ ! -f "$RUNS/$1/run.json" ]; then
        settings=(
            --preset small --max-tokens 100e6
            --set model.lstm.dim=768 --set model.lstm.projection_dim=256
            --set train.lr=2e-3 --set train.dropout=0 --set train.epochs=null
            --set train.vector_steps=6000 --set train.log_every=100
            --set train.evaluate_every=4000 --set train.evaluate_tokens=50000
            --set train.checkpoint_every=100000  # by time instead: every five minutes
        )
        case $1 in
            en) settings+=(--vectors "${GLOVE:?set GLOVE to a file of GloVe vectors}") ;;
            ko) settings+=(--vectors kiwi) ;;
        esac
    fi
    OMP_NUM_THREADS=1 nohup nice -n 5 "$elmokit" pretrain "$RUNS/$1-corpus" -o "$RUNS/$1" \
        "${settings[@]}" >>"$RUNS/$1.log" 2>&1 </dev/null &
    echo $! >"$RUNS/$1.pid"
    echo "$1 has started; its output goes to $RUNS/$1.log"
}

running() {
    [ -f "$RUNS/$1.pid" ] && kill -0 "$(cat "$RUNS/$1.pid")" 2>/dev/null
}

signal() {
    if running "$2"; then
        kill "-$1" "$(cat "$RUNS/$2.pid")"
    else
        echo "$2 is not running"
    fi
}

for language in $languages; do
    case $language in en | ko) ;; *) echo "expected en or ko, not $language" >&2 && exit 2 ;; esac
    case $command in
        install) ;;
        prepare | start) "$command" "$language" ;;
        stop) signal CONT "$language" && signal TERM "$language" ;;
        pause) signal STOP "$language" ;;
        continue) signal CONT "$language" ;;
        status) "$elmokit" info "$RUNS/$language" && tail -n 1 "$RUNS/$language.log" ;;
        *) echo "unknown command $command; see the top of $0" >&2 && exit 2 ;;
    esac
done
if [ "$command" = install ]; then install; fi
