"""Damage in a store: the parts that cannot be read, and placeholders for damaged messages.

Reading continues after a damaged block. Callers that show the result also show what is missing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import msgspec

from ..core import model as m

ATTACHMENT = "damaged-in-store"
"""The kind of the attachment in a placeholder for a damaged message."""
REASON = "damaged-in-store"
"""The reason of problems about damage."""
ADVICE = "`unspool verify --repair` restores what it can"
DamagedPart = Literal["messages", "corrections", "summary"]
_NO_SOURCE = m.Source(0, 0, 0, 0)


class SessionDamage(msgspec.Struct, frozen=True):
    """A part of a stored session that cannot be read."""

    session: int
    part: DamagedPart = "messages"
    first: int = 0
    """The first of the damaged messages."""
    count: int = 0

    @property
    def text(self) -> str:
        """A sentence that says what is damaged."""
        last = self.first + self.count - 1
        if self.part == "summary":
            what = "its summary is"
        elif self.part == "corrections":
            what = "corrections to its messages are"
        else:
            what = f"message {last} is" if self.count == 1 else f"messages {self.first} to {last} are"
        return f"{what} damaged in the store; {ADVICE}"

    def problem(self) -> m.Problem:
        """The damage as a problem of the record."""
        return m.Problem(reason=REASON, detail=self.text, message_index=self.first)

    def placeholders(self) -> Iterator[m.Message]:
        """Messages that say what is missing. The parent of each is assumed to be the message before it."""
        for index in range(self.first, self.first + self.count):
            text = f"Message {index} is damaged in the store"
            yield m.Message(
                index,
                "system",
                "harness",
                [m.Attachment(ATTACHMENT, text)],
                _NO_SOURCE,
                parent_index=index - 1 if index else None,
                link="stitched",
            )


def is_placeholder(message: m.Message) -> bool:
    """Whether a message is a placeholder for a damaged one."""
    return any(isinstance(block, m.Attachment) and block.kind == ATTACHMENT for block in message.blocks)
