"""`read_session`: a range of messages of a session, as far as the budget allows."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, NamedTuple

import msgspec

from ...core import model as m
from ...core.errors import NotFoundError, UsageError
from ...core.plural import counted
from ...store.rows import SessionRow
from ..message_text import MessageBlock, blocks_of, heading
from ..request import BudgetParams, ToolRequest, bad_cursor
from ..response import ToolResponse

_AT_ONCE = 40
_CURSOR = re.compile(r"(\d{1,9})\.(\d{1,6})\.(\d{1,10})")


class ReadSessionParams(BudgetParams, kw_only=True):
    """The session, and the range of messages."""

    session: Annotated[str, msgspec.Meta(description="id, start of one, or latest", max_length=300)]
    first: Annotated[int, msgspec.Meta(description="first message; -10 is the tenth from the end")] = 0
    last: Annotated[int | None, msgspec.Meta(description="last message; equal to first shows one in full")] = None
    branch: Annotated[int, msgspec.Meta(description="another branch than the active one")] = 0


class _Position(NamedTuple):
    """The position where a response ends and the next one continues."""

    message: int
    block: int = 0
    character: int = 0

    def __str__(self) -> str:
        return f"{self.message}.{self.block}.{self.character}"


def read_session(request: ToolRequest, params: ReadSessionParams) -> str:
    """Show the messages of a session."""
    row = request.find(params.session)
    first, last = _window(row, params)
    start = _start(params.cursor, first, last)
    response = request.start_response(
        params.budget, f"{request.describe(row)}; {counted(row.messages, 'message')}, {row.status}"
    )
    _check_branch(request, row, params.branch)
    is_whole = first == last
    for message in _messages(request, row, start.message, last):
        if message.branch != params.branch:
            continue
        begin = start if message.index == start.message else _Position(message.index)
        stop = _show(response, message, row.agent, begin, is_whole)
        if stop is not None:
            return response.text("read_session", str(stop))
    note = "" if response.items else "No messages of this branch are in this range."
    return response.text("read_session", note=note)


def _window(row: SessionRow, params: ReadSessionParams) -> tuple[int, int]:
    end = row.messages - 1
    first = params.first if params.first >= 0 else max(0, row.messages + params.first)
    last = end if params.last is None else params.last if params.last >= 0 else row.messages + params.last
    if first > end:
        raise UsageError(f"the session has messages 0 to {end}; first is {params.first}")
    if last < first:
        raise UsageError(f"last is {params.last}, which is before first")
    return first, min(last, end)


def _start(cursor: str, first: int, last: int) -> _Position:
    if not cursor:
        return _Position(first)
    found = _CURSOR.fullmatch(cursor)
    if found is None or not first <= int(found[1]) <= last:
        raise bad_cursor()
    return _Position(*map(int, found.groups()))


def _check_branch(request: ToolRequest, row: SessionRow, branch: int) -> None:
    branches = request.store.messages.load_head(row.id).branches if branch else []
    if branch and all(each.id != branch for each in branches):
        known = ", ".join(str(each.id) for each in branches[:20]) or "none"
        raise NotFoundError(f"the session has no branch {branch}; other branches: {known}")


def _messages(request: ToolRequest, row: SessionRow, first: int, last: int) -> Iterator[m.Message]:
    for start in range(first, last + 1, _AT_ONCE):
        yield from request.messages(row, start, min(start + _AT_ONCE, last + 1))


def _show(response: ToolResponse, message: m.Message, agent: str, begin: _Position, is_whole: bool) -> _Position | None:
    """Add a message, starting at a position. Return where to continue if there was not enough room."""
    for number, block in enumerate(blocks_of(message, agent)):
        if number < begin.block:
            continue
        at = _Position(message.index, number, begin.character if number == begin.block else 0)
        label = heading(message) if number == begin.block else ""
        end = _show_block(response, block, label, at, is_whole)
        if end is not None:
            return end
    return None


def _show_block(
    response: ToolResponse, block: MessageBlock, label: str, at: _Position, is_whole: bool
) -> _Position | None:
    """Add a block, starting at a position. Return where to continue if there was not enough room."""
    start = at.character
    words = ", ".join(part for part in (label, block.label, f"from character {start}" if start else "") if part)
    text = block.text[start:]
    if not response.has_room(words, text):
        return at
    response.items += 1
    if words:
        response.line(f"{words}:" if text else words)
    if not text:
        return None
    is_short_of_room = is_whole or response.quote_room < block.max_tokens
    shown = response.quote(text, None if is_whole else block.max_tokens)
    if shown == len(text):
        return None
    if is_short_of_room:
        return at._replace(character=start + shown)
    response.line(f"({len(text) - shown:,} more characters; for all of it: first={at.message}, last={at.message})")
    return None
