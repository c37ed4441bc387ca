"""The commands for running agents, with a server whose responses a test defines."""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from unspool.cli._shared import decide
from unspool.cli._shared.client import Server, who
from unspool.cli.commands import answer, approve, attach, deny, interrupt, ps, run, stop
from unspool.core import model as m
from unspool.core.errors import UnspoolError, UsageError
from unspool.runs.approvals import OpenRequest, digest_of
from unspool.runs.drivers.request_details import ALL_VERDICTS
from unspool.runs.protocol import Choice, Detail, FilePreview, Option, PermissionRequest, RequestKind

Json = dict[str, Any]


def opened(
    id: str = "ask-1", command: str = "touch made", kind: RequestKind = "command", plan: str | None = None, **more: Any
) -> Json:
    """An open request, as the server sends it."""
    action = m.Action(msgspec.Raw(b"{}"), command=command if kind == "command" else None, plan=plan)
    asked = PermissionRequest(
        id=id, kind=kind, tool="Bash", title=command, action=action, verdicts=ALL_VERDICTS, **more
    )
    request = OpenRequest(request=asked, digest=digest_of(asked), at=datetime(2026, 3, 1, tzinfo=UTC))
    found: Json = msgspec.json.decode(msgspec.json.encode(request))
    return found


REQUEST = opened()
NAME = f"ask-1:{REQUEST['digest'][:12]}"
COLORS = Choice(question="Which color?", options=[Option("Red", "like blood"), Option("Blue")])
SIZES = Choice(question="Which sizes?", options=[Option("S"), Option("M"), Option("L")], multiple=True)
QUESTION = opened("ask-2", "Which color?", "question", choices=[COLORS])
QUESTIONS = opened("ask-2", "Which color?", "question", choices=[COLORS, SIZES])
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

    def request(self, method: str, path: str, body: object = None) -> Any:
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
    for module in (answer, attach, decide, interrupt, ps, run):
        monkeypatch.setattr(module, "Server", lambda: server)
    return server


def arguments(command: Any, *given: str) -> argparse.Namespace:
    """Parsed arguments of a command."""
    parser = argparse.ArgumentParser()
    command.configure(parser)
    return parser.parse_args(given)


def attached(server: FakeServer, *, as_json: bool = False) -> attach.Attached:
    """A terminal that shows the run of the server."""
    return attach.Attached(server, server.run, as_json=as_json)


Typed = Callable[..., None]


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Typed:
    """Makes the streams a terminal on which some lines are typed."""

    def type_lines(*lines: str) -> None:
        monkeypatch.setattr(sys, "stdin", io.StringIO("".join(f"{line}\n" for line in lines)))
        for stream in (sys.stdin, sys.stdout, sys.stderr):
            monkeypatch.setattr(stream, "isatty", lambda: True)

    return type_lines


# --- attach ----------------------------------------------------------------------------------------------------------


def test_attach_prints_the_events_of_a_run(server: FakeServer, capsys: pytest.CaptureFixture[str]) -> None:
    """Text, messages, requests, answers and the end, and nothing of other runs."""
    server.run = RUN | {"questions": []}
    server.script = [
        {"kind": "state", "state": "idle"},
        {"kind": "sent", "message": {"text": "go", "who": "tab 1"}},
        {"kind": "words", "text": "Hello", "thinking": False},
        {"kind": "words", "text": "hm", "thinking": True},
        {"kind": "words", "text": "another run", "thinking": False, "run": "other"},
        {"kind": "asked", "question": REQUEST},
        {"kind": "answered", "request": "ask-1", "verdict": "deny_stop", "who": "tab 1", "reason": "not now"},
        {"kind": "turn_ended", "outcome": "interrupted", "error": None},
        {"kind": "remarked", "text": "Retrying."},
        {"kind": "state", "state": "ended", "reason": "stopped by tab 1"},
    ]
    assert attached(server).follow(0) == 0
    assert capsys.readouterr().out.splitlines() == [
        "→ to the agent: go (from tab 1)",
        "Hello",
        "? #1",
        f"claude wants to run a command (run 3f2a, request {NAME})",
        "  │ folder: /demo",
        "  │ tool: Bash",
        "  │ command:",
        "  │     touch made",
        "! denied and the turn stopped by tab 1",
        "→ to the agent: not now",
        "",
        "— interrupted",
        "· Retrying.",
        "— ended: stopped by tab 1",
    ]


