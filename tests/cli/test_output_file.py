"""Output files that are not files."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from unspool.cli._shared.output_file import writing


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
