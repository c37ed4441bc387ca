"""Finding sessions of Gemini CLI: the first prompt may come late, and documents have other field names."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from unspool.library import Library
from unspool.testing import GeminiLog, texts, write_file

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
