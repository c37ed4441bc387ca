"""Agents that speak the Agent Client Protocol: JSON-RPC in lines over their standard input and output.

A turn is one request that is answered when the turn is over. There is no way to say something in the middle of one, so
messages wait here for its end. A refusal has no words either: where somebody gave some, they go to the model as the
next message. What an agent's own protocol calls things, and what its tools mean, is said by a subclass.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from ...core.errors import MissingExtraError, UnspoolError, UsageError
from ...io.decode import decode_any
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
    TurnStarted,
    Verdict,
)
from .line_process import Piped

if TYPE_CHECKING:
    from acp.connection import Connection

PROTOCOL = 1
START_SECONDS = 120.0
CALL_SECONDS = 60.0
REACTION_SECONDS = 10.0
"""After this a turn that was to be stopped, and goes on, is remarked on."""
REPLAY_QUIET_SECONDS = 0.2
REPLAY_SECONDS = 60.0
NO_SUCH_METHOD = -32601
_STOPPED_BY = {
    "max_tokens": "The answer was cut off: the conversation has become too long for the model.",
    "max_turn_requests": "The agent stopped by itself: the model made too many requests in one turn.",
    "refusal": "The model refused to answer.",
}


class PermissionOption(msgspec.Struct, rename="camel"):
    """One of the answers that an agent takes."""

    option_id: str
    kind: str = ""
    name: str = ""


class Call(msgspec.Struct, rename="camel"):
    """A call of a tool, as an agent tells of it."""

    tool_call_id: str = ""
    title: str | None = None
    kind: str | None = None
    content: list[dict[str, Any]] | None = None
    locations: list[dict[str, Any]] | None = None
    raw_input: dict[str, Any] | None = None


class Permission(msgspec.Struct, rename="camel"):
    """What an agent asks."""

    tool_call: Call
    options: list[PermissionOption] = []


class Message(NamedTuple):
    """Something for the model that waits for its turn."""

    id: str | None
    text: str


class _Open(NamedTuple):
    """A request for permission that nobody has answered."""

    asked: PermissionRequest
    options: list[PermissionOption]
    answer: asyncio.Future[str | None]
    """The id of the chosen option; None where the turn is stopped."""


class AcpDriver(Driver):
    """One running agent. A subclass says how it is started and what its calls mean."""

    title = "The agent"
    extra = "gemini"
    bypass: tuple[str, ...] = ()
    """Modes in which nothing is asked: only those who name one when they start the agent get it."""
    safe_mode = "default"

    def __init__(self, capabilities: Capabilities) -> None:
        self.capabilities = capabilities
        self.spec = RunSpec(folder="")
        self.session: str | None = None
        self.mode: str | None = None
        self.model: str | None = None
        self._tell_all: Callable[[DriverEvent], None] = _nobody
        self._child: Piped | None = None
        self._connection: Connection | None = None
        self._messages: deque[Message] = deque()
        self._before_next: list[str] = []
        """Words that go with the next message, whoever sends it."""
        self._open: dict[str, _Open] = {}
        self._asked = 0
        self._turns: asyncio.Task[None] | None = None
        self._watch: asyncio.Task[None] | None = None
        self._in_turn = False
        self._stopping_turn = False
        self._stopping = False
        self._has_exited = False
        self._heard_at = 0.0

    # --- what a subclass says ---

    def commands(self) -> Sequence[Sequence[str]]:
        """The program and its arguments, and how it was started in older versions."""
        raise NotImplementedError

    def is_unknown(self, complaint: str) -> bool:
        """Whether a program that did not start complains about its arguments."""
        del complaint
        return False

    def environment(self) -> dict[str, str]:
        """The environment of the program."""
        raise NotImplementedError

    async def prepare(self) -> None:
        """Whatever has to be done before the program is started."""

    def loaded(self) -> None:
        """A past session was loaded."""

    def describe(self, id: str, permission: Permission) -> PermissionRequest:
        """What a request for permission is about."""
        raise NotImplementedError

    def option_for_session(self, options: Sequence[PermissionOption]) -> PermissionOption | None:
        """The answer that allows something until the session ends, and not a moment longer."""
        return next((option for option in options if option.kind == "allow_always"), None)

    def mode_in(self, text: str) -> str | None:
        """The mode that words of the agent announce, where it does so in words."""
        del text
        return None

    # --- the driver ---

    async def start(self, spec: RunSpec, tell: Callable[[DriverEvent], None]) -> None:
        """Start the program and a session in it, or go on with a past one."""
        self.spec = spec
        self._tell_all = tell
        if spec.fork:
            raise UsageError(f"{self.title} cannot fork a session.")
        connection_class = _connection_class(self.extra)
        await self.prepare()
        first, *others = self.commands()
        try:
            version = await self._launch(first, connection_class)
        except UnspoolError as error:
            if not others or not self.is_unknown(str(error)):
                raise
            version = await self._launch(others[0], connection_class)
        assert self._child is not None
        self._watch = asyncio.create_task(self._watch_over(self._child))
        self._say(Started(self.session, self._child.pid, self.mode, self.model, version))

    async def _launch(self, command: Sequence[str], connection_class: type[Connection]) -> str | None:
        """Start the program and a session in it; nothing is left of one that does not come so far."""
        lines: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
        self._child = child = Piped(lambda line: _put(lines, line))
        await child.start(command, self.spec.folder, self.environment(), self.spec.mark)
        self._connection = connection_class(self._handle, _Transport(child, lines))
        try:
            return await self._greet()
        except BaseException as error:
            had_ended = child.is_silent.is_set()
            await child.end()
            await self._close()
            words = child.last_words()
            if isinstance(error, UnspoolError) and had_ended and words:
                raise UnspoolError(f"{error} Its last words: {words}") from error
            raise

    async def send(self, id: str, text: str) -> None:
        """Give it a message for its next turn."""
        self._expect_running()
        self._messages.append(Message(id, text))
        self._take_up()

    async def interrupt(self) -> None:
        """Stop the turn that runs, or that is about to."""
        if not self._in_turn and self._turns is not None and not self._turns.done():
            await asyncio.sleep(0)
        if not self._in_turn or self._has_exited:
            return
        if not self._stopping_turn:
            self._stopping_turn = True
            asyncio.get_running_loop().call_later(REACTION_SECONDS, self._remark_if_deaf, self._turns)
        self._cancel_turn()

    async def answer(self, asked: PermissionRequest, decision: Decision) -> None:
        """Answer something that it asked."""
        if decision.input is not None:
            raise UsageError(f"{self.title} takes no other input than the one it asked for.")
        waiting = self._open.get(asked.id)
        if waiting is None or waiting.answer.done():
            return
        verdict, words = decision.verdict, decision.reason
        if asked.kind == "question" and decision.answers:
            # The protocol has no place for answers: they are told instead, and the question is not asked again.
            verdict, words = "deny", _as_words(decision.answers)
        option = self._option(verdict, waiting.options)
        if option is None and not verdict.startswith("deny"):
            raise UsageError(f"{self.title} does not offer that answer here.")
        del self._open[asked.id]
        if verdict == "deny_stop":
            if words:
                self._before_next.append(words)
            await self.interrupt()  # Before the answer, so that the model is not asked what to do instead.
        waiting.answer.set_result(option.option_id if option is not None else None)
        if verdict == "deny" and words:
            self._messages.appendleft(Message(None, words))
            self._say(Notice(f"{self.title} takes no words with an answer: they go to the model as the next message."))

    async def set_mode(self, mode: str) -> None:
        """Change how much it may do by itself."""
        self._expect_running()
        if mode not in self.capabilities.modes:
            offered = ", ".join(self.capabilities.modes) or "none"
            raise UsageError(f"{self.title} offers no mode {mode!r} here; it offers: {offered}.")
        await self._call("session/set_mode", {"sessionId": self.session, "modeId": mode})
        self._changed(mode=mode)

    async def set_model(self, model: str) -> None:
        """Change the model."""
        self._expect_running()
        if not self.capabilities.models:
            raise UsageError(f"This version of {self.title} cannot change its model while it runs.")
        await self._call("session/set_model", {"sessionId": self.session, "modelId": model})
        self._changed(model=model)

    async def stop(self) -> None:
        """End the program and everything it started."""
        self._stopping = True
        self._messages.clear()
        child = self._child
        if child is not None and not self._has_exited:
            await child.end(self._cancel_turn if self._in_turn else None)
        if self._watch is not None:
            await asyncio.wait([self._watch], timeout=START_SECONDS)
        await self._exited()

    # --- beginning and end ---

    async def _greet(self) -> str | None:
        files = {"readTextFile": False, "writeTextFile": False}
        hello = {"protocolVersion": PROTOCOL, "clientCapabilities": {"fs": files, "terminal": False}}
        greeting = await self._call("initialize", hello, START_SECONDS)
        if _table(greeting, "agentCapabilities").get("loadSession") is not True:
            self.capabilities = msgspec.structs.replace(self.capabilities, resume=False)
        version = _table(greeting, "agentInfo").get("version")
        await self._open_session()
        await self._settle_mode()
        if self.spec.model is not None and self.spec.model != self.model:
            await self.set_model(self.spec.model)
        return version if isinstance(version, str) else None

    async def _open_session(self) -> None:
        place = {"cwd": self.spec.folder, "mcpServers": []}
        if self.spec.session is None:
            told = await self._call("session/new", place, START_SECONDS)
            self.session = _text(told.get("sessionId"))
        else:
            if not self.capabilities.resume:
                raise UnspoolError(
                    f"This version of {self.title} cannot go on with a past session when it is run by another program."
                )
            self.session = self.spec.session
            told = await self._call("session/load", {"sessionId": self.session, **place}, START_SECONDS)
            await self._replayed(_text(_table(told, "modes").get("currentModeId")))
            self.loaded()
        if self.session is None:
            raise UnspoolError(f"{self.title} gave no id to its session.")
        self._learn(told)

    def _learn(self, told: dict[str, Any]) -> None:
        """Which modes and models it has."""
        modes, models = _table(told, "modes"), _table(told, "models")
        known = [id for mode in _tables(modes, "availableModes") if (id := _text(mode.get("id"))) is not None]
        offered = tuple(id for id in known if id not in self.bypass or id == self.spec.mode)
        self.mode = _text(modes.get("currentModeId"))
        self.model = _text(models.get("currentModelId"))
        self.capabilities = msgspec.structs.replace(self.capabilities, modes=offered, models=bool(models))

    async def _settle_mode(self) -> None:
        wanted = self.spec.mode
        if wanted is None and self.mode in self.bypass:
            wanted = self.safe_mode
            self._say(Notice(f"{self.title} would have asked for nothing in its mode {self.mode!r}; it asks now."))
        if wanted is not None and wanted != self.mode:
            await self.set_mode(wanted)

    async def _replayed(self, mode: str | None) -> None:
        """Wait until the past conversation has been told again, which goes on after the answer to the call.

        An agent that gets little of the processor can be silent for a while before it begins. It answers another call
        only after it has gone on, so one is made first: for the mode that it has anyway.
        """
        loop = asyncio.get_running_loop()
        until = loop.time() + REPLAY_SECONDS
        if mode is not None:
            with contextlib.suppress(UnspoolError):
                await self._call("session/set_mode", {"sessionId": self.session, "modeId": mode}, REPLAY_SECONDS)
        self._heard_at = loop.time()
        while (quiet := loop.time() - self._heard_at) < REPLAY_QUIET_SECONDS and loop.time() < until:
            await asyncio.sleep(REPLAY_QUIET_SECONDS - quiet)

    async def _watch_over(self, child: Piped) -> None:
        await child.until_gone()
        await self._exited()

    async def _exited(self) -> None:
        """Tell of the end, once."""
        if self._has_exited:
            return
        self._has_exited = True
        for id in list(self._open):
            self._withdraw(id)
        await self._close()
        child = self._child
        words = child.last_words() if child is not None and not self._stopping else None
        self._say(AgentExited(code=child.code if child is not None else None, error=words))

    async def _close(self) -> None:
        if self._connection is not None:
            await self._connection.close()
        if self._turns is not None:
            await asyncio.wait([self._turns], timeout=CALL_SECONDS)

    def _expect_running(self) -> None:
        if not self._is_running:
            raise UnspoolError(f"{self.title} does not run any more.")

    @property
    def _is_running(self) -> bool:
        """It can be told something: nobody ends it, and it has not ended by itself, as far as is known."""
        return self._child is not None and not (self._has_exited or self._stopping or self._child.is_silent.is_set())

    # --- turns ---

    def _take_up(self) -> None:
        if self._messages and (self._turns is None or self._turns.done()):
            self._turns = asyncio.create_task(self._take_turns())

    async def _take_turns(self) -> None:
        while self._messages and self._is_running:
            message = self._messages.popleft()
            self._in_turn, self._stopping_turn = True, False
            self._say(TurnStarted())
            if message.id is not None:
                self._say(MessageAccepted(message.id))
            texts = [*self._before_next, message.text]
            self._before_next.clear()
            ended = await self._turn(texts)
            for id in list(self._open):
                self._withdraw(id)
            self._in_turn = False
            if lost := self._child.take_passed_over() if self._child is not None else 0:
                self._say(Notice(f"{self.title} said something too long to be taken in ({lost} times)."))
            self._say(ended)

    async def _turn(self, texts: list[str]) -> TurnEnded:
        prompt = [{"type": "text", "text": text} for text in texts]
        try:
            told = await self._call("session/prompt", {"sessionId": self.session, "prompt": prompt}, None)
        except UnspoolError as error:
            if self._stopping_turn or self._stopping:
                return TurnEnded(outcome="interrupted")
            return TurnEnded(outcome="failed", error=str(error))
        reason = _text(told.get("stopReason"))
        if reason == "cancelled":
            return TurnEnded(outcome="interrupted")
        if reason in _STOPPED_BY:
            return TurnEnded(outcome="failed", error=_STOPPED_BY[reason])
        return TurnEnded(outcome="completed")

    def _cancel_turn(self) -> None:
        """Stop the turn; as the protocol wants it, what was asked in it is answered with that."""
        assert self._child is not None
        self._child.write(_line({"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": self.session}}))
        for id in list(self._open):
            self._withdraw(id)

    def _remark_if_deaf(self, turns: asyncio.Task[None] | None) -> None:
        if self._stopping_turn and self._in_turn and turns is self._turns and not self._has_exited:
            self._say(Notice(f"{self.title} was told to stop its turn and does not; ending it will."))

    # --- what it says ---

    async def _handle(self, method: str, params: Any, is_notification: bool) -> Any:
        given = params if isinstance(params, dict) else {}
        if method == "session/update":
            self._updated(_table(given, "update"))
            return None
        if method == "session/request_permission":
            return await self._permit(given)
        if not is_notification:
            from acp import RequestError

            raise RequestError.method_not_found(method)
        return None

    def _updated(self, update: dict[str, Any]) -> None:
        self._heard_at = asyncio.get_running_loop().time()
        kind = update.get("sessionUpdate")
        if kind == "current_mode_update":
            self._changed(mode=_text(update.get("currentModeId")))
        elif kind in ("agent_message_chunk", "agent_thought_chunk"):
            text = _text(_table(update, "content").get("text")) or ""
            mode = self.mode_in(text)
            if mode is not None:
                self._changed(mode=mode)
            elif text and self._in_turn:
                self._say(TextDelta(text, thinking=kind == "agent_thought_chunk"))

    async def _permit(self, params: dict[str, Any]) -> dict[str, Any]:
        permission = msgspec.convert(params, Permission)
        if not self._in_turn or self._stopping_turn:
            return _outcome(None)
        self._asked += 1
        asked = self.describe(f"request-{self._asked}", permission)
        asked.verdicts = self._verdicts(permission.options)
        waiting = _Open(asked, permission.options, asyncio.get_running_loop().create_future())
        self._open[asked.id] = waiting
        self._say(asked)
        return _outcome(await waiting.answer)

    def _withdraw(self, id: str) -> None:
        waiting = self._open.pop(id)
        if not waiting.answer.done():
            waiting.answer.set_result(None)
        self._say(RequestCancelled(id))

    def _verdicts(self, options: Sequence[PermissionOption]) -> tuple[Verdict, ...]:
        every: tuple[Verdict, ...] = ("allow", "allow_session", "deny", "deny_stop")
        return tuple(one for one in every if one.startswith("deny") or self._option(one, options) is not None)

    def _option(self, verdict: Verdict, options: Sequence[PermissionOption]) -> PermissionOption | None:
        if verdict == "allow_session":
            return self.option_for_session(options)
        kind = "allow_once" if verdict == "allow" else "reject_once"
        return next((option for option in options if option.kind == kind), None)

    def _changed(self, *, mode: str | None = None, model: str | None = None) -> None:
        """Tell of a change, once."""
        mode = mode if mode != self.mode else None
        model = model if model != self.model else None
        self.mode = mode or self.mode
        self.model = model or self.model
        if (mode or model) and self._watch is not None:
            self._say(SettingsChanged(mode=mode, model=model))

    def _say(self, told: DriverEvent) -> None:
        self._tell_all(told)

    async def _call(self, method: str, params: dict[str, Any], seconds: float | None = CALL_SECONDS) -> dict[str, Any]:
        """Ask it for something; `seconds` is None for a turn, which lasts as long as it lasts."""
        from acp import RequestError

        assert self._connection is not None
        try:
            async with asyncio.timeout(seconds):
                told = await self._connection.send_request(method, params)
        except RequestError as error:
            raise UnspoolError(_why(self.title, method, error)) from error
        except TimeoutError as error:
            raise UnspoolError(f"{self.title} did not answer within {seconds:g} s ({method}).") from error
        except ConnectionError as error:
            raise UnspoolError(f"{self.title} has ended.") from error
        return told if isinstance(told, dict) else {}


class _Transport:
    """What the protocol's own package needs to talk to the program."""

    def __init__(self, child: Piped, lines: asyncio.Queue[dict[str, Any] | None]) -> None:
        self._child = child
        self._lines = lines

    async def send(self, message: dict[str, Any]) -> None:
        """Say something."""
        self._child.write(_line(message))

    async def receive(self) -> dict[str, Any] | None:
        """What it says next; None when it says no more."""
        return await self._lines.get()

    async def close(self) -> None:
        """There is nothing to close: the program is ended by whoever started it."""


