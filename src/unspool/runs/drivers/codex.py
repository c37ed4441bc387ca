"""The driver for Codex CLI, which uses `codex app-server`.

The program comes with the package `openai-codex`, whose Python client is not used: it blocks threads without a
timeout, answers approvals on the thread that reads, so that nothing else is received until a person has decided, and
allows everything by default. The protocol is JSON-RPC, one message per line.

Behaviour of the program when it is run this way, as of 0.163:

* A message sent during a turn reaches that turn. If the turn ends before the model has read it, Codex drops the
  message; the driver sends it again, or returns it to the queue if the turn was interrupted.
* A denial has no reason. If the turn continues, the driver sends the reason as a message along with the denial, so
  that the model reads both at once; if the denial ends the turn, the reason is added to the conversation afterwards.
  `MessageAccepted` with the id of the request reports that the model has it.
* The input of a tool cannot be changed.
* A session can be forked only after a whole turn. If a message is given, the fork starts after its turn.
* A changed mode or model applies from the next turn on.
* A command that is running when its turn is interrupted would continue; the driver ends it. A command that a turn has
  left running continues during later turns; the driver reports it, and can end it.
* Codex never responds to a call to interrupt a turn that has already ended.
* Commands of the terminal are sent to the model as text. The driver handles `/clear` and `/new` itself.
* Sub-agents are separate threads on the same connection. The agent is working until all of them have finished.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import os
import shutil
from collections.abc import Sequence

import msgspec

from ..._version import __version__
from ...agents import AGENTS
from ...core.errors import MissingExtraError, NotFoundError, UnspoolError, UsageError
from ...io.pip import own_pip
from ..attachments import ImageInput
from ..protocol import (
    AgentExited,
    Answer,
    Capabilities,
    Driver,
    Emit,
    MessageAccepted,
    PermissionRequest,
    RunSpec,
    Started,
    TurnEnded,
)
from ..sandbox import sandboxed
from .codex_config import FULL_ACCESS, MODES, Mode, build_environment, find_mode, find_turn
from .codex_messages import image_input, text_input
from .codex_requests import object_at, text_at
from .codex_session import CodexSession, RunningCommand
from .codex_threads import STOP_TURN_SECONDS, interrupt_turn
from .event_sink import EventSink
from .jsonrpc import CallError, Params
from .line_process import LineProcess
from .turn_state import Lifecycle, TurnAction

PROGRAM_VARIABLE = "UNSPOOL_CODEX_PROGRAM"
START_SECONDS = 120.0
CLEAR_COMMANDS = ("/clear", "/new")
"""Terminal commands that start another session; the protocol does not support them."""

CAPABILITIES = Capabilities(
    fork="turn",
    steer=True,
    deny_reason=True,
    allow_session=True,
    modes=tuple(name for name in MODES if name != FULL_ACCESS),
    models=True,
    images=True,
    login="Run `codex login` in a terminal and follow it. Then send the message again.",
)


class CodexDriverFactory:
    """Creates drivers for Codex CLI."""

    name = "codex"
    capabilities = CAPABILITIES
    extra = "codex"

    def find_program(self) -> str:
        """Return the program set in the environment, else the one in the package, else the one on the path."""
        if named := os.environ.get(PROGRAM_VARIABLE):
            if (found := shutil.which(named)) is None:
                raise NotFoundError(f"Cannot run Codex: {PROGRAM_VARIABLE}={named} is not a program")
            return found
        if (found := _bundled_program() or shutil.which("codex")) is None:
            install = own_pip(AGENTS["codex"].info.install or "")
            raise MissingExtraError(f"Codex CLI is not installed. Install it with: {install}")
        return found

    def create(self) -> Driver:
        """Create a driver for one session."""
        return CodexDriver(self.find_program())


def _bundled_program() -> str | None:
    try:
        return str(importlib.import_module("codex_cli_bin").bundled_codex_path())
    except (ImportError, OSError):
        return None


class CodexDriver:
    """One running Codex."""

    def __init__(self, program: str) -> None:
        self.capabilities = CAPABILITIES
        self.program = program
        self._spec = RunSpec(folder="")
        self._emit = EventSink()
        self._life = Lifecycle()
        self._process = LineProcess(lambda line: self._session.connection.receive(line))
        self._session = CodexSession(self._process.write, self._emit, self._life)
        self._watcher: asyncio.Task[None] | None = None

    # --- starting and stopping ---

    async def start(self, spec: RunSpec, emit: Emit) -> None:
        """Start the process and a thread in it: a new one, a past one, or a fork."""
        mode = find_mode(spec.mode)
        if spec.fork and spec.session is None:
            raise UsageError("`--fork` needs a session to fork from")
        self._spec, self._emit.target = spec, emit
        environment = build_environment(spec, self.program)
        command = sandboxed([self.program, "app-server"], spec)
        await self._process.start(command, spec.folder, environment, spec.mark)
        try:
            version = await self._initialize()
            await self._learn_models()
            await self._open_thread(mode)
        except BaseException as error:
            has_exited = self._session.connection.is_closed
            self._life.is_stopping = True
            await self._process.stop()
            if isinstance(error, CallError):
                output = f". Error output: {self._process.error_tail()}" if has_exited else ""
                raise UnspoolError(f"Could not start Codex: {error}{output}") from error
            raise
        if spec.mode == FULL_ACCESS:
            self.capabilities = msgspec.structs.replace(self.capabilities, modes=tuple(MODES))
        self._watcher = asyncio.create_task(self._watch())
        self._life.has_started = True
        settings = self._session.settings.reported = self._session.settings.read()
        self._emit(Started(self._session.threads.main, self._process.pid, settings.mode, settings.model, version))

    async def stop(self) -> None:
        """Stop the process and everything it started. When its input closes, it records that its turn was stopped."""
        if not self._process.pid or self._life.has_exited:
            return
        self._life.is_stopping = True
        await self._process.stop()
        if self._watcher is None:
            return  # It was still starting, and the caller of `start` gets the error.
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(asyncio.shield(self._watcher), START_SECONDS)
        self._report_exit()

    async def _initialize(self) -> str | None:
        client = {"name": "unspool", "title": "unspool", "version": __version__}
        params = {"clientInfo": client, "capabilities": {"experimentalApi": True}}
        result = await self._session.connection.call("initialize", params, seconds=START_SECONDS)
        self._session.connection.notify("initialized")
        # The user agent is `unspool/0.163.0 (…)`: our name, and the version of Codex.
        agent = text_at(result, "userAgent") or ""
        return agent.partition("/")[2].partition(" ")[0] or None

    async def _learn_models(self) -> None:
        """Remember the models that Codex offers. Other providers may offer others."""
        with contextlib.suppress(CallError):
            result = await self._session.connection.call("model/list", {}, seconds=START_SECONDS)
            offered = (model for model in result.get("data") or [] if isinstance(model, dict))
            names = [name for model in offered if (name := text_at(model, "model"))]
            self.capabilities = msgspec.structs.replace(self.capabilities, model_names=tuple(names))

    async def _open_thread(self, mode: Mode) -> None:
        spec, session = self._spec, self._session
        params: Params = {
            "cwd": spec.folder,
            "approvalPolicy": mode.approval,
            "sandbox": mode.sandbox,
            # Codex can let another model decide; here, a person decides.
            "approvalsReviewer": "user",
        }
        if spec.model is not None:
            params["model"] = spec.model
        method = "thread/start"
        if spec.session is not None:
            method = "thread/fork" if spec.fork else "thread/resume"
            params |= {"threadId": spec.session, "excludeTurns": True}
        if spec.fork and spec.at is not None:
            params["lastTurnId"] = await asyncio.to_thread(find_turn, spec)
        result = await session.connection.call(method, params, seconds=START_SECONDS)
        session.threads.main = text_at(object_at(result, "thread"), "id") or ""
        session.threads.learn_path(object_at(result, "thread"))
        session.settings.current = {
            **result,
            "sandboxPolicy": result.get("sandbox"),
            "effort": result.get("reasoningEffort"),
        }
        if mode.collaboration != "default":
            await self._update_settings(mode.settings(session.settings.current))

    async def _watch(self) -> None:
        await self._process.wait()
        self._report_exit()

    def _report_exit(self) -> None:
        if not self._life.exit():
            return
        self._session.close()
        error = None if self._life.is_stopping else self._process.error_tail()
        self._emit(AgentExited(code=self._process.code, error=error))

    def _check_running(self) -> None:
        if not self._life.is_running or self._session.connection.is_closed:
            raise UnspoolError("Codex is not running")

    # --- actions of people ---

    async def send(self, id: str, text: str, images: Sequence[ImageInput] = ()) -> None:
        """Send a message to the current turn, or start a turn with it; `/clear` starts another session."""
        self._check_running()
        if text.strip() in CLEAR_COMMANDS:
            await self._clear(id)
        else:
            await self._session.sender.send(id, [*text_input(text), *map(image_input, images)])

    async def _clear(self, id: str) -> None:
        """Start another thread in the same process, as the command does in a terminal."""
        session = self._session
        if not session.threads.state.is_idle:
            raise UsageError("Codex is working; interrupt the turn before you clear the conversation")
        settings = session.settings.read()
        self._spec = msgspec.structs.replace(self._spec, session=None, fork=False, at=None, model=settings.model)
        await self._open_thread(find_mode(settings.mode))
        session.settings.reported = settings = session.settings.read()
        self._emit(MessageAccepted(id))
        self._emit(Started(session.threads.main, self._process.pid, settings.mode, settings.model))
        self._emit(TurnEnded(outcome="completed"))

    async def interrupt(self) -> None:
        """Stop the current turn, those of its sub-agents, and the commands they are running."""
        if self._life.has_exited:
            return
        session = self._session
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(STOP_TURN_SECONDS), session.sender.lock:
                pass  # A message that is being sent may be about to start a turn.
        if TurnAction.INTERRUPT not in session.threads.state.apply("interrupt"):
            return
        turns, commands = session.threads.running(), session.items.commands()
        await asyncio.gather(
            *(
                interrupt_turn(session.connection, session.threads, self._emit, thread, turn)
                for thread, turn in turns.items()
            )
        )
        await asyncio.gather(
            *(self._end_command(command) for command in commands if turns.get(command.thread) == command.turn)
        )

    async def end_process(self, id: str) -> None:
        """End a command that is still running after its turn."""
        self._check_running()
        await self._session.processes.end(id)

    async def _end_command(self, command: RunningCommand) -> None:
        params = {"threadId": command.thread, "processId": command.process}
        with contextlib.suppress(CallError):
            await self._session.connection.call(
                "thread/backgroundTerminals/terminate", params, seconds=STOP_TURN_SECONDS
            )

    async def answer(self, request: PermissionRequest, answer: Answer) -> None:
        """Answer a request."""
        await self._session.approvals.answer(request, answer)

    async def set_mode(self, mode: str) -> None:
        """Change how much Codex may do without asking, from the next turn on."""
        self._check_running()
        if mode not in self.capabilities.modes:
            if mode == FULL_ACCESS:
                raise UsageError(f"Mode {mode!r} can only be set at start")
            raise UsageError(f"Unknown mode {mode!r} for Codex; available modes: {', '.join(self.capabilities.modes)}")
        await self._update_settings(find_mode(mode).settings(self._session.settings.current))

    async def set_model(self, model: str) -> None:
        """Change the model, from the next turn on."""
        self._check_running()
        await self._update_settings({"model": model})

    async def _update_settings(self, settings: Params) -> None:
        session = self._session
        await session.connection.call("thread/settings/update", {"threadId": session.threads.main, **settings})
        # Codex reports the change a moment later; a mode set before that must not restore the old model.
        session.settings.current = {**session.settings.current, **settings}
