"""Agents that follow a script in their prompt, and a server that runs them: for tests of running agents.

A prompt is a list of things to do, one a line: `say words`, `begin words` (an answer it has not ended when it is
steered), `hold words` (one that it ends when it is steered), `wait` (until it is interrupted or steered), `run
command`, `edit`, `write name content`, `ask`, `plan`, `call TOOL INPUT` (one of Claude Code's tools, with an input in
JSON), `clear` (start another session), `below words` (a sub-agent's), `fail`. The first agent
writes a log as Claude Code does, so that the pages show it; the second one is a Gemini that writes none, cannot be
steered and cannot fork; the third one is not installed.
"""

from __future__ import annotations

import asyncio
import json
import sys
import types
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from unspool.agents import AGENTS
from unspool.core.errors import NotFoundError
from unspool.runs.attachments import ImageInput
from unspool.runs.completions import OfferedCommand
from unspool.runs.drivers.claude_requests import build_request
from unspool.runs.protocol import (
    AgentExited,
    Answer,
    BackgroundProcess,
    Capabilities,
    Choice,
    CommandsOffered,
    DriverEvent,
    MessageAccepted,
    Notice,
    Option,
    PermissionRequest,
    ProcessesChanged,
    RequestCancelled,
    RunSpec,
    SettingsChanged,
    Started,
    TextDelta,
    TurnEnded,
    TurnStarted,
)

FULL = Capabilities(
    fork="message",
    steer=True,
    deny_reason=True,
    edit_input=True,
    allow_session=True,
    modes=("default", "acceptEdits", "plan"),
    models=True,
    model_names=("sonnet", "opus"),
    login="Run `claude` in a terminal and type /login.",
    images=True,
)
LITTLE = Capabilities(modes=("default", "autoEdit"))
PAUSE = 0.01
EDIT = {
    "file_path": "/home/dev/demo/src/greeting.py",
    "old_string": 'def greet(name):\n    print("hello " + name)\n    return None\n',
    "new_string": 'def greet(name: str) -> str:\n    """Say hello."""\n    return f"hello {name}"\n',
}
CONTEXT: Any = types.SimpleNamespace(
    tool_use_id=None, decision_reason=None, agent_id=None, blocked_path=None, title=None, description=None
)
RULE: Any = types.SimpleNamespace(
    rules=[types.SimpleNamespace(tool_name="Bash", rule_content="make:*")], directories=None, mode=None
)
COLOURS = Choice(
    question="Which colour should the button have?",
    header="Colour",
    options=[Option("Blue", "as everywhere else"), Option("Green", "as in the sketch")],
)
SIZES = Choice(question="Which sizes are needed?", options=[Option("Small"), Option("Large")], multiple=True)


class InterruptedTurnError(Exception):
    """Somebody has stopped the turn."""


class LoggedOutError(Exception):
    """Nobody is logged in."""


class Log:
    """A session of Claude Code on disk, written as it happens."""

    def __init__(self, home: Path, folder: str, session: str) -> None:
        self.session, self.folder = session, folder
        self.path = home / ".claude" / "projects" / folder.replace("/", "-") / f"{session}.jsonl"
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.last: str | None = None
        if self.path.exists():
            self.last = json.loads(self.path.read_text().splitlines()[-1])["uuid"]

    def write(self, kind: str, message: dict[str, Any]) -> None:
        id = str(uuid.uuid4())
        now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        record = {
            "parentUuid": self.last, "isSidechain": False, "type": kind, "uuid": id, "timestamp": now,
            "sessionId": self.session, "version": "2.1.325", "cwd": self.folder, "userType": "external",
            "message": message,
        }  # fmt: skip
        with self.path.open("a") as file:
            file.write(json.dumps(record) + "\n")
        self.last = id

    def user(self, content: Any) -> None:
        self.write("user", {"role": "user", "content": content})

    def model(self, *blocks: dict[str, Any]) -> None:
        message = {
            "id": f"msg_{uuid.uuid4().hex[:8]}", "role": "assistant", "model": "claude-sonnet-4-5",
            "content": list(blocks), "stop_reason": None, "usage": {"input_tokens": 10, "output_tokens": 5},
        }  # fmt: skip
        self.write("assistant", message)

    def fork(self, home: Path, at: str | None) -> Log:
        """A copy under another id, up to a message."""
        copy = Log(home, self.folder, str(uuid.uuid4()))
        for line in self.path.read_text().splitlines():
            record = json.loads(line)
            with copy.path.open("a") as file:
                file.write(json.dumps(record | {"sessionId": copy.session}) + "\n")
            copy.last = record["uuid"]
            if record["uuid"] == at:
                break
        return copy


