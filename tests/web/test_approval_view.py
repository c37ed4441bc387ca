"""The card of an approval request: all of the request is on it, exactly."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from html.parser import HTMLParser
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unspool.agents import AGENTS
from unspool.render.exact import original
from unspool.render.exact_markup import exact_json, exact_title
from unspool.runs.approvals import OpenRequest, digest_of
from unspool.runs.protocol import Choice, Detail, FilePreview, Option, PermissionRequest
from unspool.web.approval_view import approval_view
from unspool.web.templating import render

TEXTS = st.text(st.one_of(st.sampled_from("\x1b\r\n\t \u202e\u0430⟨·¶›\x00<&"), st.characters(codec="utf-8")))


class Card(HTMLParser):
    """The texts of a card, by the class of the element around them, and what its buttons copy."""

    def __init__(self, request: PermissionRequest) -> None:
        super().__init__()
        self.texts: dict[str, str] = {}
        self.copies: dict[str, str] = {}
        self._inside: list[tuple[str, str]] = []
        question = OpenRequest(request=request, digest=digest_of(request), at=datetime(2026, 1, 1, tzinfo=UTC))
        self.html = render("question.html", run=SimpleNamespace(id="r1"), question=question)
        self.feed(self.html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if "data-copy-json" in given:
            self.copies[given.get("aria-label") or ""] = json.loads(given["data-copy-json"] or "")
        if tag != "input":
            self._inside.append((tag, given.get("class") or ""))

    def handle_endtag(self, tag: str) -> None:
        while self._inside and self._inside.pop()[0] != tag:
            pass

    def handle_data(self, data: str) -> None:
        path = [name for _, classes in self._inside for name in classes.split()]
        if any(tag == "pre" for tag, _ in self._inside):
            path.append("pre")
        for name in path:
            self.texts[name] = self.texts.get(name, "") + data
        if "pre" in path and "raw-input" not in path:
            kind = next((name for name in ("command", "plan") if name in path), "detail")
            self.texts[f"shown {kind}"] = self.texts.get(f"shown {kind}", "") + data


def requested(tool: str = "Bash", more: dict[str, Any] | None = None, **input: Any) -> PermissionRequest:
    """A request of Claude Code."""
    action = AGENTS["claude"].describe(tool, msgspec.Raw(json.dumps(input).encode()))
    facts: dict[str, Any] = {"kind": "command", **(more or {})}
    return PermissionRequest(id="a", tool=tool, title="title", action=action, **facts)


@settings(max_examples=60)
@given(TEXTS)
def test_the_card_shows_and_copies_what_runs(text: str) -> None:
    """Whatever the command is: what the elements show maps back to it, and the button copies it."""
    request = requested(command="x")
    request.action.command = text
    card = Card(request)
    assert original(card.texts.get("shown command", "")) == text
    assert card.copies["Copy the command"] == text


def test_what_an_agent_repeats_is_counted_once() -> None:
    """Codex has the command in several fields; a character in it is one character."""
    command = "ls \x1b[8m"
    repeated = {"details": [Detail("commandActions[0].command", command), Detail("shell", "/bin/bash -lc")]}
    once = approval_view(requested(command=command)).warnings
    assert once
    assert approval_view(requested(command=command, more=repeated)).warnings == once
    other = {"details": [Detail("environment", "x\x1b[8m")]}
    assert approval_view(requested(command=command, more=other)).warnings != once


def test_a_long_command_shows_its_beginning_and_its_end() -> None:
    """What is between them is counted, and on the card."""
    command = "\n".join(f"echo {number}" for number in range(200)) + "\nrm -rf ~"
    view = approval_view(requested(command=command)).command
    assert view is not None
    assert view.end.endswith("rm -rf ~")
    assert view.parts.head.startswith("echo 0\n")
    assert view.parts.hidden == "1,505 characters in 178 lines"
    card = Card(requested(command=command))
    assert "1,505 characters in 178 lines not shown here: show all" in card.texts["not-shown"]
    assert original(card.texts["shown command"]) == command
    assert "rm -rf ~" in card.texts["end"]


def test_every_field_warning_and_rule_is_on_the_card() -> None:
    """Switches beside the command, differences of the file, and what the session rule allows."""
    rule = "Until Claude Code exits, it no longer asks about any Bash command that starts with 'ls'."
    more: dict[str, Any] = {
        "details": [Detail("dangerouslyDisableSandbox", "true"), Detail("odd\u202e", "va\x1blue")],
        "files": [FilePreview(path="/a", warnings=["The file exists: its 2 lines would be overwritten."])],
        "verdicts": ("allow", "allow_session", "deny"),
        "session_rule": rule,
    }
    card = Card(requested(command="ls p\u0430th", more=more))
    assert "dangerouslyDisableSandboxtrue" in "".join(card.texts["request-details"].split())
    assert "odd⟨U+202E⟩" in card.texts["request-details"]
    assert "va⟨ESC⟩lue" in card.texts["request-details"]
    assert rule in card.texts["session-rule"]
    assert [line.strip() for line in card.texts["approval-warnings"].splitlines() if line.strip()] == [
        "/a: The file exists: its 2 lines would be overwritten.",
        "Contains 1 control character: U+001B ESCAPE.",
        "Contains 1 character that changes the direction of text: U+202E RIGHT-TO-LEFT OVERRIDE.",
        "Contains 1 character that looks like another one: U+0430 CYRILLIC SMALL LETTER A (looks like a).",
    ]


def test_a_change_is_shown_line_by_line() -> None:
    """A line behind an escape sequence is shown like any other, and long changes show their last lines."""
    card = Card(requested("Write", file_path="/a", content="first\x1bP\nsecond\x1b\\\n"))
    assert "first⟨ESC⟩P" in card.texts["add"]
    assert "second⟨ESC⟩\\" in card.texts["add"]
    long = Card(requested("Write", file_path="/a", content="".join(f"line {number}\n" for number in range(300))))
    assert "line 299" in long.texts["end"]
    assert "240 lines not shown here: show all" in long.texts["not-shown"]
    assert all(f"line {number}" in long.html for number in range(300))


def test_much_of_a_very_long_text_is_loaded_on_demand() -> None:
    """What is loaded is what is between the beginning and the end."""
    content = "".join(f"line {number}\n" for number in range(9000))
    request = requested("Write", {"details": [Detail("odd", "x" * 50_000)]}, file_path="/a", content=content)
    card = Card(request)
    assert "line 5000" not in card.html
    assert len(card.html) < 100_000
    for name, text in (("change-1", "line 5000"), ("detail-1", "x" * 40_000), ("input", '"content"')):
        assert f'data-load="/runs/r1/questions/a/parts/{name}"' in card.html
        assert text in render("question_part.html", part=approval_view(request).part(name), name=name).replace(
            "&#34;", '"'
        )
    assert approval_view(request).part("change-2") is None


def test_a_plan_without_text_is_called_one() -> None:
    """Some versions leave it out."""
    assert "contains no text of a plan" in Card(requested("ExitPlanMode", {"kind": "plan"})).html


def test_a_change_that_would_fail_is_shown_as_the_model_wrote_it() -> None:
    """The diff of the file cannot show it."""
    preview = FilePreview(path="/a", diff="--- /a (on disk)\n+++ /a\n", warnings=["It would fail."], applies=False)
    request = requested("Edit", {"files": [preview]}, file_path="/a", old_string="x", new_string="y")
    assert [view.title for view in approval_view(request).diffs] == ["The change as the model wrote it"]
    request.files = [FilePreview(path="/a", diff="--- /a\n+++ /b\n@@ -1 +1 @@\n-x\n+y\n")]
    assert [len(view.head) for view in approval_view(request).diffs] == [5]


@pytest.mark.parametrize(
    ("kind", "labels"),
    [
        ("plan", ["Approve, ask for edits", "Approve, accept edits", "Keep planning", "Keep planning with a reason"]),
        ("command", ["Allow", "Allow for this session", "Deny", "Deny with a reason"]),
    ],
)
def test_answers_have_the_words_of_the_request(kind: Any, labels: list[str]) -> None:
    """A plan is approved or kept, a call allowed or denied."""
    request = requested("ExitPlanMode", {"takes_reason": True}, plan="# Plan <!-- not hidden -->")
    request.kind, request.verdicts = kind, ("allow", "allow_session", "deny")
    card = Card(request)
    assert "<!-- not hidden -->" in card.texts["shown plan"]
    assert all(label in card.texts["verdicts"] for label in labels)


def test_questions_are_shown_exactly() -> None:
    """With their descriptions, and with a place for a note."""
    choice = Choice(question="Wh\u0456ch?", options=[Option("A\u200b", "the first\u202e")], multiple=True)
    card = Card(requested("AskUserQuestion", {"kind": "question", "choices": [choice]}))
    assert "Wh⟨U+0456⟩ch?" in card.texts["exact-inline"]
    assert "A⟨U+200B⟩" in card.texts["exact-inline"]
    assert "the first⟨U+202E⟩" in card.texts["exact-inline"]
    assert "data-note" in card.html
    assert 'type="checkbox"' in card.html


def test_the_input_to_edit_hides_nothing() -> None:
    """It is JSON with escapes, and means the same."""
    raw = msgspec.Raw(
        json.dumps({"a": "x\x1b\x7f\u202e\u0430b\U000e0041é", "b": " " * 40}, ensure_ascii=False).encode()
    )
    text = exact_json(raw)
    assert json.loads(text) == json.loads(bytes(raw))
    assert "\\u202e" in text
    assert "\\u007f" in text
    assert "é" in text


def test_a_title_says_how_much_it_leaves_out() -> None:
    """Its beginning and end are there."""
    title = exact_title("a" * 300 + "\nend\x1b")
    assert "205 characters" in title
    assert title.endswith('⏎ end<span class="token control" title="U+001B ESCAPE">⟨ESC⟩</span>')
