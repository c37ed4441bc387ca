"""A terminal on which a person runs a command of unspool: shows what it prints, and types."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import termios
import threading
from pathlib import Path

from ..cli.run import COMMAND, Done, environment
from ..waiting import PATIENCE, wait_until

COLUMNS = 100


class Terminal:
    """A command on a terminal of its own."""

    def __init__(self, data: Path, *arguments: str) -> None:
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, COLUMNS, 0, 0))
        self._process = subprocess.Popen(
            [*COMMAND, *arguments], stdin=theirs, stdout=theirs, stderr=theirs, env=_environment(data)
        )
        os.close(theirs)
        self._bytes = b""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        while True:
            try:
                piece = os.read(self._ours, 1 << 16)
            except OSError:  # The command has ended.
                return
            if not piece:
                return
            self._bytes += piece

    @property
    def screen(self) -> str:
        """Everything that was printed so far, and what was typed."""
        return self._bytes.decode("utf-8", "replace").replace("\r\n", "\n")

    def until(self, text: str) -> None:
        """Wait until a text is on the screen."""
        wait_until(lambda: text in self.screen, f"{text!r} on the terminal", detail=lambda: self.screen)

    def type(self, line: str) -> None:
        """Type a line."""
        os.write(self._ours, f"{line}\n".encode())

    def end(self) -> int:
        """Wait until the command ends; returns its exit code."""
        code = self._process.wait(PATIENCE)
        self._reader.join(PATIENCE)
        os.close(self._ours)
        return code


def piped(data: Path, *arguments: str) -> Done:
    """Run a command without a terminal."""
    done = subprocess.run(
        [*COMMAND, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, env=_environment(data),
        check=False,
    )  # fmt: skip
    return Done(done.returncode, done.stdout, done.stderr)


def _environment(data: Path) -> dict[str, str]:
    # Without the width that tests set: that of the terminal counts.
    found = environment(data, UNSPOOL_DATA=str(data), USER="ann")
    return {name: value for name, value in found.items() if name != "COLUMNS"}
