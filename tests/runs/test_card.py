"""What you see is what runs: the real Claude Code and the real Codex try to show something else in a browser."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from unspool.render.exact import original
from unspool.runs.drivers.claude_requests import refusal

from ..web.browser import CHROMIUM, Visitor, chromium, expect
from .end_to_end import Whole, whole

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="processes are ended with signals"),
    pytest.mark.skipif(CHROMIUM is None, reason="there is no browser"),
]
LONG = "true\n" * 80
COMMAND_SHOWN = "[...document.querySelectorAll('.approval .command pre')].map((part) => part.textContent).join('')"
LINES_ADDED = "[...document.querySelectorAll('.approval tr.add td:last-child')].map((cell) => cell.textContent)"


class Watched:
    """The page of an agent whose requests are looked at before they are answered."""

    def __init__(self, at: Whole, page: Any, run: str) -> None:
        self.at, self.page, self.run = at, page, run
        self._seen: set[str] = set()

    def _next(self) -> dict[str, Any] | None:
        asked = self.at.view(self.run)["questions"]
        return asked[0] if asked and asked[0]["digest"] not in self._seen else None

    def request(self, title: str) -> dict[str, Any]:
        """Wait for the card of the next request, or of one that has changed."""
        asked: dict[str, Any] = self.at.until(self._next, "another request")
        self._seen.add(asked["digest"])
        card = self.page.locator(f".approval[data-digest='{asked['digest']}']")
        expect(card.locator(".approval-title")).to_contain_text(title)
        return asked

    def warnings(self) -> str:
        """The warnings on the card."""
        text: str = self.page.locator(".approval-warnings").inner_text()
        return text

    def copied(self) -> str:
        """What the button beside the command copies."""
        given = self.page.locator(".approval .command .copy").get_attribute("data-copy-json")
        text: str = json.loads(given)
        return text

    def allow(self) -> None:
        """Press the button."""
        self.page.locator(".verdicts .primary").click()


@pytest.fixture(scope="module")
def opened() -> Iterator[Any]:
    """The browser of both tests."""
    with chromium() as browser:
        yield browser


@contextmanager
def watched(browser: Any, folder: Path, agent: str, *steps: str, **options: str) -> Iterator[Watched]:
    """An agent with a script, and its page."""
    with whole(folder, agent) as at:
        visitor = Visitor(browser, at.server)
        run = at.start("@do " + ";;".join(step.replace("PROJECT", str(at.project)) for step in steps), **options)
        yield Watched(at, visitor.open("/agents"), run)
        visitor.complaints[:] = [words for words in visitor.complaints if "409" not in words]
        visitor.leave()


def step(tool: str, **input: Any) -> str:
    """A call in a script; JSON keeps every character."""
    return f"call {tool} {json.dumps(input)}"


def test_claude_code_runs_what_was_shown(opened: Any, tmp_path: Path) -> None:
    """Escapes and turned text in a file, a long command with switches, a request and a file that have changed."""
    content = "first\x1bP\nsecond \u202e\n"
    command = LONG + "printf hidden > made"
    steps = (
        step("Write", file_path="PROJECT/spoof", content=content),
        step("Bash", command=command, run_in_background=False, dangerouslyDisableSandbox=True),
        step("Edit", file_path="PROJECT/spoof", old_string="first", new_string="last", replace_all=True),
        "say Done.",
    )
    with watched(opened, tmp_path, "claude", *steps) as card:
        old = card.request("spoof")
        expect(card.page.locator(".approval tr.add")).to_have_count(2)
        assert [original(line) for line in card.page.evaluate(LINES_ADDED)] == content.splitlines()
        assert "U+001B ESCAPE" in card.warnings()
        assert "U+202E RIGHT-TO-LEFT OVERRIDE" in card.warnings()
        card.allow()
        new = card.request("printf hidden > made")
        assert (card.at.project / "spoof").read_text() == content
        assert original(card.page.evaluate(COMMAND_SHOWN)) == card.copied() == command
        expect(card.page.locator(".approval .command .end")).to_contain_text("printf hidden > made")
        expect(card.page.locator(".approval .not-shown").first).to_contain_text("lines not shown here: show all")
        expect(card.page.locator(".request-details")).to_contain_text("dangerouslyDisableSandbox")
        expect(card.page.locator(".request-details")).to_contain_text("run_in_background")
        # An answer to what was shown before is none to this.
        stale = {**new, "digest": old["digest"]}
        assert card.at.answer(card.run, stale, "allow")[0] == 409
        card.allow()
        card.request("spoof")
        assert (card.at.project / "made").read_text() == "hidden"
        expect(card.page.locator(".request-details")).to_contain_text("replace_all")
        assert card.page.locator("[data-rule]").inner_text().endswith("(mode acceptEdits).")
        (card.at.project / "spoof").write_text("another program's\n")
        card.allow()
        question = card.request("spoof")
        assert "The text to be replaced is not in the file" in card.warnings()
        assert card.at.answer(card.run, question, "deny", reason="Read it again.")[0] == 200
        card.at.until_in(card.run, "idle")
        assert card.at.agent.results(card.at.last)[-1][1] == json.dumps(refusal("Read it again."))
        assert (card.at.project / "spoof").read_text() == "another program's\n"


def test_codex_runs_what_was_shown(opened: Any, tmp_path: Path) -> None:
    """The text behind an escape sequence, look-alikes and the end of a long command, and a file that has appeared."""
    hidden = "ls . \x1bP ; printf \u0430 > pwned # \u202e"
    escalated = {"sandbox_permissions": "require_escalated", "justification": "May \x1b[8m I?", "yield_time_ms": 20000}
    steps = (
        step("exec_command", cmd=hidden, **escalated),
        step("exec_command", cmd=LONG + "printf end > made", **escalated),
        "patch PROJECT/added=text",
        "say Done.",
    )
    # In a folder that it may write to, Codex asks before a patch only where its own sandbox does not work.
    with watched(opened, tmp_path, "codex", *steps, mode="read-only") as card:
        card.request("ls . ⟨ESC⟩P ; printf ⟨U+0430⟩ > pwned # ⟨U+202E⟩")
        assert original(card.page.evaluate(COMMAND_SHOWN)) == card.copied() == hidden
        assert "U+001B ESCAPE" in card.warnings()
        expect(card.page.locator(".request-details")).to_contain_text(str(card.at.project))
        assert "about this command in this folder, with the same shell" in card.page.locator("[data-rule]").inner_text()
        card.allow()
        question = card.request("printf end > made")
        assert (card.at.project / "pwned").read_text() == "\u0430"
        assert original(card.page.evaluate(COMMAND_SHOWN)) == LONG + "printf end > made"
        expect(card.page.locator(".approval .command .end")).to_contain_text("printf end > made")
        assert card.at.answer(card.run, question, "allow")[0] == 200
        card.request("added")
        assert (card.at.project / "made").read_text() == "end"
        expect(card.page.locator(".approval tr.add")).to_have_count(1)
        (card.at.project / "added").write_text("another program's\n")
        card.allow()
        assert card.at.answer(card.run, card.request("added"), "deny_stop")[0] == 200
        card.at.until_in(card.run, "interrupted", "idle")
        assert (card.at.project / "added").read_text() == "another program's\n"