@pytest.mark.parametrize(("reason", "code"), [("done", 0), ("idle", 0), ("failed", 1), ("the server was killed", 1)])
def test_exit_codes(server: FakeServer, reason: str, code: int) -> None:
    """An agent that failed, or lost its server, is a failure."""
    server.script = [{"kind": "state", "state": "ended", "reason": reason}]
    assert attached(server, as_json=True).follow(0) == code


def test_without_a_terminal_following_stops_after_the_turn(server: FakeServer) -> None:
    """An agent is idle before its first turn too, which is not the end."""
    server.script = [
        {"kind": "state", "state": "idle"},
        {"kind": "turn_ended", "outcome": "completed", "error": None},
        {"kind": "state", "state": "idle"},
        {"kind": "state", "state": "ended", "reason": "failed"},
    ]
    assert attached(server, as_json=True).follow(0, until_idle=True) == 0


def typed(server: FakeServer, shown: list[Json], *lines: str) -> None:
    """Show some requests, then type lines."""
    at = attached(server)
    for each in shown:
        at._show_request(each)
    for line in lines:
        at.act(line)
        at._requests.line_was_typed()


@pytest.mark.parametrize(
    ("line", "path", "field"),
    [
        ("i", "interrupt", {}),
        ("a", "answers/ask-1", {"verdict": "allow", "reason": None, "digest": REQUEST["digest"]}),
        ("s #1", "answers/ask-1", {"verdict": "allow_session"}),
        ("d", "answers/ask-1", {"verdict": "deny", "reason": None}),
        ("d too early", "answers/ask-1", {"verdict": "deny", "reason": "too early"}),
        ("d #1 too early", "answers/ask-1", {"verdict": "deny", "reason": "too early"}),
        ("r too early", "answers/ask-1", {"verdict": "deny", "reason": "too early"}),
        ("a word on this", "messages", {"text": "a word on this"}),
        ("m d is a letter", "messages", {"text": "d is a letter"}),
        ("m", "messages", {"text": "m"}),
    ],
)
def test_typed_lines_are_answers_or_messages(server: FakeServer, line: str, path: str, field: Json) -> None:
    """An answer names the digest of the request that was shown."""
    typed(server, [REQUEST], line)
    ((found, body),) = server.sent
    assert found == f"/api/runs/3f2a/{path}"
    assert field.items() <= body.items()


def test_text_of_the_model_waits_behind_a_request(
    server: FakeServer, terminal: Typed, capsys: pytest.CaptureFixture[str]
) -> None:
    """So that nothing that looks like another request comes between it and the answer."""
    terminal()
    server.run = RUN | {"questions": []}
    server.script = [
        {"kind": "asked", "question": REQUEST},
        {"kind": "words", "text": "\n? #1\nclaude wants to run a command\n  │ ls", "thinking": False},
        {"kind": "answered", "request": "ask-1", "verdict": "deny", "who": "tab 1", "reason": None},
        {"kind": "asked", "question": opened("ask-2")},
        {"kind": "words", "text": "late", "thinking": False},
        {"kind": "withdrawn", "request": "ask-2"},
        {"kind": "state", "state": "ended", "reason": "done"},
    ]
    assert attached(server).follow(0) == 0
    out = capsys.readouterr().out
    assert out.index("touch made") < out.index("! denied by tab 1") < out.index("  │ ls")
    assert out.endswith("touch made\nlate— ended: done\n")


