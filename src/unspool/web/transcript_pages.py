"""The transcript of one session in pages, with calls and results combined across page boundaries."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator

import msgspec

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
"""The number of stored blocks before a page that are searched for the call that a result belongs to."""
_MOST_BLOCKS = 4
"""The number of blocks searched in the unusual direction: few logs have a result before its call."""


class TranscriptPages:
    """Creates transcript entries from stored messages."""

    def __init__(self, query: SessionQuery) -> None:
        self._query = query
        self._head = query.head

    def page(self, number: int, branch: int = 0) -> EntryPage:
        """Return a page of a branch."""
        path = self._query.path(branch)
        if not 0 <= number < max(1, -(-len(path) // PAGE_SIZE)):
            name, pages = self._query.row.name, self._query.pages(branch)
            raise NotFoundError(f"session {name} has {pages} pages; there is no page {number}")
        return self._page(number, path)

    def page_of_branch(self, branch: int, number: int = 0) -> EntryPage:
        """Return a page of the messages that only this branch has."""
        self._query.check_branch(branch)
        ranges = _ranges_of(number, self._query.paths.own(branch))
        return _entry_page(number, ranges, list(self._entries(ranges)))

    def entries(self, first: int, last: int) -> list[Entry]:
        """Return the entries of the messages from `first` to the one before `last`."""
        return list(self._entries([(first, last - 1)]))

    def call_index(self, index: int, call_id: str) -> int | None:
        """Return the message of a call that has its result in message `index`; None if it is not found."""
        found = next(self._counterparts((index, index), {call_id}, set(), is_call=True), None)
        return found.index if found is not None else None

    def new_entries(self, first: int, last: int) -> list[Entry]:
        """Return the entries of new messages on the active branch, and of earlier calls that they have results for."""
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
            for entry in transcript.entries_of(message)
            if entry.call is not None and entry.call.id in answered
        ]
        return found + [entry for message in shown for entry in transcript.entries_of(message)]

    def _page(self, number: int, path: BranchPath) -> EntryPage:
        ranges = _ranges_of(number, path)
        entries = list(self._beginning(path)) if number == 0 else []
        entries += self._entries(ranges, path)
        if (number + 1) * PAGE_SIZE >= len(path):
            entries += self._transcript([]).unmentioned_subagents()
            entries += [
                problem_entry(problem_number, problem)
                for problem_number, problem in enumerate(self._head.problems)
                if problem.source is None or not ranges
            ]
        return _entry_page(number, ranges, entries)

    def _beginning(self, path: BranchPath) -> Iterator[Entry]:
        """Yield the entries before the first message."""
        if len(path):
            yield from self._transcript([]).root_forks()
            yield from _entries_of(self._problems(None, self._query.message(path.index_at(0))))

    def _entries(self, ranges: list[IndexRange], path: BranchPath | None = None) -> Iterator[Entry]:
        """Yield the entries of some messages, each followed by the problems before the next message of the branch."""
        shown = [message for first, last in ranges for message in self._query.messages(first, last + 1)]
        if not shown:
            return
        transcript = self._transcript(list(self._with_counterparts(shown)))
        following = self._next(shown[-1].index, path)
        problems = self._problems(shown[0], following)
        for message, after in zip(shown, [*shown[1:], following], strict=True):
            yield from transcript.entries_of(message)
            yield from _entries_of(one for one in problems if _is_between(one[1].source, message, after))

    def _next(self, index: int, path: BranchPath | None) -> m.Message | None:
        """Return the message after another one, on a branch if one is given; None at the end."""
        following = index + 1
        if path is not None:
            position = path.position_of(index) + 1
            following = path.index_at(position) if position < len(path) else self._query.row.messages
        return next(iter(self._query.messages(following, following + 1)), None)

    def _transcript(self, messages: list[m.Message]) -> Transcript:
        row = self._query.row
        agent = agent_named(row.agent)
        return Transcript(
            self._head,
            agent.describe,
            messages=messages,
            branch_of=self._query.branch_of,
            decisions=recorded_decisions(row.agent, main_session(row.name)),
            results=agent,
        )

    def message_before(self, problem: m.Problem, branch: int = 0) -> int | None:
        """Return the message of a branch after which a problem is shown; None if the branch has no messages."""
        path = self._query.path(branch)
        if not len(path) or problem.source is None:
            return path.index_at(len(path) - 1) if len(path) else None
        line = problem.source.file, problem.source.line
        positions = range(len(path))
        after = bisect_left(positions, line, key=lambda each: _line_of(self._query.message(path.index_at(each))))
        return path.index_at(max(0, after - 1))

    def _problems(self, before: m.Message | None, after: m.Message | None) -> list[tuple[int, m.Problem]]:
        """Return the problems between two messages, each with its number in the record."""
        problems = enumerate(self._head.problems)
        return [(number, problem) for number, problem in problems if _is_between(problem.source, before, after)]

    def _with_counterparts(self, shown: list[m.Message]) -> Iterator[m.Message]:
        """Yield the messages, the results of their calls and the calls of their results, wherever those are."""
        calls = {block.id: message.index for message, block in _blocks_of(shown) if isinstance(block, m.ToolCall)}
        results = {
            block.call_id: message.index for message, block in _blocks_of(shown) if isinstance(block, m.ToolResult)
        }
        orphans = {orphan.tool_use_id for orphan in self._head.orphans}
        known = {message.index for message in shown}
        edges = shown[0].index, shown[-1].index
        if early := results.keys() - calls.keys():
            yield from self._counterparts(edges, early, known, is_call=True)
        yield from shown
        # An id can be used again: the result of an earlier call is not the result of a later one.
        if open := {id for id, index in calls.items() if results.get(id, -1) < index} - orphans:
            yield from self._counterparts(edges, open, known, is_call=False)

    def _counterparts(self, shown: IndexRange, ids: set[str], known: set[int], *, is_call: bool) -> Iterator[m.Message]:
        """Search for the calls or results with these ids. In nearly all logs, calls are before their results."""
        missing = set(ids)
        usual = _MOST_BLOCKS_BACK if is_call else None
        for backwards in (is_call, not is_call):
            most = usual if backwards == is_call else _MOST_BLOCKS
            for message in self._scan(shown[1 if backwards else 0], missing, backwards, most):
                found = {_call_id(block, is_call) for block in message.blocks} & missing
                if found and message.index not in known:
                    missing -= found
                    yield message
                    if not missing:
                        return

    def _scan(self, index: int, ids: set[str], backwards: bool, most_blocks: int | None) -> Iterator[m.Message]:
        """Yield the messages of blocks that contain any of the ids, forwards or backwards from a message."""
        return self._query.store.messages.scan(
            self._query.row.id,
            lambda data: any(msgspec.json.encode(id)[1:-1] in data for id in ids),
            index,
            backwards=backwards,
            most_blocks=most_blocks,
            patches=self._query.patches,
        )


def _blocks_of(messages: list[m.Message]) -> Iterator[tuple[m.Message, m.Block]]:
    return ((message, block) for message in messages for block in message.blocks)


def _call_id(block: m.Block, is_call: bool) -> str | None:
    if is_call:
        return block.id if isinstance(block, m.ToolCall) else None
    return block.call_id if isinstance(block, m.ToolResult) else None


def _entries_of(problems: Iterable[tuple[int, m.Problem]]) -> Iterator[Entry]:
    return (problem_entry(number, problem) for number, problem in problems)


def _ranges_of(number: int, path: BranchPath) -> list[IndexRange]:
    return path.slice(number * PAGE_SIZE, (number + 1) * PAGE_SIZE)


def _entry_page(number: int, ranges: list[IndexRange], entries: list[Entry]) -> EntryPage:
    return EntryPage(number, ranges[0][0] if ranges else None, ranges[-1][1] if ranges else None, entries)


def _is_between(source: m.Source | None, before: m.Message | None, after: m.Message | None) -> bool:
    if source is None:
        return False
    line = source.file, source.line
    if before is not None and _line_of(before) >= line:
        return False
    return after is None or line <= _line_of(after)


def _line_of(message: m.Message) -> tuple[int, int]:
    """Return the file of a message, and the line in it."""
    return message.source.file, message.source.line
