"""Agents that cannot reach what unspool keeps: they run under bubblewrap, without our files and without our processes.

Everything else is as usual: their own files, the project, the network. This protects the token, the decisions and the
recorded sessions from agents; it does not protect the user's other files from them.
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
# Without processes of its own an agent could look into our file system through /proc. An agent of the administrator
# could undo all this, were it allowed to mount.
_OPTIONS = (
    "--die-with-parent", "--dev-bind", "/", "/", "--unshare-pid", "--proc", "/proc", "--cap-drop", "CAP_SYS_ADMIN",
    "--cap-drop", "CAP_SYS_PTRACE",
)  # fmt: skip


def is_installed() -> bool:
    """Whether agents may be run in a sandbox here; only `check_sandbox` knows."""
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
        reason = done.stderr.strip() if done.returncode else ""
    except (OSError, subprocess.SubprocessError) as error:
        reason = str(error)
    if reason:
        raise UnspoolError(f"bubblewrap does not work here ({reason}); user namespaces may be disabled")


def hidden_paths(data: Path, store: str | None) -> tuple[str, ...]:
    """What agents must not see: the data directory, and the store if it is a file elsewhere."""
    found = [data]
    if store is not None and "://" not in store:
        found.append(Path(store).expanduser())
    return tuple(str(path.resolve()) for path in found)


def sandboxed(command: Sequence[str], spec: RunSpec) -> list[str]:
    """The command that starts an agent without what its run hides from it."""
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
    """Options that put a device in place of a database. A file that does not exist would be created by this."""
    for suffix in ("", "-wal", "-shm"):
        each = path.with_name(path.name + suffix)
        if each.exists():
            yield from ("--ro-bind", os.devnull, str(each))
