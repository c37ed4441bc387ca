"""Forks of headless sessions of Claude Code, which name nothing: only their lines tell."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from unspool.library import Library
from unspool.testing import ClaudeLog


@pytest.mark.parametrize(("original", "fork"), [("one", "two"), ("two", "one")])
@pytest.mark.parametrize("between", [True, False])
def test_a_fork_that_begins_after_its_first_message(tmp_path: Path, original: str, fork: str, between: bool) -> None:
    """Whichever id comes first, and whether or not notes stand between the copied answer and the next."""
    first = ClaudeLog(original)
    first.record({"type": "queue-operation", "operation": "enqueue", "timestamp": first.next_time()})
    first.user("shared", "shared")
    first.model("answer", name="answer")
    second = ClaudeLog(fork)
    second.record({"type": "queue-operation", "operation": "enqueue", "timestamp": "2026-03-01T10:00:00.000Z"})
    for line in first.lines[1:]:
        second.record(json.loads(line) | {"sessionId": second.session})
    second.last = second.id("answer")
    second.user("apart", "apart")
    if between:
        second.record({"type": "last-prompt", "leafUuid": second.last, "sessionId": second.session})
    second.model("apart indeed", name="apart answer")
    first.write(tmp_path)
    second.write(tmp_path)
    library = Library(tmp_path)
    origins = {ref.id: library.load(ref).info.origin for ref in library.refs()}
    assert origins[first.session].kind == "new"
    assert (origins[second.session].kind, origins[second.session].session) == ("fork", first.session)
