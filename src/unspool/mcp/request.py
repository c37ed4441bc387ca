"""The context of a tool call: the store, the sessions that may be used, and access to redacted data."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import cached_property
from typing import Annotated, TypeVar

import msgspec

from ..core import model as m
from ..core import typed_json
from ..core.errors import UsageError
from ..core.session import Session
from ..redact import Redactor
from ..store import Store
from ..store.filters import SessionFilter
from ..store.rows import SessionRow
from .quoting import inline, name
from .response import DEFAULT_BUDGET, ToolResponse
from .scope import Caller, ProjectScope, find_session

_T = TypeVar("_T")
_BEHIND = "Sessions are still being imported; the newest may be missing."
_CUT_TITLE = 200
"""Stored titles are truncated to this many characters."""
_TITLE = 30
"""Maximum number of tokens of a title."""


class BudgetParams(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Parameters of every tool."""

    budget: Annotated[int, msgspec.Meta(description="max tokens in the answer")] = DEFAULT_BUDGET
    cursor: Annotated[str, msgspec.Meta(description="from the end of the last answer, to continue")] = ""


class ToolRequest:
    """One tool call, which reads one snapshot of the store."""

    def __init__(
        self,
        store: Store,
        scope: ProjectScope,
        callers: Collection[Caller] = (),
        redactor: Redactor | None = None,
        *,
        is_behind: bool = False,
    ) -> None:
        """Set `is_behind` if the store may lack the newest sessions."""
        self.store = store
        self._is_behind = is_behind
        self.scope = scope
        self._callers = callers
        self._redactor = redactor

    @property
    def redactor(self) -> Redactor | None:
        """Removes secrets; None if they may be shown."""
        return self._redactor

    @cached_property
    def sessions(self) -> SessionFilter:
        """The sessions that may be used."""
        return self.scope.sessions(self.store, self._callers)

    def find(self, name: str) -> SessionRow:
        """Return the session with this id, prefix of an id, or `latest`."""
        return find_session(self.store, self.sessions, name)

    def start_response(self, budget: int, headline: str) -> ToolResponse:
        """Start a response with a headline."""
        response = ToolResponse(budget, headline)
        if self._is_behind:
            response.line(_BEHIND)
        return response

    # --- redacted data ---

    def text(self, text: str | None) -> str:
        """Return a text without secrets."""
        return "" if not text else text if self._redactor is None else self._redactor.text(text)

    def decoded(self, json: bytes, type: type[_T]) -> _T:
        """Decode a value from the store, without secrets."""
        return typed_json.decode(json if self._redactor is None else self._redactor.data(json), type=type)

    def messages(self, row: SessionRow, first: int, end: int) -> list[m.Message]:
        """Return the messages from `first` up to, but not including, `end`, without secrets."""
        return self._clean(self.store.messages.read(row.id, max(0, first), end))

    def each(self, row: SessionRow, indices: Iterable[int]) -> dict[int, m.Message]:
        """Return some messages by index, without secrets."""
        found = self.store.messages.read_each(row.id, indices)
        return dict(zip(found, self._clean(found.values()), strict=True))

    def _clean(self, messages: Iterable[m.Message]) -> list[m.Message]:
        return [message if self._redactor is None else self._redactor.message(message) for message in messages]

    def head(self, row: SessionRow) -> Session:
        """Return the record of a session without its messages and without secrets."""
        head = self.store.messages.load_head(row.id)
        return head if self._redactor is None else self._redactor.session(head)

    # --- descriptions ---

    def describe(self, row: SessionRow) -> str:
        """Describe a session in one line."""
        title = inline(self.text(_whole_words(row.title)), _TITLE) if row.title else "(no title)"
        project = ""
        if self.scope.folder is None and row.project:
            project = f" in {inline(self.text(row.project), _TITLE)}"
        return f"session {name(row.name)} ({row.agent}, {shown_time(row)}){project}: {title}"


def _whole_words(title: str) -> str:
    """Return a title without the last word if that may be truncated: a partial secret would not be recognised."""
    return title if len(title) < _CUT_TITLE else title[: title.rfind(" ") + 1]


def shown_time(row: SessionRow) -> str:
    """Return when a session was last active, in UTC."""
    return moment(row.ended_at or row.started_at)


def moment(at: object) -> str:
    """Format a time in UTC, to the minute."""
    return f"{at:%Y-%m-%d %H:%M}" if at is not None else "no time"


def offset_of(cursor: str) -> int:
    """Return the offset that the cursor of a list contains."""
    if not cursor:
        return 0
    if not cursor.isdecimal() or len(cursor) > 9:
        raise bad_cursor()
    return int(cursor)


def bad_cursor() -> UsageError:
    """Return the error for an invalid cursor."""
    return UsageError("cursor is not from an answer of this tool; omit it to start from the beginning")
