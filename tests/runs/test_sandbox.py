"""Whether agents can be run in a sandbox here."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from unspool.core.errors import UnspoolError
from unspool.runs.sandbox import check_sandbox

pytestmark = pytest.mark.skipif(os.name != "posix", reason="the program is a shell script")


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("echo no namespaces >&2; exit 1", "no namespaces"),
        ("exit 3", "it exited with code 3"),
        ("kill -9 $$", "it exited with code -9"),
    ],
)
def test_a_program_that_fails_does_not_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, reason: str
) -> None:
    """Also one that does not say why, for example because it was killed."""
    program = tmp_path / "bwrap"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UnspoolError, match=reason):
        check_sandbox()
    program.write_text("#!/bin/sh\nexit 0\n")
    check_sandbox()
