"""Sends the messages of one run, and queues those that have to wait.

An agent that can be steered gets every message at once. Any other agent gets one message at the end of each turn; until
then a message can be changed, moved and removed. After a turn that did not complete, no queued message is sent until a
person has decided what to do with them.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from ..agents import agent_named
from ..core.errors import UnspoolError
from .attachments import Attachment, ImageInput, prepare_message
from .errors import ConflictError
from .messages import RunMessage, check_text
from .protocol import TurnOutcome
from .state import IN_TURN
from .tasks import BackgroundTasks

if TYPE_CHECKING:
    from .run import Run

QueueAction = Literal["send", "hold", "discard"]
Held = Literal["asking", "holding"]
"""`asking`: a turn was interrupted or failed, and nobody has decided yet. `holding`: a person has decided to wait."""


class Outbox:
    """Delivers messages from people to one agent. It belongs to one event loop."""

    def __init__(self, run: Run) -> None:
        self.held: Held | None = None
        """Why queued messages are not sent."""
        self._run = run
        self._tasks = BackgroundTasks()
        self._images: dict[str, tuple[ImageInput, ...]] = {}
        """The images by message id, until the agent has accepted the message: it may have to be sent again."""

    async def send(self, id: str, text: str, who: str, attachments: Sequence[Attachment] = ()) -> RunMessage:
        """Accept a message from a person; the order in the log is the order for everyone."""
        run = self._run
        if run.machine.has_ended:
            raise ConflictError("This agent has ended; resume the session to continue")
        check_text(text)
        if known := run.messages.find(id):
            return known
        title = agent_named(run.agent).info.title
        prepared = prepare_message(text, attachments, title, takes_images=run.driver.capabilities.images)
        has_to_wait = run.machine.state in IN_TURN and not run.driver.capabilities.steer
        message = run.messages.add(id, prepared.text, who, state="queued" if has_to_wait else "sent")
        message.images = prepared.shown
        self._images[id] = prepared.images
        run.recorder.record("sent", {"message": message})
        if not has_to_wait:
            is_first = run.machine.state not in IN_TURN
            try:
                await self._deliver(message)
            except UnspoolError:
                # The sender gets the error, and may send the message again under the same id.
                run.messages.drop(message)
                self._images.pop(id, None)
                self._fail(is_first)
                raise
        return message

    async def _deliver(self, message: RunMessage) -> None:
        run = self._run
        run.machine.message_sent(time.monotonic())
        run.report_state()
        await run.driver.send(message.id, message.text, self._images.get(message.id, ()))

    def _fail(self, is_first: bool) -> None:
        """Update the state after a message could not be sent; the first message would have started a turn."""
        if is_first:
            self._run.machine.turn_ended(time.monotonic())
        self._run.report_state()

    def accepted(self, id: str) -> bool:
        """Record that the agent has accepted a message; return False if it was not waiting."""
        if not self._run.messages.accept(id):
            return False
        self._images.pop(id, None)
        return True

    def release(self) -> None:
        """Release the images, because the run has ended and sends no more messages."""
        self._images.clear()

    # --- queued messages ---

    def turn_ended(self, outcome: TurnOutcome) -> None:
        """Send the next message, or ask what to do with the queued messages."""
        if not self._run.messages.queued():
            return
        if outcome == "completed":
            self._send_next()
        elif self.held is None:
            self._hold("asking")

    def returned(self, id: str) -> None:
        """Queue a message again that the agent did not read."""
        message = self._run.messages.find(id)
        if message is not None and message.state == "sent":
            message.state = "queued"
            self._hold("asking")

    def edit(self, id: str, text: str) -> None:
        """Change the text of a queued message."""
        check_text(text)
        self._run.messages.find_queued(id).text = text
        self._report()

    def move(self, id: str, position: int) -> None:
        """Move a queued message to another position in the queue."""
        self._run.messages.move(id, position)
        self._report()

    def remove(self, id: str) -> None:
        """Remove a queued message."""
        self._run.messages.find_queued(id).state = "removed"
        self._images.pop(id, None)
        self._report()

    def decide(self, action: QueueAction) -> None:
        """Send, hold or discard the queued messages after an interrupt."""
        if action == "discard":
            for message in self._run.messages.queued():
                message.state = "removed"
                self._images.pop(message.id, None)
        self._hold("holding" if action == "hold" else None)
        if self._run.machine.state not in IN_TURN:
            self._send_next()

    def _hold(self, held: Held | None) -> None:
        self.held = held
        self._report()

    def _report(self) -> None:
        queued = self._run.messages.queued()
        if not queued:
            self.held = None
        self._run.recorder.record("queue", {"messages": queued, "held": self.held})

    def _send_next(self) -> None:
        queued = self._run.messages.queued()
        if queued and self.held is None and not self._run.machine.has_ended:
            # Change the states before the task runs: the agent must not look idle, nor the message editable, meanwhile.
            queued[0].state = "sent"
            self._run.machine.message_sent(time.monotonic())
            self._tasks.run(self._deliver_or_keep(queued[0]))

    async def _deliver_or_keep(self, message: RunMessage) -> None:
        try:
            await self._deliver(message)
        except UnspoolError as error:
            message.state = "queued"
            self._fail(is_first=True)
            self._run.recorder.record("remarked", {"text": f"A message could not be sent: {error}"})
            self._hold("asking")
