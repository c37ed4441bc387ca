"""A PostgreSQL server of the tests' own: in a folder that goes away, reached through a socket, never the network."""

from __future__ import annotations

import ctypes
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg

from ..waiting import PATIENCE, is_running, wait_until

MISSING = "no PostgreSQL here: install Debian's postgresql, Homebrew's postgresql or the like"
GUARDED = "guarded"
"""A role that needs a password; all others are let in."""
_SETTINGS = (
    "dynamic_shared_memory_type=mmap",  # in its folder: a server that is killed leaves nothing in /dev/shm
    "listen_addresses=", "shared_buffers=32MB", "max_connections=60", "logging_collector=off",
)  # fmt: skip
_FORGETFUL = ("fsync=off", "synchronous_commit=off", "full_page_writes=off")
"""Of a server that is never killed."""
_PR_SET_PDEATHSIG = 1


def programs() -> Path | None:
    """Where `initdb` and `postgres` are: the newest of Debian's, or on the path."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: float(path.parent.name))
    on_path = shutil.which("initdb")
    places = [*reversed(found), *([Path(on_path).resolve().parent] if on_path else [])]
    return next((place for place in places if all((place / name).exists() for name in ("initdb", "postgres"))), None)


class PostgresServer:
    """A server that can be killed and started again."""

    def __init__(self, bin: Path, folder: Path, is_durable: bool, settings: Iterable[str] = ()) -> None:
        """`folder` belongs to the user that runs it. Later settings count more than earlier ones."""
        self.address = f"postgresql://postgres@/postgres?host={folder}"
        self._folder = folder
        settings = (*_SETTINGS, *(() if is_durable else _FORGETFUL), *settings)
        options = [part for setting in settings for part in ("-c", setting)]
        self._command = [str(bin / "postgres"), "-D", str(folder / "data"), "-k", str(folder), *options]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and wait until it answers."""
        with open(self._folder / "log", "wb") as log:
            self._process = subprocess.Popen(
                self._command,
                stdout=log,
                stderr=log,
                cwd=self._folder,
                preexec_fn=_end_with_parent,
                start_new_session=True,
                **_user(),
            )
        _wait_for(self._process, self.address, self._folder / "log")

    @property
    def pid(self) -> int:
        """Its main process."""
        assert self._process is not None
        return self._process.pid

    def kill(self) -> None:
        """End all its processes at once, without a chance to write anything."""
        assert self._process is not None
        main = self._process.pid
        children = Path(f"/proc/{main}/task/{main}/children").read_text().split()
        for process in (main, *map(int, children)):
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        self._process.wait()
        wait_until(lambda: not any(is_running(int(child)) for child in children), "the processes of the server to end")
        self._process = None

    def stop(self) -> None:
        """Ask it to end."""
        if self._process is None:
            return
        self._process.send_signal(signal.SIGINT)
        try:
            self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


@contextmanager
def serving(*, is_durable: bool = False, settings: Iterable[str] = ()) -> Iterator[PostgresServer]:
    """A fresh server, for as long as it is needed."""
    bin = programs()
    assert bin is not None, MISSING
    folder = Path(tempfile.mkdtemp(prefix="unspool-pg-"))
    user = _user()
    if "user" in user:
        os.chown(folder, user["user"], user["group"])
    try:
        _make(bin, folder, user)
        server = PostgresServer(bin, folder, is_durable, settings)
        try:
            server.start()
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def running() -> Iterator[str]:
    """The address of a fresh server."""
    with serving() as server:
        yield server.address


def _user() -> dict[str, Any]:
    """PostgreSQL does not run as root."""
    if os.geteuid() != 0:
        return {}
    for name in ("postgres", "nobody"):
        try:
            found = pwd.getpwnam(name)
        except KeyError:
            continue
        return {"user": found.pw_uid, "group": found.pw_gid, "extra_groups": []}
    raise LookupError("no user but root to run PostgreSQL as")


def _make(bin: Path, folder: Path, user: dict[str, Any]) -> None:
    command = [
        str(bin / "initdb"), "-D", str(folder / "data"), "--auth=trust", "--username=postgres", "--encoding=UTF8",
        "--no-locale", "--no-sync",
    ]  # fmt: skip
    made = subprocess.run(command, capture_output=True, text=True, cwd=folder, **user)
    assert made.returncode == 0, made.stderr
    (folder / "data" / "pg_hba.conf").write_text(f"local all {GUARDED} scram-sha-256\nlocal all all trust\n")


def _end_with_parent() -> None:
    """Have the system end the server though the tests are killed; Ctrl+C is for them, and they end it."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGQUIT)


def _wait_for(server: subprocess.Popen[bytes], address: str, log: Path) -> None:
    def answers() -> bool:
        assert server.poll() is None, log.read_text(errors="replace")
        try:
            psycopg.connect(address).close()
        except psycopg.OperationalError:
            return False
        return True

    wait_until(answers, "PostgreSQL to start", detail=lambda: log.read_text(errors="replace"))


def new_database(address: str, name: str, template: str = "template1") -> str:
    """Make an empty database on a server, or a copy of another one."""
    with psycopg.connect(address, autocommit=True) as server:
        server.execute(f'CREATE DATABASE "{name}" TEMPLATE "{template}"')
    return address.replace("/postgres?", f"/{name}?")


def drop_database(address: str, name: str) -> None:
    """Remove a database, even if there are connections to it."""
    with psycopg.connect(address, autocommit=True) as server:
        server.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
