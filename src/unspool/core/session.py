"""The record of a session, and methods that answer questions about it."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING

import msgspec

from . import model as m
from .context import ContextMap
from .events import event_fields
from .tree import CONTINUED, MODEL, NONE, PROMPT, QUEUED, STITCHED, UNANSWERED, Tree


class Context(msgspec.Struct, omit_defaults=True, kw_only=True):
    """The context of the model at one point."""

    message_indices: list[int]
    """Messages in context, in the order the model saw them."""
    omitted_calls: list[str] = []
    """Tool calls in those messages that the agent left out because they had no result."""
    made_up_results: list[str] = []
    """Tool calls without a result for which the agent made one up."""
    recorded: bool = True
    """False: the agent replaced the context with something that is not in the log."""


class Reply(msgspec.Struct, kw_only=True):
    """One response of the model, which may be written as several messages."""

    message_indices: list[int]
    texts: list[str]
    calls: list[str]


class _Conversation(msgspec.Struct, kw_only=True, rename={"info": "session"}):
    """The fields of a record before its events."""

    schema: str = m.SCHEMA
    info: m.SessionInfo
    messages: list[m.Message]


if TYPE_CHECKING:
    _Record = _Conversation
else:
    _Record = msgspec.defstruct("_Record", event_fields(), bases=(_Conversation,), kw_only=True)


class Session(_Record, kw_only=True, tag="session", dict=True):
    """One session: who, when and where, all that was said, and everything that happened to it."""

    if TYPE_CHECKING:
        # These fields come from the table of event kinds.
        compaction: m.Compaction
        context_clears: list[m.ContextClear]
        interruptions: list[m.Interruption]
        rejections: list[m.Rejection]
        rollbacks: list[m.Rollback]
        errors: list[m.Failure]
        orphans: list[m.Orphan]
        subagents: list[m.Subagent]
        resumes: list[m.Resume]
        branches: list[m.Branch]
        problems: list[m.Problem]

    @property
    def id(self) -> str:
        """The session's id."""
        return self.info.id

    @property
    def agent(self) -> str:
        """The agent's short name."""
        return self.info.agent

    @property
    def title(self) -> str | None:
        """Its title, as the agent or the person gave it, or the first prompt."""
        return self.info.title

    def active_path(self) -> list[m.Message]:
        """The current conversation: the messages up to the tip, without other branches."""
        return [message for message in self.messages if message.branch == 0]

    def branch(self, id: int) -> list[m.Message]:
        """The messages of one branch; 0 is the active path."""
        return [message for message in self.messages if message.branch == id]

    def context_at(self, index: int) -> Context:
        """The context of the model when the message at `index` was written.

        For a prompt, that is the context before the prompt.
        """
        message = self.messages[index]
        first = message.reply if message.reply is not None else index
        span = self._contexts.before(first)
        unanswered = self._unanswered(span.indices)
        fate = self.info.unanswered
        return Context(
            message_indices=span.indices,
            omitted_calls=unanswered if fate == "omitted" else [],
            made_up_results=unanswered if fate == "made_up" else [],
            recorded=span.recorded,
        )

    def replies(self) -> Iterator[Reply]:
        """Every response of the model, on all branches, in the order of the log."""
        groups: dict[int, list[m.Message]] = {}
        for message in self.messages:
            if message.reply is not None:
                groups.setdefault(message.reply, []).append(message)
        for group in groups.values():
            blocks = [block for message in group for block in message.blocks]
            yield Reply(
                message_indices=[message.index for message in group],
                texts=[block.text for block in blocks if isinstance(block, m.Text)],
                calls=[block.id for block in blocks if isinstance(block, m.ToolCall)],
            )

    @cached_property
    def _contexts(self) -> ContextMap:
        boundaries = [*self.compaction.inherited, *self.compaction.boundaries]
        return ContextMap(self._tree, boundaries, self.context_clears, self.resumes)

    @cached_property
    def _tree(self) -> Tree:
        parents = array("i", [NONE if x.parent_index is None else x.parent_index for x in self.messages])
        flags = array("H", [self._flag(message) for message in self.messages])
        return Tree(parents, flags, NONE if self.info.tip is None else self.info.tip)

    def _flag(self, message: m.Message) -> int:
        flag = STITCHED if message.link == "stitched" else 0
        if message.author == "human" and message.role == "user":
            flag |= PROMPT | QUEUED if message.queued else PROMPT
        elif message.reply is not None:
            flag |= MODEL if message.reply == message.index else MODEL | CONTINUED
            if message.index in self._with_orphans:
                flag |= UNANSWERED
        return flag

    @cached_property
    def _with_orphans(self) -> frozenset[int]:
        return frozenset(orphan.message_index for orphan in self.orphans)

    def _unanswered(self, indices: list[int]) -> list[str]:
        """Calls in these messages without a result in them."""
        blocks = [block for index in indices for block in self.messages[index].blocks]
        answered = {block.call_id for block in blocks if isinstance(block, m.ToolResult)}
        return [block.id for block in blocks if isinstance(block, m.ToolCall) and block.id not in answered]
