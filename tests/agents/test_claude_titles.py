"""Titles of Claude Code sessions: the same in a list, which reads little, and in the whole session."""

from __future__ import annotations

from pathlib import Path

import pytest

from unspool.agents.claude.first_prompt import title_in
from unspool.agents.claude.heads import read_head
from unspool.library import Library
from unspool.testing import ClaudeLog

_NOISE = "x" * 200_000


def _title(log: ClaudeLog, home: Path) -> str | None:
    """Return the title, after checking that a list has the same."""
    path = log.write(home)
    library = Library(home)
    ref = library.ref_of(path)
    title = library.load(ref).title
    assert library.peek(ref).title == title
    return title


def _command(name: str, arguments: str = "") -> str:
    return f"<command-name>{name}</command-name><command-args>{arguments}</command-args>"


def _record(log: ClaudeLog, kind: str, **fields: str) -> None:
    log.record({"type": kind, "sessionId": log.session, **fields})


def test_words_far_into_the_file_are_found(tmp_path: Path) -> None:
    """Large notes, commands and their output may come before them."""
    log = ClaudeLog()
    log.user(_command("/model"))
    log.user("<local-command-stdout>Set model</local-command-stdout>")
    log.line("attachment", None, attachment={"type": "skill_listing", "content": _NOISE})
    log.user("Caveat: The messages below were generated", isMeta=True)
    log.user("build a raft")
    log.model("with logs?")
    log.user("with barrels")
    assert _title(log, tmp_path) == "build a raft"


@pytest.mark.parametrize(
    ("prompts", "title"),
    [
        ([_command("/review", "PR 7")], "/review PR 7"),
        ([_command("/clear"), _command("/review", "PR 7")], "/review PR 7"),
        ([_command("/clear")], "/clear"),
        ([_command("/review", "PR 7"), "and fix it"], "and fix it"),
        (["Implement the following plan:\n\n# A raft\n\n1. Find logs.", "commit this"], "A raft"),
        (["Implement the following plan:\n\nFind logs.", "commit this"], "Find logs."),
        (["[Request interrupted by user]", "build a raft"], "build a raft"),
        (["<ide_opened_file>a.py</ide_opened_file>\nbuild a raft"], "build a raft"),
        (["<system-reminder>Remember.</system-reminder>", "build a raft"], "build a raft"),
        (["```\n---\nbuild a raft\n```"], "build a raft"),
        (["<local-command-stdout>done</local-command-stdout>"], None),
    ],
)
def test_the_first_words_are_the_title(tmp_path: Path, prompts: list[str], title: str | None) -> None:
    """Never an interruption, an element, or the opening words of a plan."""
    log = ClaudeLog()
    for prompt in prompts:
        log.user(prompt)
        log.model("fine")
    assert _title(log, tmp_path) == title


def test_a_recorded_title_comes_first(tmp_path: Path) -> None:
    """One that a person gave replaces one that a model wrote, and later ones replace earlier ones."""
    log = ClaudeLog()
    log.user("hello")
    _record(log, "ai-title", aiTitle="A greeting")
    assert _title(log, tmp_path) == "A greeting"
    _record(log, "custom-title", customTitle="Mine")
    _record(log, "ai-title", aiTitle="A long greeting")
    assert _title(log, tmp_path) == "Mine"
    log.line("attachment", None, attachment={"type": "skill_listing", "content": _NOISE})
    _record(log, "custom-title", customTitle="Mine again")
    assert _title(log, tmp_path) == "Mine again"


def test_a_summary_counts_for_the_session_it_refers_to(tmp_path: Path) -> None:
    """Old versions write summaries of other sessions into the same file, and anywhere in it."""
    log = ClaudeLog(version="2.1.5")
    log.user("hello", "hello")
    log.line("attachment", None, attachment={"type": "skill_listing", "content": _NOISE})
    _record(log, "summary", summary="A greeting", leafUuid=log.id("hello"))
    _record(log, "summary", summary="Another session", leafUuid=log.id("elsewhere"))
    log.line("attachment", None, attachment={"type": "skill_listing", "content": _NOISE})
    assert _title(log, tmp_path) == "A greeting"


def test_many_summaries_in_other_files(tmp_path: Path) -> None:
    """The file is searched once, not once for each of them, which would take minutes."""
    log = ClaudeLog(version="2.0.76")
    log.user("hello", "hello")
    for _ in range(40):
        log.line("attachment", None, attachment={"type": "skill_listing", "content": _NOISE})
    path = log.write(tmp_path)
    head = read_head(path)
    assert head is not None
    summaries = {f"{number:08}-ce03-5907-8627-ecd96b6ce945": "Another session" for number in range(100_000)}
    assert title_in(head, [path], {log.id("hello"): "A greeting"} | summaries) == "A greeting"
    assert title_in(head, [path], summaries) == "hello"


def test_a_subagent_has_its_task_as_title(tmp_path: Path) -> None:
    """The model writes it."""
    main = ClaudeLog()
    main.user("hello")
    main.write(tmp_path)
    log = ClaudeLog(agent="a1")
    log.user("count the files")
    log.model("three")
    assert _title(log, tmp_path) == "count the files"


@pytest.mark.parametrize("has_words", [False, True])
def test_a_file_with_nothing_but_a_sub_agent_is_titled_by_its_task(tmp_path: Path, has_words: bool) -> None:
    """The conversation that started it is gone; the sub-agent is read from the file."""
    log = ClaudeLog()
    log.user("explore the harbour", "task", isSidechain=True, agentId="a1")
    log.model("found a lighthouse", isSidechain=True, agentId="a1")
    if has_words:
        log.user("[Request interrupted by user]", parent=None)
    assert _title(log, tmp_path) == (None if has_words else "explore the harbour")
    (main, agent) = Library(tmp_path).load_all(next(iter(Library(tmp_path).refs())))
    assert (len(main.messages), len(agent.messages)) == (1 if has_words else 0, 2)
