"""Sends messages to Codex. During a turn, a message is steered into that turn; otherwise it starts a turn."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from ...core.errors import UnspoolError
from ..attachments import ImageInput
from ..protocol import Emit, MessageAccepted, MessageReturned, Notice
from .codex_requests import object_at, text_at
from .codex_threads import CodexThreads
from .jsonrpc import CallError, Params, RpcConnection


class CodexMessages:
    """Messages that were sent and have not reached the model yet."""

    def __init__(self) -> None:
        self._expected: set[str] = set()
        self._steered: dict[str, list[Params]] = {}
        self._reasons: dict[str, list[tuple[str, str]]] = {}

    def expect(self, id: str) -> None:
        """Add a message that is about to be sent."""
        self._expected.add(id)

    def drop(self, id: str) -> None:
        """Remove a message that could not be sent."""
        self._expected.discard(id)
        self._steered.pop(id, None)

    def accept(self, id: str | None) -> bool:
        """Remove a message that the model has received; return False if it was not expected."""
        if not id or id not in self._expected:
            return False
        self.drop(id)
        return True

    def start_steering(self, id: str, given: list[Params]) -> None:
        """Remember a message that is steered into the current turn, which may drop it."""
        self._steered[id] = given

    def stop_steering(self, id: str) -> None:
        """Forget a message that could not be steered."""
        self._steered.pop(id, None)

    def has_dropped(self) -> bool:
        """Return whether there are messages that the turn has not read."""
        return bool(self._steered)

    def take_dropped(self) -> dict[str, list[Params]]:
        """Remove and return the messages that a turn did not read before it ended."""
        dropped, self._steered = self._steered, {}
        return dropped

    def keep_reason(self, thread: str, id: str, reason: str) -> None:
        """Keep the reason of a denial until its turn has ended."""
        self._reasons.setdefault(thread, []).append((id, reason))

    def take_reasons(self, thread: str) -> list[tuple[str, str]]:
        """Remove and return the reasons that were kept for a thread."""
        return self._reasons.pop(thread, [])


class CodexSender:
    """Sends messages to Codex, one at a time."""

    def __init__(
        self,
        connection: RpcConnection,
        threads: CodexThreads,
        messages: CodexMessages,
        emit: Emit,
        on_turn_started: Callable[[str, str], None],
    ) -> None:
        self.lock = asyncio.Lock()
        """Held while a message is being sent, which may be about to start a turn."""
        self._on_turn_started = on_turn_started
        self._connection = connection
        self._threads = threads
        self._messages = messages
        self._emit = emit

    async def send(self, id: str, given: list[Params]) -> None:
        """Send a message to the current turn, or start a turn with it."""
        self._messages.expect(id)
        self._threads.state.apply("sent")
        try:
            async with self.lock:
                await self._deliver(id, given)
        except UnspoolError:
            self._messages.drop(id)
            self._threads.state.apply("send_failed")
            raise

    def return_dropped(self) -> None:
        """Return the messages that an interrupted turn did not read; a person decides whether to send them again."""
        for id in self._messages.take_dropped():
            self._messages.drop(id)
            self._emit(MessageReturned(id))

    async def send_dropped(self) -> None:
        """Resend the messages that a turn did not read before it ended; return those that cannot be sent."""
        async with self.lock:
            for id, given in self._messages.take_dropped().items():
                try:
                    await self._deliver(id, given)
                except CallError as error:
                    self._messages.drop(id)
                    self._emit(MessageReturned(id))
                    self._emit(Notice(f"A message could not be sent again: {error.message}."))

    async def _deliver(self, id: str, given: list[Params]) -> None:
        main = self._threads.main
        message = {"threadId": main, "input": given, "clientUserMessageId": id}
        if (turn := self._threads.running().get(main)) is not None:
            self._messages.start_steering(id, given)
            try:
                await self._connection.call("turn/steer", {**message, "expectedTurnId": turn})
            except CallError:
                self._messages.stop_steering(id)
                if self._threads.running().get(main) == turn:
                    raise
            else:
                return
        # If the turn has just ended, the message starts the next one.
        result = await self._connection.call("turn/start", message)
        if started := text_at(object_at(result, "turn"), "id"):
            self._on_turn_started(main, started)

    async def steer_reason(self, thread: str, turn: str | None, id: str, reason: str) -> None:
        """Send the reason of a denial to the turn that asked."""
        self._messages.expect(id)
        message = {"threadId": thread, "input": text_input(reason), "clientUserMessageId": id}
        try:
            await self._connection.call("turn/steer", {**message, "expectedTurnId": turn})
        except CallError:
            # The turn has ended; add the reason to what the model reads next.
            self._messages.drop(id)
            await self.add_reasons(thread, [(id, reason)])

    async def add_reasons(self, thread: str, reasons: list[tuple[str, str]]) -> None:
        """Add the reasons of denials to the conversation without starting a turn."""
        for id, reason in reasons:
            item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": reason}]}
            try:
                await self._connection.call("thread/inject_items", {"threadId": thread, "items": [item]})
            except CallError as error:
                self._emit(Notice(f"The reason did not reach the model: {error.message}."))
            else:
                self._emit(MessageAccepted(id))


def text_input(text: str) -> list[Params]:
    """Return a text as the input of a turn."""
    return [{"type": "text", "text": text}]


def image_input(image: ImageInput) -> Params:
    """Return an image as part of the input of a turn."""
    return {"type": "image", "url": image.data_url}
