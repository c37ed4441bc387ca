"""Codex CLI's tools: what a call does, or would have done if it had not been rejected."""

from __future__ import annotations

import re
import shlex

import msgspec

from ...core import model as m
from ...core.proposed_actions import PathsIn, input_of, questions_in, tasks_in, text_in
from ...io.decode import decode_any

QUESTION_TOOL = "request_user_input"
SPAWN_TOOLS = frozenset(("spawn_agent",))
_SHELLS = frozenset(("shell", "shell_command", "exec_command", "local_shell", "container.exec", "exec"))
_SCRIPT_COMMAND = re.compile(r'"?(?:cmd|command)"?\s*:\s*("(?:[^"\\]|\\.)*")')
_PATCH_START, _PATCH_END = "*** Begin Patch", "*** End Patch"
_PATCH, _ESCAPED = b"Begin Patch", b"\\u00"
_ESCALATED = re.compile(r'require_escalated|with_escalated_permissions"?\s*:\s*true')
_FILE_LINE = re.compile(r"\*\*\* (Add|Update|Delete) File: (.*)")
_FIRST_FILE = re.compile(r"^\*\*\* (?:Add|Update|Delete) File: (.+)", re.MULTILINE)
_MOVE_LINE = re.compile(r"\*\*\* Move to: (.*)")


def command_of(name: str, raw: bytes) -> str | None:
    """The command line that a call runs; in code mode, it is inside the script."""
    text = raw.decode("utf-8", "replace")
    given = decode_any(text)
    if isinstance(given, dict):
        command = given.get("cmd", given.get("command"))
        if isinstance(command, list):
            words = [str(word) for word in command]
            return words[2] if len(words) == 3 and words[1] in ("-lc", "-c") else shlex.join(words)
        return command if isinstance(command, str) else None
    if isinstance(given, str) and name in _SHELLS:
        found = _SCRIPT_COMMAND.search(given)
        return str(decode_any(found[1])) if found else None
    return None


def waits_for_agent(name: str, raw: bytes) -> bool:
    """Whether a call waits for sub-agents; `wait` without ids waits for a running script."""
    return name == "wait_agent" or (name == "wait" and b"ids" in raw)


def is_escalated(raw: bytes) -> bool:
    """Whether a call asks to run outside the sandbox, which needs approval."""
    return _ESCALATED.search(raw.decode("utf-8", "replace").replace("\\", "")) is not None


def patch_of(raw: bytes) -> str | None:
    """The patch of a call: its input, one of its arguments, or a part of its script."""
    given = decode_any(raw.decode("utf-8", "replace"))
    for text in given.values() if isinstance(given, dict) else (given,):
        if not isinstance(text, str):
            continue
        start = text.find(_PATCH_START)
        end = text.find(_PATCH_END, start) if start >= 0 else -1
        if end >= 0:
            patch = text[start : end + len(_PATCH_END)]
            return patch.replace("\\n", "\n").replace('\\"', '"') if "\n" not in patch else patch
    return None


def action_of(name: str, raw: msgspec.Raw) -> tuple[m.RejectionType, m.Action]:
    """The kind of a call if it is rejected, and its action, reconstructed from the input."""
    data = bytes(raw)
    action = m.Action(raw)
    if name == QUESTION_TOOL:
        action.questions = questions_in(input_of(raw))
        return "option", action
    if name == "update_plan":
        action.tasks = tasks_in(input_of(raw), "step")
        return "permission", action
    if (patch := patch_of(data)) is not None:
        action.diff, action.path = unified(patch)
        return "edit", action
    action.command = command_of(name, data)
    if action.command is not None:
        return "command", action
    return "permission", action


def subject_of(name: str, raw: msgspec.Raw) -> tuple[str | None, str | None]:
    """The command and the path of an action, without building the rest of it."""
    if name in (QUESTION_TOOL, "update_plan"):
        return None, None
    data = bytes(raw)
    if (_PATCH in data or _ESCAPED in data) and (patch := patch_of(data)) is not None:
        found = _FIRST_FILE.search(patch)
        return None, found[1] if found else None
    return command_of(name, data), None


def question_ids(action: m.Action) -> list[str]:
    """The ids of the questions of a call, which are the keys of the answers in its result."""
    items = input_of(action.raw_input).get("questions")
    return [text_in(item, "id") or "" for item in items if isinstance(item, dict)] if isinstance(items, list) else []


def unified(patch: str) -> tuple[str, str | None]:
    """A patch in Codex's own format as a unified diff, and the first file it changes.

    Its hunks have a line to search for instead of line numbers; that line follows the second @@.
    """
    lines: list[str] = []
    first: str | None = None
    for line in patch.split("\n"):
        if found := _FILE_LINE.match(line):
            kind, path = found.groups()
            first = first or path
            lines.append(f"--- {'/dev/null' if kind == 'Add' else path}")
            lines.append(f"+++ {'/dev/null' if kind == 'Delete' else path}")
            if kind == "Add":
                lines.append("@@ @@")
        elif lines and (moved := _MOVE_LINE.match(line)):
            lines[-1] = f"+++ {moved[1]}"
        elif line.startswith("@@"):
            lines.append(f"@@ @@ {line[2:].strip()}".rstrip())
        elif not line.startswith("***"):
            lines.append(line)
    return "\n".join(lines) + "\n", first


paths_in = PathsIn("path", "file_path", patches=True)