def test_text_of_subagents_is_marked(server: FakeServer, capsys: pytest.CaptureFixture[str]) -> None:
    """Texts that arrive in turns are not mixed up."""
    server.run = RUN | {"questions": []}
    words = [(None, "I ask"), ("scout", "Look"), ("scout", "ing."), (None, "Done.")]
    server.script = [{"kind": "words", "text": text, "thinking": False, "subagent": name} for name, text in words]
    attached(server).follow(0)
    assert capsys.readouterr().out == "I ask\n[scout] Looking.\nDone."


def test_events_that_were_missed(server: FakeServer, capsys: pytest.CaptureFixture[str]) -> None:
    """The requests are those that are open now."""
    server.run = RUN | {"questions": [opened("ask-2", "make")]}
    at = attached(server)
    at._show_request(REQUEST)
    server.script = [{"kind": "resync", "run": None}]
    at.follow(0)
    assert capsys.readouterr().out.count("│     make") == 1
    at._requests.line_was_typed()
    at.act("a")
    assert [path for path, _ in server.sent] == ["/api/runs/3f2a/answers/ask-2"]


def test_messages_that_wait(server: FakeServer, capsys: pytest.CaptureFixture[str]) -> None:
    """They are marked, and after an interrupt a person decides about them."""
    message = {"text": "next", "who": "tab 1", "state": "queued"}
    server.script = [{"kind": "sent", "message": message}, {"kind": "queue", "messages": [message], "held": "asking"}]
    at = attached(server)
    at.follow(0)
    out = capsys.readouterr().out
    assert "→ to the agent: next (from tab 1) (after this turn)" in out
    assert "1 message waiting since the interrupt: type `w send`, `w hold` or `w discard`" in out
    at.act("w discard")
    assert server.sent == [("/api/runs/3f2a/queue", {"action": "discard", "who": who()})]


def test_help_is_not_sent_to_the_agent(server: FakeServer, capsys: pytest.CaptureFixture[str]) -> None:
    """A question mark alone is a question to unspool."""
    typed(server, [], "?")
    assert server.sent == []
    assert "allow it for the session" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("shown", "closed", "line", "message"),
    [
        ([], [], "a", "No request is open. To send this as a message, type `m` before it"),
        ([], [], "d is wrong", "No request is open"),
        ([REQUEST], [], "a #2", "Request #2 is not open"),
        ([REQUEST], ["ask-1"], "a #1", "Request #1 is not open"),
        ([REQUEST, opened("ask-2")], [], "a", "Several requests were shown. Name the one you mean: #1 or #2"),
        ([REQUEST, opened("ask-2")], ["ask-1"], "a", "Several requests were shown. Name the one you mean: #2"),
        ([REQUEST, opened(command="rm -rf /")], [], "a", "Several requests were shown. Name the one you mean: #2"),
        ([QUESTION], [], "a", "This is a question; answer it with `c CHOICE`, or dismiss it with `d`"),
        ([QUESTION], [], "c", "Type `c` and 1 answers"),
        ([QUESTION], [], "c 3", "There is no option '3'"),
        ([REQUEST], [], "c 1", "This is not a question"),
    ],
)
def test_a_line_never_answers_what_the_person_may_not_have_read(
    server: FakeServer, shown: list[Json], closed: list[str], line: str, message: str
) -> None:
    """If another request was shown since the last line, the one that is meant has to be named."""
    at = attached(server)
    for each in shown:
        at._show_request(each)
    for id in closed:
        at._requests.close(id)
    with pytest.raises(UnspoolError, match=message):
        at.act(line)
    assert server.sent == []