def _put(lines: asyncio.Queue[dict[str, Any] | None], line: bytes) -> None:
    """What is no JSON object was printed between the messages."""
    if not line:
        lines.put_nowait(None)
    elif isinstance(message := decode_any(line), dict):
        lines.put_nowait(message)


def _connection_class(extra: str) -> type[Connection]:
    try:
        from acp.connection import Connection
    except ImportError as error:
        raise MissingExtraError(
            f"Running this agent needs a package more; install it with: pip install 'unspool[{extra}]'"
        ) from error
    return Connection


def _line(message: dict[str, Any]) -> bytes:
    # Escaped, as a text may hold halves of surrogate pairs, which have no bytes of their own.
    return json.dumps(message, separators=(",", ":")).encode()


def _outcome(option: str | None) -> dict[str, Any]:
    chosen = {"outcome": "cancelled"} if option is None else {"outcome": "selected", "optionId": option}
    return {"outcome": chosen}


def _why(title: str, method: str, error: Any) -> str:
    details = error.data if isinstance(error.data, dict) else {}
    more = _text(details.get("details")) or _text(details.get("message"))
    if error.code == NO_SUCH_METHOD:
        return f"This version of {title} does not know {method}."
    return f"{title}: {error}" + (f" ({more})" if more and more != str(error) else "")


def _as_words(answers: dict[str, list[str]]) -> str:
    return "\n".join(f"{question} {', '.join(chosen)}" for question, chosen in answers.items())


def _table(given: dict[str, Any], key: str) -> dict[str, Any]:
    value = given.get(key)
    return value if isinstance(value, dict) else {}


def _tables(given: dict[str, Any], key: str) -> list[dict[str, Any]]:
    value = given.get(key)
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _nobody(told: DriverEvent) -> None:
    """Nobody listens yet."""
