"""Copies of a Claude Code file in the same folder, as a person or a program that synchronises folders makes them."""

from __future__ import annotations

from pathlib import Path

import pytest

from unspool.core.session import Session
from unspool.library import Library
from unspool.testing import ClaudeLog, call, texts


def _log() -> ClaudeLog:
    log = ClaudeLog()
    log.record({"type": "queue-operation", "operation": "enqueue", "content": "later", "sessionId": log.session})
    log.user("hello", "hello")
    log.model(call("one"), call("two"), name="calls")
    log.result("two", "second")
    log.result("one", "first", parent="calls")
    log.user("stop")
    log.user([{"type": "text", "text": "[Request interrupted by user]"}])
    return log


def _only(home: Path) -> Session:
    library = Library(home)
    (ref,) = library.refs()
    return library.load(ref)


@pytest.mark.parametrize("name", ["{} (copy)", "{}.sync-conflict-20260301-101010-ABCDEFG", "Copy of {}"])
def test_the_same_line_counts_once(tmp_path: Path, name: str) -> None:
    """Whatever the copy is called."""
    path = _log().write(tmp_path)
    alone = _only(tmp_path)
    path.with_stem(name.format(path.stem)).write_bytes(path.read_bytes())
    both = _only(tmp_path)
    assert texts(both) == texts(alone)
    assert (both.info.usage, both.interruptions, both.problems) == (alone.info.usage, alone.interruptions, [])


def test_what_only_the_copy_has_is_kept(tmp_path: Path) -> None:
    """A conflict is a copy that was continued on another computer."""
    log = _log()
    path = log.write(tmp_path)
    log.user("from the other computer")
    path.with_stem(f"{path.stem}.sync-conflict").write_bytes(log.data)
    session = _only(tmp_path)
    assert texts(session) == texts(log.load(tmp_path / "whole"))
    assert session.problems == []