@pytest.mark.parametrize(
    ("request_", "line", "answers"),
    [
        (QUESTION, "c 2", {"Which color?": ["Blue"]}),
        (QUESTION, "c Red", {"Which color?": ["Red"]}),
        (QUESTION, "c #1 a warm one", {"Which color?": ["a warm one"]}),
        (QUESTIONS, "c 1; 1,3", {"Which color?": ["Red"], "Which sizes?": ["S", "L"]}),
    ],
)
def test_questions_are_answered(
    server: FakeServer, capsys: pytest.CaptureFixture[str], request_: Json, line: str, answers: Json
) -> None:
    """By number, label or own words; what the agent gets is printed."""
    typed(server, [request_], line)
    ((_, body),) = server.sent
    assert (body["verdict"], body["answers"]) == ("allow", answers)
    out = capsys.readouterr().out
    assert "  │   1: Red: like blood" in out
    assert f"→ to the agent: Which color? {answers['Which color?'][0]}" in out


# --- approve, deny and answer ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "given", "verdict", "reason"),
    [
        (approve, ("3f2a", NAME), "allow", None),
        (approve, (NAME,), "allow", None),
        (approve, ("--request", NAME), "allow", None),
        (approve, ("3f2a", NAME, "--session"), "allow_session", None),
        (approve, ("3f2a", f"ask-1:{REQUEST['digest']}"), "allow", None),
        (deny, ("3f2a", NAME, "--reason", "no"), "deny", "no"),
        (deny, ("--stop", "3f2a", NAME), "deny_stop", None),
    ],
)
def test_a_request_is_answered_by_the_name_that_ps_printed(
    server: FakeServer,
    capsys: pytest.CaptureFixture[str],
    command: Any,
    given: tuple[str, ...],
    verdict: str,
    reason: str | None,
) -> None:
    """Without a terminal, and still all of it is printed."""
    assert command.run(arguments(command, *given)) == 0
    ((path, body),) = server.sent
    assert path == "/api/runs/3f2a/answers/ask-1"
    assert (body["digest"], body["verdict"], body["reason"]) == (REQUEST["digest"], verdict, reason)
    out = capsys.readouterr().out
    assert "  │     touch made\n" in out
    assert f"{decide.PAST_TENSE[verdict]}: {NAME}\n" in out
    assert ("→ to the agent: no" in out) == (reason == "no")


@pytest.mark.parametrize(
    ("command", "given"),
    [(approve, ()), (approve, ("3f2a",)), (approve, ("3f2a", "ask-1")), (deny, ("--request", "ask-1")), (answer, ())],
)
def test_without_a_terminal_a_request_has_to_be_named(server: FakeServer, command: Any, given: tuple[str, ...]) -> None:
    """Nobody has seen what would be answered."""
    name = command.__name__.rpartition(".")[2]
    with pytest.raises(UsageError, match=f"as `unspool ps` prints it: unspool {name} RUN REQUEST:DIGEST"):
        command.run(arguments(command, *given))
    assert server.sent == []


@pytest.mark.parametrize(("answer", "sent"), [("y", 1), ("YES", 1), ("", 0), ("n", 0), ("ok", 0)])
def test_on_a_terminal_the_request_is_shown_and_asked_about(
    server: FakeServer, terminal: Typed, capsys: pytest.CaptureFixture[str], answer: str, sent: int
) -> None:
    """Only a yes is a yes."""
    terminal(answer)
    assert approve.run(arguments(approve, "3f2a")) == 1 - sent
    assert len(server.sent) == sent
    out, err = capsys.readouterr()
    assert "touch made" in out
    assert "Allow this? [y/N] " in err
    assert ("Nothing was sent to the agent" in err) == (not sent)


@pytest.mark.parametrize(
    ("questions", "given", "error", "message"),
    [
        ([REQUEST], "other:0123456789ab", UnspoolError, "has no open request 'other'; it may have been answered"),
        ([REQUEST], "ask-1:0123456789ab", UnspoolError, "Request ask-1 has changed since 0123456789ab was printed"),
        ([REQUEST], NAME[:-1], UnspoolError, "Request ask-1 has changed"),
        ([], NAME, UnspoolError, "has no open request 'ask-1'; it may have been answered already"),
        ([QUESTION], f"ask-2:{QUESTION['digest']}", UsageError, "is a question. Answer it: unspool answer 3f2a ask-2"),
        ([REQUEST, opened("ask-12")], f"ask:{REQUEST['digest']}", UsageError, "2 open requests; name one of ask-1:"),
    ],
)
def test_what_cannot_be_approved(
    server: FakeServer, questions: list[Json], given: str, error: type[UnspoolError], message: str
) -> None:
    """A request that is gone, has changed, is not the only one, or is a question."""
    server.run = RUN | {"questions": questions}
    with pytest.raises(error, match=message):
        approve.run(arguments(approve, "3f2a", given))
    assert server.sent == []


