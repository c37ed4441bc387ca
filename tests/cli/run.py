"""Running the command: in this process where that will do, in one of its own where a process matters."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import unspool
from unspool.cli.main import main

from ..isolation import run_environment

SAMPLES = str(unspool.samples())
COMMAND = (sys.executable, "-m", "unspool.cli.main")


class Done(NamedTuple):
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()

    @property
    def records(self) -> list[dict[str, Any]]:
        """The output as JSON: every line has to be an object."""
        found = [json.loads(line) for line in self.out.split("\n") if line]
        assert all(isinstance(record, dict) for record in found)
        return found


Run = Callable[..., Done]


def call_main(arguments: tuple[str | Path, ...]) -> int:
    """Run in this process; wrong usage ends with an exit code too."""
    try:
        return main([str(argument) for argument in arguments])
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 1


def run_captured(capsys: pytest.CaptureFixture[str], arguments: tuple[str | Path, ...]) -> Done:
    """Run in this process and capture the output."""
    capsys.readouterr()
    code = call_main(arguments)
    out, err = capsys.readouterr()
    return Done(code, out, err)


def environment(home: Path, **more: str) -> dict[str, str]:
    """An environment without any settings of the user who runs the tests."""
    kept = {name: os.environ[name] for name in ("PYTHONPATH", "SYSTEMROOT") if name in os.environ}
    plain = {"HOME": str(home), "TZ": "UTC", "LANG": "C.UTF-8", "TERM": "xterm", "COLUMNS": "100"}
    return run_environment() | kept | plain | more


def on_terminal(arguments: tuple[str | Path, ...], home: Path, **more: str) -> Done:
    """Run on a terminal of its own; both outputs come together."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*COMMAND, *map(str, arguments)], stdin=theirs, stdout=theirs, stderr=theirs, env=environment(home, **more)
    )
    os.close(theirs)
    pieces = []
    while True:
        try:
            piece = os.read(ours, 1 << 16)
        except OSError:
            break
        if not piece:
            break
        pieces.append(piece)
    os.close(ours)
    return Done(process.wait(), b"".join(pieces).decode("utf-8"), "")
