"""Commands for Claude Code itself that the conversation bypasses."""

from __future__ import annotations

from pathlib import Path

import pytest

from unspool.testing import ClaudeLog, texts

EXIT = "<command-name>/exit</command-name><command-args></command-args>"


def left(version: str = "2.1.37") -> ClaudeLog:
    """A turn, /exit, and a resume that continues before it."""
    log = ClaudeLog(version=version)
    log.user("one")
    log.model("1", name="answer")
    log.user("<local-command-caveat>Caveat</local-command-caveat>", "caveat", isMeta=True)
    log.user(EXIT)
    log.user("<local-command-stdout>Bye!</local-command-stdout>", "bye")
    log.user("two", parent="caveat")
    log.model("2")
    return log


def test_leaving_the_agent_is_no_branch(tmp_path: Path) -> None:
    """Nor an interruption, and neither the command nor its output is in the context."""
    session = left().load(tmp_path)
    assert (session.branches, session.interruptions, session.rollbacks) == ([], [], [])
    assert [message.context for message in session.messages] == ["live"] * 3 + ["abandoned"] * 2 + ["live"] * 2
    assert "Bye" not in str(texts(session, session.context_at(6).message_indices))


def test_a_command_on_the_path_stays_there(tmp_path: Path) -> None:
    """If the next prompt follows it, as in most versions, nothing was bypassed."""
    log = left()
    del log.lines[-2:]
    log.user("two", parent="bye")
    log.model("2")
    session = log.load(tmp_path)
    assert {message.context for message in session.messages} == {"live"}


@pytest.mark.parametrize("is_system", [True, False])
def test_a_session_that_ends_with_a_command(tmp_path: Path, is_system: bool) -> None:
    """What the agent has done itself leaves nothing open: the session was not killed, and an interruption stays one."""

    def leave(log: ClaudeLog) -> str:
        for text in (EXIT, "<local-command-stdout>Bye!</local-command-stdout>"):
            if is_system:
                log.line("system", None, subtype="local_command", content=text)
            else:
                log.user(text)
        return log.load(tmp_path).info.status

    log = ClaudeLog()
    log.user("one")
    log.model("1")
    assert leave(log) == "complete"
    log.user("two")
    assert leave(log) == "killed"
    log.user([{"type": "text", "text": "[Request interrupted by user]"}])
    assert leave(log) == "interrupted"


def test_a_session_that_ends_with_a_command_for_the_model(tmp_path: Path) -> None:
    """It was killed if there is no answer."""
    log = ClaudeLog()
    log.user("one")
    log.model("1")
    log.user("<command-name>/review</command-name>")
    log.user("Review the code.", isMeta=True)
    assert log.load(tmp_path).info.status == "killed"


def test_a_command_that_the_model_answered_is_a_branch(tmp_path: Path) -> None:
    """A custom command is a prompt: going back to before it leaves a branch."""
    log = ClaudeLog()
    log.user("one")
    log.model("1", name="answer")
    log.user("<command-name>/review</command-name>")
    log.user("Review the code.", isMeta=True)
    log.model("It is fine.")
    log.user("two", parent="answer")
    log.model("2")
    session = log.load(tmp_path)
    assert [(branch.reason, branch.root_index) for branch in session.branches] == [("rewind", 2)]
