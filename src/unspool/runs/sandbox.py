"""Runs agents under bubblewrap, so that they cannot access unspool's files and processes.

They still have access to everything else: their own files, the project, the network. This protects the token, the
decisions and the recorded sessions from agents; it does not protect the user's other files.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

from ..core.errors import UnspoolError, UsageError
from .protocol import RunSpec

_PROGRAM = "bwrap"
MISSING = "A sandbox needs bubblewrap; install the package `bubblewrap`, or start without a sandbox"
_SECONDS = 30
# Without a separate process namespace, an agent could read our file system through /proc. Without the capabilities
# dropped here, an agent that runs as root could undo the mounts.
_OPTIONS = (
    "--die-with-parent", "--dev-bind", "/", "/", "--unshare-pid", "--proc", "/proc", "--cap-drop", "CAP_SYS_ADMIN",
    "--cap-drop", "CAP_SYS_PTRACE",
)  # fmt: skip


def is_installed() -> bool:
    """Return whether bubblewrap is installed. Use `check_sandbox` to find out whether it works."""
    return shutil.which(_PROGRAM) is not None


def check_sandbox() -> None:
    """Raise UnspoolError if agents cannot be run in a sandbox here."""
    program = shutil.which(_PROGRAM)
    if program is None:
        raise UnspoolError(MISSING)
    try:
        done = subprocess.run(
            [program, *_OPTIONS, "true"], capture_output=True, text=True, timeout=_SECONDS, check=False
        )  # fmt: skip
        reason = (done.stderr.strip() or f"it exited with code {done.returncode}") if done.returncode else ""
    except (OSError, subprocess.SubprocessError) as error:
        reason = str(error)
    if reason:
        raise UnspoolError(f"bubblewrap does not work here ({reason}); user namespaces may be disabled")


def hidden_paths(data: Path, store: str | None) -> tuple[str, ...]:
    """Return what agents must not see: the data directory, and the store if it is a file elsewhere."""
    found = [data]
    if store is not None and "://" not in store:
        found.append(Path(store).expanduser())
    return tuple(str(path.resolve()) for path in found)


def sandboxed(command: Sequence[str], spec: RunSpec) -> list[str]:
    """Return the command that starts an agent without access to the hidden paths."""
    if not spec.hidden:
        return list(command)
    folder = Path(spec.folder).resolve()
    options: list[str] = []
    for path in map(Path, spec.hidden):
        if folder == path or path in folder.parents:
            raise UsageError(f"{folder} is in the data directory of unspool, which agents in a sandbox cannot use")
        options += ["--tmpfs", str(path)] if path.is_dir() else _hide_database(path)
    return [shutil.which(_PROGRAM) or _PROGRAM, *_OPTIONS, *options, "--chdir", str(folder), "--", *command]


def _hide_database(path: Path) -> Iterable[str]:
    """Yield options that mount a null device over a database. For missing files, bwrap would create empty ones."""
    for suffix in ("", "-wal", "-shm"):
        each = path.with_name(path.name + suffix)
        if each.exists():
            yield from ("--ro-bind", os.devnull, str(each))
