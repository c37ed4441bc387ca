"""Titles of Codex threads in a list: the first prompt, however far into the file it is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import zstandard

from unspool.library import Library
from unspool.testing import CodexLog, write_file

LONG = "word " * 40_000
PROMPT = "Where is the parser?"
THREAD = "01a1e48f-9b51-7973-a314-273d698da5d4"


def listed(home: Path) -> str | None:
    """The title of the only session, in a list; the record has the same."""
    library = Library(home)
    (ref,) = library.refs()
    title = library.peek(ref).title
    assert library.load(ref).info.title == title
    return title


def user(log: CodexLog, text: str) -> None:
    log.item("message", role="user", content=[{"type": "input_text", "text": text}])


@pytest.mark.parametrize(
    "injected",
    [
        f"# AGENTS.md instructions for /home/dev/demo\n\n{LONG}",
        f"<environment_context>\n{LONG}",
        f"<recommended_plugins>\n{LONG}",
        f"<skill>\n{LONG}",
    ],
)
def test_the_prompt_comes_after_long_instructions(tmp_path: Path, injected: str) -> None:
    """They are much longer than what is read at first, and are never the title."""
    log = CodexLog()
    log.item("message", role="developer", content=[{"type": "input_text", "text": LONG}])
    user(log, injected)
    log.turn(PROMPT, "There.")
    log.write(tmp_path)
    assert listed(tmp_path) == PROMPT


def test_recommended_plugins_are_not_typed(tmp_path: Path) -> None:
    """0.145 sends them as a user message."""
    log = CodexLog(version="0.145.0")
    user(log, "<recommended_plugins>\nuse these\n</recommended_plugins>")
    log.turn(PROMPT, "There.")
    assert [message.author for message in log.load(tmp_path).messages] == ["harness", "human", "model"]


def test_a_prompt_may_begin_like_instructions(tmp_path: Path) -> None:
    """What is typed is the title, whatever it begins with."""
    log = CodexLog()
    log.turn("# Plan\nwrite <b>", "Done.")
    log.write(tmp_path)
    assert listed(tmp_path) == "# Plan"


def test_a_thread_without_a_prompt_has_no_title(tmp_path: Path) -> None:
    """Nothing is made up."""
    log = CodexLog()
    user(log, f"<environment_context>\n{LONG}")
    log.write(tmp_path)
    assert listed(tmp_path) is None


def test_a_compressed_thread(tmp_path: Path) -> None:
    """It is unpacked only as far as needed."""
    log = CodexLog()
    user(log, f"<skill>\n{LONG}")
    log.turn(PROMPT, "There.")
    path = log.write(tmp_path)
    path.with_suffix(".jsonl.zst").write_bytes(zstandard.compress(path.read_bytes()))
    path.unlink()
    assert listed(tmp_path) == PROMPT


def test_a_thread_without_envelopes(tmp_path: Path) -> None:
    """0.29 and before."""
    lines = [
        {"id": THREAD, "timestamp": "2025-08-20T10:00:00Z", "instructions": None},
        {"record_type": "state"},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": f"<user_instructions>{LONG}"}]},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": PROMPT}]},
    ]
    data = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    write_file(tmp_path / ".codex/sessions/2025/08/20" / f"rollout-2025-08-20T10-00-00-{THREAD}.jsonl", data)
    assert listed(tmp_path) == PROMPT


def test_a_document(tmp_path: Path) -> None:
    """The TypeScript CLI wrote one document per session."""
    item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": PROMPT}]}
    document = {"session": {"id": THREAD, "timestamp": "2025-05-17T10:00:00Z"}, "items": [item]}
    data = json.dumps(document, indent=2).encode()
    write_file(tmp_path / ".codex/sessions" / f"rollout-2025-05-17-{THREAD}.json", data)
    assert listed(tmp_path) == PROMPT
