"""Output files that are not files, and disks that are full."""

from __future__ import annotations

import errno
import io
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

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


class FullDisk(io.BytesIO):
    """A file that cannot grow."""

    def write(self, _: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def writelines(self, _: object) -> None:
        self.write(b"")


@pytest.mark.parametrize("format", ["ndjson", "stream", "markdown", "atif"])
def test_a_full_disk_keeps_the_previous_file(
    format: str, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is no error of a session, and an incomplete file does not replace a complete one."""

    @contextmanager
    def full(path: Path) -> Iterator[BinaryIO]:
        with replacing_private(path):
            yield FullDisk()

    monkeypatch.setattr(output_file, "replacing_private", full)
    path = tmp_path / "out"
    path.write_bytes(b"complete")
    done = run("export", "--format", format, "--home", SAMPLES, "-o", path)
    assert (done.code, done.err) == (1, f"unspool: {path}: No space left on device\n")
    assert path.read_bytes() == b"complete"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no /dev/full")
@pytest.mark.parametrize("arguments", [("ls", "--json"), ("export",), ("events",), ("stats",)], ids=" ".join)
def test_standard_output_on_a_full_disk(arguments: tuple[str, ...], tmp_path: Path) -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [*COMMAND, *arguments, "--home", SAMPLES], stdout=full, stderr=subprocess.PIPE, text=True,
            env=run_environment() | {"UNSPOOL_DATA": str(tmp_path)}, check=False,
        )  # fmt: skip
    assert (done.returncode, done.stderr) == (1, "unspool: the output cannot be written: No space left on device\n")
