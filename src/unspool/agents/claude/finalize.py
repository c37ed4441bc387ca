"""Completes a Claude Code conversation after its last record: the active path, unfinished calls, and resumes."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain

from ...core import model as m
from ...core.builder import SessionBuilder
from ...core.tree import COMMAND, MODEL, NONE, PROMPT, Tree
from .._metadata import version_of
from .parser import ClaudeParser
from .resumes import is_chain_only

_FILE_ORDER_FROM = (2, 1, 100)
"""From this version on, a resume takes the last leaf of the file; before, the newest (seen in 2.1.90 and 2.1.112)."""
_POINTER_FROM = (2, 1, 130)
"""From this version on, a resume follows `last-prompt` (not seen in 2.1.112, but in 2.1.150)."""


def finalize(parser: ClaudeParser) -> None:
    """Find the tip of a conversation, its unfinished calls, and its resumes."""
    builder = parser.builder
    builder.settle()
    if not len(builder):
        return
    version = version_of(parser.version)
    builder.details.tip, builder.details.tip_rule = _tip(parser, version)
    known = {orphan.tool_use_id for orphan in builder.events.orphans}
    for call_id, call in builder.calls.open.items():
        if call_id not in known:
            builder.events.orphans.append(
                m.Orphan(
                    message_index=call.message,
                    tool_use_id=call_id,
                    tool_name=call.name,
                    reason="running" if builder.details.live_status == "running" else "killed",
                )
            )
    _find_resumes(parser, version)


def _tip(parser: ClaudeParser, version: tuple[int, ...]) -> tuple[int, str]:
    """Return the message that a resume, with the version that wrote last, continues from."""
    builder = parser.builder
    name = f"Claude Code {parser.version}" if parser.version else "Claude Code"
    if builder.kind == "main" and version and version < _FILE_ORDER_FROM:
        leaves = Tree(builder.columns.parents, builder.columns.flags, NONE).leaves()
        return max(leaves, key=lambda index: (builder.sink.time_of(index), index)), f"newest timestamp ({name})"
    pointer = parser.chain.pointer
    if version >= _POINTER_FROM and pointer is not None and pointer[1] == len(builder):
        index = builder.find(pointer[0])
        if index is not None:
            return index, f"last-prompt ({name})"
    return len(builder) - 1, f"last in file ({name})"


def _find_resumes(parser: ClaudeParser, version: tuple[int, ...]) -> None:
    """Add the points where the agent loaded the session again, and what 2.1.0 to 2.1.59 lost."""
    builder = parser.builder
    chain_only = is_chain_only(version)
    starts = dict.fromkeys(_after_orphans(builder), "a call was left behind")
    starts |= dict.fromkeys(parser.resumes.placeholders, "the harness answered in the model's place")
    starts |= {start: "a SessionStart:resume hook" for start in parser.resumes.hooks if start < len(builder)}
    shrinks = {} if parser.resumes.has_hooks or not chain_only else dict(parser.resumes.shrinks)
    columns, tip = builder.columns, builder.details.tip or 0
    tree = Tree(columns.parents, columns.flags, tip) if chain_only and (starts or shrinks) else None
    off_chain = _OffChainResults(tree) if tree is not None else None
    gone: set[int] = set()
    last = NONE
    for start in sorted(starts.keys() | shrinks.keys()):
        if last >= 0 and not any(map(_continues, columns.flags[last:start])):
            # Another sign of the same resume.
            continue
        lost = off_chain.before(start) if off_chain is not None else []
        resume = m.Resume(message_index=start, lost_message_indices=lost, evidence=starts.get(start, ""))
        if start not in starts:
            if not _explains(parser.resumes.tokens_of(set(lost) - gone), shrinks[start]):
                continue
            resume.evidence, resume.confidence = "the context shrank by about what a resume loses", 0.8
        last = start
        gone.update(lost)
        builder.events.resumes.append(resume)


def _continues(flag: int) -> bool:
    """Whether a message continues the conversation; commands for the agent do not."""
    return bool(flag & MODEL or (flag & PROMPT and not flag & COMMAND))


def _explains(lost_tokens: int, missing_tokens: int) -> bool:
    """Whether a resume would lose about as many tokens as are missing: dropped thinking also shrinks a context.

    Tested on public sessions with hooks: true for 10 of 23 resumes, and for 2 of 72 other prompts with a smaller
    context.
    """
    return lost_tokens > 0 and 0.5 * lost_tokens <= missing_tokens <= 3 * lost_tokens


def _after_orphans(builder: SessionBuilder) -> list[int]:
    """Return messages with the same parent as an open call: the conversation continued without the call."""
    parents = {builder.columns.parents[call.message]: call.message for _, call in builder.calls.unanswered()}
    found: dict[int, int] = {}
    for index, parent in enumerate(builder.columns.parents if parents else ()):
        if parent >= 0 and index > parents.get(parent, index):
            found.setdefault(parent, index)
    return list(found.values())


class _OffChainResults:
    """Results that are not on the chain, and their calls, which some versions lose on resume."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        path = tree.path(tree.tip)
        self._position = {index: position for position, index in enumerate(path)}
        self._lost_on_path = self._lost_on(path)

    def before(self, start: int) -> list[int]:
        """Return the messages that a resume before a message loses."""
        lost: list[int] = []
        for index, sides in self._on_the_way_to(start):
            earlier = [side for side in sides if side < start]
            if earlier and index < start:
                lost += [index, *earlier]
        return sorted(lost)

    def _on_the_way_to(self, start: int) -> Iterable[tuple[int, list[int]]]:
        """Return the calls before a message with their results off the chain, without walking the path again."""
        position = self._position
        if start in position:
            return self._lost_on_path
        branch, index = [], self._tree.parents[start]
        while index >= 0 and index not in position:
            branch.append(index)
            index = self._tree.parents[index]
        # The path is listed from its end, so earlier messages have higher positions.
        joint = position.get(index, len(position))
        return chain((entry for entry in self._lost_on_path if position[entry[0]] >= joint), self._lost_on(branch))

    def _lost_on(self, path: list[int]) -> list[tuple[int, list[int]]]:
        flags = self._tree.flags
        return [(index, sides) for index in path if flags[index] & MODEL and (sides := self._tree.sides(index))]
