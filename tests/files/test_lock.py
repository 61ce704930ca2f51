"""Two runs cannot write the same output."""

import errno
import subprocess
import sys
from pathlib import Path

import pytest

from elmokit.errors import FileError
from elmokit.files.folders import locked

HOLD = """
import sys
from pathlib import Path
from elmokit.files.folders import locked
with locked(Path(sys.argv[1]), Path("out")):
    print("held", flush=True)
    sys.stdin.read()
"""


def assert_held(lock: Path) -> None:
    with (
        pytest.raises(FileError, match=r"^out\.h5 is being written by another process$"),
        locked(lock, Path("out.h5")),
    ):
        pass


def test_a_second_lock_is_refused_until_the_first_is_gone(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    with locked(lock, Path("out.h5")):
        assert_held(lock)
        with locked(tmp_path / "another", Path("other.h5")):
            pass
    with locked(lock, Path("out.h5")):
        pass


def test_an_error_lets_go_of_the_lock(tmp_path: Path) -> None:
    with pytest.raises(ValueError), locked(tmp_path / "lock", Path("out.h5")):
        raise ValueError
    with locked(tmp_path / "lock", Path("out.h5")):
        pass


def test_another_process_holds_the_lock_until_it_is_killed(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    command = [sys.executable, "-c", HOLD, str(lock)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline().strip() == b"held"
        assert_held(lock)
        holder.kill()
        holder.wait()
    with locked(lock, Path("out.h5")):
        pass


def test_the_file_of_a_lock_may_go_while_it_is_held(tmp_path: Path) -> None:
    if sys.platform == "win32":
        pytest.skip("Windows keeps open files")
    with locked(tmp_path / "lock", Path("out.h5")):
        (tmp_path / "lock").unlink()


@pytest.mark.filterwarnings("ignore:flock not supported:UserWarning")
@pytest.mark.parametrize("code", [errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS])
def test_a_file_system_without_locks_does_not_stop_a_run(
    code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fcntl = pytest.importorskip("fcntl")

    def flock(*_: object) -> None:
        raise OSError(code, "no locks here")

    monkeypatch.setattr(fcntl, "flock", flock)
    with locked(tmp_path / "lock", Path("out.h5")):
        pass


def test_a_folder_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError), locked(tmp_path / "file" / "lock", Path("out.h5")):
        pass
