"""A context as lists: the calls, results, prompts, answers and summaries the model had before it."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from . import model as m
from .session import Context, Session


class ContextLists(msgspec.Struct):
    """What was in a context, by kind, each in the order in which the model saw it."""

    calls: list[str]
    results: list[str]
    prompts: list[str]
    answers: list[str]
    summaries: list[str]


class ReplyLists(msgspec.Struct):
    """What the model answered."""

    calls: list[str]
    texts: list[str]


class ReplyContext(msgspec.Struct, kw_only=True):
    """One reply of the model with what it had before it."""

    session: str
    message_index: int
    reply: ReplyLists
    context: ContextLists
    recorded: bool


def each_reply(session: Session) -> Iterator[ReplyContext]:
    """All replies of a session, also on abandoned branches. Inherited replies belong to their own session."""
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
    """Sort the messages of a context by what they are."""
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
