"""`context_at`: what was in the context when the model wrote a message, and what was no longer in it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

import msgspec

from ...core import model as m
from ...core.errors import UsageError
from ...core.plural import counted
from ...core.session import Context, Session
from ...store.rows import SessionRow
from ..message_text import blocks_of, heading
from ..request import BudgetParams, ToolRequest, offset_of
from ..response import Part, Quoted, ToolResponse, quoted

_AT_ONCE = 40
_EXCERPT = 40
"""Maximum number of tokens of each block."""
_SUMMARY = 400
_MOST_RANGES = 12


class ContextParams(BudgetParams, kw_only=True):
    """The session, and the message in it."""

    session: Annotated[str, msgspec.Meta(description="id, start of one, or latest", max_length=300)]
    message: Annotated[int, msgspec.Meta(description="number of the message; -1 is the next one")] = -1


def context_at(request: ToolRequest, params: ContextParams) -> str:
    """List the messages that were in context, the newest first."""
    row = request.find(params.session)
    session = _outline(request, row)
    index = len(session) if params.message == -1 else params.message
    if not 0 <= index <= len(session):
        raise UsageError(f"the session has messages 0 to {len(session) - 1}; message is {params.message}")
    context = session.context_at(index)
    offset = offset_of(params.cursor)
    where = f"before message {index}" if index < len(session) else "for the next message"
    response = request.start_response(params.budget, f"{request.describe(row)}; context {where}, the newest first")
    if not params.cursor:
        _summarize(response, session, context, index)
    newest = context.message_indices[::-1]
    while chosen := newest[offset : offset + _AT_ONCE]:
        found = request.each(row, chosen)
        for message_index in chosen:
            if message_index in found and not response.add(_item(found[message_index], row.agent)):
                return response.text("context_at", str(offset))
            offset += 1
    return response.text("context_at", note="" if newest else "Nothing was in the context.")


def _outline(request: ToolRequest, row: SessionRow) -> Session:
    """Return the record with messages without text: enough to compute the context, even of a very long session."""
    messages = request.store.messages
    return msgspec.structs.replace(request.head(row), messages=messages.outlines(row.id, messages.patches(row.id)))


def _summarize(response: ToolResponse, session: Session, context: Context, index: int) -> None:
    inside = set(context.message_indices)
    response.line(f"in context: {counted(len(inside), 'message')} ({_ranges(context.message_indices)})")
    gone = [earlier for earlier in range(min(index, len(session))) if earlier not in inside]
    if gone:
        response.line(f"not in context: {counted(len(gone), 'earlier message')} ({_ranges(gone)})")
    if not context.recorded:
        response.line("The agent had replaced its context with something that is not in the log.")
    if context.omitted_calls:
        response.line(f"not sent to the model: {counted(len(context.omitted_calls), 'call')} without a result")
    for boundary in (*session.compaction.inherited, *session.compaction.boundaries):
        if boundary.message_index in inside and boundary.summary:
            response.add([f"summary at message {boundary.message_index}:", quoted(boundary.summary, _SUMMARY)])


def _ranges(indices: Iterable[int]) -> str:
    """Format indices as sorted ranges, such as `0-3, 7`."""
    found: list[list[int]] = []
    for index in sorted(indices):
        if found and found[-1][1] == index - 1:
            found[-1][1] = index
        else:
            found.append([index, index])
    texts = [str(first) if first == last else f"{first}-{last}" for first, last in found]
    return ", ".join(texts[:_MOST_RANGES]) + (", …" if len(texts) > _MOST_RANGES else "")


def _item(message: m.Message, agent: str) -> list[Part]:
    parts: list[Part] = []
    for number, block in enumerate(blocks_of(message, agent)):
        label = ", ".join(part for part in (heading(message) if not number else "", block.label) if part)
        if label:
            parts.append(f"{label}:" if block.text else label)
        if block.text:
            parts.append(Quoted(block.text, _EXCERPT))
    return parts or [heading(message)]
