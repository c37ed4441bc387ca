"""What the notes of a transcript are called."""

from __future__ import annotations

import pytest

from unspool.core import model as m
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
