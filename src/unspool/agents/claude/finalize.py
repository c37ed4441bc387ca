"""What only the end of a Claude Code conversation tells: which line is alive, what never finished, what was lost."""

from __future__ import annotations

from ...core import model as m
from ...core.builder import SessionBuilder
from ...core.tree import MODEL, NONE, Tree
from .._metadata import version_of
from .parser import ClaudeParser

_FILE_ORDER_FROM = (2, 1, 100)
"""From here on a resume takes the last leaf of the file; before, the newest by its time (seen: 2.1.90 and 2.1.112)."""
_POINTER_FROM = (2, 1, 130)
"""From here on a resume follows `last-prompt` (seen: not in 2.1.112, but in 2.1.150)."""
_CHAIN_ONLY = ((2, 1, 0), (2, 1, 60))
"""Versions that, on resume, lose the results of parallel calls that hang beside the chain (seen: 2.1.0 to 2.1.59)."""


def end(thread: ClaudeParser) -> None:
    """Complete a conversation of which all lines are read: its tip, what never finished, where it was resumed."""
    draft = thread.draft
    draft.settle()
    if not len(draft):
        return
    version = version_of(thread.version)
    draft.tip, draft.tip_rule = _tip(thread, version)
    for call_id, call in draft.open_calls.items():
        draft.orphans.append(
            m.Orphan(
                message_index=call.message,
                tool_use_id=call_id,
                tool_name=call.name,
                reason="running" if draft.live_status == "running" else "killed",
            )
        )
    _find_resumes(thread, version)


def _tip(thread: ClaudeParser, version: tuple[int, ...]) -> tuple[int, str]:
    """The message a resume by the version that wrote last would go on from."""
    draft = thread.draft
    name = f"Claude Code {thread.version}" if thread.version else "Claude Code"
    if draft.kind == "main" and version and version < _FILE_ORDER_FROM:
        leaves = Tree(draft.parents, draft.flags, NONE).leaves()
        return max(leaves, key=lambda index: (draft.times[index], index)), f"newest timestamp ({name})"
    if version >= _POINTER_FROM and thread.pointer is not None and thread.pointer[1] == len(draft):
        index = draft.find(thread.pointer[0])
        if index is not None:
            return index, f"last-prompt ({name})"
    return len(draft) - 1, f"last in file ({name})"


def _find_resumes(thread: ClaudeParser, version: tuple[int, ...]) -> None:
    """Points where the agent loaded the session anew, and what 2.1.0 to 2.1.59 lost by it."""
    draft = thread.draft
    chain_only = _CHAIN_ONLY[0] <= version < _CHAIN_ONLY[1]
    starts = dict.fromkeys(thread.resumed_at, "the harness answered in the model's place")
    starts |= dict.fromkeys(_after_orphans(draft), "a call was left behind")
    if chain_only:
        starts |= dict.fromkeys(thread.shrunk_at, "the context shrank by its token count")
    tree = Tree(draft.parents, draft.flags, draft.tip or 0) if starts and chain_only else None
    for start, evidence in sorted(starts.items()):
        lost = _lost_beside_chain(tree, start) if tree is not None else []
        draft.resumes.append(m.Resume(message_index=start, lost_message_indices=lost, evidence=evidence))


def _after_orphans(draft: SessionBuilder) -> list[int]:
    """Messages that hang where an unanswered call hangs too: the conversation went on without the call."""
    parents = {draft.parents[call.message]: call.message for call in draft.open_calls.values()}
    found: dict[int, int] = {}
    for index, parent in enumerate(draft.parents if parents else ()):
        if parent >= 0 and index > parents.get(parent, index):
            found.setdefault(parent, index)
    return list(found.values())


def _lost_beside_chain(tree: Tree, start: int) -> list[int]:
    """Results beside the chain, and the calls they answered."""
    lost: list[int] = []
    for index in tree.path(tree.parents[start]):
        beside = [side for side in tree.sides(index) if side < start]
        if beside and tree.flags[index] & MODEL:
            lost += [index, *beside]
    return sorted(lost)
