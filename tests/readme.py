"""The examples of the README: each `$ command` in a console block is run on the sample sessions."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import unspool

_BLOCK = re.compile(r"(?<=```console\n).*?(?=^```)", re.DOTALL | re.MULTILINE)


def with_real_outputs(text: str) -> str:
    """The text with the output of every example as it is today."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder, "home")
        shutil.copytree(unspool.samples(), home)
        return _BLOCK.sub(lambda block: _played(block[0], home), text)


def _played(block: str, home: Path) -> str:
    commands = [line for line in block.split("\n") if line.startswith("$ ")]
    return "".join(f"{command}\n{_output(command[2:], home)}" for command in commands)


def _output(command: str, home: Path) -> str:
    environ = {
        "HOME": str(home),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "TZ": "UTC",
        "LANG": "C.UTF-8",
        "COLUMNS": "120",
    }
    done = subprocess.run(
        ["bash", "-c", command], cwd=home, env=environ, capture_output=True, text=True, check=False, timeout=60
    )
    return (done.stdout + done.stderr).replace(str(home), "~")
