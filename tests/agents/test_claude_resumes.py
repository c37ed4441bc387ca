"""Where Claude Code loaded a session again: by recorded hooks, by what it repaired, or by what it lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from unspool.core import model as m
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
