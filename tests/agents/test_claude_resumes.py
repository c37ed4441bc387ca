"""Where Claude Code loaded a session again: by recorded hooks, by what it repaired, or by what it lost."""

from __future__ import annotations

from array import array
from pathlib import Path

import pytest

from unspool.agents.claude import finalize
from unspool.core import model as m
from unspool.core.tree import MODEL, Tree
from unspool.testing import ClaudeLog, call

LONG = "x" * 4_000
"""A result of about a thousand tokens."""


def answered(log: ClaudeLog, text: str, tokens: int) -> None:
    """Add an answer to a request with this many tokens."""
    log.model(text, tokens=tokens)


def parallel(version: str = "2.1.49", hooks: bool = False) -> ClaudeLog:
    """A turn with two parallel calls; these versions lose the first one on resume."""
    log = ClaudeLog(version=version)
    if hooks:
        hook(log, "startup", None)
    log.user("go")
    log.model(call("one"), name="one", reply="r", tokens=20_000)
    log.model(call("two"), name="two", reply="r", tokens=20_000)
    log.result("one", LONG, parent="one")
    log.result("two", "2", "last", parent="two")
    answered(log, "done", 22_000)
    return log


def hook(log: ClaudeLog, source: str, parent: str | None) -> None:
    name = f"SessionStart:{source}"
    log.line("progress", None, parent, data={"type": "hook_progress", "hookEvent": "SessionStart", "hookName": name})


def resumes(log: ClaudeLog, home: Path) -> list[m.Resume]:
    return log.load(home).resumes


@pytest.mark.parametrize("tokens", [21_990, 18_000])
def test_dropped_thinking_is_no_resume(tmp_path: Path, tokens: int) -> None:
    """A context that shrinks by much less or much more than a resume would lose."""
    log = parallel()
    log.user("next")
    answered(log, "fine", tokens)
    assert resumes(log, tmp_path) == []


def test_a_context_that_shrinks_by_what_a_resume_loses(tmp_path: Path) -> None:
    """It was probably resumed, and the call beside the chain is lost with its result."""
    log = parallel()
    log.user("next")
    answered(log, "fine", 21_000)
    (resume,) = resumes(log, tmp_path)
    assert (resume.message_index, resume.lost_message_indices, resume.confidence) == (6, [1, 3], 0.8)


def test_recorded_hooks_decide(tmp_path: Path) -> None:
    """Where hooks are recorded, a resume has one, and a context that only shrinks is none."""
    log = parallel(hooks=True)
    log.user("next", "next")
    answered(log, "fine", 21_000)
    assert resumes(log, tmp_path) == []
    log.model("the end", name="end", tokens=23_000)
    for _ in range(2):
        hook(log, "resume", "end")
    log.user("resumed")
    answered(log, "fine", 23_500)
    (resume,) = resumes(log, tmp_path)
    assert (resume.message_index, resume.lost_message_indices, resume.confidence) == (9, [1, 3], 1.0)


def test_hooks_in_attachments(tmp_path: Path) -> None:
    """From 2.1.150 on the hook is an attachment."""
    log = ClaudeLog(version="2.1.150")
    log.user("one")
    log.model("1")
    for source in ("resume", "resume", "compact"):
        name = f"SessionStart:{source}"
        log.line("attachment", None, attachment={"type": "hook_success", "hookName": name, "content": "hello"})
    log.user("two")
    log.model("2")
    assert [resume.message_index for resume in resumes(log, tmp_path)] == [2]


def test_several_signs_of_one_resume(tmp_path: Path) -> None:
    """A call that was left behind, a hook and an answer by the harness show the same resume."""
    log = ClaudeLog(version="2.1.63")
    log.user("one", "one")
    log.model(call("lost"))
    hook(log, "resume", "one")
    log.user("Continue from where you left off.", "meta", "one", isMeta=True)
    log.line("assistant", "standin", message={"model": "<synthetic>", "content": "No response requested."})
    log.user("two")
    log.model("2")
    assert [resume.message_index for resume in resumes(log, tmp_path)] == [2]


def test_a_call_that_was_left_behind_and_repeated(tmp_path: Path) -> None:
    """A later open call with the same id does not hide that the conversation continued without the first."""
    log = ClaudeLog(version="2.1.63")
    log.user("one", "one")
    log.model(call("lost"))
    log.user("two", "two", "one")
    log.model(call("lost"))
    session = log.load(tmp_path)
    assert [resume.message_index for resume in session.resumes] == [2]
    assert [orphan.message_index for orphan in session.orphans] == [1, 3]


# --- cost -------------------------------------------------------------------------------------------------------------


def _tree(length: int, resumes: int) -> tuple[Tree, list[int]]:
    """A path with side messages, and branches of three messages off it; returns the ends of the branches."""
    parents, path, sides, ends = [-1], [0], set[int](), []
    for number in range(1, length):
        parents.append(path[-1])
        path.append(len(parents) - 1)
        parents.append(path[-1])
        sides.add(len(parents) - 1)
        if number % (length // resumes) == 0:
            parents += [path[-2], len(parents), len(parents) + 1]
            ends.append(len(parents) - 1)
    flags = array("B", [0 if index in sides else MODEL for index in range(len(parents))])
    return Tree(array("i", parents), flags, path[-1]), ends


def test_finding_what_resumes_lost_is_linear(monkeypatch: pytest.MonkeyPatch) -> None:
    """Resumes on branches find what walking the whole path would find, and the path is walked once for all of them."""
    tree, ends = _tree(400, 20)
    expected = []
    for end in ends:
        beside = [(index, tree.sides(index)) for index in tree.path(tree.parents[end])]
        earlier = [(index, [side for side in sides if side < end]) for index, sides in beside if index < end]
        expected.append(sorted(one for index, sides in earlier if sides for one in (index, *sides)))
    looked_at = 0
    sides = Tree.sides

    def counting(tree: Tree, index: int) -> list[int]:
        nonlocal looked_at
        looked_at += 1
        return sides(tree, index)

    monkeypatch.setattr(Tree, "sides", counting)
    chain = finalize._OffChainResults(tree)
    assert [chain.before(end) for end in ends] == expected
    assert any(expected)
    assert looked_at <= 400 + 3 * len(ends)
