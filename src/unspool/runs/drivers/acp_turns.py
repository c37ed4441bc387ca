"""The turns of an agent that uses the Agent Client Protocol, and the messages that wait for the next turn.

A turn is one call, which returns when the turn is over. No message can be sent during a turn, so messages wait here.
"""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

from ...core.errors import UnspoolError
from ..attachments import ImageInput
from ..protocol import Emit, MessageAccepted, Notice, TurnEnded, TurnStarted
from .acp_connection import CALL_SECONDS, AcpConnection, AgentGoneError, Params, text_or_none
from .acp_requests import AcpPermissions
from .turn_state import Lifecycle, TurnAction, TurnState

REACTION_SECONDS = 10.0
"""If a turn is still running this long after it was interrupted, a notice is shown."""
_FAILURES = {
    "max_tokens": "The response was cut off: the conversation is too long for the model.",
    "max_turn_requests": "The agent stopped: the model made too many requests in one turn.",
    "refusal": "The model refused to answer.",
}

_NOT_LOGGED_IN = re.compile(r"authentication required|unauthenticated|api key not valid", re.IGNORECASE)


class QueuedMessage(NamedTuple):
    """The input of one turn."""

    id: str | None
    """None if it was not sent as a message, such as the reason of a denial."""
    texts: list[str]
    images: Sequence[ImageInput] = ()


class MessageQueue:
    """Messages that wait for their turn."""

    def __init__(self) -> None:
        self._messages: deque[tuple[str | None, str, Sequence[ImageInput]]] = deque()
        self._held: list[str] = []

    def __bool__(self) -> bool:
        return bool(self._messages)

    def push(self, id: str, text: str, images: Sequence[ImageInput] = ()) -> None:
        """Add a message at the end."""
        self._messages.append((id, text, images))

    def push_first(self, text: str) -> None:
        """Add a text before all messages, as a separate turn."""
        self._messages.appendleft((None, text, ()))

    def hold(self, text: str) -> None:
        """Hold a text, which is sent to the model together with the next message and does not start a turn."""
        self._held.append(text)

    def pop(self) -> QueuedMessage:
        """Remove and return the next message, with the texts that were held."""
        id, text, images = self._messages.popleft()
        texts = [*self._held, text]
        self._held.clear()
        return QueuedMessage(id, texts, images)

    def clear(self) -> None:
        """Drop all messages."""
        self._messages.clear()


class AcpTurns:
    """Runs the turns of one agent, one at a time."""

    def __init__(
        self, emit: Emit, life: Lifecycle, permissions: AcpPermissions, is_running: Callable[[], bool]
    ) -> None:
        self.state = TurnState()
        self.queue = MessageQueue()
        self._emit = emit
        self._life = life
        self._permissions = permissions
        self._is_running = is_running
        self._task: asyncio.Task[None] | None = None
        self._connection: AcpConnection | None = None
        self._session: str | None = None

    def attach(self, connection: AcpConnection, session: str | None) -> None:
        """Set the connection and the session that messages are sent to."""
        self._connection, self._session = connection, session

    def send(self, id: str, text: str, images: Sequence[ImageInput] = ()) -> None:
        """Queue a message, and start its turn if none is running."""
        self.queue.push(id, text, images)
        self.state.apply("sent")
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run())

    async def interrupt(self) -> None:
        """Stop the turn that is running or about to start."""
        if self.state.phase == "starting":
            await asyncio.sleep(0)  # Lets the task of the turn start.
        if not self.state.is_active or self._life.has_exited:
            return
        actions = self.state.apply("interrupt")
        if TurnAction.EXPECT_END in actions:
            asyncio.get_running_loop().call_later(REACTION_SECONDS, self._warn_if_running, self.state.ended)
        if TurnAction.INTERRUPT in actions:
            self.cancel()

    def cancel(self) -> None:
        """Tell the agent to stop its turn, and cancel the requests it made."""
        assert self._connection is not None
        self._connection.notify("session/cancel", {"sessionId": self._session})
        self._permissions.cancel_all()

    async def finish(self) -> None:
        """Wait for the current turn after the connection was closed."""
        if self._task is not None:
            await asyncio.wait([self._task], timeout=CALL_SECONDS)

    async def _run(self) -> None:
        while self.queue and self._is_running():
            message = self.queue.pop()
            self.state.apply("started")
            self._emit(TurnStarted())
            if message.id is not None:
                self._emit(MessageAccepted(message.id))
            ended = await self._prompt(message)
            self._permissions.cancel_all()
            if ended is None:
                self.state.apply("exited")
                return
            self.state.apply("ended_with_more" if self.queue else "ended")
            self._report_skipped_lines()
            self._emit(ended)

    async def _prompt(self, message: QueuedMessage) -> TurnEnded | None:
        """Send a message and wait for the end of its turn. Return None if the agent exits, which the driver reports."""
        assert self._connection is not None
        prompt: list[Params] = [{"type": "text", "text": text} for text in message.texts]
        prompt += [{"type": "image", "mimeType": image.media_type, "data": image.base64} for image in message.images]
        try:
            result = await self._connection.call(
                "session/prompt", {"sessionId": self._session, "prompt": prompt}, seconds=None
            )
        except UnspoolError as error:
            if self.state.is_interrupting or self._life.is_stopping:
                return TurnEnded(outcome="interrupted")
            if isinstance(error, AgentGoneError):
                return None
            needs_login = _NOT_LOGGED_IN.search(str(error)) is not None
            return TurnEnded(outcome="failed", error=str(error), needs_login=needs_login)
        reason = text_or_none(result.get("stopReason"))
        if reason == "cancelled":
            return TurnEnded(outcome="interrupted")
        if reason in _FAILURES:
            return TurnEnded(outcome="failed", error=_FAILURES[reason])
        return TurnEnded(outcome="completed")

    def _report_skipped_lines(self) -> None:
        assert self._connection is not None
        if count := self._connection.process.take_skipped_lines():
            self._emit(Notice(f"{self._connection.title} sent {count} messages that were too long and were skipped."))

    def _warn_if_running(self, ended: int) -> None:
        if self.state.is_interrupting and self.state.ended == ended and not self._life.has_exited:
            assert self._connection is not None
            self._emit(
                Notice(f"{self._connection.title} does not respond to the interrupt. Stop the agent to end the turn.")
            )
