"""Copies of sessions without their secrets, in both databases."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from unspool.core.errors import RedactedStoreError, UsageError
from unspool.ingest.redacted_push import push_redacted
from unspool.ingest.sync import Syncer
from unspool.redact import Redactor
from unspool.search.query import parse
from unspool.store.backends.sqlite import SqliteDatabase
from unspool.store.filters import SessionFilter
from unspool.store.store import Store
from unspool.store.transfer import is_same
from unspool.testing import ClaudeLog, call

from .conftest import Open
from .contents import new_store, synced
from .homes import gemini_log, put

SECRET = "ghp_" + "a1B2c3D4e5" * 4


def test_a_store_without_secrets(open_again: Open, tmp_path: Path) -> None:
    """It answers like any other, is brought up to date, and takes nothing else until that is asked for."""
    home = tmp_path / "home"
    log = ClaudeLog("pushed")
    log.user(f"Use {SECRET}")
    log.model(call("one", command=f"echo {SECRET}"))
    log.result("one", SECRET, error=True)
    log.write(home)
    source = Store(SqliteDatabase(tmp_path / "own.db", machine=("tests", "tests")))
    Syncer(source, home).run()
    target = open_again()
    assert push_redacted(source, target, Redactor(b"key" * 8)).new == 1
    (row,), (own,) = target.sessions.select(), source.sessions.select()
    assert (row.messages, row.counts, row.project) == (own.messages, own.counts, own.project)
    assert SECRET.encode() not in msgspec.json.encode(target.messages.load_session(row.id))
    found, _ = target.search.run(parse("echo"), 10, 10)
    assert "‹github-token:" in found[0].hits[0].snippet.text
    assert target.search.run(parse(SECRET), 10, 10).found == []
    again = push_redacted(source, target, Redactor(b"key" * 8))
    assert (again.new, again.changed, again.failures) == (0, 0, {})
    with pytest.raises(RedactedStoreError):
        Syncer(target, home).run()
    assert is_same(target, open_again())
    with pytest.raises(UsageError):
        push_redacted(target, open_again(), Redactor())
    Syncer(target, home, with_secrets=True).run()
    assert SECRET.encode() in msgspec.json.encode(target.messages.load_session(row.id))
    assert not target.sessions.has_redacted()
    source.close()


def test_no_version_of_a_log_stays(tmp_path: Path) -> None:
    """Not even one that another session replaced, which was forgotten since."""
    home = tmp_path / "home"
    old, new = gemini_log(3, f"old {SECRET}"), gemini_log(4, "new")
    path = old.write(home)
    source, target = (new_store(tmp_path / f"{name}.db") for name in ("own", "other"))
    synced(target, home)
    put(path, new.data)
    synced(target, home)
    (row,) = target.sessions.select(SessionFilter(is_gone=False))
    with target.transaction():
        target.sessions.delete(row.id)
    assert target.database.rows("SELECT replaced_by FROM file WHERE replaced_at IS NOT NULL") == [(None,)]
    push_redacted(source, target, Redactor(b"key" * 8))
    assert target.database.rows("SELECT * FROM file") == []
    assert target.database.rows("SELECT * FROM chunk") == []
    source.close()
    target.close()
