"""Everything that a request contains is shown, and what an answer for the session allows."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest

from unspool.runs.approvals import digest_of
from unspool.runs.drivers.claude_requests import build_request, input_with_answers, refusal
from unspool.runs.drivers.claude_rules import mode_update, rule_text, rules_for_session
from unspool.runs.drivers.request_details import details_of
from unspool.runs.protocol import Answer, Detail, PermissionRequest


@cache
def sdk() -> Any:
    """Claude Code's SDK. It takes a second to import, in every process that collects tests."""
    return pytest.importorskip("claude_agent_sdk")


def asked(tool: str, suggestions: list[Any] | None = None, **input: Any) -> PermissionRequest:
    """A request of Claude Code."""
    context = sdk().ToolPermissionContext(suggestions=suggestions or [], tool_use_id="c")
    return build_request("a", tool, input, context, rules_for_session(context.suggestions, "/project"))


def rule(content: str | None, tool: str = "Bash") -> Any:
    """A suggestion of the program."""
    rules = [sdk().types.PermissionRuleValue(tool, content)]
    return sdk().PermissionUpdate(type="addRules", rules=rules, behavior="allow", destination="localSettings")


@pytest.mark.parametrize(
    ("tool", "input", "details"),
    [
        ("Bash", {"command": "ls", "dangerouslyDisableSandbox": True}, [Detail("dangerouslyDisableSandbox", "true")]),
        ("Bash", {"command": "ls", "timeout": 9, "x": "y"}, [Detail("timeout", "9"), Detail("x", "y")]),
        ("Bash", {"command": ["ls"]}, [Detail("command[0]", "ls")]),
        (
            "Edit",
            {"file_path": "/a", "old_string": "x", "new_string": "y", "replace_all": True},
            [Detail("file_path", "/a"), Detail("replace_all", "true")],
        ),
        (
            "MultiEdit",
            {"file_path": "/a", "edits": [{"old_string": "x", "new_string": "y", "replace_all": False}]},
            [Detail("file_path", "/a"), Detail("edits[0].replace_all", "false")],
        ),
        (
            "NotebookEdit",
            {"notebook_path": "/n", "cell_id": "1", "edit_mode": "delete", "new_source": ""},
            [Detail("notebook_path", "/n"), Detail("cell_id", "1"), Detail("edit_mode", "delete")],
        ),
        ("AskUserQuestion", {"questions": [{"question": "a", "multiSelect": False, "options": []}]}, None),
        ("Read", {"file_path": "/a", "nested": {"deep": [1, {}]}}, None),
    ],
)
def test_fields_that_are_not_visible_otherwise_are_listed(
    tool: str, input: dict[str, Any], details: list[Detail] | None
) -> None:
    """Switches, limits, places and whatever a later version adds."""
    found = asked(tool, **input).details
    if details is None:
        details = {
            "AskUserQuestion": [Detail("questions[0].options", "[]")],
            "Read": [Detail("file_path", "/a"), Detail("nested.deep[0]", "1"), Detail("nested.deep[1]", "{}")],
        }[tool]
    assert found == details


def test_a_key_cannot_pass_for_a_path() -> None:
    """A field that is named like one that is shown elsewhere is listed all the same."""
    assert details_of({"edits[0].old_string": "hidden"}, {"edits[].old_string"}) == [
        Detail('["edits[0].old_string"]', "hidden")
    ]


@pytest.mark.parametrize(
    ("suggestion", "text"),
    [
        (partial(rule, "touch:*"), "any Bash command that starts with 'touch' (rule Bash(touch:*))."),
        (partial(rule, "touch a *"), "any Bash command that starts with 'touch a' (rule Bash(touch a *))."),
        (partial(rule, "touch a"), "Bash for exactly 'touch a' (rule Bash(touch a))."),
        (partial(rule, None, "mcp__x__y"), "any use of the tool mcp__x__y (rule mcp__x__y)."),
        (partial(rule, "//tmp/**", "Read"), "Read for anything that matches //tmp/** (rule Read(//tmp/**))."),
        (partial(mode_update, "acceptEdits"), "(mode acceptEdits)."),
    ],
)
def test_the_rule_for_the_session_is_spelled_out(suggestion: Callable[[], Any], text: str) -> None:
    """A prefix, a tool or a mode; another rule is another digest."""
    request = asked("Bash", [suggestion()], command="touch a")
    assert (request.session_rule or "").startswith("Until Claude Code exits, it no longer asks about ")
    assert (request.session_rule or "").endswith(text)
    assert "allow_session" in request.verdicts
    assert digest_of(request) != digest_of(asked("Bash", [rule("touch b")], command="touch a"))


def test_folders_beside_the_project_are_part_of_the_rule() -> None:
    """A rule may need a folder outside, which is opened with it."""
    folder = sdk().PermissionUpdate(type="addDirectories", directories=["/etc"], destination="session")
    text = rule_text(rules_for_session([rule("cat *"), folder], "/project")) or ""
    assert text.endswith("It may also work in the folder /etc.")
    assert rule_text([]) is None
    assert asked("Bash", command="ls").session_rule is None


def test_a_folder_that_is_a_circle_of_links_is_outside(tmp_path: Path) -> None:
    """It cannot be followed, which is no reason to lose the request."""
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    folder = sdk().PermissionUpdate(type="addDirectories", directories=[str(tmp_path / "a")], destination="session")
    assert str(tmp_path / "a") in (rule_text(rules_for_session([rule("cat *"), folder], "/project")) or "")


def test_a_denial_is_the_programs_own_sentence() -> None:
    """With the reason, the sentence that the terminal would have sent."""
    assert refusal("Use make.").endswith(" To tell you how to proceed, the user said:\nUse make.")
    assert refusal("Use make.").startswith("The user doesn't want to proceed with this tool use. The tool use was")
    assert "STOP" not in refusal("Use make.")
    assert refusal(None).endswith("STOP what you are doing and wait for the user to tell you how to proceed.")


def test_notes_reach_the_program_with_the_answers() -> None:
    """As its own page sends them."""
    answer = Answer(verdict="allow", answers={"Which?": ["a", "b"]}, notes={"Which?": "both, please"})
    assert input_with_answers("AskUserQuestion", {"questions": []}, answer) == {
        "questions": [],
        "answers": {"Which?": "a, b"},
        "annotations": {"Which?": {"notes": "both, please"}},
    }
