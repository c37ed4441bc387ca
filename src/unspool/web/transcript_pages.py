"""The transcript of one session in pages, with calls and results brought together across page borders."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from ..agents import agent_named
from ..core import model as m
from ..core.decisions import main_session
from ..core.errors import NotFoundError
from ..render.transcript import Entry, Transcript, problem_entry
from ..store.decision_log import recorded_decisions
from .branch_path import BranchPath, IndexRange
from .session_query import PAGE_SIZE, SessionQuery
from .views import EntryPage

_MOST_BLOCKS_BACK = 65
"""How many stored blocks before a page are searched for the call that a result belongs to."""


class TranscriptPages:
    """Makes transcript entries of stored messages."""

    def __init__(self, query: SessionQuery) -> None:
        self._query = query
        self._head = query.head

    def page(self, number: int, branch: int = 0) -> EntryPage:
        """A page of a branch."""
        path = self._query.path(branch)
        if not 0 <= number < max(1, -(-len(path) // PAGE_SIZE)):
            name, pages = self._query.row.name, self._query.pages(branch)
            raise NotFoundError(f"session {name} has {pages} pages; there is no page {number}")
        return self._page(number, path)

    def own_page(self, branch: int, number: int = 0) -> EntryPage:
        """A page of the messages that only this branch has."""
        self._query.check_branch(branch)
        return self._page(number, self._query.paths.own(branch))

    def entries(self, first: int, last: int) -> list[Entry]:
        """The entries of the messages from `first` to the one before `last`."""
        return list(self._entries([(first, last - 1)]))

    def new_entries(self, first: int, last: int) -> list[Entry]:
        """What new messages change on the active branch: their own entries, and earlier calls they have results for."""
        shown = [message for message in self._query.messages(first, last) if not message.branch]
        if not shown:
            return []
        needed = list(self._with_counterparts(shown))
        transcript = self._transcript(needed)
        answered = {block.call_id for message in shown for block in message.blocks if isinstance(block, m.ToolResult)}
        found = [
            entry
            for message in needed
            if message.index < first
            for entry in transcript.of(message)
            if entry.call is not None and entry.call.id in answered
        ]
        return found + [entry for message in shown for entry in transcript.of(message)]

    def _page(self, number: int, path: BranchPath) -> EntryPage:
        ranges = path.slice(number * PAGE_SIZE, (number + 1) * PAGE_SIZE)
        entries = list(self._entries(ranges, is_first=number == 0))
        if (number + 1) * PAGE_SIZE >= len(path):
            entries += self._transcript([]).without_place()
            entries += [
                problem_entry(place, problem)
                for place, problem in enumerate(self._head.problems)
                if problem.source is None or not ranges
            ]
        return EntryPage(number, ranges[0][0] if ranges else None, ranges[-1][1] if ranges else None, entries)

    def _entries(self, ranges: list[IndexRange], is_first: bool = False) -> Iterator[Entry]:
        query = self._query
        shown = [message for first, last in ranges for message in query.messages(first, last + 1)]
        if not shown:
            return
        transcript = self._transcript(list(self._with_counterparts(shown)))
        if is_first:
            yield from transcript.beginning()
        # One more message, so that damage between this page and the next is shown on this one.
        following: list[m.Message | None] = [*query.messages(shown[-1].index + 1, shown[-1].index + 2)] or [None]
        problems = self._problems(None if is_first else shown[0], following[0])
        yield from _problems_between(problems, None, shown[0])
        for message, after in zip(shown, chain(shown[1:], following), strict=True):
            yield from transcript.of(message)
            yield from _problems_between(problems, message, after)

    def _transcript(self, messages: list[m.Message]) -> Transcript:
        row = self._query.row
        return Transcript(
            self._head,
            agent_named(row.agent).describe,
            messages=messages,
            branch_of=self._query.branch_of,
            decisions=recorded_decisions(row.agent, main_session(row.name)),
        )

    def _problems(self, before: m.Message | None, after: m.Message | None) -> list[tuple[int, m.Problem]]:
        """The problems between two messages, each with its number in the record."""
        return [
            (number, problem)
            for number, problem in enumerate(self._head.problems)
            if problem.source is not None and _is_between(problem.source, before, after)
        ]

    def _with_counterparts(self, shown: list[m.Message]) -> Iterator[m.Message]:
        """The messages together with the results of their calls and the calls of their results, wherever those are."""
        calls = {block.id for message in shown for block in message.blocks if isinstance(block, m.ToolCall)}
        results = {block.call_id for message in shown for block in message.blocks if isinstance(block, m.ToolResult)}
        orphans = {orphan.tool_use_id for orphan in self._head.orphans}
        known = {message.index for message in shown}
        if early := results - calls:
            yield from self._counterparts(shown[-1].index, early, known, backwards=True)
        yield from shown
        if open := calls - results - orphans:
            yield from self._counterparts(shown[0].index, open, known, backwards=False)

    def _counterparts(self, index: int, ids: set[str], known: set[int], *, backwards: bool) -> Iterator[m.Message]:
        """Search onwards or backwards from a message for the calls or results with these ids."""
        left = set(ids)
        messages = self._query.store.messages.scan(
            self._query.row.id,
            lambda data: any(id.encode() in data for id in left),
            index,
            backwards=backwards,
            most_blocks=_MOST_BLOCKS_BACK if backwards else None,
            patches=self._query.patches,
        )
        for message in messages:
            found = {_call_id(block, backwards) for block in message.blocks} & left
            if found and message.index not in known:
                left -= found
                yield message
                if not left:
                    return


def _call_id(block: m.Block, is_call: bool) -> str | None:
    if is_call:
        return block.id if isinstance(block, m.ToolCall) else None
    return block.call_id if isinstance(block, m.ToolResult) else None


def _problems_between(
    problems: list[tuple[int, m.Problem]], before: m.Message | None, after: m.Message | None
) -> Iterator[Entry]:
    for number, problem in problems:
        if problem.source is not None and _is_between(problem.source, before, after):
            yield problem_entry(number, problem)


def _is_between(source: m.Source, before: m.Message | None, after: m.Message | None) -> bool:
    position = source.file, source.line
    if before is not None and (before.source.file, before.source.line) >= position:
        return False
    return after is None or position <= (after.source.file, after.source.line)
