"""Sessions of Gemini CLI that are spread over several files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from unspool.agents import AGENTS
from unspool.core import model as m
from unspool.core.explain import Explainer
from unspool.core.stream import collect
from unspool.library import Library
from unspool.testing import GeminiLog

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


def write_documents(home: Path, *documents: list[dict[str, Any]], log: list[dict[str, Any]] | None = None) -> None:
    """Write the documents of one session, one for each minute."""
    folder = home / ".gemini" / "tmp" / ("ab" * 32) / "chats"
    folder.mkdir(parents=True)
    for minute, messages in enumerate(documents):
        start = f"2026-03-01T09:{minute:02}:00.000Z"
        document = {"sessionId": "s" * 8, "projectHash": "ab" * 32, "startTime": start, "messages": messages}
        (folder / f"session-2026-03-01T09-{minute:02}-ssssssss.json").write_text(json.dumps(document))
    if log is not None:
        (folder.parent / "logs.json").write_text(json.dumps(log))


def turn(name: str, minute: int, tokens: int) -> list[dict[str, Any]]:
    """A prompt, and an answer to a request of some tokens."""
    time = f"2026-03-01T09:{minute:02}"
    return [
        {"id": f"{name}-p", "timestamp": f"{time}:01.000Z", "type": "user", "content": f"prompt {name}"},
        {"id": f"{name}-r", "timestamp": f"{time}:02.000Z", "type": "gemini", "content": name, "model": "gemini-3-pro",
         "tokens": {"input": tokens, "output": 5}},
    ]  # fmt: skip


def clears(home: Path) -> list[tuple[int | None, str, float]]:
    """The clears of the only session, the same in a stream."""
    library = Library(home)
    (ref,) = library.refs()
    session = library.load(ref)
    assert next(collect(library.stream(ref))) == session
    return [(clear.after_message_index, clear.evidence, clear.confidence) for clear in session.context_clears]


def test_another_document_with_a_smaller_request_is_a_clear(tmp_path: Path) -> None:
    """The recorder starts again under the same id, and the prompt log is gone."""
    write_documents(tmp_path, turn("a", 0, 7000) + turn("b", 0, 90_000), turn("c", 1, 7100))
    assert clears(tmp_path) == [(3, "session", 0.7)]
    library = Library(tmp_path)
    (ref,) = library.refs()
    assert library.load(ref).context_at(5).message_indices == [4]


def test_a_clear_in_the_prompt_log_counts_once(tmp_path: Path) -> None:
    """The log is the better evidence."""
    log = [{"sessionId": "s" * 8, "messageId": 1, "message": "/clear", "timestamp": "2026-03-01T09:00:30.000Z"}]
    write_documents(tmp_path, turn("a", 0, 7000), turn("c", 1, 6900), log=log)
    assert clears(tmp_path) == [(1, "logs", 0.9)]


def test_another_document_is_no_clear_by_itself(tmp_path: Path) -> None:
    """A copy, a request that is as large as before, and a compression are none."""
    first = turn("a", 0, 7000) + turn("b", 0, 90_000)
    note = {"id": "n", "timestamp": "2026-03-01T09:00:03.000Z", "type": "info", "content": ""}
    write_documents(tmp_path / "copy", first, first)
    write_documents(tmp_path / "growth", first, turn("c", 1, 90_500))
    write_documents(tmp_path / "compression", [*first, note], turn("c", 1, 7100))
    for name in ("copy", "growth", "compression"):
        assert clears(tmp_path / name) == []


def test_inferred_clears_and_interruptions_have_rules(tmp_path: Path) -> None:
    """The page that explains a message says why."""
    write_documents(tmp_path / "clear", turn("a", 0, 7000) + turn("b", 0, 90_000), turn("c", 1, 7100))
    note = {"id": "n", "timestamp": "2026-03-01T09:00:03.000Z", "type": "error", "content": '{"code": 503}'}
    write_documents(tmp_path / "error", [*turn("a", 0, 7000), note])
    for name, about in (("clear", "clear"), ("error", "interruption")):
        library = Library(tmp_path / name)
        session = library.load(next(library.refs()))
        explainer = Explainer(session, session.messages.__getitem__, AGENTS["gemini"].rules)
        facts = [fact for index in range(len(session)) for fact in explainer.explain(index).facts]
        assert about in [fact.about for fact in facts]
        assert [fact for fact in facts if fact.rule is None] == []


@pytest.mark.parametrize("where", ["session copy.jsonl", "0 backup/session.jsonl", "session.jsonl.bak.jsonl"])
@pytest.mark.parametrize("lines", [None, 5])
def test_a_copy_of_a_log_adds_nothing(tmp_path: Path, where: str, lines: int | None) -> None:
    """Not even the rewinds in it. A backup may end earlier."""
    log = GeminiLog()
    for turn in range(3):
        log.user(f"u{turn}", f"prompt {turn}")
        log.model(f"g{turn}", f"answer {turn}")
    log.rewind("u2")
    log.user("u3", "something else")
    path = log.write(tmp_path)
    (ref,) = Library(tmp_path).refs()
    session = Library(tmp_path).load(ref)
    assert len(session.branches) == 1
    copy = path.parent / where
    copy.parent.mkdir(exist_ok=True)
    copy.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:lines]))
    (ref,) = Library(tmp_path).refs()
    again = Library(tmp_path).load(ref)
    again.info.files[0].path = session.info.files[0].path
    assert again.to_dict() == session.to_dict()
    assert Library(tmp_path).find(str(copy)).path == copy
