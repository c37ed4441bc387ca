"""The contents of a context: the tokens of each kind, the largest items, and files that are no longer in it.

Agents record the total tokens of a request, not their distribution, so the sizes of single items are estimates.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec

from ..agents import agent_named
from ..core import model as m
from ..render.sanitize import one_line
from .branch_path import IndexRange
from .context_index import context_index
from .session_query import SessionQuery
from .views import ContextView

_CHARACTERS_PER_TOKEN = 4
_TOKENS_OF_IMAGE = 1_500
_MOST_MESSAGES = 4_000
"""Maximum number of messages that are measured: the last ones of the context."""
_MOST_ITEMS = 8
_MOST_FILES = 20
_LABEL = 80

SYSTEM, PROMPTS, PROSE, THINKING, CALLS, FILES, OUTPUT, SUMMARIES, IMAGES = (
    "notes of the agent", "prompts", "prose", "thinking", "calls", "files", "tool output", "summaries", "images",
)  # fmt: skip
_AUTHORS = {"human": PROMPTS, "model": PROSE, "subagent": OUTPUT}


class ContextPart(msgspec.Struct, kw_only=True):
    """All content of one kind in a context."""

    kind: str
    tokens: int
    share: float
    """Its share of all measured tokens, from 0 to 1."""


class ContextItem(msgspec.Struct, kw_only=True):
    """A message in a context."""

    index: int
    kind: str
    label: str
    tokens: int


class GoneFile(msgspec.Struct, kw_only=True):
    """A file that was in the context and no longer is."""

    path: str
    index: int
    """The last message that contained it."""


class ContextContents(msgspec.Struct, kw_only=True):
    """The contents of some messages, by kind and size."""

    tokens: int
    parts: list[ContextPart]
    """Largest first."""
    largest: list[ContextItem]
    files: list[str]
    is_partial: bool
    """Whether there were too many messages to measure all of them."""


class ContextDifference(msgspec.Struct, kw_only=True):
    """The messages that were added to and removed from a context between two points."""

    start: int
    end: int
    added: ContextContents
    removed: ContextContents
    added_count: int
    removed_count: int


class _Piece(NamedTuple):
    message: int
    kind: str
    label: str
    tokens: int


class _Measure:
    """Measures messages in order. It remembers the calls, which say what their results contain."""

    def __init__(self, query: SessionQuery) -> None:
        self._agent = agent_named(query.row.agent)
        self._calls: dict[str, tuple[str, list[str]]] = {}
        self.files: dict[str, int] = {}
        """The files that were read, written or attached, with the last message of each."""

    def pieces(self, message: m.Message) -> Iterator[_Piece]:
        for block in message.blocks:
            kind, label, size = self._measured(message, block)
            if size:
                yield _Piece(message.index, kind, one_line(label, _LABEL), max(1, size // _CHARACTERS_PER_TOKEN))

    def _measured(self, message: m.Message, block: m.Block) -> tuple[str, str, int]:
        match block:
            case m.Text():
                return _AUTHORS.get(message.author, SYSTEM), block.text, len(block.text)
            case m.Thinking():
                return THINKING, block.text, len(block.text)
            case m.ToolCall():
                paths = self._agent.touched(block.name, block.raw_input)
                self._calls[block.id] = block.name, paths
                self.files.update(dict.fromkeys(paths, message.index))
                return CALLS, f"{block.name} {' '.join(paths)}", len(bytes(block.raw_input))
            case m.ToolResult():
                name, paths = self._calls.get(block.call_id, ("result", []))
                kind = FILES if paths else OUTPUT
                return kind, f"{name} {' '.join(paths)}", len(block.content) if block.sent else 0
            case m.Attachment():
                if block.path:
                    self.files[block.path] = message.index
                kind = FILES if block.path else PROMPTS if message.author == "human" else SYSTEM
                return kind, block.path or block.kind, len(block.text or "")
            case m.CompactionMark():
                return SUMMARIES, "summary", len(block.summary or "")
            case m.Image():
                return IMAGES, "image", _TOKENS_OF_IMAGE * _CHARACTERS_PER_TOKEN
            case _:
                return SYSTEM, "", 0


def measure(query: SessionQuery, indices: Iterable[int]) -> ContextContents:
    """Measure the contents of some messages."""
    wanted = sorted(indices)
    measured = _Measure(query)
    pieces = [
        piece
        for first, last in ranges_of(wanted[-_MOST_MESSAGES:])
        for message in query.messages(first, last + 1)
        for piece in measured.pieces(message)
    ]
    total = sum(piece.tokens for piece in pieces)
    sums: dict[str, int] = {}
    for piece in pieces:
        sums[piece.kind] = sums.get(piece.kind, 0) + piece.tokens
    largest = sorted(pieces, key=lambda piece: -piece.tokens)[:_MOST_ITEMS]
    return ContextContents(
        tokens=total,
        parts=[
            ContextPart(kind=kind, tokens=tokens, share=tokens / total)
            for kind, tokens in sorted(sums.items(), key=lambda pair: -pair[1])
        ],
        largest=[ContextItem(index=one.message, kind=one.kind, label=one.label, tokens=one.tokens) for one in largest],
        files=sorted(measured.files),
        is_partial=len(wanted) > _MOST_MESSAGES,
    )


def gone_files(query: SessionQuery, view: ContextView, still: Iterable[str]) -> list[GoneFile]:
    """Return the files in messages that are no longer in a context, except those in `still`."""
    removed = [
        index
        for span in view.stretches
        if span.state in ("summarised", "dropped", "cleared", "unsent", "gap")
        for index in range(span.first, span.last + 1)
    ]
    measured = _Measure(query)
    for first, last in ranges_of(removed[-_MOST_MESSAGES:]):
        for message in query.messages(first, last + 1):
            for _ in measured.pieces(message):
                pass
    known = set(still)
    found = [GoneFile(path=path, index=index) for path, index in measured.files.items() if path not in known]
    return sorted(found, key=lambda file: -file.index)[:_MOST_FILES]


def context_difference(query: SessionQuery, start: int, end: int) -> ContextDifference:
    """Compare the contexts at two messages."""
    contexts = context_index(query)
    before, after = (set(contexts.context(index).message_indices) for index in (start, end))
    return ContextDifference(
        start=start,
        end=end,
        added=measure(query, after - before),
        removed=measure(query, before - after),
        added_count=len(after - before),
        removed_count=len(before - after),
    )


def ranges_of(indices: Iterable[int]) -> list[IndexRange]:
    """Combine consecutive indices into ranges."""
    found: list[IndexRange] = []
    for index in indices:
        if found and found[-1][1] == index - 1:
            found[-1] = found[-1][0], index
        else:
            found.append((index, index))
    return found
