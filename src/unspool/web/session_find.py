"""Find in session: the entries of one branch that contain a text, as a browser's own search would find them.

A browser only searches what is loaded and expanded. This searches all messages of the branch, however long it is, and
returns the entries that show them.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from ..core import model as m
from ..render.transcript import CallView, Entry, folded
from ..search.snippet import Snippet
from ..search.tokenizer import fold
from ..store.indexed_text import words_of_input
from .session_query import PAGE_SIZE, SessionQuery
from .transcript_pages import TranscriptPages

_MOST_MESSAGES = 1000
"""The search stops after this many matching messages: nobody steps through more."""
_BEFORE, _AFTER = 40, 120
"""Characters around a match that are shown."""


class FoundEntry(msgspec.Struct, kw_only=True):
    """An entry of a transcript that contains the text."""

    key: str
    """The key of the entry."""
    index: int
    """Its message."""
    kind: str
    at: float
    """Its position along the branch, from 0 to 1."""
    snippet: Snippet


class FoundInSession(msgspec.Struct, kw_only=True):
    """The matches, in the order of the branch."""

    text: str
    entries: list[FoundEntry]
    is_complete: bool
    """False if there may be more."""


def find_in_session(query: SessionQuery, text: str, branch: int = 0) -> FoundInSession:
    """Return the entries of a branch that contain a text. Case and the kind of white space do not matter."""
    query.check_branch(branch)
    wanted = _normal(text)
    if not wanted:
        return FoundInSession(text=text, entries=[], is_complete=True)
    return _Finder(query, branch, wanted).find(text)


class _Finder:
    """Searches one branch for a text."""

    def __init__(self, query: SessionQuery, branch: int, wanted: str) -> None:
        self._query = query
        self._branch = branch
        self._path = query.path(branch)
        self._wanted = wanted
        self._transcript = TranscriptPages(query)
        self._calls: dict[str, int] = {}
        """The messages of the calls read so far, by the id of the call."""

    def find(self, text: str) -> FoundInSession:
        """Return all entries that contain the text, page by page."""
        pages: set[int] = set()
        is_complete = True
        for number, message in enumerate(self._messages()):
            if number == _MOST_MESSAGES:
                is_complete = False
                break
            pages |= {self._path.position_of(index) // PAGE_SIZE for index in self._shown_at(message)}
        entries = [entry for page in sorted(pages) for entry in self._on_page(page)]
        return FoundInSession(text=text, entries=entries, is_complete=is_complete)

    def _messages(self) -> Iterator[m.Message]:
        """Yield the messages of the branch that contain the text."""
        literal = _literal(self._wanted)
        scanned = self._query.store.messages.scan(
            self._query.row.id, lambda data: literal in data.lower(), patches=self._query.patches
        )
        for message in scanned:
            self._calls |= {block.id: message.index for block in message.blocks if isinstance(block, m.ToolCall)}
            if message.index in self._path and any(self._is_in(text) for text in _texts_of(message)):
                yield message

    def _shown_at(self, message: m.Message) -> Iterator[int]:
        """Yield the messages whose entries show a message: results are shown with their calls."""
        yield message.index
        for block in message.blocks:
            if isinstance(block, m.ToolResult):
                known = self._calls.get(block.call_id)
                index = self._transcript.call_index(message.index, block.call_id) if known is None else known
                if index is not None:
                    yield index

    def _on_page(self, number: int) -> Iterator[FoundEntry]:
        length = max(1, len(self._path))
        for entry in folded(self._transcript.page(number, self._branch).entries):
            snippet = next((found for text in _shown_texts(entry) if (found := self._snippet(text))), None)
            if snippet is not None and entry.index is not None:
                at = round(self._path.position_of(entry.index) / length, 4)
                yield FoundEntry(key=entry.key, index=entry.index, kind=entry.kind, at=at, snippet=snippet)

    def _is_in(self, text: str) -> bool:
        return self._wanted in _normal(text)

    def _snippet(self, text: str) -> Snippet | None:
        line = " ".join(text.split())
        start = fold(line).find(self._wanted)
        if start < 0:
            return None
        end = start + len(self._wanted)
        first, last = max(0, start - _BEFORE), min(len(line), end + _AFTER)
        before = "…" * (first > 0)
        moved = len(before) - first
        return Snippet(before + line[first:last] + "…" * (last < len(line)), [(start + moved, end + moved)])


def _normal(text: str) -> str:
    return fold(" ".join(text.split()))


def _literal(wanted: str) -> bytes:
    """Return the longest run of ASCII letters and digits, which JSON contains unescaped; empty if there is none."""
    runs = "".join(char if char.isascii() and char.isalnum() else " " for char in wanted).split()
    return max(runs, key=len, default="").encode()


def _texts_of(message: m.Message) -> Iterator[str]:
    """Yield the texts that the entries of a message may show."""
    for block in message.blocks:
        match block:
            case m.Text() | m.Thinking():
                yield block.text
            case m.ToolCall():
                yield block.name
                yield words_of_input(block.raw_input)
            case m.ToolResult():
                yield block.whole
            case m.Attachment():
                yield block.text or ""
            case m.CompactionMark():
                yield block.summary or ""
            case _:
                pass


def _shown_texts(entry: Entry) -> Iterator[str]:
    """Yield the texts that an entry shows when everything in it is expanded."""
    yield entry.text
    if entry.call is not None:
        yield from _call_texts(entry.call)
    for note in entry.notes:
        yield from _shown_texts(note)


def _call_texts(call: CallView) -> Iterator[str]:
    action = call.action
    yield call.name
    yield from filter(None, (call.target, action.diff, action.command, action.plan))
    for question in action.questions:
        yield "\n".join((question.question, *question.options))
    if not (action.diff or action.command or action.plan or action.questions):
        yield words_of_input(action.raw_input)
    if call.result is not None:
        yield call.result.whole