def test_a_name_that_no_agent_has(server: FakeServer) -> None:
    """The agent can be left out only with the digest of an open request."""
    with pytest.raises(UnspoolError, match="No open request is ask-1:0123456789ab; `unspool ps` lists them"):
        approve.run(arguments(approve, "ask-1:0123456789ab"))


@pytest.mark.parametrize(
    ("options", "answers"),
    [
        (("--choose", "2", "--choose", "1,3"), {"Which color?": ["Blue"], "Which sizes?": ["S", "L"]}),
        (("--text", "a warm one", "--text", "all"), {"Which color?": ["a warm one"], "Which sizes?": ["all"]}),
    ],
)
def test_answers_are_given_in_order(server: FakeServer, options: tuple[str, ...], answers: Json) -> None:
    """One for each question."""
    server.run = RUN | {"questions": [QUESTIONS]}
    assert answer.run(arguments(answer, "3f2a", f"ask-2:{QUESTIONS['digest']}", *options)) == 0
    ((_, body),) = server.sent
    assert (body["digest"], body["verdict"], body["answers"]) == (QUESTIONS["digest"], "allow", answers)


@pytest.mark.parametrize(
    ("questions", "options", "message"),
    [
        ([QUESTIONS], ("--choose", "2"), "There are 2 questions and 1 answers"),
        ([QUESTIONS], ("--choose", "1,2", "--choose", "1"), "Only one answer is possible"),
        ([QUESTIONS], ("--choose", "Green", "--choose", "1"), "There is no option 'Green'"),
        ([QUESTIONS], ("--choose", "1", "--text", "x"), "either --choose or --text"),
        ([QUESTIONS], (), "Pass an answer"),
        ([opened("ask-2")], ("--choose", "1"), "is not a question"),
    ],
)
def test_invalid_answers(server: FakeServer, questions: list[Json], options: tuple[str, ...], message: str) -> None:
    """Nothing is sent."""
    server.run = RUN | {"questions": questions}
    with pytest.raises(UsageError, match=message):
        answer.run(arguments(answer, "3f2a", f"ask-2:{questions[0]['digest']}", *options))
    assert server.sent == []


@pytest.mark.parametrize(("lines", "sent"), [(("2", "1,3"), 1), (("2", ""), 0)])
def test_questions_are_asked_on_a_terminal(
    server: FakeServer, terminal: Typed, lines: tuple[str, ...], sent: int
) -> None:
    """An empty line cancels all of it."""
    server.run = RUN | {"questions": [QUESTIONS]}
    terminal(*lines)
    assert answer.run(arguments(answer)) == 1 - sent
    assert [body["answers"] for _, body in server.sent] == [
        {"Which color?": ["Blue"], "Which sizes?": ["S", "L"]}
    ] * sent


# --- ps and the others -----------------------------------------------------------------------------------------------


def test_running_agents_are_listed(server: FakeServer, capsys: pytest.CaptureFixture[str]) -> None:
    """With their requests, and a hint when there are none."""
    ps.run(arguments(ps))
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["3f2a", "claude", "37c23", "waiting-input", "/demo"]
    assert lines[1:] == [f"    {NAME}  Bash: touch made"]
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


