"""Builds the native kernel into the wheel where there is a C compiler; without one, nothing.

The library is plain C behind ctypes: no Python headers, so one wheel serves every Python.
"""

import os
import platform
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

LIBRARY = "_kernel.dll" if sys.platform == "win32" else "_kernel.so"
FLAGS = ["-O3", "-std=gnu11", "-fvisibility=hidden", "-ffp-contract=fast", "-Wno-psabi"]
FLAGS += [] if sys.platform == "win32" else ["-fPIC"]  # which clang refuses for Windows
VARIANTS = {
    "portable": ["-DVL=4", "-DMR=6", "-DNV=2"],
    "avx2": ["-DVL=8", "-DMR=6", "-DNV=2", "-mavx2", "-mfma"],
    "avx512": ["-DVL=16", "-DMR=6", "-DNV=4", "-mavx512f", "-mavx512vl", "-mavx512dq",
               "-mavx512bw", "-mfma", "-mprefer-vector-width=512"],
}  # fmt: skip


def build_library(sources: Path, target: Path, *extra: str) -> None:
    """Compile the kernel for every instruction set of this kind of machine."""
    compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc") or "clang"
    is_x86 = platform.machine().lower() in ("x86_64", "amd64")
    variants = VARIANTS if is_x86 else {"portable": VARIANTS["portable"]}
    common = [*compiler.split(), *FLAGS, *(["-DELMOKIT_X86"] if is_x86 else []), *extra]
    with tempfile.TemporaryDirectory() as folder:
        objects = [f"{folder}/dispatch.o"]
        subprocess.run([*common, "-c", str(sources / "dispatch.c"), "-o", objects[0]], check=True)
        for isa, flags in variants.items():
            objects.append(f"{folder}/{isa}.o")
            source = str(sources / "kernel.c")
            subprocess.run(
                [*common, f"-DISA={isa}", *flags, "-c", source, "-o", objects[-1]], check=True
            )
        library = f"{folder}/{LIBRARY}"
        subprocess.run([*common, "-shared", *objects, "-o", library], check=True)
        # Renamed, not overwritten: a process may be running the kernel that is there.
        temporary = target.with_name(f".{target.name}.partial")
        shutil.copy(library, temporary)
        os.replace(temporary, target)


class NativeKernel(BuildHookInterface):  # type: ignore[misc]
    """Adds `elmokit/engine/_kernel.so` and the tag of this platform to the wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if self.target_name != "wheel" or os.environ.get("ELMOKIT_PURE") == "1":
            return
        root = Path(self.root)
        folder = root / "src/elmokit/engine" if version == "editable" else root / "build"
        folder.mkdir(exist_ok=True)
        library = folder / LIBRARY
        try:
            build_library(root / "native", library)
        except (OSError, subprocess.CalledProcessError) as e:
            self.app.display_warning(f"the native kernel is left out, torch does its work: {e}")
            return
        build_data["pure_python"] = False
        system = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["tag"] = f"py3-none-{system}"
        if version != "editable":
            build_data["force_include"][str(library)] = f"elmokit/engine/{LIBRARY}"


if __name__ == "__main__":
    build_library(Path(__file__).parent / "native", Path(sys.argv[1]), *sys.argv[2:])
