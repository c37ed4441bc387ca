"""Output files that are not files, and disks that are full."""

from __future__ import annotations

import errno
import io
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from unspool.cli._shared import output_file
from unspool.cli._shared.output_file import writing
from unspool.store.private_files import replacing_private

from ..isolation import run_environment
from .run import COMMAND, SAMPLES, Run


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no /dev/fd")
def test_a_link_to_a_pipe() -> None:
    """Such as /dev/stdout: on Linux, it is a link to a name that does not exist."""
    reader, writer = os.pipe()
    try:
        with writing(Path(f"/dev/fd/{writer}")) as file:
            file.write(b"rows")
        assert os.read(reader, 10) == b"rows"
    finally:
        os.close(reader)
        os.close(writer)


class BadDisk(io.BytesIO):
    """A file that cannot be written."""

    def __init__(self, number: int, when: str) -> None:
        super().__init__()
        self._error = OSError(number, os.strerror(number))
        self._when = when

    def write(self, data: Any) -> int:
        if self._when == "write":
            raise self._error
        return super().write(data)

    def close(self) -> None:
        super().close()
        if self._when == "close":
            self._when = ""
            raise self._error


@pytest.fixture
def fail(monkeypatch: pytest.MonkeyPatch) -> Callable[[int, str], None]:
    """Makes output files fail with an error when they are written, or when they are closed."""

    def fail(number: int, when: str) -> None:
        @contextmanager
        def failing(path: Path) -> Iterator[BinaryIO]:
            with replacing_private(path), BadDisk(number, when) as file:
                yield file

        monkeypatch.setattr(output_file, "replacing_private", failing)

    return fail


ERRORS = pytest.mark.parametrize(
    ("number", "when"), [(errno.ENOSPC, "write"), (errno.EIO, "write"), (errno.EIO, "close")]
)


@ERRORS
@pytest.mark.parametrize("format", ["ndjson", "stream", "markdown", "atif"])
def test_a_bad_disk_keeps_the_previous_file(
    format: str, number: int, when: str, fail: Callable[[int, str], None], run: Run, tmp_path: Path
) -> None:
    """It is no error of a session, and an incomplete file does not replace a complete one."""
    fail(number, when)
    path = tmp_path / "out"
    path.write_bytes(b"complete")
    done = run("export", "--format", format, "--home", SAMPLES, "-o", path)
    assert (done.code, done.err) == (1, f"unspool: {path}: {os.strerror(number)}\n")
    assert path.read_bytes() == b"complete"


@ERRORS
def test_a_bad_disk_in_a_folder_of_files(
    number: int, when: str, fail: Callable[[int, str], None], run: Run, tmp_path: Path
) -> None:
    """It is reported once, with the file that could not be written."""
    fail(number, when)
    done = run("export", "--format", "ndjson", "--home", SAMPLES, "-o", f"{tmp_path}/")
    assert done.code == 1
    assert done.err.startswith(f"unspool: {tmp_path}/")
    assert done.err.endswith(f": {os.strerror(number)}\n")
    assert done.err.count("\n") == 1


def test_one_file_of_a_folder_cannot_be_written(run: Run, tmp_path: Path) -> None:
    """The others are written."""
    first, *others = [json.loads(line)["name"] for line in run("ls", "--json", "--home", SAMPLES).out.splitlines()]
    (tmp_path / f"{first}.md").mkdir()
    done = run("export", "--format", "markdown", "--home", SAMPLES, "-o", f"{tmp_path}/")
    assert done.code == 1
    assert f"{tmp_path / first}.md: Is a directory" in done.err
    assert all((tmp_path / f"{other}.md").is_file() for other in others)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no /dev/full")
@pytest.mark.parametrize("arguments", [("ls", "--json"), ("export",), ("events",), ("stats",)], ids=" ".join)
def test_standard_output_on_a_full_disk(arguments: tuple[str, ...], tmp_path: Path) -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [*COMMAND, *arguments, "--home", SAMPLES], stdout=full, stderr=subprocess.PIPE, text=True,
            env=run_environment() | {"UNSPOOL_DATA": str(tmp_path)}, check=False,
        )  # fmt: skip
    assert (done.returncode, done.stderr) == (1, "unspool: the output cannot be written: No space left on device\n")
