"""Codex CLI, run through `codex app-server`.

The program is the one that the package `openai-codex` brings. Its Python client is not used: it waits in threads and
without a bound, it answers an approval on the thread that reads, so that nothing else is heard until a person has
decided, and it allows everything where nobody says otherwise. The protocol itself is JSON-RPC in lines.

What it can and cannot do when it is run so, as seen in 0.163:

* A message in the middle of a turn reaches that turn. One that the turn has not taken up when it is stopped is dropped
  by Codex; it is sent again here.
* A refusal has no words. The reason of one that lets the turn go on is put beside it as a message, so that the model
  reads both at once; the reason of one that ends the turn is added to the conversation after it. `TookUp` with the id
  of what was asked tells that the model has it.
* What a tool is called with cannot be changed.
* A fork goes on after a whole turn. A message that is named instead stands for the turn it belongs to.
* A changed mode or model holds from the next turn on.
* A command that runs when a turn is stopped would run on; it is ended.
* A call to stop a turn that is over already is never answered.
* Sub-agents are threads of their own on the same connection. The agent is at work until all of them are.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import itertools
import os
import shutil
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec

from ..._version import __version__
from ...core.errors import MissingExtraError, NotFoundError, UnspoolError, UsageError
from ..protocol import (
    AgentExited,
    Capabilities,
    Decision,
    Driver,
    DriverEvent,
    MessageAccepted,
    Notice,
    PermissionRequest,
    RequestCancelled,
    RunSpec,
    SettingsChanged,
    Started,
    TextDelta,
    TurnEnded,
    TurnOutcome,
    TurnStarted,
)
from .codex_config import MODES, UNGUARDED, Mode, environment_of, is_script_open, mode_of, script_about, turn_named
from .codex_requests import Request, answer_of, asked_of, object_at, text_at
from .jsonrpc import CallError, Connection, Params, RequestId
from .line_process import Piped

PROGRAM_VARIABLE = "UNSPOOL_CODEX_PROGRAM"
START_SECONDS = 120.0
STOP_TURN_SECONDS = 30.0
SCRIPT_SECONDS = 0.3
"""How long a script may take to end after something it wanted was refused, where its call is not known."""
SCRIPT_LOOKS = 100
"""So often it is looked into the file for what a script does."""
SCRIPT_LOOK_SECONDS = 0.05
REMEMBERED_TURNS = 64
_OUTCOMES: dict[str, TurnOutcome] = {"completed": "completed", "interrupted": "interrupted", "failed": "failed"}
_GONE = "Codex does not run any more."

CAPABILITIES = Capabilities(
    fork="turn",
    steer=True,
    deny_reason=True,
    allow_session=True,
    modes=tuple(name for name in MODES if name != UNGUARDED),
    models=True,
)


class CodexKind:
    """Codex CLI, as something that can be run."""

    name = "codex"
    capabilities = CAPABILITIES
    extra = "codex"

    def program(self) -> str:
        """The program that is named in the environment, the one of the package, or the one a terminal would find."""
        if named := os.environ.get(PROGRAM_VARIABLE):
            if (found := shutil.which(named)) is None:
                raise NotFoundError(f"Codex cannot be run: {named}, which {PROGRAM_VARIABLE} names, is no program.")
            return found
        if (found := _bundled() or shutil.which("codex")) is None:
            raise MissingExtraError("Codex is not installed; install it with: pip install 'unspool[codex]'")
        return found

    def make(self) -> Driver:
        """A driver for one session."""
        return CodexDriver(self.program())


def _bundled() -> str | None:
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
        self._tell: Callable[[DriverEvent], None] = lambda _: None
        self._child = Piped(self._take)
        self._connection = Connection(self._child.write, self)
        self._watch: asyncio.Task[None] | None = None
        self._errands: set[asyncio.Task[None]] = set()
        self._sending = asyncio.Lock()
        self._is_stopping = False
        self._has_exited = False
        self._thread = ""
        self._settings: Params = {}
        """What Codex said last about mode and model."""
        self._told = SettingsChanged()
        """What was told last about them."""
        # The turns that run, by their thread, and those that are over.
        self._turns: dict[str, str] = {}
        self._over: deque[str] = deque(maxlen=REMEMBERED_TURNS)
        self._endings: dict[str, asyncio.Event] = {}
        self._is_at_work = False
        self._outcome = TurnEnded(outcome="completed")
        # What was sent and not taken up.
        self._steered: dict[str, str] = {}
        self._expected: set[str] = set()
        self._reasons: dict[str, list[tuple[str, str]]] = {}
        # What was asked, and what is known of the items it is about.
        self._numbers = itertools.count(1)
        self._asked: dict[str, Request] = {}
        self._is_told: set[str] = set()
        self._paths: dict[str, str] = {}
        self._items: dict[str, Params] = {}
        self._commands: dict[str, tuple[str, str]] = {}

    # --- beginning and end ---

    async def start(self, spec: RunSpec, tell: Callable[[DriverEvent], None]) -> None:
        """Start the program and a thread in it: a new one, a past one, or a fork."""
        mode = mode_of(spec.mode)
        if spec.fork and spec.session is None:
            raise UsageError("A fork needs the session it goes on from.")
        self._spec = spec
        self._tell = tell
        environment = environment_of(spec, self.program)
        await self._child.start([self.program, "app-server"], spec.folder, environment, spec.mark)
        try:
            version = await self._greet()
            await self._open_thread(mode)
        except BaseException as error:
            has_ended = self._connection.is_closed
            self._is_stopping = True
            await self._child.end()
            if isinstance(error, CallError):
                words = f" It said last: {self._child.last_words()}" if has_ended else ""
                raise UnspoolError(f"Codex could not be started. {error}.{words}") from error
            raise
        if spec.mode == UNGUARDED:
            self.capabilities = msgspec.structs.replace(self.capabilities, modes=tuple(MODES))
        self._watch = asyncio.create_task(self._watch_over())
        self._told = self._now()
        self._tell(Started(self._thread, self._child.pid, self._told.mode, self._told.model, version))

    async def stop(self) -> None:
        """End the program and everything it started; a closed input makes it note that its turn was stopped."""
        if not self._child.pid or self._has_exited:
            return
        self._is_stopping = True
        await self._child.end()
        if self._watch is None:
            return  # It was about to be started, and whoever waits for that is told.
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(asyncio.shield(self._watch), START_SECONDS)
        self._exited()

    async def _greet(self) -> str | None:
        about = {"name": "unspool", "title": "unspool", "version": __version__}
        hello = {"clientInfo": about, "capabilities": {"experimentalApi": True}}
        told = await self._connection.call("initialize", hello, seconds=START_SECONDS)
        self._connection.notify("initialized")
        # It answers with `unspool/0.163.0 (…)`: our name, and its own version.
        agent = text_at(told, "userAgent") or ""
        return agent.partition("/")[2].partition(" ")[0] or None

    async def _open_thread(self, mode: Mode) -> None:
        spec = self._spec
        wanted: Params = {
            "cwd": spec.folder,
            "approvalPolicy": mode.approval,
            "sandbox": mode.sandbox,
            # Codex can let another model decide in the person's place; whoever runs it here wants to be asked.
            "approvalsReviewer": "user",
        }
        if spec.model is not None:
            wanted["model"] = spec.model
        method = "thread/start"
        if spec.session is not None:
            method = "thread/fork" if spec.fork else "thread/resume"
            wanted |= {"threadId": spec.session, "excludeTurns": True}
        if spec.fork and spec.at is not None:
            wanted["lastTurnId"] = await asyncio.to_thread(turn_named, spec)
        told = await self._connection.call(method, wanted, seconds=START_SECONDS)
        self._thread = text_at(object_at(told, "thread"), "id") or ""
        self._learn_path(object_at(told, "thread"))
        self._settings = {**told, "sandboxPolicy": told.get("sandbox"), "effort": told.get("reasoningEffort")}
        if mode.collaboration != "default":
            await self._update(mode.settings(self._settings))

    async def _watch_over(self) -> None:
        await self._child.until_gone()
        self._exited()

    def _exited(self) -> None:
        """Tell of the end, once."""
        if self._has_exited:
            return
        self._has_exited = True
        for errand in self._errands:
            errand.cancel()
        for id in list(self._asked):
            self._withdraw(id)
        code = self._child.code
        self._tell(AgentExited(code=code, error=None if self._is_stopping else self._child.last_words()))

    def _take(self, line: bytes) -> None:
        self._connection.take(line)

    def _run_errand(self, body: Coroutine[Any, Any, None]) -> None:
        """Do something that nobody waits for."""
        errand = asyncio.get_running_loop().create_task(body)
        self._errands.add(errand)
        errand.add_done_callback(self._errands.discard)

    # --- messages and turns ---

    async def send(self, id: str, text: str) -> None:
        """Give it a message: to the turn that runs, or as a new one."""
        self._expect_running()
        self._expected.add(id)
        try:
            async with self._sending:
                await self._deliver(id, text)
        except UnspoolError:
            self._expected.discard(id)
            self._steered.pop(id, None)
            raise

    async def _deliver(self, id: str, text: str) -> None:
        message = {"threadId": self._thread, "input": _input(text), "clientUserMessageId": id}
        if (turn := self._turns.get(self._thread)) is not None:
            self._steered[id] = text
            try:
                await self._connection.call("turn/steer", {**message, "expectedTurnId": turn})
            except CallError:
                self._steered.pop(id, None)
                if self._turns.get(self._thread) == turn:
                    raise
            else:
                return
        # Where the turn has ended in that moment the message begins the next one.
        told = await self._connection.call("turn/start", message)
        if begun := text_at(object_at(told, "turn"), "id"):
            self._begin_turn(self._thread, begun)

    async def interrupt(self) -> None:
        """Stop the turn that runs, those of its sub-agents, and the commands that they run."""
        if self._has_exited:
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(STOP_TURN_SECONDS), self._sending:
                pass  # A message that is on its way may be about to begin a turn.
        turns = list(self._turns.items())
        commands = list(self._commands.values())
        await asyncio.gather(*(self._stop_turn(thread, turn) for thread, turn in turns))
        threads = {thread for thread, _ in turns}
        await asyncio.gather(*(self._end_command(*each) for each in commands if each[0] in threads))

    async def _stop_turn(self, thread: str, turn: str) -> None:
        """Stop a turn; it is enough that it ends, since the answer does not come where it ended by itself."""
        if turn in self._over:
            return
        ended = self._endings.setdefault(turn, asyncio.Event())
        call = self._connection.call("turn/interrupt", {"threadId": thread, "turnId": turn}, seconds=STOP_TURN_SECONDS)
        tasks = [asyncio.ensure_future(call), asyncio.ensure_future(ended.wait())]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            told = await asyncio.gather(*tasks, return_exceptions=True)
        if isinstance(told[0], CallError) and turn not in self._over and not self._connection.is_closed:
            self._tell(Notice(f"Codex was told to stop its turn and does not: {told[0].message}."))

    async def _end_command(self, thread: str, process: str) -> None:
        with contextlib.suppress(CallError):
            await self._connection.call(
                "thread/backgroundTerminals/terminate",
                {"threadId": thread, "processId": process},
                seconds=STOP_TURN_SECONDS,
            )

    def _begin_turn(self, thread: str, turn: str) -> None:
        if turn in self._over or self._turns.get(thread) == turn:
            return
        self._turns[thread] = turn
        if thread == self._thread:
            self._outcome = TurnEnded(outcome="completed")
        if not self._is_at_work:
            self._is_at_work = True
            self._tell(TurnStarted())

    def _end_turn(self, thread: str, turn: Params) -> None:
        id = text_at(turn, "id") or ""
        self._over.append(id)
        self._turns.pop(thread, None)
        if ended := self._endings.pop(id, None):
            ended.set()
        self._commands = {id: each for id, each in self._commands.items() if each[0] != thread}
        for name, request in list(self._asked.items()):
            if request.thread == thread:
                self._withdraw(name)
        if reasons := self._reasons.pop(thread, None):
            self._run_errand(self._add_reasons(thread, reasons))
        if thread == self._thread:
            error = text_at(object_at(turn, "error"), "message")
            self._outcome = TurnEnded(outcome=_OUTCOMES.get(text_at(turn, "status") or "", "failed"), error=error)
        if self._is_at_work and not self._turns:
            self._is_at_work = False
            self._tell(self._outcome)
        if thread == self._thread:
            self._tell_changes()
            if self._steered and not self._is_stopping:
                self._run_errand(self._send_again())

    async def _send_again(self) -> None:
        """Deliver what a turn that was stopped has not taken up."""
        async with self._sending:
            left, self._steered = self._steered, {}
            for id, text in left.items():
                try:
                    await self._deliver(id, text)
                except CallError as error:
                    self._tell(Notice(f"A message could not be sent again: {error.message}."))

    # --- what it asks ---

    async def answer(self, asked: PermissionRequest, decision: Decision) -> None:
        """Answer something that it asked. A reason goes before a refusal, so that the model reads both at once."""
        if decision.input is not None:
            raise UsageError("Codex takes no other input than the one it asked for.")
        request = self._asked.pop(asked.id, None)
        self._is_told.discard(asked.id)
        if request is None or self._has_exited:
            return
        reason = decision.reason if decision.verdict == "deny" else None
        if decision.reason and decision.verdict == "deny_stop":
            self._reasons.setdefault(request.thread, []).append((asked.id, decision.reason))
        if reason and not request.is_in_script:
            await self._steer_reason(asked.id, request, reason)
        self._connection.reply(request.id, answer_of(request, decision))
        if reason and request.is_in_script:
            # A message makes the model look away from a script that runs; it has to end by the refusal first.
            self._run_errand(self._steer_later(asked, request, reason))
        if decision.verdict == "deny_stop" and not request.can_be_cancelled and request.turn:
            await self._stop_turn(request.thread, request.turn)

    async def _steer_later(self, asked: PermissionRequest, request: Request, reason: str) -> None:
        await self._script_over(asked.call_id, request)
        await self._steer_reason(asked.id, request, reason)

    async def _script_over(self, call: str | None, request: Request) -> None:
        """Wait until a script has ended, of which the file tells."""
        if call is None:
            await asyncio.sleep(SCRIPT_SECONDS)
            return
        path = self._paths.get(request.thread, "")
        for _ in range(SCRIPT_LOOKS):
            if request.turn in self._over or not await asyncio.to_thread(is_script_open, path, call):
                return
            await asyncio.sleep(SCRIPT_LOOK_SECONDS)

    async def _steer_reason(self, id: str, request: Request, reason: str) -> None:
        self._expected.add(id)
        message = {"threadId": request.thread, "input": _input(reason), "clientUserMessageId": id}
        try:
            await self._connection.call("turn/steer", {**message, "expectedTurnId": request.turn})
        except CallError:
            # The turn is over already; what the model reads next has the reason in it.
            self._expected.discard(id)
            await self._add_reasons(request.thread, [(id, reason)])

    async def _add_reasons(self, thread: str, reasons: list[tuple[str, str]]) -> None:
        for id, reason in reasons:
            item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": reason}]}
            try:
                await self._connection.call("thread/inject_items", {"threadId": thread, "items": [item]})
            except CallError as error:
                self._tell(Notice(f"The reason did not reach the model: {error.message}."))
            else:
                self._tell(MessageAccepted(id))

    def request(self, id: RequestId, method: str, params: Params) -> None:
        """Codex wants an answer."""
        number = f"asked-{next(self._numbers)}"
        request = Request(id, method, params, self._item_of(params))
        subagent = request.thread if request.thread not in ("", self._thread) else None
        asked = asked_of(number, request, subagent)
        if asked is None:
            self._connection.refuse(id, f"{method} is not known here")
            return
        self._asked[number] = request
        if request.thread and request.turn:
            # Of a sub-agent's turn this may be the first that is heard.
            self._begin_turn(request.thread, request.turn)
        if request.is_in_script:
            self._run_errand(self._ask_in_script(asked, request))
        else:
            self._ask(asked)

    async def _ask_in_script(self, asked: PermissionRequest, request: Request) -> None:
        """Ask once the file tells which call it is about; it is written a moment later."""
        words = asked.action.command or asked.action.path or ""
        for _ in range(SCRIPT_LOOKS):
            found = await asyncio.to_thread(script_about, self._paths.get(request.thread, ""), words)
            if found is not None:
                asked.call_id = found
                break
            await asyncio.sleep(SCRIPT_LOOK_SECONDS)
        self._ask(asked)

    def _ask(self, asked: PermissionRequest) -> None:
        if asked.id in self._asked:
            self._is_told.add(asked.id)
            self._tell(asked)

    def _withdraw(self, id: str) -> None:
        del self._asked[id]
        if id in self._is_told:
            self._is_told.discard(id)
            self._tell(RequestCancelled(id))

    # --- mode and model ---

    async def set_mode(self, mode: str) -> None:
        """Change how much it may do by itself, from the next turn on."""
        self._expect_running()
        if mode not in self.capabilities.modes:
            raise UsageError(f"Codex offers no mode {mode!r} here; it offers: {', '.join(self.capabilities.modes)}.")
        await self._update(mode_of(mode).settings(self._settings))

    async def set_model(self, model: str) -> None:
        """Change the model, from the next turn on."""
        self._expect_running()
        await self._update({"model": model})

    async def _update(self, settings: Params) -> None:
        await self._connection.call("thread/settings/update", {"threadId": self._thread, **settings})
        # Codex tells of it a moment later; a mode that is chosen before that must not bring an old model back.
        self._settings = {**self._settings, **settings}

    def _now(self) -> SettingsChanged:
        name = next((name for name, mode in MODES.items() if mode.is_set(self._settings)), None)
        return SettingsChanged(mode=name, model=text_at(self._settings, "model"))

    def _tell_changes(self) -> None:
        """Tell what is different; a turn that runs keeps what it began with."""
        now = self._now()
        if self._watch is None or self._thread in self._turns or now == self._told:
            return
        before, self._told = self._told, now
        self._tell(
            SettingsChanged(
                mode=now.mode if now.mode != before.mode else None,
                model=now.model if now.model != before.model else None,
            )
        )

    # --- what it tells ---

    def notice(self, method: str, params: Params) -> None:
        """Something has happened in the program."""
        thread = text_at(params, "threadId") or ""
        if method == "thread/started":
            self._learn_path(object_at(params, "thread"))
        elif method == "turn/started":
            self._begin_turn(thread, text_at(object_at(params, "turn"), "id") or "")
        elif method == "turn/completed":
            self._end_turn(thread, object_at(params, "turn"))
        elif method == "thread/closed" and thread in self._turns:
            self._end_turn(thread, {"id": self._turns[thread], "status": "interrupted"})
        elif method == "item/started":
            self._begin_item(thread, object_at(params, "item"))
        elif method == "item/completed":
            item = text_at(object_at(params, "item"), "id") or ""
            self._items.pop(item, None)
            self._commands.pop(item, None)
        elif method == "serverRequest/resolved":
            self._resolve(params.get("requestId"))
        elif method == "thread/settings/updated" and thread == self._thread:
            self._settings = object_at(params, "threadSettings")
            self._tell_changes()
        elif method in _WORDS:
            subagent = thread if thread != self._thread else None
            self._tell(TextDelta(text_at(params, "delta") or "", _WORDS[method], subagent))
        elif (words := _remark(method, params)) is not None:
            self._tell(Notice(words))

    def _learn_path(self, thread: Params) -> None:
        if (id := text_at(thread, "id")) and (path := text_at(thread, "path")):
            self._paths[id] = path

    def _begin_item(self, thread: str, item: Params) -> None:
        kind, id = text_at(item, "type"), text_at(item, "id") or ""
        if kind == "userMessage" and (message := text_at(item, "clientId")) in self._expected and message:
            self._expected.discard(message)
            self._steered.pop(message, None)
            self._tell(MessageAccepted(message))
        elif kind in ("fileChange", "mcpToolCall"):
            self._items[id] = {**item, "threadId": thread}
        elif kind == "commandExecution" and (process := text_at(item, "processId")):
            self._commands[id] = (thread, process)

    def _item_of(self, params: Params) -> Params:
        """What a request is about: it names an item, or it is a server that asks for the call it was given last."""
        if (id := text_at(params, "itemId")) is not None:
            return self._items.get(id, {})
        asking = (params.get("threadId"), params.get("serverName"))
        calls = [each for each in self._items.values() if (each["threadId"], each.get("server")) == asking]
        return calls[-1] if calls else {}

    def _resolve(self, id: object) -> None:
        for name, request in list(self._asked.items()):
            if request.id == id:
                self._withdraw(name)

    def _expect_running(self) -> None:
        if self._watch is None or self._has_exited or self._is_stopping or self._connection.is_closed:
            raise UnspoolError(_GONE)


_WORDS = {
    "item/agentMessage/delta": False,
    "item/plan/delta": False,
    "item/reasoning/summaryTextDelta": True,
    "item/reasoning/textDelta": True,
}
"""What the model says and, True, what it thinks."""


def _input(text: str) -> list[Params]:
    return [{"type": "text", "text": text}]


def _remark(method: str, params: Params) -> str | None:
    """What is to be shown of a notice that changes nothing."""
    if method == "error" and params.get("willRetry"):
        return text_at(object_at(params, "error"), "message")
    if method in ("warning", "guardianWarning"):
        return text_at(params, "message")
    if method in ("configWarning", "deprecationNotice"):
        return text_at(params, "summary")
    if method == "model/rerouted":
        return f"Codex uses the model {params.get('toModel')} instead of {params.get('fromModel')}."
    return None
