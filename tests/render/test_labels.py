"""What the notes of a transcript are called."""

from __future__ import annotations

import pytest

from unspool.core import model as m
from unspool.render.event_text import describe_event, timeline_label
from unspool.render.transcript import attachment_label


@pytest.mark.parametrize(
    ("hooks", "label"),
    [
        ([], "hook_success"),
        ([m.Hook(name="PostToolUse:Read", event="PostToolUse", exit_code=0)], "hook_success (PostToolUse:Read)"),
        ([m.Hook(event="Stop", exit_code=2)], "hook_success (Stop, exit code 2)"),
        ([m.Hook(event="Stop"), m.Hook()], "hook_success (Stop; hook)"),
    ],
)
def test_an_attachment_names_its_hooks(hooks: list[m.Hook], label: str) -> None:
    """In parentheses: several notes are listed with commas between them."""
    assert attachment_label(m.Attachment(kind="hook_success", hooks=hooks)) == label


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            "Chunk ID: 3fa1\nWall time: 0.05 seconds\nProcess exited with code 2\nOutput:\nmake: *** No rule",
            "make: *** No rule",
        ),
        ("Exit code: 1\nWall time: 0 seconds\nOutput:\n\n  boom\n  bang", "boom bang"),
        ("Exit code: 1\nWall time: 0 seconds\nOutput:\n", "Exit code: 1 Wall time: 0 seconds Output:"),
        ("Exit code: 7\nWall time: 0 seconds\nOutput:", "exit code 7, no output"),
        ("Traceback\nOutput is missing", "Traceback Output is missing"),
        ("Output:\nis all there is", "Output: is all there is"),
    ],
)
def test_a_failure_is_described_by_what_the_program_printed(text: str, line: str) -> None:
    code = 7 if "code: 7" in text else None
    failure = m.Failure(message_index=0, kind="tool_error", text=text, exit_code=code)
    assert describe_event(failure) == f"tool error: {line}"
    assert timeline_label(failure) == f"tool error: {line}"
