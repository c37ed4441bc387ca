"""A process that exchanges lines: one line that cannot be handled does not affect the others."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from unspool.runs.drivers.line_process import LineProcess

from ..harness import run


def test_lines_after_one_that_cannot_be_handled_are_handled(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """They arrive in one piece with it, and the end of the output is handled too."""
    handled = []

    def handle(line: bytes) -> None:
        handled.append(line)
        if line in (b"two", b""):
            raise OSError("disk full")

    async def body() -> None:
        process = LineProcess(handle)
        await process.start([sys.executable, "-I", "-c", "print('one\\ntwo\\nthree')"], str(tmp_path), {})
        await process.wait()
        assert process.is_silent

    run(body())
    assert handled == [b"one", b"two", b"three", b""]
    assert [str(record.exc_info and record.exc_info[1]) for record in caplog.records] == ["disk full"] * 2