class ScriptedDriver:
    """One agent that follows its script."""

    def __init__(self, capabilities: Capabilities, home: Path | None) -> None:
        self.capabilities = capabilities
        self._home = home
        self._folder = ""
        self._log: Log | None = None
        self._emit: Callable[[DriverEvent], None] = lambda _: None
        self._waiting: list[tuple[str, str]] = []
        self._more = asyncio.Event()
        self._interrupted = False
        self._answers: dict[str, asyncio.Future[Answer]] = {}
        self._work: asyncio.Task[None] | None = None

    async def start(self, spec: RunSpec, emit: Callable[[DriverEvent], None]) -> None:
        self._emit = emit
        self._folder = spec.folder
        session = spec.session if spec.session and not spec.fork else str(uuid.uuid4())
        if self._home is not None:
            self._log = Log(self._home, spec.folder, spec.session or session)
            if spec.fork:
                self._log = self._log.fork(self._home, spec.at)
                session = self._log.session
        self._work = asyncio.create_task(self._turns())
        emit(CommandsOffered([OfferedCommand("compact", "Summarise the conversation"), OfferedCommand("clear")]))
        emit(Started(session=session, pid=None, mode=spec.mode or "default", model=spec.model or "sonnet"))

    async def send(self, id: str, text: str, images: Sequence[ImageInput] = ()) -> None:
        self._waiting.append((id, text + "".join(f"\nsay Saw an image of type {one.media_type}." for one in images)))
        self._more.set()

    async def interrupt(self) -> None:
        self._interrupted = True
        self._more.set()
        for answer in self._answers.values():
            if not answer.done():
                answer.cancel()

    async def answer(self, request: PermissionRequest, answer: Answer) -> None:
        if request.id in self._answers and not self._answers[request.id].done():
            self._answers[request.id].set_result(answer)

    async def end_process(self, id: str) -> None:
        assert id == "p1"
        self._emit(ProcessesChanged([]))

    async def set_mode(self, mode: str) -> None:
        self._emit(SettingsChanged(mode=mode))

    async def set_model(self, model: str) -> None:
        self._emit(SettingsChanged(model=model))

    async def stop(self) -> None:
        if self._work is not None:
            self._work.cancel()
            with suppress(asyncio.CancelledError):
                await self._work
        self._emit(AgentExited(code=0))

    # --- turns ---

    async def _turns(self) -> None:
        while True:
            while not self._waiting:
                self._more.clear()
                await self._more.wait()
            self._emit(TurnStarted())
            self._interrupted = False
            try:
                while self._waiting:
                    await self._take_up()
                    if not self.capabilities.steer:
                        break
                self._emit(TurnEnded(outcome="completed"))
            except LoggedOutError:
                self._emit(TurnEnded(outcome="failed", error="Please run /login", needs_login=True))
            except (InterruptedTurnError, asyncio.CancelledError):
                if not self._interrupted:
                    raise
                if self._log is not None:
                    self._log.user([{"type": "text", "text": "[Request interrupted by user]"}])
                self._emit(TurnEnded(outcome="interrupted"))

    async def _take_up(self) -> None:
        id, text = self._waiting.pop(0)
        self._emit(MessageAccepted(id))
        if self._log is not None:
            self._log.user(text)
        for line in text.splitlines():
            verb, _, rest = line.strip().partition(" ")
            await self._do(verb, rest)
            if self._interrupted:
                raise InterruptedTurnError

    async def _do(self, verb: str, rest: str) -> None:
        match verb:
            case "say":
                await self._say(rest)
            case "begin":
                self._emit(TextDelta(rest))
                await self._wait()
            case "hold":
                self._emit(TextDelta(rest))
                await self._wait()
                self._note(rest)
            case "below":
                self._emit(TextDelta(rest, subagent="scout"))
                await self._wait()
            case "clear":
                self._clear()
            case "wait":
                await self._wait()
            case "run":
                await self._ask("Bash", {"command": rest}, "command", rest)
            case "call":
                tool, _, given = rest.partition(" ")
                await self._ask(tool, json.loads(given), None, "")
            case "write":
                name, _, content = rest.partition(" ")
                path = Path(self._folder, name)
                if await self._ask("Write", {"file_path": str(path), "content": content}, "edit", name):
                    path.write_text(content)
            case "edit":
                await self._ask("Edit", EDIT, "edit", EDIT["file_path"])
            case "plan":
                plan = "# A plan\n\n1. Look at it\n2. Change **one** thing\n3. See whether the tests pass"
                await self._ask("ExitPlanMode", {"plan": plan}, "plan", "Its plan is ready")
            case "ask":
                await self._ask("AskUserQuestion", {"questions": []}, "question", COLOURS.question)
            case "remark":
                self._emit(Notice(rest))
            case "leave":
                self._emit(ProcessesChanged([BackgroundProcess(id="p1", command=rest)]))
            case "logout":
                raise LoggedOutError
            case "fail":
                self._emit(AgentExited(code=1, error=rest or "it fell over"))
            case _:
                await self._say(f"I was told: {verb} {rest}")

    def _clear(self) -> None:
        """As Claude Code does it: what follows is in a session of its own."""
        assert self._log is not None
        assert self._home is not None
        self._log = Log(self._home, self._log.folder, str(uuid.uuid4()))
        self._emit(Started(session=self._log.session, pid=None))

    async def _wait(self) -> None:
        """Until it is interrupted; an agent that can be steered also continues on a message."""
        while not self._interrupted and not (self._waiting and self.capabilities.steer):
            self._more.clear()
            await self._more.wait()

    async def _say(self, text: str) -> None:
        for word in text.split(" "):
            self._emit(TextDelta(word + " "))
            await asyncio.sleep(PAUSE)
            if self._interrupted:
                raise InterruptedTurnError
        self._note(text)

    def _note(self, text: str) -> None:
        if self._log is not None:
            self._log.model({"type": "text", "text": text})

    async def _ask(self, tool: str, given: dict[str, Any], kind: Any, title: str) -> bool:
        """Ask for permission; returns whether it was given."""
        call = f"toolu_{uuid.uuid4().hex[:10]}"
        if self._log is not None:
            self._log.model({"type": "tool_use", "id": call, "name": tool, "input": given})
        action = AGENTS["claude"].describe(tool, msgspec.Raw(msgspec.json.encode(given)))
        is_call = kind in ("command", "edit")
        id = f"ask-{len(self._answers)}"
        asked = (
            build_request(id, tool, given, CONTEXT, [RULE])
            if kind is None
            else PermissionRequest(
                id=id,
                kind=kind,
                tool=tool,
                title=title,
                action=action,
                call_id=call,
                reason="It is not allowed yet in this folder." if is_call else None,
                choices=[COLOURS, SIZES] if kind == "question" else [],
                verdicts=("allow", "allow_session", "deny", "deny_stop") if is_call else ("allow", "deny"),
                takes_reason=self.capabilities.deny_reason,
                takes_input=self.capabilities.edit_input and is_call,
            )
        )
        answer = self._answers[asked.id] = asyncio.get_running_loop().create_future()
        self._emit(asked)
        try:
            decision = await answer
        except asyncio.CancelledError:
            self._emit(RequestCancelled(asked.id))
            raise
        self._result(call, decision)
        if decision.verdict == "deny_stop":
            self._interrupted = True
        elif decision.answers:
            await self._say("Answered: " + json.dumps(decision.answers) + json.dumps(decision.notes))
        elif decision.verdict.startswith("allow"):
            used = (decision.input or given).get("command", "")
            await self._say(f"Allowed ({decision.verdict}): {tool} {used}")
        else:
            await self._say(f"Denied because {decision.reason or 'of nothing that was said'}.")
        return bool(decision.verdict.startswith("allow"))

    def _result(self, call: str, decision: Answer) -> None:
        if self._log is None:
            return
        is_denied = decision.verdict.startswith("deny")
        words = f"The user doesn't want to proceed with this tool use. {decision.reason}" if is_denied else "done"
        self._log.user([{"type": "tool_result", "tool_use_id": call, "content": words, "is_error": is_denied}])


