"""The driver for agents that use the Agent Client Protocol: JSON-RPC over standard input and output, one per line.

Messages wait for the end of the current turn. The protocol has no field for the reason of a denial, so the reason is
sent to the model as the next message. Subclasses define how an agent is started and what its tool calls mean.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from ...core import typed_json
from ...core.errors import UnspoolError, UsageError
from ..attachments import ImageInput
from ..protocol import (
    AgentExited,
    Answer,
    Capabilities,
    Driver,
    Emit,
    MessageAccepted,
    Notice,
    PermissionRequest,
    RunSpec,
    Started,
    TurnEnded,
)
from ..sandbox import sandboxed
from .acp_agent import AcpAgent
from .acp_connection import (
    CALL_SECONDS,
    AcpConnection,
    Params,
    load_connection_class,
    object_at,
    objects_at,
    text_or_none,
)
from .acp_requests import AcpPermissions, PermissionParams, answers_as_text, outcome_of
from .acp_turns import AcpTurns
from .acp_updates import REPLAY_SECONDS, AcpUpdates
from .settings import ReportedSettings
from .turn_state import Lifecycle

if TYPE_CHECKING:
    from acp.connection import Connection

START_SECONDS = 120.0
_FILES = {"readTextFile": False, "writeTextFile": False}
_CLIENT: Params = {"protocolVersion": 1, "clientCapabilities": {"fs": _FILES, "terminal": False}}


class AcpDriver(AcpAgent, Driver):
    """One running agent."""

    def __init__(self, capabilities: Capabilities) -> None:
        super().__init__(capabilities)
        self.session: str | None = None
        self._life = Lifecycle()
        self._settings = ReportedSettings(self._emit)
        self._permissions = AcpPermissions(self._emit, self.option_for_session)
        self._turns = AcpTurns(self._emit, self._life, self._permissions, lambda: self._is_running)
        self._connection: AcpConnection | None = None
        self._watcher: asyncio.Task[None] | None = None
        self._updates = AcpUpdates(self._emit, self._settings, self._turns.state, self.mode_in_text)

    async def start(self, spec: RunSpec, emit: Emit) -> None:
        """Start the process and a session in it, new or resumed."""
        self.spec, self._emit.target = spec, emit
        if spec.fork:
            raise UsageError(f"{self.title} cannot fork a session")
        connection_class = load_connection_class(self.extra)
        await self.prepare()
        command, *older = self.commands()
        try:
            connection, version = await self._launch(command, connection_class)
        except UnspoolError as error:
            if not older or not self.is_unknown_argument(str(error)):
                raise
            connection, version = await self._launch(older[0], connection_class)
        self._watcher = asyncio.create_task(self._watch(connection))
        self._life.has_started = self._settings.is_reporting = True
        self._emit(Started(self.session, connection.process.pid, self._settings.mode, self._settings.model, version))

    async def send(self, id: str, text: str, images: Sequence[ImageInput] = ()) -> None:
        """Send a message for the next turn; a command that clears the conversation starts another session."""
        self._check_running()
        if text.strip() in self.clear_commands:
            await self._clear(id)
        else:
            self._turns.send(id, text, images)

    async def _clear(self, id: str) -> None:
        """Start another session in the same process, with the same settings, as the command does in a terminal."""
        if not self._turns.state.is_idle:
            raise UsageError(f"{self.title} is working; interrupt the turn before you clear the conversation")
        assert self._connection is not None
        settings, former, spec = self._settings, self.session, self.spec
        mode, model = settings.mode, settings.model
        self._updates.former_sessions.add(former)
        self.spec = msgspec.structs.replace(spec, session=None, mode=mode, model=model)
        settings.is_reporting = False
        try:
            await self._open_session()
            await self._apply_settings()
        except BaseException:
            # Continue the current session instead of the new one, which may not even exist.
            self._updates.former_sessions = (self._updates.former_sessions | {self.session}) - {former, None}
            self.session, self.spec, settings.mode, settings.model = former, spec, mode, model
            raise
        finally:
            settings.is_reporting = True
        self._turns.attach(self._connection, self.session)
        self._emit(MessageAccepted(id))
        self._emit(Started(self.session, self._connection.process.pid, settings.mode, settings.model))
        self._emit(TurnEnded(outcome="completed"))

    async def interrupt(self) -> None:
        """Stop the turn that is running or about to start."""
        await self._turns.interrupt()

    async def answer(self, request: PermissionRequest, answer: Answer) -> None:
        """Answer a request."""
        if answer.input is not None:
            raise UsageError(f"The input of a request cannot be changed in {self.title}")
        pending = self._permissions.get(request.id)
        if pending is None:
            return
        verdict, reason = answer.verdict, answer.reason
        if request.kind == "question" and answer.answers:
            # The protocol cannot carry answers: deny the question, and send the answers as a message instead.
            verdict, reason = "deny", answers_as_text(answer.answers)
        option = self._permissions.option_for(verdict, pending.options)
        if option is None and not verdict.startswith("deny"):
            raise UsageError(f"{self.title} does not offer this answer")
        self._permissions.remove(request.id)
        if verdict == "deny_stop":
            if reason:
                self._turns.queue.hold(reason)
            await self.interrupt()  # Before the answer, so that the model does not start on something else.
        pending.chosen.set_result(option.option_id if option is not None else None)
        if verdict == "deny" and reason:
            self._turns.queue.push_first(reason)
            self._emit(Notice(f"{self.title} cannot receive a reason with an answer; the model gets it as a message."))

    async def set_mode(self, mode: str) -> None:
        """Change how much the agent may do without asking."""
        self._check_running()
        if mode not in self.capabilities.modes:
            if mode in self.start_only_modes:
                raise UsageError(f"Mode {mode!r} can only be set at start")
            available = ", ".join(self.capabilities.modes) or "(none)"
            raise UsageError(f"Unknown mode {mode!r} for {self.title}; available modes: {available}")
        await self._call("session/set_mode", {"sessionId": self.session, "modeId": mode})
        self._settings.update(mode=mode)

    async def set_model(self, model: str) -> None:
        """Change the model."""
        self._check_running()
        if not self.capabilities.models:
            raise UsageError(f"This version of {self.title} cannot change its model while it is running")
        await self._call("session/set_model", {"sessionId": self.session, "modelId": model})
        self._settings.update(model=model)

    async def stop(self) -> None:
        """Stop the process and everything it started."""
        self._life.is_stopping = True
        self._turns.queue.clear()
        if self._connection is not None and not self._life.has_exited:
            await self._connection.process.stop(self._turns.cancel if self._turns.state.is_active else None)
        if self._watcher is not None:
            await asyncio.wait([self._watcher], timeout=START_SECONDS)
        await self._report_exit()

    # --- starting and exiting ---

    async def _launch(
        self, command: Sequence[str], connection_class: type[Connection]
    ) -> tuple[AcpConnection, str | None]:
        """Start the process and a session in it; return the connection and the version. A failure stops the process."""
        connection = AcpConnection(self.title, connection_class, self._handle)
        self._connection = connection
        await connection.open(sandboxed(command, self.spec), self.spec.folder, self.environment(), self.spec.mark)
        try:
            version = await self._initialize()
            await self._open_session()
            self._turns.attach(connection, self.session)
            await self._apply_settings()
        except BaseException as error:
            had_exited = connection.process.is_silent
            await connection.process.stop()
            await self._close(connection)
            output = connection.process.error_tail()
            if isinstance(error, UnspoolError) and had_exited and output:
                raise UnspoolError(f"{error}. Error output: {output}") from error
            raise
        return connection, version

    async def _initialize(self) -> str | None:
        result = await self._call("initialize", _CLIENT, START_SECONDS)
        if object_at(result, "agentCapabilities").get("loadSession") is not True:
            self.capabilities = msgspec.structs.replace(self.capabilities, resume=False)
        return text_or_none(object_at(result, "agentInfo").get("version"))

    async def _open_session(self) -> None:
        params: Params = {"cwd": self.spec.folder, "mcpServers": []}
        if self.spec.session is None:
            result = await self._call("session/new", params, START_SECONDS)
            self.session = text_or_none(result.get("sessionId"))
        else:
            if not self.capabilities.resume:
                raise UnspoolError(f"This version of {self.title} cannot resume sessions when run by another program")
            self.session = self.spec.session
            result = await self._call("session/load", {"sessionId": self.session, **params}, START_SECONDS)
            await self._wait_for_replay(text_or_none(object_at(result, "modes").get("currentModeId")))
            self.session_loaded()
        if self.session is None:
            raise UnspoolError(f"{self.title} did not report a session id")
        self._read_settings(result)

    def _read_settings(self, result: Params) -> None:
        modes, models = object_at(result, "modes"), object_at(result, "models")
        self._settings.mode = text_or_none(modes.get("currentModeId"))
        self._settings.model = text_or_none(models.get("currentModelId"))
        hidden = set(self.start_only_modes) - {self.spec.mode}
        self.capabilities = _with_offers(self.capabilities, modes, models, hidden)

    async def _apply_settings(self) -> None:
        mode = self.spec.mode
        if mode is None and self._settings.mode in self.start_only_modes:
            mode = self.safe_mode
            text = f"{self.title} would never ask in mode {self._settings.mode!r}; switched to mode {mode!r}."
            self._emit(Notice(text))
        if mode is not None and mode != self._settings.mode:
            await self.set_mode(mode)
        if self.spec.model is not None and self.spec.model != self._settings.model:
            await self.set_model(self.spec.model)

    async def _wait_for_replay(self, mode: str | None) -> None:
        """Wait until the past conversation has been replayed, which continues after the call to load it returns.

        A busy agent can be silent for a while before the replay. It responds to another call only after the replay has
        started, so this makes one that has no effect: it sets the current mode again.
        """
        if mode is not None:
            with contextlib.suppress(UnspoolError):
                await self._call("session/set_mode", {"sessionId": self.session, "modeId": mode}, REPLAY_SECONDS)
        await self._updates.wait_until_quiet()

    async def _watch(self, connection: AcpConnection) -> None:
        await connection.process.wait()
        await self._report_exit()

    async def _report_exit(self) -> None:
        if not self._life.exit():
            return
        self._permissions.cancel_all()
        process = self._connection.process if self._connection is not None else None
        if self._connection is not None:
            await self._close(self._connection)
        error = process.error_tail() if process is not None and not self._life.is_stopping else None
        self._emit(AgentExited(code=process.code if process is not None else None, error=error))

    async def _close(self, connection: AcpConnection) -> None:
        await connection.close()
        await self._turns.finish()

    @property
    def _is_running(self) -> bool:
        """Whether the agent accepts messages: it is not being stopped, and is not known to have exited."""
        is_open = self._connection is not None and not self._connection.process.is_silent
        return is_open and not (self._life.has_exited or self._life.is_stopping)

    def _check_running(self) -> None:
        if not self._is_running:
            raise UnspoolError(f"{self.title} is not running")

    async def _call(self, method: str, params: Params, seconds: float = CALL_SECONDS) -> Params:
        assert self._connection is not None
        return await self._connection.call(method, params, seconds)

    # --- messages of the agent ---

    async def _handle(self, method: str, params: Any, is_notification: bool) -> Any:
        fields = params if isinstance(params, dict) else {}
        if method == "session/update":
            self._updates.handle(text_or_none(fields.get("sessionId")), object_at(fields, "update"))
            return None
        if method == "session/request_permission":
            return await self._handle_permission(fields)
        if not is_notification:
            from acp import RequestError

            raise RequestError.method_not_found(method)
        return None

    async def _handle_permission(self, params: Params) -> Params:
        permission = typed_json.convert(params, PermissionParams)
        if self._turns.state.phase != "running":
            return outcome_of(None)
        request = self.describe(self._permissions.new_id(), permission)
        return await self._permissions.ask(request, permission.options)


def _with_offers(capabilities: Capabilities, modes: Params, models: Params, hidden: set[str]) -> Capabilities:
    """Return the capabilities with the modes and models that an agent offers, except hidden modes."""
    ids = [id for mode in objects_at(modes, "availableModes") if (id := text_or_none(mode.get("id")))]
    names = [id for model in objects_at(models, "availableModels") if (id := text_or_none(model.get("modelId")))]
    offered = tuple(id for id in ids if id not in hidden)
    return msgspec.structs.replace(capabilities, modes=offered, models=bool(models), model_names=tuple(names))