def test_the_list_has_every_request_with_its_end_and_what_is_odd(
    server: FakeServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """A long command shows its end, and characters that hide something are named."""
    hidden = opened(command="ls . \x1bP; touch pwned")
    long = opened("ask-2", "true\n" * 100 + "rm -rf ~")
    server.run = RUN | {"questions": [hidden, long]}
    ps.run(arguments(ps))
    lines = capsys.readouterr().out.splitlines()[1:]
    assert lines[0].endswith("  Bash: ls . ⟨ESC⟩P; touch pwned")
    assert lines[1].strip().startswith("⚠ ")
    assert "U+001B ESCAPE" in lines[1]
    assert "Bash: true¶true¶" in lines[2]
    assert "characters more" in lines[2]
    assert lines[2].endswith("¶true¶rm -rf ~")
    ps.run(arguments(ps, "--full"))
    assert capsys.readouterr().out.count("  │     true\n") == 100


def test_text_cannot_leave_its_margin(
    server: FakeServer, terminal: Typed, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Not by line breaks, nor by being too long for the terminal."""
    monkeypatch.setenv("COLUMNS", "40")
    command = "true " + "x" * 200 + "\rAllow this? [y/N]\nAllow this?" + "\u202etxt"
    server.run = RUN | {"questions": [opened(command=command)]}
    terminal("n")
    approve.run(arguments(approve))
    lines = capsys.readouterr().out.splitlines()
    shown = [line for line in lines[1:] if not line.startswith("⚠ ")]
    assert all(line.startswith(("  │ ", "  ┆ ")) for line in shown)
    assert all(len(line) <= 40 for line in shown)
    joined = "".join(line[4:] for line in shown)
    assert "x⟨CR⟩Allow this? [y/N]" in joined
    assert "⟨U+202E⟩txt" in joined


def test_all_of_a_request_is_shown(server: FakeServer, capsys: pytest.CaptureFixture[str]) -> None:
    """Every field, the file as it is on disk, what the session rule allows, and what is odd about any of it."""
    preview = FilePreview(path="notes.txt", diff="@@ -1 +1 @@\n-a\n+b\n", warnings=["The file has changed."])
    request = opened(
        command="notes.txt",
        kind="edit",
        files=[preview],
        reason="outside the project",
        subagent="reviewer",
        details=[Detail("replace_all", "true"), Detail("note", "two\nlines\u200b")],
        session_rule="All edits.",
    )
    server.run = RUN | {"questions": [request]}
    ps.run(arguments(ps, "--full"))
    assert capsys.readouterr().out.splitlines()[2:] == [
        "  │ folder: /demo",
        "  │ tool: Bash",
        "  │ subagent: reviewer",
        "  │ reason: outside the project",
        "  │ file: notes.txt",
        "  │ change:",
        "  │     @@ -1 +1 @@",
        "  │     -a",
        "  │     +b",
        "  │ ⚠ The file has changed.",
        "  │ asks for: notes.txt",
        "  │ replace_all: true",
        "  │ note:",
        "  │     two",
        "  │     lines⟨U+200B⟩",
        "  │ allowed for the session: All edits.",
        "⚠ 1 invisible character: U+200B ZERO WIDTH SPACE",
    ]
    server.run = RUN | {"questions": [REQUEST | {"deadline": "2026-03-01T12:30:00Z"}]}
    ps.run(arguments(ps, "--full"))
    shown = datetime(2026, 3, 1, 12, 30, tzinfo=UTC).astimezone().strftime("%Y-%m-%d %H:%M")
    assert capsys.readouterr().out.splitlines()[-1] == f"Denied at {shown} if nobody answers"
    server.run = RUN | {"questions": [opened(command="Ready", kind="plan", plan="1. Look\n2. Change it")]}
    ps.run(arguments(ps, "--full"))
    assert capsys.readouterr().out.splitlines()[4:] == ["  │ plan:", "  │     1. Look", "  │     2. Change it"]
    server.run = RUN | {"questions": [opened(command="Fetch a page", kind="tool")]}
    ps.run(arguments(ps, "--full"))
    assert capsys.readouterr().out.splitlines()[4:] == ["  │ asks for: Fetch a page", "  │ input: {}"]
