"""Exports a context as lists: ids of calls and results, and texts of prompts, answers and summaries."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from . import model as m
from .session import Context, Session


class ContextLists(msgspec.Struct):
    """The contents of a context by kind, each in the order in which the model saw it."""

    calls: list[str]
    results: list[str]
    prompts: list[str]
    answers: list[str]
    summaries: list[str]


class ReplyLists(msgspec.Struct):
    """The calls and texts of a reply."""

    calls: list[str]
    texts: list[str]


class ReplyContext(msgspec.Struct, kw_only=True):
    """One reply of the model with its context."""

    session: str
    message_index: int
    reply: ReplyLists
    context: ContextLists
    recorded: bool


def each_reply(session: Session) -> Iterator[ReplyContext]:
    """Yield all replies of a session with their contexts, including inherited ones and those on abandoned branches."""
    for reply in session.replies():
        index = reply.message_indices[0]
        context = session.context_at(index)
        yield ReplyContext(
            session=session.id,
            message_index=index,
            reply=ReplyLists(reply.calls, reply.texts),
            context=list_context(session, context),
            recorded=context.recorded,
        )


def list_context(session: Session, context: Context) -> ContextLists:
    """Group the contents of a context by kind."""
    lists = ContextLists([], [], [], [], [])
    omitted = set(context.omitted_calls)
    for index in context.message_indices:
        message = session.messages[index]
        for block in message.blocks:
            if isinstance(block, m.ToolCall):
                if block.id not in omitted:
                    lists.calls.append(block.id)
            elif isinstance(block, m.ToolResult):
                if block.sent:
                    lists.results.append(block.call_id)
            elif isinstance(block, m.CompactionMark):
                if block.summary is not None:
                    lists.summaries.append(block.summary)
            elif isinstance(block, m.Text):
                if message.author == "human" and message.role == "user":
                    lists.prompts.append(block.text)
                elif message.author == "model" and message.role == "assistant":
                    lists.answers.append(block.text)
    lists.results += context.made_up_results
    return lists
