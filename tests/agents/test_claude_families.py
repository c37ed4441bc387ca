"""Finding out how sessions of Claude Code are related takes work in proportion to what there is to read."""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable
from pathlib import Path

import pytest

from unspool.agents import AGENTS, finish
from unspool.agents.claude.families import SharedMessages
from unspool.core.builder import SessionBuilder
from unspool.testing import ClaudeLog, call

from ..forks import continued
from ..work import lines_per_pair

_MOST = 0.25
"""Lines for each two sessions. One loop over all others for each session would be at least one."""


def _read_all(home: Path) -> None:
    """Find all sessions, and read them as a sync does."""
    source = AGENTS["claude"].open(home / ".claude")
    for ref in list(source.refs()):
        source.fingerprint(ref)
        finish(source.read(ref, lambda id, kind: SessionBuilder("claude", id, kind)))


def _copies(home: Path, count: int, first: Callable[[ClaudeLog], object] | None = None) -> list[ClaudeLog]:
    """Write sessions with the same message ids."""
    original = ClaudeLog("original")
    if first is not None:
        first(original)
    continued(original, "shared")
    logs = []
    for number in range(count):
        log = ClaudeLog(f"copy {number}")
        for line in original.lines:
            log.record(json.loads(line) | {"sessionId": log.session})
        log.write(home)
        logs.append(log)
    return logs


def _plain(home: Path, count: int) -> None:
    _copies(home, count)


def _cleared(home: Path, count: int) -> None:
    _copies(home, count, lambda log: log.user("<command-name>/clear</command-name>"))


def _gone(home: Path, count: int) -> None:
    """The prompt history names a session that is not there."""
    log = _copies(home, count)[0]
    moment = next(json.loads(line)["timestamp"] for line in log.lines)
    entry = {"display": "prompt shared", "timestamp": moment, "project": "/home/dev/demo", "sessionId": "gone"}
    (home / ".claude" / "history.jsonl").write_text(json.dumps(entry) + "\n", encoding="utf-8")


def _agents(home: Path, count: int) -> None:
    """One session with many sub-agents."""
    main = ClaudeLog("main")
    main.user("look everywhere")
    for number in range(count):
        main.model(call(f"call{number}", "Task", prompt=f"task {number}"), reply=f"reply {number}")
        agent = ClaudeLog("main", agent=f"a{number}")
        agent.user(f"task {number}", f"task {number}")
        agent.model("done", name=f"done {number}", reply=f"done {number}")
        agent.write(home)
    main.write(home)


def _copied_agents(home: Path, count: int) -> None:
    """Copies of a session, each with a copy of its sub-agent."""
    for log in _copies(home, count):
        agent = ClaudeLog(log.session, agent="a1")
        agent.user("look around", "task")
        agent.model("found nothing", name="found", reply="end")
        agent.write(home)


def _clears(home: Path, count: int) -> None:
    """Sessions that each began with a clear, and the clears in the history, which names no sessions."""
    entries = []
    for number in range(count):
        log = ClaudeLog(f"session {number}")
        day = f"2026-03-{1 + number // 24:02}T{number % 24:02}"
        log.record(_line(log, "user", "<command-name>/clear</command-name>", f"{day}:00:00.000Z", "clear"))
        log.record(_line(log, "user", f"prompt {number}", f"{day}:00:05.000Z", "prompt"))
        log.write(home)
        if number % 2:
            entries.append({"display": "/clear", "timestamp": f"{day}:00:00.500Z", "project": "/home/dev/demo"})
    history = "".join(json.dumps(entry) + "\n" for entry in entries)
    (home / ".claude" / "history.jsonl").write_text(history, encoding="utf-8")


def _line(log: ClaudeLog, kind: str, text: str, at: str, name: str) -> dict[str, object]:
    return {
        "parentUuid": None, "isSidechain": False, "type": kind, "uuid": log.id(name + log.session), "version": "2.0.30",
        "sessionId": log.session, "cwd": "/home/dev/demo", "timestamp": at, "message": {"role": kind, "content": text},
    }  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("write", [_plain, _cleared, _gone, _agents, _copied_agents, _clears])
def test_work_does_not_grow_with_pairs(tmp_path: Path, write: Callable[[Path, int], None]) -> None:
    """With twenty thousand copies, a step for each two of them would be four hundred million steps."""

    def work(count: int) -> None:
        home = tmp_path / str(count)
        if not home.exists():
            write(home, count)
        _read_all(home)

    for count in (1, 2, 3):
        work(20 * count)
    assert lines_per_pair(work, 20) < _MOST


def test_files_are_compared_in_groups() -> None:
    """Copies made at the same point are one group, however many there are."""
    steps = []
    for count in (100, 200):
        trunk = {message: tuple(range(count)) for message in range(50)}
        half = {message: tuple(range(0, count, 2)) for message in range(50, 100)}
        shared = SharedMessages(trunk | half, list(range(count)))
        ids = array("q", range(100))
        for rank in range(count):
            first, length = shared.longest_beginning(ids, rank)
            assert (first, length) == ((0, 100) if rank else (0, 0))
        steps.append(shared.steps)
    assert steps[1] <= 2 * steps[0] <= 400


def test_the_nearest_has_most_of_the_beginning() -> None:
    """Of files that were begun before; the messages may be in another order there."""
    holders = {1: (0, 1, 2, 3), 2: (0, 1, 3), 3: (1, 3), 4: (2, 3)}
    shared = SharedMessages(holders, [0, 1, 2, 3])
    assert shared.longest_beginning([1, 2, 3, 4], 3) == (1, 3)
    assert shared.longest_beginning([1, 2, 3, 4], 1) == (0, 2)
    assert shared.longest_beginning([4, 1], 3) == (2, 2)
    assert shared.longest_beginning([9, 1], 3) == (0, 0)
