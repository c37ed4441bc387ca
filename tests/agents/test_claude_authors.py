"""Who wrote a line of Claude Code, and lines that nobody wrote for the conversation."""

from __future__ import annotations

from pathlib import Path

import pytest

from unspool import model as m
from unspool.testing import ClaudeLog


@pytest.mark.parametrize(
    "element",
    [
        "<ide_opened_file>The user opened a.py</ide_opened_file>",
        "<ide_selection>lines 1 to 3</ide_selection>",
        "<system-reminder>\nRemember.\n</system-reminder>",
        '<ci-monitor-event run="7">failed</ci-monitor-event>',
    ],
)
def test_an_injected_element_is_not_typed(tmp_path: Path, element: str) -> None:
    """Alone it is the harness's; beside typed words it is an attachment to them."""
    log = ClaudeLog()
    log.user(element)
    log.user([{"type": "text", "text": element}, {"type": "text", "text": "why is this red?"}])
    log.user(f"{element}\nand this?")
    log.model("because")
    alone, in_blocks, in_text = log.load(tmp_path).messages[:3]
    tag = element[1:].replace(" ", ">").split(">")[0]
    assert (alone.author, alone.blocks) == ("harness", [m.Attachment(tag, element)])
    assert (in_blocks.author, in_blocks.blocks) == ("human", [*alone.blocks, m.Text("why is this red?")])
    assert (in_text.author, in_text.blocks) == ("human", [*alone.blocks, m.Text("and this?")])


def test_markup_that_a_person_typed_is_theirs(tmp_path: Path) -> None:
    """Only the agent's own elements are recognised."""
    log = ClaudeLog()
    log.user("<div>why is this empty?</div>")
    log.model("because")
    message = log.load(tmp_path).messages[0]
    assert (message.author, message.blocks) == ("human", [m.Text("<div>why is this empty?</div>")])


def test_synthetic_is_no_model(tmp_path: Path) -> None:
    """The beginning of an answer that was cut off keeps its author, and names no model."""
    log = ClaudeLog()
    log.user("count")
    message = {"id": "m", "role": "assistant", "model": "<synthetic>", "content": [{"type": "text", "text": "one, t"}]}
    log.line("assistant", "partial", message=message)
    log.user("again")
    log.model("one, two")
    session = log.load(tmp_path)
    assert (session.messages[1].author, session.messages[1].model) == ("model", None)
    assert session.info.models == ["claude-sonnet-4-5"]


def test_records_about_the_program_are_known(tmp_path: Path) -> None:
    """They are no problem; a kind that nobody knows still is."""
    log = ClaudeLog()
    log.user("hello")
    for kind in ("bridge-session", "frame-link", "session-owner", "attribution-snapshot", "kind-of-tomorrow"):
        log.record({"type": kind, "sessionId": log.session})
    log.model("hi")
    problems = log.load(tmp_path).problems
    assert [problem.detail for problem in problems] == ["a record of type 'kind-of-tomorrow'"]
