"""How messages leave the conversation of a Gemini session: rewinds, erased turns, and reloaded sessions."""

from __future__ import annotations

from ...core import model as m
from ...core.builder import SessionBuilder
from ...core.tree import MODEL
from .conversation import Conversation
from .schema import GeminiMessage
from .tool_calls import GeminiToolCalls
from .turn import GeminiTurn


class Rewinds:
    """Records why branches were abandoned, and adds a rollback once the conversation continues."""

    def __init__(
        self, builder: SessionBuilder, conversation: Conversation, calls: GeminiToolCalls, is_in_terminal: bool
    ) -> None:
        self._builder = builder
        self._conversation = conversation
        self._calls = calls
        self._is_in_terminal = is_in_terminal
        self._first_dropped: int | None = None
        """The first message that the last rewind dropped, until the next prompt."""

    @property
    def is_pending(self) -> bool:
        """Whether a person went back and has not written a prompt since."""
        return self._first_dropped is not None

    def rewind(self, id: str) -> None:
        """Go back to before a message."""
        dropped = self._conversation.truncate(id)
        if dropped:
            self._first_dropped = dropped[0]
            # Every message gets the reason, as the first may return: a result stays with its call.
            self._builder.events.branch_reasons.update(dict.fromkeys(dropped, "rewind"))

    def reset(self, indices: list[int]) -> list[int]:
        """Continue with other messages; returns the dropped ones."""
        dropped = self._conversation.reset(indices)
        if dropped:
            reason = self._reason(dropped)
            for index in dropped:
                self._builder.events.branch_reasons.setdefault(index, reason)
        return dropped

    def _reason(self, dropped: list[int]) -> m.BranchReason:
        """Infer why messages were dropped: the agent drops stopped and rejected turns, only a person drops others."""
        events = self._builder.events
        stopped = {interruption.message_index for interruption in events.interruptions}
        stopped.update(rejection.message_index for rejection in events.rejections)
        if self._calls.interruption is not None or not stopped.isdisjoint(dropped):
            return "interrupted"
        answered = any(self._builder.columns.flags[index] & MODEL for index in dropped)
        return "rewind" if answered and self._is_in_terminal else "interrupted"

    def drop_restored_call(self, turn: GeminiTurn) -> None:
        """Drop a call that /restore ran again: no message has its result, so the model does not know about it."""
        last = self._conversation.last
        if turn.was_restored and last == turn.last_reply and last > turn.last_prompt:
            self._conversation.reset(self._conversation.live[:-1])
            self._builder.events.branch_reasons[last] = "retry"
        turn.was_restored = False

    def prompted(self, message: GeminiMessage, index: int) -> None:
        """Add the rollback, now that the conversation continues."""
        if self._first_dropped is None:
            return
        first, self._first_dropped = self._first_dropped, None
        self._builder.events.rollbacks.append(
            m.Rollback(
                message_index=index,
                dropped_message_indices=self._conversation.dropped_since(first, index),
                timestamp=message.timestamp,
                evidence="$rewindTo",
            )
        )


class Reload:
    """The state after a second header: the session was loaded again, with only the messages that the agent still has.

    The shorter conversation counts only if the session continues from it. Over ACP, a program that starts at the end of
    a minute writes two files: one with the conversation, and one that only adds the calls with their inputs.
    """

    __slots__ = ("after_header", "indices", "only_adds")

    def __init__(self) -> None:
        self.after_header = False
        """Whether the last record was a second header."""
        self.indices: list[int] | None = None
        """The conversation to continue with."""
        self.only_adds = False
        """Whether the rest of the file only adds details to known messages."""

    def decide(self, message: GeminiMessage, last: float) -> list[int]:
        """Read the first message after a reload, and return the shorter conversation.

        No session continues with a message from before the `last` known one.
        """
        indices, self.indices = self.indices or [], None
        self.only_adds = message.timestamp is not None and message.timestamp.timestamp() < last
        return indices

    def end_file(self) -> None:
        """Note the end of a file; the next one may add messages again."""
        self.only_adds = False
