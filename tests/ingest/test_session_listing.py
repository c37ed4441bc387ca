"""Listing sessions in another process."""

from __future__ import annotations

import errno
import os
import struct
import sys
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest

import unspool
from unspool.agents import AGENTS, SessionRef, SessionSource
from unspool.ingest import session_listing
from unspool.ingest.session_listing import list_in_subprocess
from unspool.io.faults import collect_faults, report_fault

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="other processes help only there")


def _source(monkeypatch: pytest.MonkeyPatch, there: str, here: str) -> tuple[SessionSource, list[SessionRef]]:
    """A folder that does something before it lists its sessions, in another process and in this one."""
    source = AGENTS["claude"].open(unspool.samples() / ".claude")
    refs, this = list(source.refs()), os.getpid()
    actions: dict[str, Callable[[], object]] = {
        "list": lambda: None,
        "die": lambda: os._exit(1),
        "fail": lambda: refs[len(refs)],
        "note": lambda: report_fault(PermissionError(13, "closed"), Path("/closed")),
    }

    def listed() -> Iterator[SessionRef]:
        yield refs[0]
        actions[here if os.getpid() == this else there]()
        yield from refs[1:]

    monkeypatch.setattr(source, "refs", listed)
    return source, refs


def test_nothing_is_looked_up_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process that asks gets the list only."""
    source, refs = _source(monkeypatch, "list", "fail")
    assert list(list_in_subprocess(source)) == refs
    assert len(refs) > 1


def test_faults_are_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """What could not be read there is known here."""
    source, refs = _source(monkeypatch, "note", "fail")
    with collect_faults() as faults:
        assert list(list_in_subprocess(source)) == refs
    assert list(faults.errors) == [Path("/closed")]


@pytest.mark.parametrize("there", ["die", "fail"])
def test_without_the_other_process(there: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """If it is killed, or cannot list them, the sessions are listed here."""
    source, refs = _source(monkeypatch, there, "list")
    found = {ref.id: ref for ref in list_in_subprocess(source)}
    assert found == {ref.id: ref for ref in refs}


def test_the_other_process_cannot_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    """There are too many processes: the sessions are listed here, and nothing is left of the attempt."""

    def fail(_: BaseProcess) -> None:
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    source, refs = _source(monkeypatch, "fail", "list")
    monkeypatch.setattr(BaseProcess, "start", fail)
    before = sorted(os.listdir("/proc/self/fd"))
    assert list(list_in_subprocess(source)) == refs
    assert sorted(os.listdir("/proc/self/fd")) == before


def test_the_other_process_is_killed_while_it_sends(monkeypatch: pytest.MonkeyPatch) -> None:
    """A part of a message arrives."""

    def send_a_part(_: SessionSource, sender: Connection, __: int) -> None:
        os.write(sender.fileno(), struct.pack("!i", 100) + b"x")

    source, refs = _source(monkeypatch, "fail", "list")
    monkeypatch.setattr(session_listing, "_list", send_a_part)
    assert list(list_in_subprocess(source)) == refs
