"""Sessions of Gemini CLI that are spread over several files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from unspool.core import model as m
from unspool.core.stream import collect
from unspool.library import Library

CONTEXT = {"id": "context", "type": "user", "content": [{"text": "<session_context>\nThis is the Gemini CLI."}]}


def at(second: int, **fields: Any) -> dict[str, Any]:
    return {"timestamp": f"2026-03-01T09:01:{second:02}.000Z", **fields}


def test_two_files_that_are_written_at_once(tmp_path: Path) -> None:
    """A program that starts at the end of a minute writes the conversation to one and the calls to another."""
    head = {"sessionId": "s" * 8, "projectHash": "ab" * 32, "kind": "main"}
    call = {"id": "c1", "name": "run_shell_command", "args": {"command": "make"}, "status": "success", "result": []}
    response = {"functionResponse": {"id": "c1", "name": "run_shell_command", "response": {"output": "made"}}}
    conversation = [
        head | {"startTime": "2026-03-01T09:00:59.900Z"},
        {"$set": {"messages": [at(0) | CONTEXT]}},
        at(1, id="u1", type="user", content=[{"text": "build it"}]),
        at(2, id="g1", type="gemini", content="I build.", model="gemini-3-pro"),
        at(4, id="u2", type="user", content=[response]),
        at(5, id="g2", type="gemini", content="Built.", model="gemini-3-pro"),
    ]
    calls = [
        head | {"startTime": "2026-03-01T09:01:00.010Z"},
        {"$set": {"messages": [at(0) | CONTEXT]}},
        at(3, id="g3", type="gemini", content="", toolCalls=[call]),
        at(3, id="g3", type="gemini", content="", toolCalls=[call]),
    ]
    folder = tmp_path / ".gemini" / "tmp" / "demo" / "chats"
    folder.mkdir(parents=True)
    for minute, records in (("00", conversation), ("01", calls)):
        text = "".join(json.dumps(record) + "\n" for record in records)
        (folder / f"session-2026-03-01T09-{minute}-ssssssss.jsonl").write_text(text)
    library = Library(tmp_path)
    (ref,) = library.refs()
    session = library.load(ref)
    assert session.interruptions == []
    assert session.branches == []
    assert [message.index for message in session.active_path()] == [0, 1, 2, 3, 4]
    (made,) = [x for message in session.messages for x in message.blocks if isinstance(x, m.ToolCall)]
    assert made.input == {"command": "make"}
    assert next(collect(library.stream(ref))) == session
