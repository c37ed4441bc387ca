"""The commands for running agents, with a server whose responses a test defines."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

import pytest

from unspool.cli._shared.client import Server
from unspool.cli.commands import approve, attach, deny, interrupt, ps, run, stop
from unspool.core.errors import UnspoolError, UsageError

Json = dict[str, Any]
REQUEST = {"asked": {"id": "ask-1", "tool": "Bash", "title": "touch made"}, "digest": "d1", "at": ""}
RUN: Json = {
    "id": "3f2a", "agent": "claude", "session": "37c23", "state": "waiting-input", "reason": None, "folder": "/demo",
    "questions": [REQUEST],
}  # fmt: skip


class FakeServer(Server):
    """A server with one run."""

    def __init__(self) -> None:
        self.run = RUN
        self.script: list[Json] = []
        self.sent: list[tuple[str, Any]] = []

    def ask(self, method: str, path: str, body: object = None) -> Any:
        if method == "GET":
            return {"runs": [self.run], "seq": 0} if path == "/api/runs" else self.run
        self.sent.append((path, body))
        return self.run

    def events(self, since: int) -> Iterator[Json]:
        del since
        return iter([{"run": self.run["id"], **event} for event in self.script])


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> FakeServer:
    server = FakeServer()
    for module in (approve, attach, interrupt, ps, run):
        monkeypatch.setattr(module, "Server", lambda: server)
    return server


def arguments(command: Any, *given: str) -> argparse.Namespace:
    """Parsed arguments of a command."""
    parser = argparse.ArgumentParser()
    command.configure(parser)
    return parser.parse_args(given)


def test_attach_prints_the_events_of_a_run(server: FakeServer, capsys: pytest.CaptureFixture[str]) -> None:
    """Text, requests, answers and the end, and nothing of other runs."""
    server.script = [
        {"kind": "state", "state": "idle"},
        {"kind": "words", "text": "Hello", "thinking": False},
        {"kind": "words", "text": "hm", "thinking": True},
        {"kind": "words", "text": "another run", "thinking": False, "run": "other"},
        {"kind": "asked", "question": REQUEST},
        {"kind": "answered", "verdict": "deny_stop", "who": "tab 1", "reason": "not now"},
        {"kind": "turn_ended", "outcome": "interrupted", "error": None},
        {"kind": "remarked", "text": "Retrying."},
        {"kind": "state", "state": "ended", "reason": "stopped by tab 1"},
    ]
    assert attach.follow(server, "3f2a", 0, as_json=False) == 0
    assert capsys.readouterr().out == (
        "Hello\n? Bash touch made\n! denied and the turn stopped by tab 1: not now\n\n— interrupted\n· Retrying.\n"
        "— ended: stopped by tab 1\n"
    )


@pytest.mark.parametrize(("reason", "code"), [("done", 0), ("idle", 0), ("failed", 1), ("the server was killed", 1)])
def test_exit_codes(server: FakeServer, reason: str, code: int) -> None:
    """An agent that failed, or lost its server, is a failure."""
    server.script = [{"kind": "state", "state": "ended", "reason": reason}]
    assert attach.follow(server, "3f2a", 0, as_json=True) == code


def test_without_a_terminal_following_stops_after_the_turn(server: FakeServer) -> None:
    """An agent is idle before its first turn too, which is not the end."""
    server.script = [
        {"kind": "state", "state": "idle"},
        {"kind": "turn_ended", "outcome": "completed", "error": None},
        {"kind": "state", "state": "idle"},
        {"kind": "state", "state": "ended", "reason": "failed"},
    ]
    assert attach.follow(server, "3f2a", 0, as_json=True, until_idle=True) == 0


@pytest.mark.parametrize(
    ("command", "given", "verdict", "reason"),
    [
        (approve, (), "allow", None),
        (approve, ("--session",), "allow_session", None),
        (deny, ("3f2a", "--reason", "no"), "deny", "no"),
        (deny, ("--stop", "--request", "ask"), "deny_stop", None),
    ],
)
def test_answers_name_the_digest_of_what_was_shown(
    server: FakeServer, capsys: pytest.CaptureFixture[str], command: Any, given: tuple[str, ...], verdict: str,
    reason: str | None,
) -> None:  # fmt: skip
    """So that only exactly this request is answered."""
    assert command.run(arguments(command, *given)) == 0
    ((path, body),) = server.sent
    assert path == "/api/runs/3f2a/answers/ask-1"
    assert (body["digest"], body["verdict"], body["reason"]) == ("d1", verdict, reason)
    assert capsys.readouterr().out == f"{verdict.replace('_', ' ')}: Bash touch made\n"


def test_no_pending_request(server: FakeServer) -> None:
    """The message names the agent, and the request if one was given."""
    with pytest.raises(UnspoolError, match="Agent 3f2a has no open request 'other'"):
        approve.run(arguments(approve, "--request", "other"))
    server.run = RUN | {"questions": []}
    with pytest.raises(UnspoolError, match=r"Agent 3f2a has no open request$"):
        approve.run(arguments(approve))


@pytest.mark.parametrize(
    ("typed", "path", "field"),
    [
        ("i", "interrupt", {}),
        ("a", "answers/ask-1", {"verdict": "allow", "reason": None}),
        ("r too early", "answers/ask-1", {"verdict": "deny", "reason": "too early"}),
        ("a word on this", "messages", {"text": "a word on this"}),
    ],
)
def test_typed_lines_are_answers_or_messages(server: FakeServer, typed: str, path: str, field: Json) -> None:
    """A letter alone is a command; a sentence that starts with it is a message."""
    attach.act(server, "3f2a", typed)
    ((found, body),) = server.sent
    assert found == f"/api/runs/3f2a/{path}"
    assert field.items() <= body.items()


def test_running_agents_are_listed(server: FakeServer, capsys: pytest.CaptureFixture[str]) -> None:
    """With their requests, and a hint when there are none."""
    ps.run(arguments(ps))
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["3f2a", "claude", "37c23", "waiting-input", "/demo"]
    assert lines[1:] == ["    asks: Bash touch made"]
    server.run = RUN | {"state": "ended"}
    ps.run(arguments(ps))
    assert capsys.readouterr().out == "No agents are running; start one with `unspool run`\n"


@pytest.mark.parametrize(("command", "action"), [(interrupt, "interrupt"), (stop, "stop")])
def test_interrupt_and_stop(server: FakeServer, command: Any, action: str) -> None:
    """The only agent that is running is meant."""
    assert command.run(arguments(command)) == 0
    assert [path for path, _ in server.sent] == [f"/api/runs/3f2a/{action}"]


@pytest.mark.parametrize("option", [("--fork",), ("--fork-at", "4")])
def test_a_fork_needs_a_session(server: FakeServer, option: tuple[str, ...]) -> None:
    """Nothing is sent to the server."""
    with pytest.raises(UsageError, match=f"`{option[0]}` needs a session to fork from"):
        run.run(arguments(run, "hello", *option))
    assert server.sent == []
