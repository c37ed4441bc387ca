"""The driver for Gemini CLI, which uses the Agent Client Protocol (`gemini --acp`).

Limits of the program when it is run this way, as of 0.61:

* It cannot fork: it does not support the protocol's call for it, and a session file contains the id of its session.
* A message sent during a turn would end that turn, so messages wait for the end of the turn.
* A denial has no reason, a question takes no answers, and an input cannot be changed. The driver sends reasons and
  answers to the model as the next message.
* A turn that is interrupted while the model is writing is erased from the conversation. If it is interrupted during a
  request, or by a denial, the model's call stays without a result. The session file shows neither.
* It does not report the input of a tool call: a command is the title of the call, a change is given as two texts, and
  the id of the call starts with the name of the tool.
* Commands of the terminal are sent to the model as text. The driver handles `/clear` and `/new` itself.
* The model has no tool to ask questions. Sub-agents that only read run without asking; the program denies all others.
* Loading a session creates an empty file, named after the session and the current minute. In the minute in which the
  session was created, that is its own file, which is then emptied. And at its next start, the program takes an empty
  file for a damaged session and deletes all files of the session. So the driver waits for the next minute before it
  loads a session, and removes the empty file afterwards.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from ...agents import AGENTS
from ...agents.gemini.discovery import read_head
from ...core import model as m
from ...core.errors import NotFoundError
from ...core.proposed_actions import ProposedEdit, creation_diff, replacement_diff
from ..protocol import Capabilities, Detail, Notice, PermissionRequest, RequestKind, environment_for
from .acp import AcpDriver
from .acp_connection import object_at, text_or_none
from .acp_requests import AcpToolCall, PermissionOption, PermissionParams
from .request_details import details_of

PROGRAM_VARIABLE = "UNSPOOL_GEMINI_PROGRAM"
OWN_VARIABLES = ("GEMINI_", "GOOGLE_")
BEYOND_SESSION = ("proceed_always_and_save", "proceed_always_server")
"""Options that allow more than this tool or last longer than this session."""
MAX_PLAN = 200_000
MAX_TITLE = 200
_TOOL_IN_ID = re.compile(r"(?P<new>\w+?)__|(?P<old>[a-z]\w*)-\d{10,}")
_TOOL_BY_KIND = {"execute": "run_shell_command", "edit": "replace", "read": "read_file", "fetch": "web_fetch"}
_KIND_BY_TOOL: dict[str, RequestKind] = {
    "run_shell_command": "command",
    "replace": "edit",
    "write_file": "edit",
    "edit": "edit",
    "exit_plan_mode": "plan",
    "ask_user": "question",
}
_SHOWN_FIELDS = frozenset(("command", "old_string", "new_string", "plan"))
_LOCATION = re.compile(r"^\[(?:current working directory|in) [^\]]*\]")
_MODE_IN_TEXT = re.compile(r"\[MODE_UPDATE\] (\w+)")
_PLAN_IN_TITLE = re.compile(r"plan approval for: (.+)$", re.DOTALL)

CAPABILITIES = Capabilities(
    allow_session=True,
    modes=("default", "autoEdit", "plan"),
    models=True,
    images=True,
    login="Run `gemini` in a terminal, type /auth, and follow it. Then send the message again.",
)


class GeminiDriverFactory:
    """Creates drivers for Gemini CLI."""

    name = "gemini"
    capabilities = CAPABILITIES
    extra = "gemini"

    def find_program(self) -> str:
        """Return the program set in the environment, or the one on the path."""
        named = os.environ.get(PROGRAM_VARIABLE)
        found = shutil.which(named or "gemini")
        if found is None and named:
            raise NotFoundError(f"Cannot run Gemini CLI: {PROGRAM_VARIABLE}={named} is not a program")
        if found is None:
            raise NotFoundError(f"Gemini CLI is not installed. Install it with: {AGENTS['gemini'].info.install}")
        return found

    def create(self) -> GeminiDriver:
        """Create a driver for one session."""
        return GeminiDriver(self.find_program())


class GeminiDriver(AcpDriver):
    """One running Gemini CLI."""

    title = "Gemini CLI"
    start_only_modes = ("yolo",)
    clear_commands = ("/clear", "/new")

    def __init__(self, program: str) -> None:
        super().__init__(CAPABILITIES)
        self.program = program

    def commands(self) -> Sequence[Sequence[str]]:
        """Return the command with the option for the protocol, which had another name up to 0.22."""
        return [self.program, "--acp"], [self.program, "--experimental-acp"]

    def is_unknown_argument(self, error: str) -> bool:
        """Return whether an argument is unknown; the program then lists its valid arguments."""
        return "--experimental-acp" in error or "Unknown argument" in error

    def environment(self) -> dict[str, str]:
        """Return its own variables and those that every agent gets."""
        environment = environment_for(OWN_VARIABLES, os.environ, self.spec.home)
        if self.spec.home is not None:
            environment.pop(AGENTS["gemini"].info.variable, None)
        # Otherwise the program starts itself a second time with a higher memory limit.
        environment.setdefault("GEMINI_CLI_NO_RELAUNCH", "true")
        return environment

    # --- the files of a resumed session ---

    async def prepare(self) -> None:
        """Make sure that loading a past session does not destroy it."""
        if self.spec.session is None:
            return
        self._remove_empty_files()
        while (seconds := self._seconds_to_wait()) > 0:
            self._emit(
                Notice(f"Gemini CLI cannot resume a session in the minute it was created; waiting {seconds:.0f} s.")
            )
            await asyncio.sleep(seconds)

    def session_loaded(self) -> None:
        """Remove the empty file that loading has created."""
        self._remove_empty_files()

    def _seconds_to_wait(self) -> float:
        """Return the seconds until the end of the minute in which a file of the session was created."""
        now = _now()
        minute = now.strftime("%Y-%m-%dT%H-%M")
        is_new = any(minute in path.name for path in self._files())
        return 60.5 - now.second - now.microsecond / 1_000_000 if is_new else 0.0

    def _remove_empty_files(self) -> None:
        """Remove the files of the session that contain no prompt, if another one contains one."""
        heads = [head for path in self._files() if (head := read_head(path)) is not None]
        own = [head for head in heads if head.session == self.spec.session]
        if any(head.prompt is not None for head in own):
            for head in own:
                if head.prompt is None:
                    head.path.unlink(missing_ok=True)

    def _files(self) -> list[Path]:
        environment = self.environment()
        variable = AGENTS["gemini"].info.variable
        home = environment.get(variable) or environment.get("HOME") or str(Path.home())
        short = re.sub(r"[^\w-]", "", self.spec.session or "")[:8]
        chats = (Path(home) / AGENTS["gemini"].info.folder / "tmp").glob(f"*/chats/session-*-{short}.json*")
        return sorted(chats)

    # --- requests ---

    def option_for_session(self, options: Sequence[PermissionOption]) -> PermissionOption | None:
        """Return an option for the session only, not one that allows something forever or all tools of a server."""
        lasting = (option for option in options if option.kind == "allow_always")
        return next((option for option in lasting if option.option_id not in BEYOND_SESSION), None)

    def mode_in_text(self, text: str) -> str | None:
        """Return the new mode, which the program announces as text of the model."""
        match = _MODE_IN_TEXT.fullmatch(text.strip())
        return match[1] if match else None

    def describe(self, id: str, permission: PermissionParams) -> PermissionRequest:
        """Build the request from what the program reports about the call."""
        call = permission.tool_call
        tool = _tool_of(call)
        title = (call.title or tool).strip()
        return PermissionRequest(
            id=id,
            kind=_kind_of(tool, call),
            tool=tool,
            title=title.splitlines()[0][:MAX_TITLE] if title else tool,
            action=_action_of(tool, call),
            call_id=call.tool_call_id or None,
            reason=_explanation(call),
            details=_details(call),
            edits=_edits(call),
        )


def _now() -> datetime:
    return datetime.now(UTC)


def _tool_of(call: AcpToolCall) -> str:
    match = _TOOL_IN_ID.match(call.tool_call_id)
    if match is not None:
        return str(match["new"] or match["old"])
    return _TOOL_BY_KIND.get(call.kind or "", call.kind or "tool")


def _kind_of(tool: str, call: AcpToolCall) -> RequestKind:
    if _diff_in(call) is not None:
        return "edit"
    if call.tool_call_id.startswith("resolve-prompt-"):
        return "permission"
    return _KIND_BY_TOOL.get(tool, "tool")


def _action_of(tool: str, call: AcpToolCall) -> m.Action:
    """Return the action, with as much of the input as is known."""
    given: dict[str, Any] = dict(call.raw_input or {})
    title = call.title or ""
    change = _diff_in(call)
    if change is not None:
        given.setdefault("file_path", str(change.get("path", "")))
    elif not given and tool == "run_shell_command":
        given["command"] = title
    elif not given and tool == "exit_plan_mode":
        given |= _plan_in(title)
    elif not given and tool == "ask_user":
        given["questions"] = [{"question": title.removeprefix("Asking user: ")}]
    elif not given:
        given["title"] = title
        if call.locations:
            given["path"] = str(call.locations[0].get("path", ""))
    action = AGENTS["gemini"].describe(tool, msgspec.Raw(msgspec.json.encode(given)))
    if change is not None:
        action.path = str(given["file_path"])
        action.diff = _diff(action.path, change)
    return action


def _diff_in(call: AcpToolCall) -> dict[str, Any] | None:
    return next((item for item in call.content or [] if item.get("type") == "diff"), None)


def _diff(path: str, change: dict[str, Any]) -> str:
    old, new = change.get("oldText"), change.get("newText")
    after = new if isinstance(new, str) else ""
    if not isinstance(old, str) or not old:
        return creation_diff(path, after)
    return replacement_diff(path, [(old, after)])


def _plan_in(title: str) -> dict[str, str]:
    """Read the plan from its file, because only the path is reported."""
    match = _PLAN_IN_TITLE.search(title)
    if match is None:
        return {"plan": title}
    path = Path(match[1].strip())
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            return {"plan": file.read(MAX_PLAN), "plan_path": str(path)}
    except OSError:
        return {"plan_path": str(path)}


def _edits(call: AcpToolCall) -> list[ProposedEdit]:
    change = _diff_in(call) or {}
    path, before, after = (text_or_none(change.get(name)) for name in ("path", "oldText", "newText"))
    return [] if path is None or after is None else [ProposedEdit(path=path, content=after, assumed=before or None)]


def _details(call: AcpToolCall) -> list[Detail]:
    """Return the details of a call, without its title and its change."""
    given: dict[str, Any] = dict(call.raw_input or {})
    if call.locations:
        given["locations"] = call.locations
    if others := [item for item in call.content or [] if item.get("type") not in ("diff", "content")]:
        given["content"] = others
    explained = [
        text
        for item in call.content or []
        if item.get("type") == "content" and (text := text_or_none(object_at(item, "content").get("text")))
    ]
    return details_of({**given, **({"text": explained} if explained else {})}, _SHOWN_FIELDS)


def _explanation(call: AcpToolCall) -> str | None:
    for item in call.content or []:
        content = item.get("content")
        if item.get("type") == "content" and isinstance(content, dict) and isinstance(content.get("text"), str):
            # For a command: its working directory and, in parentheses, the purpose given by the model.
            text = _LOCATION.sub("", str(content["text"])).strip()
            return (text[1:-1] if text.startswith("(") and text.endswith(")") else text).strip() or None
    return None
