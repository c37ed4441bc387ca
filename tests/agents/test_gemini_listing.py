"""Finding sessions of Gemini CLI: the first prompt may come late, and documents have other field names."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from unspool.agents import AGENTS, finish
from unspool.core.builder import SessionBuilder
from unspool.library import Library
from unspool.testing import GeminiLog, texts, write_file

from ..work import lines_per_pair

LONG = "word " * 40_000
PROMPT = "Where is the parser?"
CHATS = Path(".gemini") / "tmp" / "demo" / "chats"


def listed(home: Path) -> list[str | None]:
    """The titles in a list; the records have the same."""
    library = Library(home)
    titles = []
    for ref in library.refs():
        titles.append(library.peek(ref).title)
        assert library.load(ref).info.title == titles[-1]
    return titles


def document(home: Path, messages: list[dict[str, Any]], indent: int | None = 2, **head: Any) -> Path:
    data = {"sessionId": "s1", "projectHash": "ab" * 32, "startTime": "2026-03-01T09:00:00Z"} | head
    data |= {"lastUpdated": "2026-03-01T09:10:00Z", "messages": messages}
    path = home / CHATS / "session-2026-03-01T09-00-s1.json"
    return write_file(path, json.dumps(data, indent=indent).encode())


def note(number: int) -> dict[str, Any]:
    return {"id": f"n{number}", "timestamp": "2026-03-01T09:00:01Z", "type": "info", "content": "Memory: empty"}


def test_the_prompt_comes_after_a_long_context(tmp_path: Path) -> None:
    """The session context alone is longer than what is read at first."""
    log = GeminiLog()
    context = {"id": "c", "type": "user", "content": [{"text": f"<session_context>\n{LONG}"}]}
    log.change(messages=[context])
    log.user("u1", PROMPT)
    log.write(tmp_path)
    assert listed(tmp_path) == [PROMPT]


def test_the_prompt_comes_after_many_notes(tmp_path: Path) -> None:
    """In a log as in a document."""
    log = GeminiLog()
    for number in range(30):
        log.message("info", f"n{number}", LONG[:10_000])
    log.user("u1", PROMPT)
    log.write(tmp_path)
    assert listed(tmp_path) == [PROMPT]
    messages = [note(number) for number in range(30)]
    document(tmp_path, [*messages, {"id": "u1", "type": "user", "content": PROMPT}])
    assert listed(tmp_path) == [PROMPT, PROMPT]


@pytest.mark.parametrize("text", ["<system-reminder>\nBe brief.", "I ran the following shell command:\n```\nls\n```"])
def test_the_title_is_what_was_asked(tmp_path: Path, text: str) -> None:
    """Neither a note of the agent nor a command that a person ran."""
    log = GeminiLog()
    log.user("u1", text)
    log.user("u2", PROMPT)
    log.write(tmp_path)
    assert listed(tmp_path) == [PROMPT]


def test_the_title_is_what_was_displayed(tmp_path: Path) -> None:
    """The text that was sent has file names and contents in it."""
    log = GeminiLog()
    log.message("user", "u1", [{"text": "Explain @src/a.py"}, {"text": LONG}], displayContent="Explain a.py")
    log.write(tmp_path)
    assert listed(tmp_path) == ["Explain a.py"]


def test_a_file_without_a_prompt_is_no_session(tmp_path: Path) -> None:
    """The agent writes such a file at every start."""
    document(tmp_path, [note(number) for number in range(30)])
    assert listed(tmp_path) == []


def test_unknown_commands_are_prompts(tmp_path: Path) -> None:
    """The agent sends them to the model."""
    log = GeminiLog()
    log.user("u1", "/frobnicate now")
    log.model("g1", "I do not know that command.")
    session = log.load(tmp_path)
    assert [message.author for message in session.messages] == ["human", "model"]
    assert listed(tmp_path) == ["/frobnicate now"]


@pytest.mark.parametrize("indent", [2, None])
def test_a_document_with_other_field_names(tmp_path: Path, indent: int | None) -> None:
    """`id` instead of `sessionId`, and `model` instead of `gemini`: a session like any other."""
    messages: list[dict[str, Any]] = [
        {"id": "u1", "type": "user", "content": PROMPT, "timestamp": "2026-03-01T09:00:01Z"},
        {"id": "m1", "type": "model", "content": "There.", "thoughts": [{"subject": "Search", "description": "grep"}]},
    ]
    path = document(tmp_path, messages, indent)
    data = json.loads(path.read_bytes())
    data["id"] = data.pop("sessionId")
    path.write_text(json.dumps(data, indent=indent))
    assert listed(tmp_path) == [PROMPT]
    library = Library(path)
    session = library.load(library.ref_of(path))
    assert session.info.id == "s1"
    assert session.problems == []
    assert [message.author for message in session.messages] == ["human", "model"]
    assert texts(session) == [PROMPT, "**Search**\n\ngrep", "There."]


def test_a_document_shows_nothing_of_a_rewind(tmp_path: Path) -> None:
    """0.38 leaves no trace of it: no event is made up."""
    messages: list[dict[str, Any]] = []
    for number, text in enumerate(("hello one", "hello replacement")):
        messages.append({"id": f"u{number}", "type": "user", "content": [{"text": text}]})
        messages.append({"id": f"g{number}", "type": "gemini", "content": f"Answer to {text}", "model": "gemini-3-pro"})
    path = document(tmp_path, messages)
    library = Library(path)
    session = library.load(library.ref_of(path))
    assert (session.rollbacks, session.branches, session.interruptions) == ([], [], [])


# --- what is around a session ---


def session_at(home: Path, number: int, project: str = "demo") -> str:
    """Write a session that starts and ends in a minute of its own, and return its id."""
    log = GeminiLog(f"session {number}")
    hour = f"2026-03-{1 + number // 600:02}T{number // 60 % 10 + 10:02}:{number % 60:02}"
    log.lines = []
    log.record({"sessionId": log.session, "projectHash": "ab" * 32, "startTime": f"{hour}:00Z", "kind": "main"})
    log.record({"id": "u", "timestamp": f"{hour}:10Z", "type": "user", "content": f"prompt {number}"})
    write_file(home / ".gemini" / "tmp" / project / "chats" / f"session-{number:05}.jsonl", log.data)
    return log.session


def entry(session: str, text: str, at: str) -> dict[str, Any]:
    return {"sessionId": session, "messageId": 0, "type": "user", "message": text, "timestamp": at}


def prompt_log(home: Path, *entries: dict[str, Any], project: str = "demo") -> None:
    write_file(home / ".gemini" / "tmp" / project / "logs.json", json.dumps(entries).encode())


def fingerprint(home: Path) -> str:
    """The fingerprint of the first session."""
    source = AGENTS["gemini"].open(home / ".gemini")
    return source.fingerprint(next(iter(source.refs())))


def test_prompts_that_make_a_difference_to_a_session(tmp_path: Path) -> None:
    """Those of its project, up to its end: any other would have it read again for nothing."""
    session = session_at(tmp_path, 0)
    own = entry(session, "prompt 0", "2026-03-01T10:00:05Z")
    prompt_log(tmp_path, own)
    before = fingerprint(tmp_path)
    prompt_log(tmp_path, own, entry("later", "something else", "2026-03-01T11:00:00Z"))
    assert fingerprint(tmp_path) == before
    prompt_log(tmp_path, entry("other", "something else", "2026-03-01T10:00:01Z"), project="other")
    assert fingerprint(tmp_path) == before
    prompt_log(tmp_path, own, entry(session, "more", "2026-03-01T10:00:08Z"))
    changed = fingerprint(tmp_path)
    assert changed != before
    prompt_log(tmp_path, own, entry(session, "more", "2026-03-01T10:00:08Z"), {"message": "without a time"})
    assert fingerprint(tmp_path) not in (before, changed)


def test_the_session_after_a_clear(tmp_path: Path) -> None:
    """It is the next one that begins, of those that the prompt log does not name."""
    first, named, second, third = (session_at(tmp_path, number) for number in range(4))
    prompts = [(first, "prompt 0", "10:00:05"), (first, "/clear", "10:00:30"), (named, "prompt 1", "10:01:05")]
    prompts.append((first, "/clear", "10:02:30"))
    prompt_log(tmp_path, *(entry(id, text, f"2026-03-01T{at}Z") for id, text, at in prompts))
    library = Library(tmp_path)
    found = {ref.id: library.load(ref) for ref in library.refs()}
    assert [clear.next_session for clear in found[first].context_clears] == [second]
    assert [clear.next_session for clear in found[second].context_clears] == [third]
    origins = [(found[id].info.origin.kind, found[id].info.origin.session) for id in (first, named, second, third)]
    assert origins == [("new", None), ("new", None), ("clear", first), ("clear", second)]


@pytest.mark.parametrize("at", ["0001-01-01T00:00:00Z", "0001-01-01T00:00:00-05:00", "9999-12-31T23:59:59.999Z"])
def test_a_clear_at_the_edge_of_the_calendar(tmp_path: Path, at: str) -> None:
    """A time that cannot be right must not hide the sessions."""
    ids = [session_at(tmp_path, number) for number in range(2)]
    prompt_log(tmp_path, entry(ids[0], "/clear", at))
    library = Library(tmp_path)
    assert [library.load(ref).id for ref in library.refs()] == ids
    assert fingerprint(tmp_path)


def _sessions(home: Path, count: int) -> None:
    """Sessions in a terminal, each with a prompt in the log."""
    ids = [session_at(home, number) for number in range(count)]
    times = [f"2026-03-01T10:{number % 60:02}:05Z" for number in range(count)]
    prompt_log(home, *(entry(id, f"prompt {n}", at) for n, (id, at) in enumerate(zip(ids, times, strict=True))))


def _clears(home: Path, count: int) -> None:
    """Sessions that the log does not name, but the clears before them."""
    ids = [session_at(home, number) for number in range(count)]
    texts = [("/clear", f"2026-03-01T10:{number % 60:02}:30Z") for number in range(count)]
    prompt_log(home, *(entry(ids[0], text, at) for text, at in texts))


def _subagents(home: Path, count: int) -> None:
    """One session with many sub-agents, each of which the session names."""
    parent = session_at(home, 0)
    log = GeminiLog("session 0")
    log.user("u", "prompt 0")
    for number in range(count):
        child = GeminiLog(f"child {number}")
        child.user("u", "look")
        write_file(home / CHATS / parent / f"{number:05}.jsonl", child.data)
        log.model(f"g{number}", "", [{"id": f"c{number}", "name": "codebase_investigator", "agentId": child.session}])
    log.write(home)


@pytest.mark.parametrize("write", [_sessions, _clears, _subagents])
def test_work_does_not_grow_with_pairs(tmp_path: Path, write: Callable[[Path, int], None]) -> None:
    """Each session takes the same work, however many others there are."""

    def read_all(count: int) -> None:
        source = AGENTS["gemini"].open(tmp_path / str(count) / ".gemini")
        for ref in list(source.refs()):
            source.fingerprint(ref)
            finish(source.read(ref, lambda id, kind: SessionBuilder("gemini", id, kind)))

    for count in (20, 40, 60):
        write(tmp_path / str(count), count)
        # The first time, more lines run, because some results are kept.
        read_all(count)
    assert lines_per_pair(read_all, 20) < 0.25
