"""Translates the notifications and requests of a Codex process into the events that all drivers share."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ..protocol import Emit, MessageAccepted, Notice, SettingsChanged, TextDelta, TurnStarted
from ..tasks import BackgroundTasks
from .codex_approvals import CodexApprovals
from .codex_config import MODES
from .codex_messages import CodexMessages, CodexSender
from .codex_processes import CodexProcesses
from .codex_requests import CodexRequest, object_at, text_at
from .codex_threads import CodexThreads
from .jsonrpc import Params, RequestId, RpcConnection
from .turn_state import Lifecycle

_TEXT_METHODS = {
    "item/agentMessage/delta": False,
    "item/plan/delta": False,
    "item/reasoning/summaryTextDelta": True,
    "item/reasoning/textDelta": True,
}
"""Notifications with text of the model, and whether it is thinking."""


class RunningCommand(NamedTuple):
    """A command that the model has started."""

    thread: str
    turn: str
    process: str


class CodexItems:
    """Items in progress that requests refer to, and commands that are running."""

    def __init__(self) -> None:
        self._items: dict[str, Params] = {}
        self._commands: dict[str, RunningCommand] = {}

    def start(self, thread: str, turn: str, item: Params) -> None:
        """Add an item that has started: an edit, a tool call of an MCP server, or a command."""
        kind, id = text_at(item, "type"), text_at(item, "id") or ""
        if kind in ("fileChange", "mcpToolCall"):
            self._items[id] = {**item, "threadId": thread}
        elif kind == "commandExecution" and (process := text_at(item, "processId")):
            self._commands[id] = RunningCommand(thread, turn, process)

    def complete(self, id: str) -> None:
        """Remove an item that has completed."""
        self._items.pop(id, None)
        self._commands.pop(id, None)

    def drop_commands(self, thread: str) -> None:
        """Forget the commands of a thread whose turn has ended: an interrupt no longer applies to them."""
        self._commands = {id: command for id, command in self._commands.items() if command.thread != thread}

    def commands(self) -> list[RunningCommand]:
        """Return the commands of running turns."""
        return list(self._commands.values())

    def subject_of(self, params: Params) -> Params:
        """Return the item that a request is about: the one it names, or the last call of the MCP server that asks."""
        if (id := text_at(params, "itemId")) is not None:
            return self._items.get(id, {})
        asking = (params.get("threadId"), params.get("serverName"))
        calls = [item for item in self._items.values() if (item["threadId"], item.get("server")) == asking]
        return calls[-1] if calls else {}


class CodexSettings:
    """The mode and the model, as Codex reports them and as they were last emitted."""

    def __init__(self, emit: Emit) -> None:
        self.current: Params = {}
        self.reported: SettingsChanged | None = None
        """None until the session has started."""
        self._emit = emit

    def read(self) -> SettingsChanged:
        """Return the current mode and model."""
        name = next((name for name, mode in MODES.items() if mode.is_set(self.current)), None)
        return SettingsChanged(mode=name, model=text_at(self.current, "model"))

    def report_changes(self) -> None:
        """Emit what has changed since the last report."""
        now, before = self.read(), self.reported
        if before is None or now == before:
            return
        self.reported = now
        self._emit(
            SettingsChanged(
                mode=now.mode if now.mode != before.mode else None,
                model=now.model if now.model != before.model else None,
            )
        )


class CodexSession:
    """The session of one Codex process."""

    def __init__(self, write: Callable[[bytes], None], emit: Emit, life: Lifecycle) -> None:
        self.connection = RpcConnection(write, self)
        self.threads = CodexThreads()
        self.items = CodexItems()
        self.settings = CodexSettings(emit)
        self.tasks = BackgroundTasks()
        self.messages = CodexMessages()
        self.processes = CodexProcesses(self.connection, self.threads, emit)
        self.sender = CodexSender(self.connection, self.threads, self.messages, emit, self._start_turn)
        self.approvals = CodexApprovals(self.connection, self.threads, self.messages, self.sender, self.tasks, emit)
        self._emit = emit
        self._life = life

    def close(self) -> None:
        """Cancel everything that is open, because Codex has exited."""
        self.tasks.cancel()
        self.approvals.cancel_all()
        self.threads.state.apply("exited")

    # --- the handler of the connection ---

    def handle_request(self, id: RequestId, method: str, params: Params) -> None:
        """Handle a request of Codex."""
        request = CodexRequest(id, method, params, self.items.subject_of(params))
        if not request.is_supported:
            self.connection.reject(id, f"{method} is not supported")
            return
        if request.thread and request.turn:
            # A request may be the first sign of a sub-agent's turn.
            self._start_turn(request.thread, request.turn)
        self.approvals.open(request)

    def handle_notification(self, method: str, params: Params) -> None:
        """Handle a notification of Codex."""
        thread = text_at(params, "threadId") or ""
        if method == "thread/started":
            self.threads.learn_path(object_at(params, "thread"))
        elif method == "turn/started":
            self._start_turn(thread, text_at(object_at(params, "turn"), "id") or "")
        elif method == "turn/completed":
            self._end_turn(thread, object_at(params, "turn"))
        elif method == "thread/closed" and (turn := self.threads.running().get(thread)) is not None:
            self._end_turn(thread, {"id": turn, "status": "interrupted"})
        elif method == "item/started":
            self._start_item(thread, text_at(params, "turnId") or "", object_at(params, "item"))
        elif method == "item/completed":
            self.items.complete(text_at(object_at(params, "item"), "id") or "")
            if self.processes.has_any:
                self.tasks.run(self.processes.report())
        elif method == "serverRequest/resolved":
            self.approvals.resolve(params.get("requestId"))
        elif method == "thread/settings/updated" and thread == self.threads.main:
            self.settings.current = object_at(params, "threadSettings")
            self._report_settings()
        elif method in _TEXT_METHODS:
            delta, is_thinking = text_at(params, "delta") or "", _TEXT_METHODS[method]
            self._emit(TextDelta(delta, is_thinking, self.threads.subagent(thread)))
        elif (notice := _notice_of(method, params)) is not None:
            self._emit(Notice(notice))

    def _start_turn(self, thread: str, turn: str) -> None:
        if self.threads.start_turn(thread, turn):
            self._emit(TurnStarted())

    def _end_turn(self, thread: str, turn: Params) -> None:
        outcome = self.threads.end_turn(thread, turn)
        self.items.drop_commands(thread)
        self.approvals.cancel_thread(thread)
        if reasons := self.messages.take_reasons(thread):
            self.tasks.run(self.sender.add_reasons(thread, reasons))
        if outcome is not None:
            self._emit(outcome)
        if not self._life.is_stopping:
            self.tasks.run(self.processes.report())
        if thread == self.threads.main:
            self._report_settings()
            if text_at(turn, "status") == "interrupted":
                self.sender.return_dropped()
            elif self.messages.has_dropped() and not self._life.is_stopping:
                self.tasks.run(self.sender.send_dropped())

    def _start_item(self, thread: str, turn: str, item: Params) -> None:
        if text_at(item, "type") == "userMessage":
            message = text_at(item, "clientId")
            if message and self.messages.accept(message):
                self._emit(MessageAccepted(message))
        else:
            self.items.start(thread, turn, item)

    def _report_settings(self) -> None:
        """Emit changed settings; a running turn keeps those it started with."""
        if self.threads.main not in self.threads.running():
            self.settings.report_changes()


def _notice_of(method: str, params: Params) -> str | None:
    """Return the text of a notification that has no other effect but should be shown."""
    if method == "error" and params.get("willRetry"):
        return text_at(object_at(params, "error"), "message")
    if method in ("warning", "guardianWarning"):
        return text_at(params, "message")
    if method in ("configWarning", "deprecationNotice"):
        return text_at(params, "summary")
    if method == "model/rerouted":
        return f"Codex uses the model {params.get('toModel')} instead of {params.get('fromModel')}."
    return None
