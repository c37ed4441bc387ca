"""Claude Code, through the Claude Agent SDK.

What it cannot do, by itself or through the SDK (2.1.325):

- A message that is sent while a turn runs is kept by the program for the next one; several are put together in it.
- A refusal that also stops the turn loses its words: the model gets a sentence of the program in their place.
- An input that was changed before it was allowed is what runs, but the log keeps the one the model gave.
- What was asked when the program was killed is not asked again when the session is resumed: the call is lost.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import shutil
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import msgspec

from ...core.errors import MissingExtraError, NotFoundError, UnspoolError, UsageError
from ..protocol import (
    AgentExited,
    Capabilities,
    Decision,
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
    environment_for,
)
from .claude_fork import copy_for_fork
from .claude_process import DRAIN_SECONDS, Program
from .claude_requests import REFUSED, asked_about, for_the_session, with_answers

if TYPE_CHECKING:
    from claude_agent_sdk import (
        ClaudeSDKClient,
        Message,
        PermissionResultAllow,
        PermissionResultDeny,
        ResultMessage,
        StreamEvent,
        ToolPermissionContext,
        Transport,
    )

NAME = "claude"
PROGRAM_VARIABLE = "UNSPOOL_CLAUDE_PROGRAM"
MODES = ("default", "acceptEdits", "plan")
"""Those that are offered."""
NAMED_MODES = ("bypassPermissions", "dontAsk", "auto")
"""Those that somebody has to name when the agent is started: in them things happen that nobody was asked about."""
START_SECONDS = 120.0
CONTROL_SECONDS = 60.0
INTERRUPT_SECONDS = 3.0
"""After this a turn that goes on is interrupted once more."""
INTERRUPT_TIMES = 5
BEGIN_SECONDS = 30.0
"""How long the program may take from a message to the turn that it begins."""
REST_SECONDS = 8.0
"""How long a turn that is interrupted before the end may take to end; less than the program has for all of its end."""
ANSWER_LOOKS = 100
_OWN_VARIABLES = ("ANTHROPIC_", "CLAUDE_", "DISABLE_", "BASH_", "MCP_", "MAX_", "ENABLE_", "USE_BUILTIN_RIPGREP")
_CLOUD_VARIABLES = {
    "CLAUDE_CODE_USE_BEDROCK": ("AWS_",),
    "CLAUDE_CODE_USE_VERTEX": ("GOOGLE_", "GCLOUD_", "CLOUD_ML_", "VERTEX_"),
}
_OF_ANOTHER_RUN = (
    "CLAUDE_CODE_SSE_PORT",
    "CLAUDE_CODE_SESSION_ID",
    "CLAUDE_CODE_ENTRYPOINT",
    "CLAUDE_AGENT_SDK_VERSION",
)
_OF_ANOTHER_HOME = ("CLAUDE_CONFIG_DIR", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME")

T = TypeVar("T")
logger = logging.getLogger(__name__)


class ClaudeKind:
    """Claude Code."""

    name = NAME
    capabilities = Capabilities(
        resume=True, fork="message", steer=False, deny_reason=True, edit_input=True, allow_session=True,
        modes=MODES, models=True,
    )  # fmt: skip
    extra = NAME

    def program(self) -> str:
        """The one that was named, else the one that came with the SDK, else the one on the path."""
        named = os.environ.get(PROGRAM_VARIABLE)
        if named:
            if not Path(named).is_file():
                raise NotFoundError(f"{PROGRAM_VARIABLE} names {named}, which is no file.")
            return named
        found = _bundled() or shutil.which("claude")
        if found is None:
            raise NotFoundError(
                "Claude Code is not installed. Install it with: pip install 'unspool[claude]', which brings it along."
            )
        return found

    def make(self) -> ClaudeDriver:
        """A driver for one session."""
        return ClaudeDriver(self)


def _bundled() -> str | None:
    try:
        import claude_agent_sdk
    except ImportError:
        return None
    name = "claude.exe" if os.name == "nt" else "claude"
    path = Path(claude_agent_sdk.__file__).parent / "_bundled" / name
    return str(path) if path.is_file() else None


def environment(spec: RunSpec, environ: Mapping[str, str]) -> dict[str, str]:
    """What the program may know of ours."""
    own: tuple[str, ...] = _OWN_VARIABLES
    for switch, names in _CLOUD_VARIABLES.items():
        if environ.get(switch):
            own += names
    kept = environment_for(own, environ, spec.home)
    dropped = _OF_ANOTHER_RUN + (_OF_ANOTHER_HOME if spec.home is not None else ())
    kept = {name: value for name, value in kept.items() if name not in dropped}
    # One that is run by another program does not exchange itself for a newer one meanwhile.
    return {"DISABLE_AUTOUPDATER": "1", **kept, "CLAUDE_CODE_ENTRYPOINT": "sdk-py"}


def command(program: str, spec: RunSpec, session: str, copy: Path | None = None) -> list[str]:
    """How the program is called; `session` is the id of the one that it is to work in, `copy` what it forks instead."""
    words = [
        program, "--print", "--verbose", "--output-format=stream-json", "--input-format=stream-json",
        "--permission-prompt-tool=stdio", "--include-partial-messages", "--replay-user-messages",
        f"--permission-mode={spec.mode or 'default'}",
    ]  # fmt: skip
    if spec.model:
        words.append(f"--model={spec.model}")
    if spec.session:
        words.append(f"--resume={copy or spec.session}")
    if spec.fork:
        words.append("--fork-session")
        if spec.at:
            words.append(f"--resume-session-at={spec.at}")
    if spec.fork or not spec.session:
        words.append(f"--session-id={session}")
    return words


def check(spec: RunSpec) -> None:
    """Complain about what makes no sense before anything is started."""
    if spec.mode is not None and spec.mode not in MODES + NAMED_MODES:
        raise UsageError(f"Claude Code has no mode {spec.mode!r}; it has {', '.join(MODES + NAMED_MODES)}.")
    if spec.fork and not spec.session:
        raise UsageError("A fork needs the session that it goes off from.")
    if spec.at and not spec.fork:
        raise UsageError("To go on from an earlier message is a fork.")
    if not Path(spec.folder).is_dir():
        raise NotFoundError(f"There is no folder {spec.folder}.")


class ClaudeDriver:
    """One running Claude Code."""

    def __init__(self, kind: ClaudeKind) -> None:
        self.capabilities = kind.capabilities
        self._kind = kind
        self._tell: Callable[[DriverEvent], None] = lambda _: None
        self._spec = RunSpec(folder="")
        self._copy: Path | None = None
        """What it was forked from, until it has read that."""
        self._program: Program | None = None
        self._client: ClaudeSDKClient | None = None
        self._hearing: asyncio.Task[None] | None = None
        self._watching: asyncio.Task[None] | None = None
        self._has_begun = False
        self._has_exited = False
        self._is_stopping = False
        self._session: str | None = None
        self._mode: str | None = None
        self._model: str | None = None
        self._version: str | None = None
        self._at_rest = asyncio.Event()
        self._in_turn = False
        self._turns = 0
        """So many have ended."""
        self._is_interrupting = False
        self._at_hand: set[str] = set()
        """Messages that waited when the turn began."""
        self._waiting: dict[str, str] = {}
        """Messages that were sent and not yet taken up: the ids the program knows, and those they were sent with."""
        self._open: dict[str, asyncio.Future[Decision]] = {}
        self._asked = 0
        self._subagents: dict[str, str] = {}
        """Sub-agents by the calls that started them."""

    # --- its life ---

    async def start(self, spec: RunSpec, tell: Callable[[DriverEvent], None]) -> None:
        """Start the program. A new session, and a fork, gets its id here, before its first turn."""
        self._spec, self._tell = spec, tell
        check(spec)
        client_class, options_class = _sdk()
        is_new = spec.fork or not spec.session
        self._session = str(uuid.uuid4()) if is_new else spec.session
        self._mode = spec.mode or "default"
        self._at_rest.set()
        self._copy = await asyncio.to_thread(copy_for_fork, spec)
        words = command(self._kind.program(), spec, self._session or "", self._copy)
        self._program = Program(words, spec.folder, environment(spec, os.environ), spec.mark)
        options = options_class(can_use_tool=self._decide, include_partial_messages=True, forward_subagent_text=True)
        self._client = client_class(options, transport=cast("Transport", self._program))
        try:
            await self._while_it_runs(self._client.connect(), START_SECONDS)
            info = await self._client.get_server_info() or {}
        except BaseException as error:
            self._is_stopping = True
            await self._clear_away()
            if isinstance(error, Exception):
                raise UnspoolError(self._why_it_failed(error)) from error
            raise
        self._version = _text(info.get("claude_code_version"))
        self._mode = _text(info.get("current_permission_mode")) or self._mode
        self._hearing = asyncio.create_task(self._hear_all())
        self._watching = asyncio.create_task(self._watch())
        self._has_begun = True
        self._tell_begun()

    async def stop(self) -> None:
        """End it: what runs is interrupted, so that the log has it; its input is closed; then it is made to end."""
        self._is_stopping = True
        if self._program is not None:
            await self._program.end(self._prepare_end)
        if self._watching is not None:
            await asyncio.shield(self._watching)
        else:
            await self._clear_away()
        self._tell_exited()

    async def _prepare_end(self) -> None:
        if self._is_at_rest or not self._has_begun:
            return
        with contextlib.suppress(Exception):
            await self._take_back()
            await self.interrupt()
            await asyncio.wait_for(self._at_rest.wait(), REST_SECONDS)

    async def _take_back(self) -> None:
        """Take back the messages that wait, which the program would turn to when it is interrupted."""
        assert self._program is not None
        for known in list(self._waiting):
            request = {"subtype": "cancel_async_message", "message_uuid": known}
            message = {"type": "control_request", "request_id": f"take-back-{known}", "request": request}
            await self._program.write(msgspec.json.encode(message).decode() + "\n")
        self._waiting.clear()

    async def _watch(self) -> None:
        """Wait for the program to end, by itself or not, and clear away what it leaves."""
        assert self._program is not None
        await self._program.wait()
        await self._program.wait_for_rest()
        await self._clear_away()
        self._tell_exited()

    def _drop_copy(self) -> None:
        if self._copy is not None:
            self._copy.unlink(missing_ok=True)
            self._copy = None

    async def _clear_away(self) -> None:
        self._drop_copy()
        if self._program is not None:
            await self._program.end()
        if self._hearing is not None:
            await asyncio.wait({self._hearing}, timeout=DRAIN_SECONDS)
            self._hearing.cancel()
        if self._client is not None:
            with contextlib.suppress(Exception):
                await self._client.disconnect()
        # The tasks that waited for answers have been cancelled; each of them still has to say so.
        await asyncio.sleep(0)

    def _tell_exited(self) -> None:
        if self._has_exited:
            return
        self._has_exited = True
        self._at_rest.set()
        program = self._program
        code = program.code if program is not None else None
        error = None
        if not self._is_stopping and program is not None:
            error = program.last_words or f"Claude Code ended by itself with code {code}."
        self._tell(AgentExited(code=code, error=error))

    def _why_it_failed(self, error: Exception) -> str:
        said = self._program.last_words if self._program is not None else ""
        if isinstance(error, TimeoutError):
            return f"Claude Code was not ready within {START_SECONDS:.0f} seconds. {said}".strip()
        return f"Claude Code could not be started: {said or error}"

    async def _while_it_runs(self, doing: Awaitable[T], seconds: float) -> T:
        """Do something that waits for the program, which may end meanwhile and then never answers."""
        assert self._program is not None
        task = asyncio.ensure_future(doing)
        ended = asyncio.ensure_future(self._ended_early(task))
        try:
            await asyncio.wait({task, ended}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                return task.result()
            if ended.done():
                raise UnspoolError(self._program.last_words or f"it ended with code {self._program.code}")
            raise TimeoutError
        finally:
            for each in (task, ended):
                each.cancel()
            await asyncio.wait({task, ended}, timeout=1.0)

    async def _ended_early(self, task: asyncio.Future[Any]) -> None:
        assert self._program is not None
        while self._program.pid is None:
            await asyncio.sleep(0.01)
        await self._program.wait()
        # What it said before it ended may be the answer, or a better reason.
        await self._program.wait_for_rest()
        for _ in range(ANSWER_LOOKS):
            if task.done():
                break
            await asyncio.sleep(0)

    # --- what it is told ---

    async def send(self, id: str, text: str) -> None:
        """Give it a message. While a turn runs the program keeps it for the next one."""
        client = self._running()
        known = str(uuid.uuid4())
        self._waiting[known] = id
        self._at_rest.clear()

        async def message() -> AsyncIterator[dict[str, Any]]:
            content = {"role": "user", "content": text}
            yield {"type": "user", "message": content, "parent_tool_use_id": None, "uuid": known}

        try:
            await self._while_it_runs(client.query(message()), CONTROL_SECONDS)
        except (TimeoutError, OSError) as error:
            self._waiting.pop(known, None)
            raise UnspoolError("Claude Code does not take the message.") from error

    async def interrupt(self) -> None:
        """Stop the turn that runs, or is about to. What was asked in it is withdrawn."""
        if self._is_at_rest or self._has_exited:
            return
        number = self._turns
        # The program passes over an interruption that comes between a message and the turn that it begins.
        await self._until(lambda: self._in_turn or self._is_at_rest, BEGIN_SECONDS)
        for _ in range(INTERRUPT_TIMES):
            self._is_interrupting = True
            await self._control(self._running().interrupt(), "be interrupted")
            if await self._until(lambda: self._turns > number or self._has_exited, INTERRUPT_SECONDS):
                return

    async def _until(self, condition: Callable[[], bool], seconds: float) -> bool:
        """Wait for something that the program says; not for ever."""
        end = asyncio.get_running_loop().time() + seconds
        while not condition():
            if asyncio.get_running_loop().time() >= end:
                return False
            await asyncio.sleep(0.02)
        return True

    async def answer(self, asked: PermissionRequest, decision: Decision) -> None:
        """Answer something that it asked."""
        waiting = self._open.pop(asked.id, None)
        if waiting is not None and not waiting.done():
            waiting.set_result(decision)

    async def set_mode(self, mode: str) -> None:
        """Change the mode, to one that is offered or that it was started with."""
        if mode not in MODES and mode != self._spec.mode:
            raise UsageError(f"The mode {mode!r} has to be named when the agent is started.")
        await self._control(self._running().set_permission_mode(cast("Any", mode)), f"change to the mode {mode}")
        self._is_now(mode=mode)

    async def set_model(self, model: str) -> None:
        """Change the model, from the next request on."""
        await self._control(self._running().set_model(model), f"change to the model {model}")
        self._is_now(model=model)

    async def _control(self, doing: Awaitable[None], what: str) -> None:
        try:
            await self._while_it_runs(doing, CONTROL_SECONDS)
        except TimeoutError as error:
            raise UnspoolError(f"Claude Code does not {what}: it does not answer.") from error
        except Exception as error:
            raise UnspoolError(f"Claude Code does not {what}: {error}") from error

    def _running(self) -> ClaudeSDKClient:
        if self._client is None or self._has_exited or not self._has_begun:
            raise UnspoolError("This Claude Code does not run.")
        return self._client

    @property
    def _is_at_rest(self) -> bool:
        return self._at_rest.is_set()

    # --- what it asks ---

    async def _decide(
        self, tool: str, given: dict[str, Any], context: ToolPermissionContext
    ) -> PermissionResultAllow | PermissionResultDeny:
        from claude_agent_sdk import PermissionResultAllow, PermissionResultDeny

        self._asked += 1
        lasting = for_the_session(context.suggestions, self._spec.folder)
        asked = asked_about(f"ask-{self._asked}", tool, given, context, can_last=bool(lasting))
        answer: asyncio.Future[Decision] = asyncio.get_running_loop().create_future()
        self._open[asked.id] = answer
        self._tell(asked)
        try:
            decision = await answer
        except asyncio.CancelledError:
            self._tell(RequestCancelled(asked.id))
            raise
        finally:
            self._open.pop(asked.id, None)
        if decision.verdict in ("deny", "deny_stop"):
            return PermissionResultDeny(message=decision.reason or REFUSED, interrupt=decision.verdict == "deny_stop")
        changed = with_answers(tool, given if decision.input is None else decision.input, decision.answers)
        lasts = decision.verdict == "allow_session" and bool(lasting)
        return PermissionResultAllow(updated_input=changed, updated_permissions=lasting if lasts else None)

    # --- what it says ---

    async def _hear_all(self) -> None:
        from claude_agent_sdk import ClaudeSDKError

        assert self._client is not None
        while True:
            try:
                async for message in self._client.receive_messages():
                    self._hear(message)
                return
            except ClaudeSDKError as error:
                # One message that the SDK does not understand is no reason to be deaf for the others.
                logger.warning("a message of Claude Code was not understood: %s", error)
            except Exception:
                if self._program is None or not self._program.is_ready():
                    return
                logger.exception("a message of Claude Code was not handled")

    def _hear(self, message: Message) -> None:
        from claude_agent_sdk import AssistantMessage, ResultMessage, StreamEvent, SystemMessage, UserMessage

        if isinstance(message, StreamEvent):
            self._hear_words(message)
        elif isinstance(message, SystemMessage):
            self._hear_news(message.subtype, message.data)
        elif isinstance(message, UserMessage):
            self._take_up(message.uuid)
        elif isinstance(message, AssistantMessage):
            self._hear_subagent(message)
        elif isinstance(message, ResultMessage):
            self._hear_result(message)

    def _hear_words(self, event: StreamEvent) -> None:
        if event.event.get("type") != "content_block_delta":
            return
        delta = event.event.get("delta") or {}
        text = delta.get("text") or delta.get("thinking")
        if isinstance(text, str):
            thinking = delta.get("type") == "thinking_delta"
            self._tell(TextDelta(text, thinking, self._subagent(event.parent_tool_use_id)))

    def _hear_news(self, subtype: str, data: dict[str, Any]) -> None:
        if subtype == "init":
            self._begin_turn(data)
        elif subtype == "task_started" and data.get("tool_use_id"):
            self._subagents[data["tool_use_id"]] = str(data.get("task_id"))
        elif subtype == "status" and _text(data.get("permissionMode")):
            self._is_now(mode=data["permissionMode"])
        elif subtype == "api_retry":
            self._tell(Notice(f"The model cannot be reached ({data.get('error')}); it is tried again."))

    def _begin_turn(self, data: dict[str, Any]) -> None:
        self._drop_copy()
        self._at_rest.clear()
        self._in_turn = True
        self._at_hand = set(self._waiting)
        self._version = _text(data.get("claude_code_version")) or self._version
        session = _text(data.get("session_id"))
        if session and session != self._session:
            self._session = session
            self._tell_begun()
        self._is_now(mode=_text(data.get("permissionMode")), model=_text(data.get("model")))
        self._tell(TurnStarted())

    def _take_up(self, known: str | None) -> None:
        id = self._waiting.pop(known or "", None)
        if id is not None:
            self._tell(MessageAccepted(id))

    def _hear_subagent(self, message: Any) -> None:
        subagent = self._subagent(message.parent_tool_use_id)
        if subagent is None:
            return
        for block in message.content:
            text = getattr(block, "text", None)
            if isinstance(text, str):
                self._tell(TextDelta(text, False, subagent))

    def _hear_result(self, result: ResultMessage) -> None:
        was_interrupting, self._is_interrupting = self._is_interrupting, False
        self._in_turn = False
        self._turns += 1
        for known in self._at_hand:
            self._take_up(known)  # Some commands of the program itself are never echoed.
        if not self._waiting:
            self._at_rest.set()
        reason = result.terminal_reason or ""
        is_cut = result.subtype == "error_during_execution" and was_interrupting
        if reason.startswith("aborted") or is_cut:
            self._tell(TurnEnded(outcome="interrupted"))
        elif result.is_error or result.subtype != "success":
            error = "; ".join(result.errors or []) or result.result or result.subtype
            self._tell(TurnEnded(outcome="failed", error=error))
        else:
            self._tell(TurnEnded(outcome="completed"))

    def _subagent(self, call: str | None) -> str | None:
        return self._subagents.get(call, call) if call else None

    def _is_now(self, mode: str | None = None, model: str | None = None) -> None:
        new_mode = mode if mode != self._mode else None
        new_model = model if model != self._model else None
        self._mode, self._model = mode or self._mode, model or self._model
        if new_mode or new_model:
            self._tell(SettingsChanged(mode=new_mode, model=new_model))

    def _tell_begun(self) -> None:
        pid = self._program.pid if self._program is not None else None
        self._tell(Started(self._session, pid, self._mode, self._model or self._spec.model, self._version))


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _sdk() -> tuple[type[ClaudeSDKClient], Any]:
    try:
        from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKClient
    except ImportError as error:
        raise MissingExtraError(
            "Running Claude Code needs the Claude Agent SDK; install it with: pip install 'unspool[claude]'"
        ) from error
    # What goes wrong in it is told by the driver; without a handler it would be written to the terminal too.
    logging.getLogger("claude_agent_sdk").addHandler(logging.NullHandler())
    return ClaudeSDKClient, ClaudeAgentOptions
