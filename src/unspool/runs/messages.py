"""The messages that people have sent to one run, in one order for everyone."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Literal

import msgspec

from ..core.errors import UsageError
from .attachments import AttachedImage
from .errors import ConflictError

MAX_WAITING_MESSAGES = 50
MAX_MESSAGE_LENGTH = 1_000_000


MessageState = Literal["queued", "sent", "taken_up", "removed"]
"""`queued` until it is sent to the agent, `taken_up` once the agent has accepted it, `removed` if it was never sent."""


class RunMessage(msgspec.Struct, kw_only=True):
    """A message that a person sent to the agent."""

    id: str
    text: str
    who: str
    at: datetime
    state: MessageState = "sent"
    images: tuple[AttachedImage, ...] = ()
    """The attached images; text files are part of the text."""


def check_text(text: str) -> None:
    """Raise UsageError if a message is empty or too long."""
    if not text.strip() or len(text) > MAX_MESSAGE_LENGTH:
        raise UsageError(f"A message must have between 1 and {MAX_MESSAGE_LENGTH:,} characters")


class RunMessages:
    """All messages of one run."""

    def __init__(self) -> None:
        self._messages: list[RunMessage] = []

    def find(self, id: str) -> RunMessage | None:
        """Return a message by the id that its sender chose."""
        return next((message for message in self._messages if message.id == id), None)

    def queued(self) -> list[RunMessage]:
        """Return the messages that have not been sent yet, in the order in which they will be sent."""
        return [message for message in self._messages if message.state == "queued"]

    def find_queued(self, id: str) -> RunMessage:
        """Return a message that has not been sent yet. Raises ConflictError if there is no such message."""
        message = self.find(id)
        if message is None or message.state != "queued":
            raise ConflictError("This message is no longer queued")
        return message

    def move(self, id: str, position: int) -> None:
        """Move a message to another position among those that have not been sent yet."""
        moved = self.find_queued(id)
        others = [message for message in self.queued() if message is not moved]
        index = max(0, min(position, len(others)))
        order = iter([*others[:index], moved, *others[index:]])
        self._messages = [next(order) if message.state == "queued" else message for message in self._messages]

    def add(self, id: str, text: str, who: str, state: MessageState = "sent") -> RunMessage:
        """Add a message. Raises ConflictError if too many are waiting."""
        if sum(message.state in ("queued", "sent") for message in self._messages) >= MAX_WAITING_MESSAGES:
            raise ConflictError(f"{MAX_WAITING_MESSAGES} messages are already waiting; wait until the agent reads some")
        message = RunMessage(id=id, text=text, who=who, at=datetime.now(UTC), state=state)
        self._messages.append(message)
        return message

    def drop(self, message: RunMessage) -> None:
        """Remove a message that could not be sent."""
        self._messages.remove(message)

    def accept(self, id: str) -> bool:
        """Mark a message as accepted by the agent; return False if it was not waiting."""
        message = self.find(id)
        if message is None or message.state != "sent":
            return False
        message.state = "taken_up"
        return True

    def latest(self) -> list[RunMessage]:
        """Return the last messages."""
        return self._messages[-MAX_WAITING_MESSAGES:]
