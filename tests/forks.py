"""Forks of sessions of Claude Code: logs that begin with a copy of another log."""

from __future__ import annotations

import json

from unspool.testing import ClaudeLog


def forked(log: ClaudeLog, name: str, *, keep_ids: bool = False, notes: bool = True) -> ClaudeLog:
    """Copy a log as a fork does, and continue it; `keep_ids` leaves the session ids of the copied lines."""
    fork = ClaudeLog(name, log.version)
    fork.next_time = log.next_time  # type: ignore[method-assign]  # one clock for all
    if notes:
        fork.record({"type": "queue-operation", "operation": "enqueue", "timestamp": log.next_time()})
    for line in log.lines:
        record = json.loads(line)
        if record["type"] in ("user", "assistant"):
            fork.record(record if keep_ids else record | {"sessionId": fork.session})
    fork.last = log.last
    continued(fork, name)
    return fork


def continued(log: ClaudeLog, name: str) -> ClaudeLog:
    """Add a prompt and its answer to a log."""
    log.user(f"prompt {name}", f"prompt {name}")
    log.model(f"answer {name}", name=f"answer {name}", reply=name)
    return log


def family() -> tuple[ClaudeLog, ClaudeLog, ClaudeLog, ClaudeLog]:
    """A session, a fork of it, a fork of that fork, and a second fork of the session; the first two were continued."""
    first = continued(ClaudeLog("first"), "first")
    second = forked(first, "second", keep_ids=True)
    third = forked(second, "third", keep_ids=True)
    beside = forked(first, "beside", keep_ids=True)
    for log in (first, second):
        continued(log, f"{log.session} again")
    return first, second, third, beside


def raw_output_tokens(*logs: ClaudeLog) -> int:
    """The output tokens of all replies in some logs, counted without unspool's readers: each reply once."""
    records = [json.loads(line) for log in logs for line in log.lines]
    replies = {record["message"]["id"]: record["message"] for record in records if record["type"] == "assistant"}
    return sum(message["usage"]["output_tokens"] for message in replies.values())
