"""Transcripts in the terminal: everything is shown, with its outcome."""

from __future__ import annotations

import io
import re
from pathlib import Path

from rich.console import Console

from unspool.agents import AGENTS
from unspool.core import model as m
from unspool.core.session import Session
from unspool.core.views import Branches
from unspool.render.terminal import render_terminal
from unspool.testing import ClaudeLog, GeminiLog, call

DRAWN = re.compile(r"[\u2500-\u257f]")


def shown(
    session: Session, branches: Branches = "all", *, full: bool = False, plain: bool = True, colour: bool = False
) -> str:
    """What a terminal of 100 columns shows."""
    out = Console(file=io.StringIO(), width=100, force_terminal=colour, color_system="standard" if colour else None)
    for piece in render_terminal(session, AGENTS[session.agent].describe, branches, full=full, plain=plain):
        out.print(piece)
    assert isinstance(out.file, io.StringIO)
    return "\n".join(line.rstrip() for line in out.file.getvalue().split("\n"))


def eventful() -> ClaudeLog:
    """A session in which much happens."""
    log = ClaudeLog()
    log.user("start", "start")
    log.model(
        {"type": "thinking", "thinking": "hmm " * 100, "signature": "s"},
        "# Title\n\nsome **bold** words",
        name="answer",
    )
    log.user("mistake")
    log.model("mistaken")
    log.user("better", parent="answer")
    log.model(call("c1", "Edit", file_path="a.txt", old_string="old", new_string="new"))
    refusal = "The user doesn't want to proceed with this tool use. The tool use was rejected (eg. if it was a file edit, the new_string was NOT written to the file). To tell you how to proceed, the user said:\nuse tabs"  # noqa: E501
    log.result("c1", refusal, error=True, toolUseResult="User rejected tool use")
    log.model(call("c2", command="git frobnicate"))
    log.result("c2", "Exit code 128\nfatal: no", error=True)
    log.boundary(trigger="auto", preTokens=155_000)
    log.user("A summary.", isCompactSummary=True)
    log.user("go on")
    log.model(call("c3", command="sleep 60"))
    log.user([{"type": "text", "text": "[Request interrupted by user for tool use]"}])
    log.user("last")
    log.model(call("c4", command="make"))
    log.raw(b"[]")
    return log


def test_every_event_is_marked(tmp_path: Path) -> None:
    """Outcomes, the rejected diff, the summary, the interruption, the branch, the problem."""
    text = shown(eventful().load(tmp_path))
    for expected in (
        "▌ you  #0",
        "▸ Edit  a.txt  ⊘ rejected: “use tabs”",
        "  -old",
        "  +new",
        "▸ Bash  git frobnicate  ✗ exit 128",
        "— Compacted · auto · 155,000 tokens · 7 messages replaced, 0 kept —",
        "A summary.",
        "— ✕ Interrupted by the user during a tool call —",
        "— ↶ 2 messages rewound here (branch 1) —",
        "▸ Bash  make  ○ unfinished (killed)",
        "! line without a record: line 17: ",
    ):
        assert expected in text


def test_only_pretty_output_has_drawings(tmp_path: Path) -> None:
    """Plain text is the answer as it was written; otherwise it is set, with lines over the whole width."""
    session = eventful().load(tmp_path)
    plain, pretty = shown(session), shown(session, plain=False)
    assert not DRAWN.search(plain)
    assert "# Title" in plain
    assert "some **bold** words" in plain
    assert DRAWN.search(pretty)
    assert "# Title" not in pretty
    assert "some bold words" in pretty


def test_other_branches_are_mentioned(tmp_path: Path) -> None:
    """With only the active path, their text is left out, but their position is shown."""
    session = eventful().load(tmp_path)
    assert "  mistaken" in shown(session)
    active = shown(session, "active")
    assert "mistake" not in active
    assert "2 messages rewound here" in active


def test_full_shows_whole_thinking(tmp_path: Path) -> None:
    """Otherwise they are one line."""
    session = eventful().load(tmp_path)
    assert shown(session).count("hmm") < 30
    assert shown(session, full=True).count("hmm") == 100


def test_nothing_is_read_as_markup(tmp_path: Path) -> None:
    """Square brackets have no meaning anywhere."""
    log = GeminiLog()
    log.lines[0] = log.lines[0].replace(log.session.encode(), b"[/red][bold]")
    log.user("u", "[red]prompt[/blue]")
    log.message("gemini", "g", "[link=x]answer", model="[bold]m")
    log.user("u2", "mistake")
    log.rewind("u2")
    log.user("u3", "[/]")
    log.message("info", "i1", "Request cancelled.")
    text = shown(log.load(tmp_path), plain=False)
    for expected in ("[red]prompt[/blue]", "[bold]m", "[/red][bold] ·"):
        assert expected in text


def test_a_label_is_not_read_as_markup(tmp_path: Path) -> None:
    """The name of the session that continues a cleared conversation comes from a log."""
    session = eventful().load(tmp_path)
    session.context_clears.append(
        m.ContextClear(after_message_index=0, evidence="session", confidence=1.0, next_session="[/x]")
    )
    for plain in (True, False):
        assert "continues in [/x]" in shown(session, plain=plain)


def test_a_result_without_its_call_is_shown(tmp_path: Path) -> None:
    """The line with the call may be lost; the result is shown anyway."""
    log = ClaudeLog()
    log.user("go")
    log.result("lost", "what came back")
    assert "result without its call: what came back" in shown(log.load(tmp_path))


def test_character_references_are_sanitized(tmp_path: Path) -> None:
    """Markdown can name what it may not contain."""
    log = ClaudeLog()
    log.user("go")
    log.model("a &#x202e;b `c` &#27;[31m\n\n```\n&#x202e;\n```")
    text = shown(log.load(tmp_path), plain=False, colour=True)
    assert "\u202e" not in text
    assert "\x1b[31m\ufffd" not in text
