"""The examples in the documentation: every `$ command` in a console block is run on the sample sessions.

Every block has a home directory of its own, so that it can be run alone.
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

from .isolation import run_environment
from .waiting import PATIENCE

ROOT = Path(__file__).parents[1]
_BLOCK = re.compile(r"(?<=```console\n).*?(?=^```)", re.DOTALL | re.MULTILINE)


def blocks(text: str) -> list[str]:
    """The examples of a page: commands with their outputs."""
    return _BLOCK.findall(text)


PAGES = [
    page
    for page in sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
    if blocks(page.read_text(encoding="utf-8"))
]
"""The pages with examples."""


def with_real_outputs(text: str) -> str:
    """A page with the current output of every example."""
    return _BLOCK.sub(lambda block: played(block[0]), text)


def played(block: str) -> str:
    """An example with its current outputs."""
    commands = [line for line in block.split("\n") if line.startswith("$ ")]
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder, "home")
        if all("samples" in command for command in commands):
            # As a newcomer has it, without any session.
            home.mkdir()
        else:
            shutil.copytree(unspool.samples(), home)
        return "".join(f"{command}\n{_output(command[2:], home)}" for command in commands)


def _output(command: str, home: Path) -> str:
    environ = run_environment() | {
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
