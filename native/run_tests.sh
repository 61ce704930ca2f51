#!/usr/bin/env bash
# Builds and runs the kernel's tests under the sanitisers, for each instruction set of this machine.
# The AVX-512 layout is also run with the instructions of AVX2, so that every machine checks it.
set -euo pipefail
cd "$(dirname "$0")"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
CC=${CC:-cc}

run() { # name, flags
    local name=$1
    shift
    for sanitiser in address,undefined thread; do
        echo "$name, -fsanitize=$sanitiser"
        "$CC" -std=gnu11 -O2 -g -Wall -Wextra -Wno-psabi -ffp-contract=fast -fsanitize=$sanitiser \
            -fno-sanitize-recover=all "$@" kernel.c test_kernel.c -o "$folder/test" -lm -lpthread
        "$folder/test"
    done
}

run portable -DISA=portable -DVL=4 -DNV=2 -DMR=6
if [ "$(uname -m)" = x86_64 ]; then
    if grep -q -w avx2 /proc/cpuinfo; then
        run avx2 -DISA=avx2 -DVL=8 -DNV=2 -DMR=6 -mavx2 -mfma
        run "avx512 layout on avx2" -DISA=avx512 -DVL=16 -DNV=4 -DMR=6 -mavx2 -mfma
    fi
    if grep -q -w avx512bw /proc/cpuinfo; then
        run avx512 -DISA=avx512 -DVL=16 -DNV=4 -DMR=6 -mavx512f -mavx512vl -mavx512dq -mavx512bw -mfma
    fi
fi
