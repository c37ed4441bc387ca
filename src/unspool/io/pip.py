"""The command that installs optional packages where this program finds them."""

from __future__ import annotations

import shlex
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path

_PIP = "pip "


def own_pip(command: str) -> str:
    """Make `pip install …` install for the Python that runs this. Other commands are returned as they are.

    The `pip` on the path belongs to another Python if a virtual environment is not activated, as with `make run`.
    """
    if not command.startswith(_PIP) or not sys.executable:
        return command
    found = shutil.which("pip")
    if found is not None and Path(found).parent == Path(sys.executable).parent:
        return command
    python = shlex.quote(sys.executable)
    if find_spec("pip") is None:
        return f"uv pip install --python {python} {command.removeprefix('pip install ')}"
    return f"{python} -m {command}"


def install_command(extra: str) -> str:
    """Return the command that installs an extra of unspool."""
    return own_pip(f"pip install 'unspool[{extra}]'")
