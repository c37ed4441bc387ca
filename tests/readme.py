"""The examples of the README: each `$ command` in a console block is run on the sample sessions.

Each block has a home of its own, and can be played alone.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import unspool

from .waiting import PATIENCE

_BLOCK = re.compile(r"(?<=```console\n).*?(?=^```)", re.DOTALL | re.MULTILINE)


def with_real_outputs(text: str) -> str:
    """The text with the output of every example as it is today."""
    return _BLOCK.sub(lambda block: played(block[0]), text)


def blocks(text: str) -> list[str]:
    """The examples: commands and their outputs."""
    return _BLOCK.findall(text)


def played(block: str) -> str:
    """An example with its outputs as they are today."""
    commands = [line for line in block.split("\n") if line.startswith("$ ")]
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder, "home")
        shutil.copytree(unspool.samples(), home)
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
        ["bash", "-c", command], cwd=home, env=environ, capture_output=True, text=True, check=False, timeout=PATIENCE
    )
    return (done.stdout + done.stderr).replace(str(home), "~")
