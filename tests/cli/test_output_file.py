"""Output files that are not files."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from unspool.cli._shared.output_file import writing


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such pipes")
def test_a_link_to_a_pipe(tmp_path: Path) -> None:
    """Such as /dev/stdout: it is written to, not replaced."""
    pipe, link = tmp_path / "pipe", tmp_path / "link"
    os.mkfifo(pipe)
    link.symlink_to(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        with writing(link) as file:
            file.write(b"rows")
        assert os.read(reader, 10) == b"rows"
    finally:
        os.close(reader)
    assert pipe.is_fifo()
