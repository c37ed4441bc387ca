"""Performs twelve common tasks in the web app, in a real browser with the sample sessions.

`python -m tools.task_list` prints the steps and seconds that each task takes, starting at the session list. A step is a
click, a key or a typed text.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from tests.web.browser import Visitor, chromium, expect, serving

import unspool

Page = Any
Steps = Callable[["Walk"], None]


class Task(NamedTuple):
    """A task, and the function that performs it."""

    name: str
    steps: Steps


class Walk:
    """A page that counts the steps."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.steps = 0

    def click(self, selector: str, text: str | None = None) -> None:
        """Click the first matching element."""
        self.steps += 1
        self.page.locator(selector, has_text=text).first.click()

    def press(self, key: str) -> None:
        """Press a key."""
        self.steps += 1
        self.page.keyboard.press(key)

    def type(self, text: str) -> None:
        """Type a text into the focused element."""
        self.steps += 1
        self.page.keyboard.type(text)

    def see(self, selector: str, text: str | None = None) -> None:
        """Wait until a matching element is visible."""
        expect(self.page.locator(selector, has_text=text).first).to_be_visible()


def _open_by_title(walk: Walk) -> None:
    walk.press("Control+k")
    walk.type("time zones")
    walk.press("Enter")
    walk.see(".session-head h1", "Time zones for tide tables")
    # Wait until the scripts are running.
    walk.see("html[data-stream=open]")


def _filter(walk: Walk) -> None:
    walk.click(".chip", "Codex CLI")
    walk.click(".chip", "rejected")
    walk.see("li.session", "Exit status for unreadable tables")


def _search(walk: Walk) -> None:
    walk.press("/")
    walk.type("ZoneInfoNotFoundError")
    walk.press("Enter")
    walk.click("section.result li > a")
    walk.see(".entry.current mark, .entry.current")


def _find_in_session(walk: Walk) -> None:
    _open_by_title(walk)
    walk.press("Control+f")
    walk.type("Monterey")
    walk.see(".find-count:not(:empty)")
    walk.press("Enter")
    walk.see(".entry.current")


def _why_rejected(walk: Walk) -> None:
    walk.click(".views > a", "Rejections")
    walk.click("main a.event-title")
    walk.see(".entry .verdict", "Rejected by")


def _context(walk: Walk) -> None:
    _open_by_title(walk)
    walk.click("#rail a.turn", "Now the CLI")
    walk.press("c")
    walk.see("#inspector h3", "Tokens by kind")


def _compaction(walk: Walk) -> None:
    _open_by_title(walk)
    walk.click("#rail .mark.compaction")
    walk.click(".entry.compaction summary")
    walk.see(".entry.compaction .replaced")


def _cost_of_turns(walk: Walk) -> None:
    _open_by_title(walk)
    walk.click(".session-head a[href$='/usage']")
    walk.see("h2", "Turns")


def _cost_by_model(walk: Walk) -> None:
    walk.click(".views > a", "Stats")
    walk.see("td.cost")
    walk.see("h2", "Cost")


def _sessions_of_file(walk: Walk) -> None:
    walk.click(".views summary", "More")
    walk.click(".views a", "Files")
    walk.click("main a", "cli.py")
    walk.see("main a[href^='/sessions/']")


def _failures(walk: Walk) -> None:
    walk.click(".views summary", "More")
    walk.click(".views a", "Errors")
    walk.click("main a[href*='view=groups']")
    walk.see(".failures .times")


def _note_and_export(walk: Walk) -> None:
    _open_by_title(walk)
    walk.click("#m0 [data-note]")
    walk.type("show this to the team")
    walk.press("Enter")
    walk.see(".own-notes", "show this to the team")
    walk.click(".actions .menu summary", "Export")
    with walk.page.expect_download() as download:
        walk.click(".actions a", "Markdown")
    assert "show this to the team" in Path(download.value.path()).read_text(encoding="utf-8")


TASKS = (
    Task("open a session whose title I remember", _open_by_title),
    Task("list the sessions of one agent with a rejection", _filter),
    Task("find a message by its words in all sessions", _search),
    Task("find the occurrences of a word in one session", _find_in_session),
    Task("see why a call was rejected", _why_rejected),
    Task("see what was in the context at a prompt, and its size", _context),
    Task("see what a compaction replaced", _compaction),
    Task("see what each turn of a session cost", _cost_of_turns),
    Task("see what each model cost", _cost_by_model),
    Task("find the sessions that touched a file", _sessions_of_file),
    Task("see which failures happen repeatedly", _failures),
    Task("add a note to a message and export the session with it", _note_and_export),
)


def do(task: Task, visitor: Visitor) -> tuple[int, float]:
    """Perform a task, starting at the session list. Returns the number of steps and the seconds."""
    page = visitor.open("/")
    walk = Walk(page)
    start = time.monotonic()
    task.steps(walk)
    took = time.monotonic() - start
    page.close()
    return walk.steps, took


def main() -> int:
    """Perform all tasks and print a table."""
    with (
        tempfile.TemporaryDirectory(prefix="unspool-tasks-") as name,
        serving(Path(name), unspool.samples()) as server,
        chromium() as browser,
    ):
        server.wait_until_ready()
        visitor = Visitor(browser, server)
        print(f"{'task':<60}{'steps':>6}{'seconds':>9}")
        for number, task in enumerate(TASKS, 1):
            steps, took = do(task, visitor)
            print(f"{number:>2}  {task.name:<56}{steps:>6}{took:>9.1f}", flush=True)
        visitor.leave()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
