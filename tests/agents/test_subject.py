"""The command and the path of a call, found without describing all of it."""

from __future__ import annotations

import json

import msgspec
import pytest

from unspool.agents import AGENTS

TOOLS = (
    "Bash", "Edit", "Write", "NotebookEdit", "Read", "ExitPlanMode", "AskUserQuestion", "TodoWrite", "shell", "exec",
    "apply_patch", "update_plan", "request_user_input", "run_shell_command", "replace", "write_file", "ask_user",
    "exit_plan_mode", "mcp__some__tool",
)  # fmt: skip
PATCH = "*** Begin Patch\n*** Update File: src/a.py\n@@\n-a\n+b\n*** Add File: b.py\n+c\n*** End Patch"
FIELDS = {"command": "make", "file_path": "/a", "notebook_path": "/b", "path": "/c", "content": "x", "plan": "y"}
INPUTS = [
    *(json.dumps({name: value}) for name, value in FIELDS.items()),
    json.dumps(FIELDS),
    json.dumps({**FIELDS, "command": ["bash", "-lc", "make all"], "file_path": 3}),
    json.dumps({"cmd": "make"}),
    json.dumps({"input": PATCH}),
    json.dumps({"command": ["apply_patch", PATCH]}),
    json.dumps({"input": PATCH}).replace("B", "\\u0042"),
    json.dumps(PATCH),
    json.dumps('tools.exec({"cmd": "make"})'),
    json.dumps({"path": "\ud800", "command": "\ud800"}),
    '{"path": "/a", "path": "/b"}',
    '{"path": "/a", "rest": ' + "[" * 5000 + "]" * 5000 + "}",
    '{"path": "/a", "cut',
    "null", "[]", "3", '""', "{}",
]  # fmt: skip


@pytest.mark.parametrize("agent", AGENTS)
@pytest.mark.parametrize("given", INPUTS)
def test_it_is_that_of_the_description(agent: str, given: str) -> None:
    raw = msgspec.Raw(given.encode("utf-8", "surrogatepass"))
    for tool in TOOLS:
        action = AGENTS[agent].describe(tool, raw)
        assert AGENTS[agent].subject(tool, raw) == (action.command, action.path), tool
