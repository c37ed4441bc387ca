"""Completes a Claude Code conversation after its last record: the active path, unfinished calls, and resumes."""

from __future__ import annotations

from ...core import model as m
from ...core.builder import SessionBuilder
from ...core.tree import MODEL, NONE, Tree
from .._metadata import version_of
from .parser import ClaudeParser

_FILE_ORDER_FROM = (2, 1, 100)
"""From here on, a resume takes the last leaf of the file; before, the newest (seen in 2.1.90 and 2.1.112)."""
_POINTER_FROM = (2, 1, 130)
"""From here on, a resume follows `last-prompt` (not seen in 2.1.112, but in 2.1.150)."""
_CHAIN_ONLY = ((2, 1, 0), (2, 1, 60))
"""Versions that lose the results of parallel calls beside the chain on resume (seen in 2.1.0 to 2.1.59)."""


def finalize(parser: ClaudeParser) -> None:
    """Find the tip of a conversation, its unfinished calls, and where it was resumed."""
    builder = parser.builder
    builder.settle()
    if not len(builder):
        return
    version = version_of(parser.version)
    builder.details.tip, builder.details.tip_rule = _tip(parser, version)
    for call_id, call in builder.calls.open.items():
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
        return max(leaves, key=lambda index: (builder.times[index], index)), f"newest timestamp ({name})"
    pointer = parser.chain.pointer
    if version >= _POINTER_FROM and pointer is not None and pointer[1] == len(builder):
        index = builder.find(pointer[0])
        if index is not None:
            return index, f"last-prompt ({name})"
    return len(builder) - 1, f"last in file ({name})"


def _find_resumes(parser: ClaudeParser, version: tuple[int, ...]) -> None:
    """Add the points where the agent loaded the session again, and what 2.1.0 to 2.1.59 lost."""
    builder = parser.builder
    chain_only = _CHAIN_ONLY[0] <= version < _CHAIN_ONLY[1]
    starts = dict.fromkeys(parser.resumes.placeholders, "the harness answered in the model's place")
    starts |= dict.fromkeys(_after_orphans(builder), "a call was left behind")
    if chain_only:
        starts |= dict.fromkeys(parser.resumes.shrunk_at, "the context shrank by its token count")
    columns, tip = builder.columns, builder.details.tip or 0
    tree = Tree(columns.parents, columns.flags, tip) if starts and chain_only else None
    for start, evidence in sorted(starts.items()):
        lost = _lost_beside_chain(tree, start) if tree is not None else []
        builder.events.resumes.append(m.Resume(message_index=start, lost_message_indices=lost, evidence=evidence))


def _after_orphans(builder: SessionBuilder) -> list[int]:
    """Return messages with the same parent as an open call: the conversation continued without the call."""
    parents = {builder.columns.parents[call.message]: call.message for call in builder.calls.open.values()}
    found: dict[int, int] = {}
    for index, parent in enumerate(builder.columns.parents if parents else ()):
        if parent >= 0 and index > parents.get(parent, index):
            found.setdefault(parent, index)
    return list(found.values())


def _lost_beside_chain(tree: Tree, start: int) -> list[int]:
    """Return the results beside the chain, and the calls they answer."""
    lost: list[int] = []
    for index in tree.path(tree.parents[start]):
        beside = [side for side in tree.sides(index) if side < start]
        if beside and tree.flags[index] & MODEL:
            lost += [index, *beside]
    return sorted(lost)
