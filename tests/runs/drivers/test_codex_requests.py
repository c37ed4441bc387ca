"""Requests of Codex, translated for all drivers, that no scripted model can trigger."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from unspool.runs.drivers.codex_config import build_environment, variables_in
from unspool.runs.drivers.codex_requests import CodexRequest, build_answer, build_request, inner_command
from unspool.runs.protocol import Answer, PermissionRequest, RunSpec

EDIT = "item/fileChange/requestApproval"
COMMAND = "item/commandExecution/requestApproval"
PERMISSIONS = "item/permissions/requestApproval"
SERVER = "mcpServer/elicitation/request"


def requested(
    method: str, changes: list[dict[str, Any]] | None = None, **params: Any
) -> tuple[CodexRequest, PermissionRequest]:
    """A request, and what it asks."""
    params = {"threadId": "t", "turnId": "u", "itemId": "c", **params}
    request = CodexRequest(1, method, params, {"id": "c", "tool": "read", "changes": changes or []})
    found = build_request("a", request, None)
    assert found is not None
    return request, found


def answer(request: CodexRequest, verdict: Any, **answers: list[str]) -> dict[str, Any]:
    """The response to Codex."""
    return build_answer(request, Answer(verdict=verdict, answers=answers))


@pytest.mark.parametrize(
    ("verdict", "word"),
    [("allow", "accept"), ("allow_session", "acceptForSession"), ("deny", "decline"), ("deny_stop", "cancel")],
)
def test_an_approval_is_one_word(verdict: str, word: str) -> None:
    for method in (EDIT, COMMAND):
        assert answer(requested(method)[0], verdict) == {"decision": word}


def test_the_shell_around_a_command_is_left_out() -> None:
    assert inner_command("/bin/bash -lc 'echo '\"'\"'a b'\"'\"''") == "echo 'a b'"
    assert inner_command("echo 'torn") == "echo 'torn"
    assert inner_command("git status") == "git status"
    # Another program with the same arguments is no shell.
    assert inner_command("/tmp/evil -c ls") == "/tmp/evil -c ls"


def test_everything_else_about_a_request_is_listed() -> None:
    """Where and how it runs, and fields of later versions; not what identifies the request."""
    more: dict[str, Any] = {"cwd": "/p", "additionalPermissions": {"network": {"enabled": True}}, "unheardOf": [1]}
    _, found = requested(COMMAND, command="/bin/bash -lc 'ls \x1bP; id'", reason="May I?", **more)
    assert found.action.command == "ls \x1bP; id"
    assert [(each.name, each.value) for each in found.details] == [
        ("cwd", "/p"),
        ("additionalPermissions.network.enabled", "true"),
        ("unheardOf[0]", "1"),
        ("shell", "/bin/bash -lc"),
    ]
    assert found.session_rule is not None
    assert "about this command in this folder" in found.session_rule


def test_only_a_line_feed_ends_a_line_of_a_change() -> None:
    """Whatever else a terminal or a browser may take for one."""
    changes = [{"path": "a", "kind": {"type": "add"}, "diff": "one\u2028two\x0cthree\n\nlast"}]
    _, found = requested(EDIT, changes)
    assert (found.action.diff or "").split("\n") == [
        "--- /dev/null",
        "+++ a",
        "@@ -0,0 +1,3 @@",
        "+one\u2028two\x0cthree",
        "+",
        "+last",
        "\\ No newline at end of file",
        "",
    ]
    assert [edit.path for edit in found.edits] == ["a"]


@pytest.mark.skipif(shutil.which("patch") is None, reason="the program patch is not installed")
def test_an_edit_is_shown_as_a_diff_that_can_be_applied(tmp_path: Path) -> None:
    (tmp_path / "old").write_text("one\ntwo\n")
    (tmp_path / "gone").write_text("x\n")
    changes = [
        {"path": "old", "kind": {"type": "update", "move_path": None}, "diff": "@@ -1,2 +1,2 @@\n one\n-two\n+2\n"},
        {"path": "new", "kind": {"type": "add"}, "diff": "a\nb\n"},
        {"path": "gone", "kind": {"type": "delete"}, "diff": "x\n"},
    ]
    _, found = requested(EDIT, changes)
    assert (found.kind, found.title, found.action.path) == ("edit", "old, new, gone", "old")
    assert found.action.diff is not None
    subprocess.run(["patch", "-p0"], input=found.action.diff.encode(), cwd=tmp_path, check=True, capture_output=True)
    assert (tmp_path / "old").read_text() == "one\n2\n"
    assert (tmp_path / "new").read_text() == "a\nb\n"
    assert not (tmp_path / "gone").exists()


def test_an_unknown_edit_still_asks() -> None:
    _, found = requested(EDIT, grantRoot="/srv")
    assert (found.kind, found.title) == ("edit", "Write in /srv")


def test_a_connection_is_a_permission() -> None:
    _, found = requested(COMMAND, command="curl x", networkApprovalContext={"host": "example.org", "protocol": "https"})
    assert (found.kind, found.title, found.action.command) == ("permission", "Connect to example.org", "curl x")


def test_permissions_are_given_for_the_turn_or_the_session() -> None:
    wanted = {"network": {"enabled": True}, "fileSystem": None}
    request, found = requested(PERMISSIONS, permissions=wanted, reason="to fetch")
    assert (found.kind, found.title, found.reason) == ("permission", "Additional permissions: network", "to fetch")
    assert answer(request, "allow") == {"permissions": wanted, "scope": "turn"}
    assert answer(request, "allow_session") == {"permissions": wanted, "scope": "session"}
    assert answer(request, "deny") == {"permissions": {}, "scope": "turn"}


def test_a_server_of_tools_asks_for_a_call() -> None:
    meta = {"codex_approval_kind": "mcp_tool_call", "persist": ["session", "always"], "tool_params": {"n": 1}}
    request, found = requested(
        SERVER, serverName="files", mode="form", message="Allow read?", _meta=meta, requestedSchema={}
    )
    assert (found.kind, found.tool, found.title, found.action.input) == ("tool", "read", "Allow read?", {"n": 1})
    assert "allow_session" in found.verdicts
    assert answer(request, "allow") == {"action": "accept", "content": {}}
    assert answer(request, "allow_session") == {"action": "accept", "content": {}, "_meta": {"persist": "session"}}
    assert answer(request, "deny") == {"action": "decline", "content": None}
    assert answer(request, "deny_stop") == {"action": "cancel", "content": None}


def test_a_server_of_tools_has_a_form_filled_in() -> None:
    fields = {
        "n": {"type": "integer"},
        "ok": {"type": "boolean"},
        "colour": {"type": "string", "enum": ["red", "blue"]},
    }
    request, found = requested(
        SERVER, serverName="s", mode="form", message="Fill in", requestedSchema={"properties": fields}
    )
    assert found.kind == "question"
    assert [[option.label for option in choice.options] for choice in found.choices] == [
        [],
        ["true", "false"],
        ["red", "blue"],
    ]
    filled = answer(request, "allow", n=["3"], ok=["true"], colour=["red"], other=["x"])
    assert filled == {"action": "accept", "content": {"n": 3, "ok": True, "colour": "red"}}


def test_requests_that_nobody_can_answer_are_not_shown() -> None:
    for method in ("account/chatgptAuthTokens/refresh", "item/tool/call", "of/tomorrow"):
        assert not CodexRequest(1, method, {}).is_supported


def test_codex_gets_the_keys_that_its_settings_name_and_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / ".codex" / "config.toml"
    config.parent.mkdir()
    config.write_text(
        '[model_providers.x]\nenv_key = "X_KEY"\nenv_http_headers = { "h" = "X_HEADER" }\n'
        '[mcp_servers.y]\nbearer_token_env_var = "Y_TOKEN"\nenv_vars = ["Y_VAR"]\n'
    )
    assert variables_in(config) == {"X_KEY", "X_HEADER", "Y_TOKEN", "Y_VAR"}
    for name in ("X_KEY", "Z_KEY", "CODEX_HOME", "CODEX_SANDBOX", "OPENAI_API_KEY"):
        monkeypatch.setenv(name, "value")
    found = build_environment(RunSpec(folder=".", home=str(tmp_path)), "/nowhere/codex")
    assert {"X_KEY", "OPENAI_API_KEY"} <= found.keys()
    assert not {"Z_KEY", "CODEX_HOME", "CODEX_SANDBOX"} & found.keys()
    assert found["HOME"] == str(tmp_path)
    config.write_text("torn = [")
    assert variables_in(config) == set()
