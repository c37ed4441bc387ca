"""Attachments of Claude Code that do not record what the model got: their text is in other fields."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from unspool import model as m
from unspool.testing import ClaudeLog, call, load


def _attached(home: Path, body: dict[str, Any], **fields: Any) -> list[m.Block]:
    log = ClaudeLog()
    log.user("look")
    log.line("attachment", "attached", attachment=body, **fields)
    log.model("seen")
    return log.load(home).messages[1].blocks


@pytest.mark.parametrize(
    ("body", "text", "path"),
    [
        ({"type": "edited_text_file", "filename": "/b.txt", "snippet": "1\tone"}, "1\tone", "/b.txt"),
        ({"type": "hook_additional_context", "content": ["first", "second"]}, "first\nsecond", None),
        ({"type": "hook_success", "content": "", "stdout": "done\n", "stderr": ""}, "done", None),
        ({"type": "hook_success", "content": "done", "stdout": "done\n", "stderr": "slow\n"}, "done\nslow", None),
        (
            {"type": "file", "filename": "/a.txt", "content": {"type": "text", "file": {"content": "alpha\n"}}},
            "alpha",
            "/a.txt",
        ),
        (
            {"type": "nested_memory", "path": "/CLAUDE.md", "content": {"type": "Project", "content": "use tabs"}},
            "use tabs",
            "/CLAUDE.md",
        ),
        ({"type": "total_tokens_reminder", "text": "12 left"}, "12 left", None),
        ({"type": "opened_file_in_ide", "filename": "/a.py"}, None, "/a.py"),
        ({"type": "task_reminder", "content": [], "itemCount": 0}, None, None),
        ({"type": "prompt_snapshot", "systemPrompt": ["You are an agent."], "inlineTools": ["Bash"]}, None, None),
    ],
)
def test_the_text_of_an_attachment_is_kept(
    tmp_path: Path, body: dict[str, Any], text: str | None, path: str | None
) -> None:
    """Whichever field it is in."""
    assert _attached(tmp_path, body) == [m.Attachment(body["type"], text, path)]


_HOOK: dict[str, Any] = {"toolUseID": "toolu_1", "command": "make check", "durationMs": 12}


@pytest.mark.parametrize(
    ("fields", "text", "hook"),
    [
        (
            {"hookName": "PostToolUse:Edit", "hookEvent": "PostToolUse", "exitCode": 0, "stdout": "fine\n", **_HOOK},
            "fine",
            m.Hook(
                name="PostToolUse:Edit",
                event="PostToolUse",
                command="make check",
                exit_code=0,
                call_id="toolu_1",
            ),
        ),
        (
            {"hookName": "SessionStart:resume", "hookEvent": "SessionStart", **_HOOK},
            None,
            m.Hook(name="SessionStart:resume", event="SessionStart", command="make check"),
        ),
        (
            {"hookName": "Stop", "exitCode": "two", "command": ["make"], "content": "late"},
            "late",
            m.Hook(name="Stop"),
        ),
    ],
)
def test_what_is_recorded_of_a_hook(tmp_path: Path, fields: dict[str, Any], text: str | None, hook: m.Hook) -> None:
    """Its name, event, command and exit code are in the record; a value of another type is unknown."""
    assert _attached(tmp_path, {"type": "hook_success", **fields}) == [m.Attachment("hook_success", text, hooks=[hook])]


def test_the_hooks_at_the_end_of_a_turn(tmp_path: Path) -> None:
    """Their commands, and what they printed, are in the record."""
    log = ClaudeLog()
    log.user("look")
    log.model("seen")
    log.line(
        "system",
        "hooks",
        subtype="stop_hook_summary",
        hookCount=2,
        hookErrors=["no tests ran"],
        stopReason="",
        hookInfos=[{"command": "make check", "durationMs": 12}, {"command": "notify"}, "other"],
    )
    message = log.load(tmp_path).messages[2]
    hooks = [m.Hook(event="Stop", command="make check"), m.Hook(event="Stop", command="notify")]
    assert message.author == "hook"
    assert message.blocks == [m.Attachment("stop_hook_summary", "no tests ran", hooks=hooks)]


@pytest.mark.parametrize(
    "fields",
    [
        {"files": [{"uri": "a.py", "diagnostics": [{"message": "unused name"}]}]},
        {"content": [{"id": "1", "subject": "write a test", "status": "pending"}]},
        {"content": {"type": "text", "cells": [{"source": "print()"}]}, "stdout": "and more"},
        {"a_field_of_tomorrow": {"words": ["kept"]}},
    ],
)
def test_what_is_no_plain_text_is_kept_as_it_is(tmp_path: Path, fields: dict[str, Any]) -> None:
    """Without the fields that are empty."""
    blocks = _attached(tmp_path, {"type": "some", "nothing": [], **fields})
    assert len(blocks) == 1
    assert isinstance(blocks[0], m.Attachment)
    assert json.loads(blocks[0].text or "") == fields


def test_what_the_model_got_comes_first(tmp_path: Path) -> None:
    """The fields are only read where that is not recorded."""
    body = {"type": "edited_text_file", "filename": "/b.txt", "snippet": "one"}
    blocks = _attached(tmp_path, body, rendered=[{"content": "b.txt was changed: one"}])
    assert blocks == [m.Attachment("edited_text_file", "b.txt was changed: one", "/b.txt")]


def test_a_file_is_kept_beside_its_numbered_lines(tmp_path: Path) -> None:
    """The model got numbers that are not in the file."""
    content = {"type": "text", "file": {"content": "one\ntwo"}}
    body = {"type": "file", "filename": "/a.txt", "content": content}
    blocks = _attached(tmp_path, body, rendered=[{"content": "1\tone\n2\ttwo"}])
    assert blocks == [m.Attachment("file", text, "/a.txt") for text in ("1\tone\n2\ttwo", "one\ntwo")]


def test_an_attached_picture_is_an_image(tmp_path: Path) -> None:
    """Not text of a hundred kilobytes."""
    content = {"type": "image", "file": {"type": "image/png", "base64": "iVBO"}}
    blocks = _attached(tmp_path, {"type": "file", "filename": "/a.png", "content": content})
    assert blocks == [m.Attachment("file", None, "/a.png"), m.Image("image/png", "iVBO")]


@pytest.mark.parametrize("field", ["text", "content", "snippet", "stdout"])
def test_invalid_text_in_an_attachment_is_a_problem(tmp_path: Path, field: str) -> None:
    """These fields are decoded later than the rest of the line; what was replaced in them is counted."""
    log = ClaudeLog()
    log.user("go")
    log.line("attachment", "attached", attachment={"type": "hook_success", field: "an X byte"})
    log.model(call("c", command="echo Y"))
    path = log.write(tmp_path)
    path.write_bytes(path.read_bytes().replace(b"an X", b"an \xff").replace(b"echo Y", b"echo \xfe"))
    session = load(path)
    assert [block.text for block in session.messages[1].blocks if isinstance(block, m.Attachment)] == ["an \ufffd byte"]
    assert [(problem.reason, problem.source and problem.source.line) for problem in session.problems] == [
        ("invalid-utf8", 2),
        ("invalid-utf8", 3),
    ]


def test_a_replacement_character_of_the_log_is_no_problem(tmp_path: Path) -> None:
    """The log itself may have it."""
    log = ClaudeLog()
    log.user("go")
    log.line("attachment", "attached", attachment={"type": "hook_success", "content": "an \ufffd byte"})
    assert log.load(tmp_path).problems == []
