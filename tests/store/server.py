"""A PostgreSQL server of the tests' own: in a folder that goes away, reached through a socket, never the network."""

from __future__ import annotations

import ctypes
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg

from ..waiting import PATIENCE, wait_until

MISSING = "no PostgreSQL here: install Debian's postgresql, Homebrew's postgresql or the like"
GUARDED = "guarded"
"""A role that needs a password; all others are let in."""
_SETTINGS = (
    "dynamic_shared_memory_type=mmap",  # in its folder: a server that is killed leaves nothing in /dev/shm
    "listen_addresses=", "fsync=off", "synchronous_commit=off", "full_page_writes=off", "shared_buffers=32MB",
    "max_connections=60", "logging_collector=off",
)  # fmt: skip
_PR_SET_PDEATHSIG = 1


def programs() -> Path | None:
    """Where `initdb` and `postgres` are: the newest of Debian's, or on the path."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: float(path.parent.name))
    on_path = shutil.which("initdb")
    places = [*reversed(found), *([Path(on_path).resolve().parent] if on_path else [])]
    return next((place for place in places if all((place / name).exists() for name in ("initdb", "postgres"))), None)


@contextmanager
def running() -> Iterator[str]:
    """The address of a fresh server, for as long as it is needed."""
    bin = programs()
    assert bin is not None, MISSING
    folder = Path(tempfile.mkdtemp(prefix="unspool-pg-"))
    user = _user()
    if "user" in user:
        os.chown(folder, user["user"], user["group"])
    try:
        _make(bin, folder, user)
        options = [part for setting in _SETTINGS for part in ("-c", setting)]
        command = [str(bin / "postgres"), "-D", str(folder / "data"), "-k", str(folder), *options]
        with open(folder / "log", "wb") as log:
            server = subprocess.Popen(
                command, stdout=log, stderr=log, cwd=folder, preexec_fn=_end_with_parent, start_new_session=True, **user
            )
        try:
            address = f"postgresql://postgres@/postgres?host={folder}"
            _wait_for(server, address, folder / "log")
            yield address
        finally:
            server.send_signal(signal.SIGINT)
            try:
                server.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


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


def new_database(address: str, name: str) -> str:
    """Make an empty database on a server."""
    with psycopg.connect(address, autocommit=True) as server:
        server.execute(f'CREATE DATABASE "{name}"')
    return address.replace("/postgres?", f"/{name}?")


def drop_database(address: str, name: str) -> None:
    """Remove a database, even if there are connections to it."""
    with psycopg.connect(address, autocommit=True) as server:
        server.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
