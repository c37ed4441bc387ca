"""Every request to a model is counted once, however often its tokens are written to disk.

Agents repeat token counts: in each record of one response, in copies of a conversation that was forked or resumed, in
totals that are sent again, and in the results that sub-agents hand back. Each test writes the logs of one such case
with a known number of requests, reads them, and compares what is counted with what was really requested.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from unspool.store import Store
from unspool.store.usage_report import UsageFilter, UsageReporter
from unspool.testing import ClaudeLog, CodexLog, GeminiLog
from unspool.testing.claude import call
from unspool.usage.prices import shipped_prices

from ..forks import family, forked, raw_output_tokens
from ..recordings import recordings
from ..store.contents import new_store, synced


class Tokens(NamedTuple):
    """What is compared."""

    input: int
    output: int
    cache_read: int = 0
    cache_write: int = 0


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    found = new_store(tmp_path / "sessions.db")
    yield found
    found.close()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def counted(store: Store, home: Path) -> Tokens:
    """What is counted in all sessions together. It is the same in every grouping, and when everything is read again."""
    synced(store, home)
    synced(store, home)
    reporter = UsageReporter(store.database, shipped_prices())
    found = {total_of(reporter, by) for by in ((), ("day",), ("session", "model"), ("project", "agent", "month"))}
    assert len(found) == 1
    return found.pop()


def total_of(reporter: UsageReporter, by: Any) -> Tokens:
    """The sum of all groups."""
    report = reporter.report(UsageFilter(), by)
    tokens = [entry.tokens for entry in report.entries]
    sums = Tokens(*(sum(getattr(entry, name) for entry in tokens) for name in Tokens._fields))
    assert sums == Tokens(*(getattr(report.total.tokens, name) for name in Tokens._fields))
    return sums


def by_session(store: Store) -> dict[str, int]:
    """The output tokens of each session."""
    report = UsageReporter(store.database, shipped_prices()).report(UsageFilter(), ["session"])
    return {entry.session or "": entry.tokens.output for entry in report.entries}


def usage(output: int, **more: int) -> dict[str, int]:
    """Token counts as Claude Code writes them."""
    return {
        "input_tokens": 10, "output_tokens": output, "cache_read_input_tokens": 100,
        "cache_creation_input_tokens": 7, **more,
    }  # fmt: skip


def response(log: ClaudeLog, reply: str, *outputs: int) -> None:
    """One response in several records, as Claude Code writes one for each block. Only the last count is final."""
    blocks = [{"type": "thinking", "thinking": "well"}, {"type": "text", "text": "so"}, call(f"call-{reply}")]
    for block, output in zip(blocks, outputs, strict=False):
        log.model(block, reply=reply)
        record = json.loads(log.lines[-1])
        record["message"]["usage"] = usage(output)
        log.lines[-1] = json.dumps(record, separators=(",", ":")).encode()


def count(log: CodexLog, input: int, output: int, total: tuple[int, int], cached: int = 0) -> None:
    """Token counts as Codex CLI sends them: of the last request, and of all so far."""
    last = {"input_tokens": input, "cached_input_tokens": cached, "output_tokens": output}
    so_far = {"input_tokens": total[0], "output_tokens": total[1]}
    log.event("token_count", info={"last_token_usage": last, "total_token_usage": so_far})


# --- one response, several records -----------------------------------------------------------------------------------


def test_records_of_one_response(store: Store, home: Path) -> None:
    """Claude Code repeats the usage in each record of a response, with an output that still grows."""
    log = ClaudeLog()
    log.user("hello")
    response(log, "one", 1, 1, 60)
    log.result("call-one", "done")
    response(log, "two", 40, 40)
    log.write(home)
    assert counted(store, home) == Tokens(20, 100, 200, 14)


def test_totals_that_are_sent_again(store: Store, home: Path) -> None:
    """Codex CLI sends the same count several times in a turn, and once more when the session is resumed."""
    log = CodexLog()
    log.turn("hello", "hi")
    count(log, 100, 5, (100, 5), cached=40)
    count(log, 100, 5, (100, 5), cached=40)
    log.turn("more", "sure")
    count(log, 100, 5, (100, 5), cached=40)
    count(log, 150, 6, (250, 11), cached=90)
    count(log, 150, 6, (250, 11), cached=90)
    log.write(home)
    assert counted(store, home) == Tokens(120, 11, 130)


def test_cached_input_is_part_of_the_input(store: Store, home: Path) -> None:
    """Codex CLI counts what is read from the cache, or written to it, also as input."""
    log = CodexLog()
    log.turn("hello", "hi")
    spent = {
        "input_tokens": 100, "cached_input_tokens": 60, "cache_write_input_tokens": 30, "output_tokens": 5,
        "total_tokens": 105,
    }  # fmt: skip
    log.envelope("token_usage_record", response_id="one", usage=spent)
    log.write(home)
    assert counted(store, home) == Tokens(10, 5, 60, 30)


def test_messages_that_are_written_again(store: Store, home: Path) -> None:
    """Gemini CLI appends a message once more, under the same id, when its calls have results."""
    log = GeminiLog()
    log.user("u1", "hello")
    for calls in (None, [{"id": "c1", "name": "read_file", "args": {}, "status": "success"}]):
        log.model("m1", "hi", calls)
    log.write(home)
    assert counted(store, home) == Tokens(10, 5)


# --- copies of a conversation ----------------------------------------------------------------------------------------


def test_forks(store: Store, home: Path) -> None:
    """A fork begins with a copy of its origin. Here one is forked twice, and one of the forks again."""
    logs = family()
    for log in logs:
        log.write(home)
    assert counted(store, home).output == raw_output_tokens(*logs)


@pytest.mark.parametrize("keep_ids", [True, False], ids=["with the old session id", "with the new session id"])
def test_resumes_into_a_new_file(store: Store, home: Path, keep_ids: bool) -> None:
    """Some versions of Claude Code copy the conversation into a new file whenever it is resumed."""
    log = ClaudeLog("first")
    log.user("hello")
    response(log, "one", 1, 60)
    chain = [log]
    for number in range(10):
        chain.append(forked(chain[-1], f"resumed {number}", keep_ids=keep_ids))
    for one in chain:
        one.write(home)
    # Each resumed session adds one request of its own, with 10 input and 5 output tokens.
    assert counted(store, home) == Tokens(10 + 10 * 10, 60 + 10 * 5, 100, 7)


def test_a_copy_counts_where_it_was_requested(store: Store, home: Path) -> None:
    """The origin has its own requests, and the fork only those after the copy."""
    origin = ClaudeLog("origin")
    origin.user("hello")
    response(origin, "one", 60)
    fork = forked(origin, "fork")
    for log in (origin, fork):
        log.write(home)
    counted(store, home)
    assert by_session(store) == {origin.session: 60, fork.session: 5}


def test_the_origin_of_a_fork_was_deleted(store: Store, home: Path) -> None:
    """Its requests stay counted once, in the session that only the store has."""
    origin = ClaudeLog("origin")
    origin.user("hello")
    response(origin, "one", 60)
    path = origin.write(home)
    forked(origin, "fork").write(home)
    before = counted(store, home)
    path.unlink()
    assert counted(store, home) == before


# --- sub-agents ------------------------------------------------------------------------------------------------------


def test_sub_agents(store: Store, home: Path) -> None:
    """Their requests are in files of their own, and once more as a sum in the result that the main session gets."""
    main = ClaudeLog("main")
    main.user("hello")
    main.model(call("task", "Task", prompt="look"), reply="main")
    main.result(
        "task",
        "found it",
        toolUseResult={"agentId": "a1", "status": "completed", "totalTokens": 999, "usage": usage(500)},
    )
    agent = ClaudeLog("main", agent="a1")
    agent.user("look")
    response(agent, "inside", 1, 30)
    main.write(home)
    agent.write(home)
    assert counted(store, home) == Tokens(20, 35, 100, 7)
    assert sorted(by_session(store).values()) == [5, 30]


# --- files that grow -------------------------------------------------------------------------------------------------


def test_a_session_that_grows(store: Store, home: Path) -> None:
    """Reading it after every line counts what reading it at the end counts."""
    log = ClaudeLog()
    log.user("hello")
    for number in range(4):
        response(log, str(number), 1, 20, 30)
        log.result(f"call-{number}", "done")
    lines, log.lines = log.lines, []
    for line in lines:
        log.lines.append(line)
        log.write(home)
        synced(store, home)
    assert counted(store, home) == Tokens(40, 120, 400, 28)


# --- real recordings -------------------------------------------------------------------------------------------------

MADE_BY_HAND = ("tip", "sweep_tip")
"""Their files have the same lines in different orders, which no agent writes."""
NEW_IDS = {"claude/1.0.60/fork", "claude/1.0.60/orphan"}
"""`claude -p --resume` of this version copies a conversation with new ids for all messages. Such a copy is not
recognised, so that its requests count again."""


@pytest.mark.slow
@pytest.mark.parametrize("version", sorted({recording.version for recording in recordings("claude")}))
def test_recordings_of_claude_code(version: str, tmp_path: Path) -> None:
    """The output tokens of all recordings equal a count of the raw JSON that takes the last usage of each response."""
    for number, recording in enumerate(recordings("claude", version)):
        if recording.scenario in MADE_BY_HAND:
            continue
        store = new_store(tmp_path / f"{number}.db")
        found = counted(store, recording.home).output
        store.close()
        assert (found == _raw_output(recording.home)) == (recording.name not in NEW_IDS), recording.name


def _raw_output(home: Path) -> int:
    final: dict[str, int] = {}
    for path in sorted(home.rglob("projects/**/*.jsonl")):
        records = list(_records(path))
        if records and records[0].get("message", {}).get("content") == "Warmup":
            # Requests of 2.0 and 2.1.0 that belong to no session.
            continue
        for record in records:
            message = record.get("message")
            if record.get("type") == "assistant" and isinstance(message, dict) and "usage" in message:
                final[message["id"]] = message["usage"].get("output_tokens") or 0
    return sum(final.values())


def _records(path: Path) -> Iterator[dict[str, Any]]:
    for line in path.read_bytes().splitlines():
        try:
            record = json.loads(line)
        except ValueError:
            continue
        if isinstance(record, dict):
            yield record
