"""The driver for Claude Code, which uses the Claude Agent SDK.

Limits of the program and the SDK, as of 2.1.325:

- A message sent during a turn is kept for the next turn; several are merged into one.
- If a denial also stops the turn, its reason is lost: the model gets a fixed sentence of the program instead.
- If an input is changed before it is allowed, the changed input is used, but the session log has the model's input.
- A request that was open when the program was killed is not repeated after a resume: the call is lost.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import shutil
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import msgspec

from ...agents import AGENTS
from ...core.errors import MissingExtraError, NotFoundError, UnspoolError, UsageError
from ...io.pip import install_command, own_pip
from ..attachments import ImageInput
from ..completions import offered_commands
from ..model_names import check_model
from ..protocol import AgentExited, Answer, Capabilities, CommandsOffered, Emit, PermissionRequest, RunSpec
from ..sandbox import sandboxed
from .claude_command import MODES, build_command, build_environment, check_spec
from .claude_conversation import ClaudeConversation, text_or_none
from .claude_fork import copy_for_fork
from .claude_process import DRAIN_SECONDS, ClaudeProcess
from .claude_requests import ClaudePermissions
from .event_sink import EventSink
from .turn_state import Lifecycle, TurnAction

if TYPE_CHECKING:
    from claude_agent_sdk import ClaudeSDKClient, Transport

NAME = "claude"
PROGRAM_VARIABLE = "UNSPOOL_CLAUDE_PROGRAM"
START_SECONDS = 120.0
CONTROL_SECONDS = 60.0
INTERRUPT_SECONDS = 3.0
"""If the turn is still running after this time, it is interrupted again."""
INTERRUPT_ATTEMPTS = 5
TURN_START_SECONDS = 30.0
"""The time limit between a message and the start of its turn."""
IDLE_SECONDS = 8.0
"""The time limit for an interrupted turn to end when the program is stopped; shorter than that for its exit."""
_POLL_SECONDS = 0.02
_MODEL_NAMES = ("value", "resolvedModel")
"""The fields with the short name of a model, and its id."""

logger = logging.getLogger(__name__)


class ClaudeDriverFactory:
    """Creates drivers for Claude Code."""

    name = NAME
    capabilities = Capabilities(
        resume=True,
        fork="message",
        steer=False,
        deny_reason=True,
        edit_input=True,
        allow_session=True,
        modes=MODES,
        models=True,
        images=True,
        login="Run `claude` in a terminal, type /login, and follow it. Then send the message again.",
    )
    extra = NAME

    def find_program(self) -> str:
        """Return the program set in the environment, else the one bundled with the SDK, else the one on the path."""
        named = os.environ.get(PROGRAM_VARIABLE)
        if named:
            if not Path(named).is_file():
                raise NotFoundError(f"{PROGRAM_VARIABLE} is set to {named}, which is not a file")
            return named
        found = _bundled_program() or shutil.which("claude")
        if found is None:
            install = own_pip(AGENTS[NAME].info.install or "")
            raise NotFoundError(f"Claude Code is not installed. Install it with: {install}")
        return found

    def create(self) -> ClaudeDriver:
        """Create a driver for one session."""
        return ClaudeDriver(self)


def _bundled_program() -> str | None:
    # Do not import the SDK just to find a program: that takes more than a second.
    sdk = find_spec("claude_agent_sdk")
    if sdk is None or sdk.origin is None:
        return None
    name = "claude.exe" if os.name == "nt" else "claude"
    path = Path(sdk.origin).parent / "_bundled" / name
    return str(path) if path.is_file() else None


class ClaudeDriver:
    """One running Claude Code."""

    def __init__(self, factory: ClaudeDriverFactory) -> None:
        self.capabilities = factory.capabilities
        self._factory = factory
        self._emit = EventSink()
        self._spec = RunSpec(folder="")
        self._life = Lifecycle()
        self._conversation = ClaudeConversation(self._emit, self._remove_fork_copy)
        self._permissions = ClaudePermissions(self._emit)
        self._process: ClaudeProcess | None = None
        self._client: ClaudeSDKClient | None = None
        self._reader: asyncio.Task[None] | None = None
        self._watcher: asyncio.Task[None] | None = None
        self._fork_copy: Path | None = None
        """The copy that the session is forked from, until the program has read it."""

    # --- starting and stopping ---

    async def start(self, spec: RunSpec, emit: Emit) -> None:
        """Start the program. A new session or a fork gets its id here, before the first turn."""
        self._spec, self._emit.target = spec, emit
        check_spec(spec)
        client_class, options_class = _load_sdk()
        conversation = self._conversation
        conversation.session = str(uuid.uuid4()) if spec.fork or not spec.session else spec.session
        conversation.settings.mode = spec.mode or "default"
        conversation.requested_model = spec.model
        self._permissions.folder = spec.folder
        self._fork_copy = await asyncio.to_thread(copy_for_fork, spec)
        command = build_command(self._factory.find_program(), spec, conversation.session, self._fork_copy)
        self._process = ClaudeProcess(
            sandboxed(command, spec), spec.folder, build_environment(spec, os.environ), spec.mark
        )
        options = options_class(
            can_use_tool=self._permissions.decide, include_partial_messages=True, forward_subagent_text=True
        )
        self._client = client_class(options, transport=cast("Transport", self._process))
        try:
            await self._process.run_while_alive(self._client.connect(), START_SECONDS)
            info = await self._client.get_server_info() or {}
        except BaseException as error:
            self._life.is_stopping = True
            await self._clean_up()
            if isinstance(error, Exception):
                raise UnspoolError(self._describe_start_failure(error)) from error
            raise
        await self._check_model(info)
        conversation.pid = self._process.pid
        conversation.version = text_or_none(info.get("claude_code_version"))
        conversation.settings.mode = text_or_none(info.get("current_permission_mode")) or conversation.settings.mode
        self._reader = asyncio.create_task(self._read_messages())
        self._watcher = asyncio.create_task(self._watch())
        self._life.has_started = True
        conversation.report_started()
        self._emit(CommandsOffered(offered_commands(info.get("commands"))))

    async def _check_model(self, info: dict[str, Any]) -> None:
        """Remember the models that the program offers, and stop it if it does not know the chosen one."""
        offered = [model for model in info.get("models") or [] if isinstance(model, dict)]
        names = dict.fromkeys(name for key in _MODEL_NAMES for model in offered if (name := model.get(key)))
        self.capabilities = msgspec.structs.replace(self.capabilities, model_names=tuple(map(str, names)))
        try:
            check_model("Claude Code", self._spec.model, self.capabilities.model_names)
        except UsageError:
            self._life.is_stopping = True
            await self._clean_up()
            raise

    async def stop(self) -> None:
        """Interrupt the current turn, so that it is logged; then close the input and make the program exit."""
        self._life.is_stopping = True
        if self._process is not None:
            await self._process.stop(self._prepare_stop)
        if self._watcher is not None:
            await asyncio.shield(self._watcher)
        else:
            await self._clean_up()
        self._report_exit()

    async def _prepare_stop(self) -> None:
        if self._conversation.turn.is_idle or not self._life.has_started:
            return
        with contextlib.suppress(Exception):
            await self._withdraw_messages()
            await self.interrupt()
            await _wait_until(lambda: self._conversation.turn.is_idle, IDLE_SECONDS)

    async def _withdraw_messages(self) -> None:
        """Withdraw the waiting messages, which the program would otherwise read once it is interrupted."""
        assert self._process is not None
        for own_id in self._conversation.messages.take_all():
            request = {"subtype": "cancel_async_message", "message_uuid": own_id}
            message = {"type": "control_request", "request_id": f"take-back-{own_id}", "request": request}
            await self._process.write(msgspec.json.encode(message).decode() + "\n")

    async def _watch(self) -> None:
        """Wait until the program exits, for whatever reason, and clean up."""
        assert self._process is not None
        await self._process.wait()
        await self._process.wait_for_output()
        await self._clean_up()
        self._report_exit()

    def _remove_fork_copy(self) -> None:
        if self._fork_copy is not None:
            self._fork_copy.unlink(missing_ok=True)
            self._fork_copy = None

    async def _clean_up(self) -> None:
        self._remove_fork_copy()
        if self._process is not None:
            await self._process.stop()
        if self._reader is not None:
            await asyncio.wait({self._reader}, timeout=DRAIN_SECONDS)
            self._reader.cancel()
        if self._client is not None:
            with contextlib.suppress(Exception):
                await self._client.disconnect()
        # Let the cancelled tasks that were waiting for answers report their cancellation.
        await asyncio.sleep(0)

    def _report_exit(self) -> None:
        if not self._life.exit():
            return
        self._conversation.turn.apply("exited")
        process = self._process
        code = process.code if process is not None else None
        error = None
        if not self._life.is_stopping and process is not None:
            error = process.error_tail or f"Claude Code exited with code {code}"
        self._emit(AgentExited(code=code, error=error))

    def _describe_start_failure(self, error: Exception) -> str:
        output = self._process.error_tail if self._process is not None else ""
        if isinstance(error, TimeoutError):
            return f"Claude Code was not ready within {START_SECONDS:.0f} seconds. {output}".strip()
        return f"Could not start Claude Code: {output or error}"

    # --- actions of people ---

    async def send(self, id: str, text: str, images: Sequence[ImageInput] = ()) -> None:
        """Send a message. During a turn, the program queues it for the next one."""
        client, conversation, process = self._running_client(), self._conversation, self._process
        assert process is not None
        own_id = conversation.messages.add(id)
        conversation.turn.apply("sent")

        async def message() -> AsyncIterator[dict[str, Any]]:
            content = {"role": "user", "content": _content(text, images) if images else text}
            yield {"type": "user", "message": content, "parent_tool_use_id": None, "uuid": own_id}

        try:
            await process.run_while_alive(client.query(message()), CONTROL_SECONDS)
        except (TimeoutError, OSError) as error:
            conversation.messages.remove(own_id)
            if not conversation.messages:
                conversation.turn.apply("send_failed")
            raise UnspoolError("Claude Code did not accept the message") from error

    async def interrupt(self) -> None:
        """Stop the turn that is running or about to start, and cancel its requests."""
        turn = self._conversation.turn
        if turn.is_idle or self._life.has_exited:
            return
        ended = turn.ended
        # The program ignores an interrupt between a message and the start of its turn.
        await _wait_until(lambda: turn.phase != "starting", TURN_START_SECONDS)
        for _ in range(INTERRUPT_ATTEMPTS):
            if TurnAction.INTERRUPT not in turn.apply("interrupt"):
                return
            await self._control(self._running_client().interrupt(), "interrupt Claude Code")
            if await _wait_until(lambda: turn.ended > ended or self._life.has_exited, INTERRUPT_SECONDS):
                return

    async def answer(self, request: PermissionRequest, answer: Answer) -> None:
        """Answer a request."""
        self._permissions.answer(request.id, answer)

    async def set_mode(self, mode: str) -> None:
        """Switch to a mode that is always available, or to the one the agent was started with."""
        if mode not in MODES and mode != self._spec.mode:
            raise UsageError(f"Mode {mode!r} can only be set at start")
        await self._control(
            self._running_client().set_permission_mode(cast("Any", mode)), f"set the mode of Claude Code to {mode!r}"
        )
        self._conversation.settings.update(mode=mode)

    async def set_model(self, model: str) -> None:
        """Change the model, from the next request on."""
        check_model("Claude Code", model, self.capabilities.model_names)
        await self._control(self._running_client().set_model(model), f"set the model of Claude Code to {model!r}")
        self._conversation.settings.update(model=model)

    async def _control(self, work: Awaitable[None], what: str) -> None:
        assert self._process is not None
        try:
            await self._process.run_while_alive(work, CONTROL_SECONDS)
        except TimeoutError as error:
            raise UnspoolError(f"Could not {what}: no response") from error
        except Exception as error:
            raise UnspoolError(f"Could not {what}: {error}") from error

    def _running_client(self) -> ClaudeSDKClient:
        if self._client is None or self._life.has_exited or not self._life.has_started:
            raise UnspoolError("Claude Code is not running")
        return self._client

    # --- messages of the program ---

    async def _read_messages(self) -> None:
        from claude_agent_sdk import ClaudeSDKError

        assert self._client is not None
        while True:
            try:
                async for message in self._client.receive_messages():
                    self._conversation.handle(message)
                return
            except ClaudeSDKError as error:
                # A message that the SDK cannot parse must not end the reading of the others.
                logger.warning("cannot parse a message of Claude Code: %s", error)
            except Exception:
                if self._process is None or not self._process.is_ready():
                    return
                logger.exception("cannot handle a message of Claude Code")


async def _wait_until(condition: Callable[[], bool], seconds: float) -> bool:
    """Wait until a condition is true; return False if that does not happen in time."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    while not condition():
        if loop.time() >= deadline:
            return False
        await asyncio.sleep(_POLL_SECONDS)
    return True


def _load_sdk() -> tuple[type[ClaudeSDKClient], Any]:
    try:
        from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKClient
    except ImportError as error:
        raise MissingExtraError(
            f"Running Claude Code needs the Claude Agent SDK; install it with: {install_command('claude')}"
        ) from error
    # The driver reports the SDK's errors; without a handler, they would also be printed to the terminal.
    logging.getLogger("claude_agent_sdk").addHandler(logging.NullHandler())
    return ClaudeSDKClient, ClaudeAgentOptions


def _content(text: str, images: Sequence[ImageInput]) -> list[dict[str, Any]]:
    """Return the content blocks of a message with images."""
    sources = ({"type": "base64", "media_type": image.media_type, "data": image.base64} for image in images)
    return [*({"type": "image", "source": source} for source in sources), {"type": "text", "text": text}]
