"""Keeps a test run to itself: one folder for everything it writes, and no process that outlives it.

The folder is the temporary directory and the home of all tests and of the programs they start. Every process of the
run inherits `UNSPOOL_TEST_RUN`, so one that is left behind can be found, named and ended.
"""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

MARK = "UNSPOOL_TEST_RUN"
_GRACE_SECONDS = 60.0
"""How long a process that is about to end may take before it counts as left behind."""
_SHARED_MEMORY = Path("/dev/shm")
_ROOM = 4 << 30
_CODEX = Path("/tmp") / f"codex-daemon-{os.getuid()}" if hasattr(os, "getuid") else Path("/nowhere")
"""Codex creates this folder whatever the temporary directory is, and leaves it empty."""
_LEFT_BEHIND = pytest.StashKey[list[str]]()
_FOLDER = pytest.StashKey[Path]()
_HAD_CODEX = pytest.StashKey[bool]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let a developer look at the files of a run."""
    parser.addoption("--keep-files", action="store_true", help="do not remove the files that the tests wrote")


def is_worker(config: pytest.Config) -> bool:
    """Whether this process runs tests for another one."""
    return hasattr(config, "workerinput")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Give the run a folder; workers inherit it."""
    # A shell lets what it starts in the background ignore Ctrl-C, and every program started here would inherit that.
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if is_worker(config):
        return
    # Resolved, because some systems have a link for their temporary directory and tests compare paths.
    folder = Path(tempfile.mkdtemp(prefix="unspool-tests-", dir=_memory())).resolve()
    # PostgreSQL does not run as root: its user has to reach its folder in this one.
    folder.chmod(0o755)
    home = folder / "home"
    home.mkdir()
    # Claude Code uses /tmp whatever TMPDIR says, unless an environment variable names another folder.
    os.environ |= {MARK: str(folder), "TMPDIR": str(folder), "CLAUDE_CODE_TMPDIR": str(folder), "HOME": str(home)}
    for name in [name for name in os.environ if name.startswith("XDG_")]:
        del os.environ[name]
    tempfile.tempdir = None
    config.stash[_FOLDER] = folder
    config.stash[_HAD_CODEX] = _CODEX.exists()


def run_environment() -> dict[str, str]:
    """What a program needs that gets no other variables: its files stay in the folder, and it can be found."""
    return {name: os.environ[name] for name in ("PATH", "TMPDIR", "CLAUDE_CODE_TMPDIR", MARK) if name in os.environ}


def _memory() -> Path | None:
    """A file system in memory, if there is one with room: thousands of small stores spare the disk of a busy machine.

    A temporary directory that somebody chose is used instead.
    """
    if "TMPDIR" in os.environ or not os.access(_SHARED_MEMORY, os.W_OK | os.X_OK):
        return None
    status = os.statvfs(_SHARED_MEMORY)
    has_room = status.f_bavail * status.f_frsize >= _ROOM
    return _SHARED_MEMORY if has_room and not status.f_flag & os.ST_NOEXEC else None


def pytest_unconfigure(config: pytest.Config) -> None:
    """Remove the folder."""
    folder = config.stash.get(_FOLDER, None)
    if folder is not None and not config.getoption("--keep-files"):
        shutil.rmtree(folder, ignore_errors=True)
    if not config.stash.get(_HAD_CODEX, True):
        with suppress(OSError):
            _CODEX.rmdir()


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> Iterator[None]:
    """Fail a run that leaves a process behind. The workers have ended by then."""
    yield
    folder = session.config.stash.get(_FOLDER, None)
    if folder is None:
        return
    end = time.monotonic() + _GRACE_SECONDS
    while (left := _processes_of(folder)) and time.monotonic() < end:
        time.sleep(0.2)
    session.config.stash[_LEFT_BEHIND] = list(left.values())
    for pid in left:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    if left and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Name the processes that were left behind, and the folder if it is kept."""
    left = config.stash.get(_LEFT_BEHIND, [])
    if left:
        terminalreporter.section("Processes left behind", red=True)
        for command in left:
            terminalreporter.line(command)
    if config.getoption("--keep-files"):
        terminalreporter.line(f"Files of this run: {config.stash[_FOLDER]}")


def _processes_of(folder: Path) -> dict[int, str]:
    """Processes started by this run that still exist, with their command lines. Empty where there is no /proc."""
    mark = f"{MARK}={folder}".encode()
    found = {}
    for path in Path("/proc").glob("[0-9]*"):
        try:
            # The variable was set after this process began, so it does not find itself.
            marked = mark in (path / "environ").read_bytes().split(b"\0")
            command = (path / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
        except OSError:
            continue
        # A program may clear its environment; the folder is then still among its arguments. A zombie has neither.
        if marked or str(folder) in command:
            found[int(path.name)] = f"{path.name} {command[:200]}"
    return found
