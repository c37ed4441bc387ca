"""Gemini CLI, run through the Agent Client Protocol (`gemini --acp`).

What it can and cannot do when it is run so, as seen in 0.61:

* It cannot fork: the protocol's call for it is not answered, and the program keeps a session's id in its file.
* A message in the middle of a turn would end that turn, so messages wait for its end.
* A refusal has no words, a question takes no answers, and an input cannot be changed. Words and answers are told to the
  model as the next message.
* A turn that is stopped while the model speaks is erased from the conversation. One that is stopped while it asks, or
  by a refusal, keeps the model's call without a result, and its file does not tell of either.
* It does not say with what input a tool is to be called: a command is its title, a change comes as two texts, and the
  name of the tool begins the id of the call.
* It offers the model no tool to ask questions with. Sub-agents that only read run without asking, and those that can
  do more are refused by the program itself.
* Loading a session creates an empty file of the same name with the present minute. In the minute in which the session
  began that is its own file, which is then emptied; and the next start of the program takes such a file for a damaged
  session and deletes all files of the session. So loading waits for the next minute, and the empty file is removed.
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
from ...core.proposed_actions import creation_diff, replacement_diff
from ..protocol import AskedKind, Capabilities, Notice, PermissionRequest, environment_for
from .acp import AcpDriver, Call, Permission, PermissionOption

PROGRAM_VARIABLE = "UNSPOOL_GEMINI_PROGRAM"
OWN_VARIABLES = ("GEMINI_", "GOOGLE_")
NOT_FOR_THE_SESSION = ("proceed_always_and_save", "proceed_always_server")
"""Answers that reach further than this tool in this session."""
LONGEST_PLAN = 200_000
LONGEST_TITLE = 200
_TOOL_IN_ID = re.compile(r"(?P<new>\w+?)__|(?P<old>[a-z]\w*)-\d{10,}")
_TOOL_BY_KIND = {"execute": "run_shell_command", "edit": "replace", "read": "read_file", "fetch": "web_fetch"}
_KIND_BY_TOOL: dict[str, AskedKind] = {
    "run_shell_command": "command",
    "replace": "edit",
    "write_file": "edit",
    "edit": "edit",
    "exit_plan_mode": "plan",
    "ask_user": "question",
}
_WHERE = re.compile(r"^\[(?:current working directory|in) [^\]]*\]")
_MODE_IN_WORDS = re.compile(r"\[MODE_UPDATE\] (\w+)")
_PLAN_IN_TITLE = re.compile(r"plan approval for: (.+)$", re.DOTALL)

CAPABILITIES = Capabilities(allow_session=True, modes=("default", "autoEdit", "plan"), models=True)


class GeminiKind:
    """Gemini CLI, as something that can be run."""

    name = "gemini"
    capabilities = CAPABILITIES
    extra = "gemini"

    def program(self) -> str:
        """The program that is named in the environment, or the one that a terminal would find."""
        named = os.environ.get(PROGRAM_VARIABLE)
        found = shutil.which(named or "gemini")
        if found is None:
            where = f"{named}, which {PROGRAM_VARIABLE} names, is no program" if named else "it is not installed"
            raise NotFoundError(
                f"Gemini CLI cannot be run: {where}. Install it with: npm install -g @google/gemini-cli"
            )
        return found

    def make(self) -> GeminiDriver:
        """A driver for one session."""
        return GeminiDriver(self.program())


class GeminiDriver(AcpDriver):
    """One running Gemini CLI."""

    title = "Gemini CLI"
    bypass = ("yolo",)

    def __init__(self, program: str) -> None:
        super().__init__(CAPABILITIES)
        self.program = program

    def commands(self) -> Sequence[Sequence[str]]:
        """Talk, instead of drawing on a terminal; up to 0.22 that was an experiment."""
        return [self.program, "--acp"], [self.program, "--experimental-acp"]

    def is_unknown(self, complaint: str) -> bool:
        """It then lists the arguments that it knows."""
        return "--experimental-acp" in complaint or "Unknown argument" in complaint

    def environment(self) -> dict[str, str]:
        """Its own variables and the least that any program needs."""
        environment = environment_for(OWN_VARIABLES, os.environ, self.spec.home)
        if self.spec.home is not None:
            environment.pop(AGENTS["gemini"].info.variable, None)
        # One process: else it starts itself a second time, only to allow itself more memory.
        environment.setdefault("GEMINI_CLI_NO_RELAUNCH", "true")
        return environment

    # --- the files of a session that is gone on with ---

    async def prepare(self) -> None:
        """Make sure that loading a past session does not destroy it."""
        if self.spec.session is None:
            return
        self._remove_empty()
        while (seconds := self._seconds_to_wait()) > 0:
            self._say(
                Notice(
                    f"Gemini CLI cannot go on with a session in the minute in which it began: {seconds:.0f} s to wait."
                )
            )
            await asyncio.sleep(seconds)

    def loaded(self) -> None:
        """The empty file is there from the moment at which a session was loaded."""
        self._remove_empty()

    def _seconds_to_wait(self) -> float:
        """Until the minute is over in which a file of the session was begun: at most one."""
        now = _now()
        minute = now.strftime("%Y-%m-%dT%H-%M")
        is_young = any(minute in path.name for path in self._files())
        return 60.5 - now.second - now.microsecond / 1_000_000 if is_young else 0.0

    def _remove_empty(self) -> None:
        """Remove files of the session without any words in them, if there is one that has some."""
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

    # --- what it asks ---

    def option_for_session(self, options: Sequence[PermissionOption]) -> PermissionOption | None:
        """It can also offer to allow something for ever, or all tools of a server; neither is meant here."""
        fitting = (option for option in options if option.kind == "allow_always")
        return next((option for option in fitting if option.option_id not in NOT_FOR_THE_SESSION), None)

    def mode_in(self, text: str) -> str | None:
        """It announces a change of its mode as if the model had said so."""
        match = _MODE_IN_WORDS.fullmatch(text.strip())
        return match[1] if match else None

    def describe(self, id: str, permission: Permission) -> PermissionRequest:
        """What it wants to do, as far as it says."""
        call = permission.tool_call
        tool = _tool_of(call)
        title = (call.title or tool).strip()
        return PermissionRequest(
            id=id,
            kind=_kind_of(tool, call),
            tool=tool,
            title=title.splitlines()[0][:LONGEST_TITLE] if title else tool,
            action=_action_of(tool, call),
            call_id=call.tool_call_id or None,
            reason=_explanation(call),
        )


def _now() -> datetime:
    return datetime.now(UTC)


def _tool_of(call: Call) -> str:
    match = _TOOL_IN_ID.match(call.tool_call_id)
    if match is not None:
        return str(match["new"] or match["old"])
    return _TOOL_BY_KIND.get(call.kind or "", call.kind or "tool")


def _kind_of(tool: str, call: Call) -> AskedKind:
    if _diff_in(call) is not None:
        return "edit"
    if call.tool_call_id.startswith("resolve-prompt-"):
        return "permission"
    return _KIND_BY_TOOL.get(tool, "tool")


def _action_of(tool: str, call: Call) -> m.Action:
    """The action with the input as far as it can be known."""
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


def _diff_in(call: Call) -> dict[str, Any] | None:
    return next((item for item in call.content or [] if item.get("type") == "diff"), None)


def _diff(path: str, change: dict[str, Any]) -> str:
    old, new = change.get("oldText"), change.get("newText")
    after = new if isinstance(new, str) else ""
    if not isinstance(old, str) or not old:
        return creation_diff(path, after)
    return replacement_diff(path, [(old, after)])


def _plan_in(title: str) -> dict[str, str]:
    """The plan lies in a file whose path is all that is told."""
    match = _PLAN_IN_TITLE.search(title)
    if match is None:
        return {"plan": title}
    path = Path(match[1].strip())
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            return {"plan": file.read(LONGEST_PLAN), "plan_path": str(path)}
    except OSError:
        return {"plan_path": str(path)}


def _explanation(call: Call) -> str | None:
    for item in call.content or []:
        content = item.get("content")
        if item.get("type") == "content" and isinstance(content, dict) and isinstance(content.get("text"), str):
            # Of a command it says where it runs, and in parentheses what the model says it is for.
            text = _WHERE.sub("", str(content["text"])).strip()
            return (text[1:-1] if text.startswith("(") and text.endswith(")") else text).strip() or None
    return None