class ScriptedDriverFactory:
    """A kind of agent that needs no program."""

    def __init__(self, name: str, capabilities: Capabilities, home: Path | None, missing: str | None = None) -> None:
        self.name = name
        self.capabilities = capabilities
        self.extra = name
        self._home = home
        self._missing = missing

    def find_program(self) -> str:
        if self._missing:
            raise NotFoundError(self._missing)
        return sys.executable

    def create(self) -> ScriptedDriver:
        self.find_program()
        return ScriptedDriver(self.capabilities, self._home)


def drivers(home: Path) -> dict[str, ScriptedDriverFactory]:
    """The three agents."""
    missing = "Codex CLI is not installed. Install it with: npm install -g @openai/codex"
    return {
        "claude": ScriptedDriverFactory("claude", FULL, home),
        "codex": ScriptedDriverFactory("codex", FULL, None, missing),
        "gemini": ScriptedDriverFactory("gemini", LITTLE, None),
    }


def serve(home: str, store: str, data: str, port: int) -> None:
    """A server that runs these agents instead of real ones."""
    from unspool.web.server import serve
    from unspool.web.settings import Settings

    module: Any = types.ModuleType("unspool.runs.registry")
    module.DRIVERS = drivers(Path(home))
    sys.modules[module.__name__] = module
    settings = Settings(store=store, homes=(home,), port=port, data=data)
    serve(settings, lambda opened: print(f"ready {opened.port}", flush=True))


if __name__ == "__main__":
    home, store, data, port = sys.argv[1:]
    serve(home, store, data, int(port))
