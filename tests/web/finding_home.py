"""A home directory with sessions to find: projects, worktrees, failures, and a long session with folded calls."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from unspool.testing import ClaudeLog, CodexLog, call

REPOSITORY = "/home/dev/harbour"
WORKTREE = "/home/dev/harbour/.claude/worktrees/pier"
NEEDLE = "Lighthouse"
TURNS = 70


class LogIn(ClaudeLog):
    """A session in some folder, whose messages have ids of their own: others would be copies."""

    def __init__(self, session: str, folder: str) -> None:
        self._name, self._folder = session, folder
        super().__init__(session)

    def id(self, name: str) -> str:
        return super().id(f"{self._name}: {name}")

    def line(self, kind: str, name: str | None, *args: Any, **fields: Any) -> str:
        return super().line(kind, name, *args, **{"cwd": self._folder, **fields})


LONG = LogIn("long", REPOSITORY).session
"""The session that tests search within."""


def long_session() -> ClaudeLog:
    """Several pages; the word is in prompts, answers, folded calls, long outputs, thinking and an abandoned branch."""
    log = LogIn("long", REPOSITORY)
    for turn in range(TURNS):
        log.user(f"question {turn}", name=f"question {turn}")
        if turn in (3, 50):
            thought = {"type": "thinking", "thinking": f"The {NEEDLE.lower()} needs a lamp", "signature": "s"}
            log.model(thought, f"I look at the **{NEEDLE}** {turn}")
        if turn == 10:
            log.model(call("grep", command="grep -r lamp src"))
            log.result("grep", "src/a.py: lamp\n" * 60 + f"src/z.py: {NEEDLE.upper()} at the end\n")
        if turn == 20:
            log.model(call("edit", "Edit", file_path=f"{REPOSITORY}/tower.py", old_string="a\n", new_string="light\n"))
            log.result("edit", "The file has been updated.")
        log.model(f"answer {turn}")
    log.user(f"a {NEEDLE} on another branch", parent="question 40")
    log.model("an answer nobody wanted")
    log.user("the end", parent=f"question {TURNS - 1}")
    return log


def failing(name: str, folder: str, times: int) -> ClaudeLog:
    """The same command fails in the same way, with other numbers and paths each time."""
    log = LogIn(name, folder)
    log.user(f"Make the tests pass ({name})")
    for number in range(times):
        log.model(call(f"test{number}", command=f"cd {folder} && pytest -q tests/test_{number}.py"))
        text = f"Exit code 1\ncollected {number + 3} items\nE   ModuleNotFoundError: No module named 'tide'"
        log.result(f"test{number}", text, error=True, toolUseResult=f"Error: {text}")
    log.user(f"Now look at tower.py ({name})")
    log.model(call("read", "Read", file_path=f"{REPOSITORY}/tower.py"))
    log.result("read", "light\n")
    log.model(f"Done with {NEEDLE.lower()} {name}.")
    return log


def write_home(home: Path) -> Path:
    """All sessions, written to a home directory."""
    long_session().write(home)
    failing("quay", REPOSITORY, 3).write(home)
    failing("pier", WORKTREE, 2).write(home)
    other = CodexLog("codex")
    other.turn("How deep is the harbour?", f"As deep as the {NEEDLE.lower()} is high.")
    other.write(home)
    return home
