"""Requests that are answered in a terminal or a pipe: what is seen is what is decided, and only one decision counts."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from unspool.cli._shared.client import ServerRegistration
from unspool.core.decisions import RecordedDecision
from unspool.render.exact import original
from unspool.runs.supervisor import run_log_path
from unspool.store.decision_verify import verify_decisions
from unspool.store.run_log import RunLog

from ..web.test_browser_runs import Served
from .end_to_end import Whole, whole
from .terminal import Terminal, piped

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="terminals are those of Unix")
Json = dict[str, Any]
SPOOF = "ls . \x1bP; touch pwned\x1b\\ #\u202eharmless"
SHOWN = "ls . ⟨ESC⟩P; touch pwned⟨ESC⟩\\ #⟨U+202E⟩harmless"


class Board(Whole):
    """A server with scripted agents, as the commands see it."""

    def __init__(self, served: Served) -> None:
        self.server = served
        self.project, self.data = served.project, served.folder / "data"
        self.until = served.wait_for
        self.runs: list[str] = []

    def start(self, prompt: str, **more: Any) -> str:
        """Start an agent; returns the id of the run."""
        return self._begun(agent="claude", folder=str(self.project), prompt=prompt, **more)


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Board]:
    """The server of all tests with scripted agents."""
    served = Served(tmp_path_factory.mktemp("served"))
    made = Board(served)
    (made.data / "server.json").write_bytes(msgspec.json.encode(ServerRegistration(address=served.base, pid=1)))
    yield made
    served.stop()


def name_of(question: Json) -> str:
    """A request as `unspool ps` names it."""
    return f"{question['asked']['id']}:{question['digest'][:12]}"


def decisions(at: Whole, run: str) -> list[RecordedDecision]:
    """What was decided in a run. Nothing in the log was changed since."""
    assert verify_decisions(at.data).faults == []
    session = at.view(run)["session"]
    with closing(RunLog(run_log_path(at.data), read_only=True)) as log:
        return log.decisions("claude", session)


def test_a_request_is_shown_and_asked_about(board: Board) -> None:
    """On a terminal; any answer but yes changes nothing."""
    run = board.start("run make clean")
    question = board.asked(run)
    for answer, code in (("", 1), ("y", 0)):
        terminal = Terminal(board.data, "approve", run)
        terminal.until("Allow this? [y/N] ")
        assert "  │     make clean\n" in terminal.screen
        assert name_of(question) in terminal.screen
        terminal.type(answer)
        assert terminal.end() == code, terminal.screen
        assert ("Nothing was sent to the agent" in terminal.screen) == (code == 1)
    board.until_in(run, "idle")
    (decision,) = decisions(board, run)
    assert (decision.verdict, decision.who, decision.digest) == ("allow", "ann at a terminal", question["digest"])


def test_a_pipe_needs_the_name_that_ps_printed(board: Board) -> None:
    """Whatever is asked at the moment is never answered, and an old answer not twice."""
    run = board.start("run make test\nrun make install")
    question = board.asked(run)
    refused = piped(board.data, "approve", run)
    assert (refused.code, board.asked(run)) == (2, question)
    assert "Name it as `unspool ps` prints it: unspool approve RUN REQUEST:DIGEST" in refused.err
    listed = piped(board.data, "ps").out
    name = next(line.split()[0] for line in listed.splitlines() if line.endswith("Bash: make test"))
    assert name == name_of(question)
    assert piped(board.data, "approve", run, name).code == 0
    other: Json = board.until(
        lambda: next(
            (each for each in board.view(run)["questions"] if each["asked"]["id"] != question["asked"]["id"]), None
        ),
        "the second request",
    )
    replayed = piped(board.data, "approve", run, name)
    assert replayed.code == 1
    assert "it may have been answered already" in replayed.err
    wrong = f"{other['asked']['id']}:{question['digest'][:12]}"
    changed = piped(board.data, "approve", run, wrong)
    assert (changed.code, "has changed since" in changed.err) == (1, True)
    assert piped(board.data, "deny", run, name_of(other), "--reason", "not yet").code == 0
    assert [each.verdict for each in decisions(board, run)] == ["allow", "deny"]


def test_a_tab_is_faster_than_the_terminal(board: Board) -> None:
    """Who comes second learns what was decided."""
    run = board.start("run make deploy")
    question = board.asked(run)
    terminal = Terminal(board.data, "approve", run)
    terminal.until("Allow this? [y/N] ")
    assert board.answer(run, question, "deny", who="tab 1")[0] == 200
    terminal.type("y")
    assert terminal.end() == 1
    assert "Already answered: denied by " in terminal.screen
    assert [each.verdict for each in decisions(board, run)] == ["deny"]


def test_of_many_answers_at_once_one_counts(board: Board) -> None:
    """Tabs and terminals; each of the others gets a message, and the log has one decision."""
    run = board.start("run make release")
    question = board.asked(run)
    with ThreadPoolExecutor(6) as pool:
        tabs = [pool.submit(board.answer, run, question, "deny", f"tab {number}") for number in range(4)]
        commands = [pool.submit(piped, board.data, "approve", run, name_of(question)) for _ in range(2)]
        statuses = [tab.result()[0] for tab in tabs]
        codes = [command.result().code for command in commands]
    assert statuses.count(200) + codes.count(0) == 1
    assert set(statuses) <= {200, 409}
    assert set(codes) <= {0, 1}
    (decision,) = decisions(board, run)
    assert decision.verdict == ("deny" if 200 in statuses else "allow")


def test_a_file_that_changes_while_a_person_reads(board: Board) -> None:
    """What was shown is no longer what would happen: the answer is refused, and the request is shown again."""
    path = board.project / "notes.txt"
    path.write_text("first\n")
    given = {"file_path": str(path), "content": "second\n"}
    run = board.start(f"call Write {json.dumps(given)}")
    question = board.asked(run)
    terminal = Terminal(board.data, "approve", run)
    terminal.until("Allow this? [y/N] ")
    path.write_text("changed\n")
    terminal.type("y")
    assert terminal.end() == 1
    assert "has changed since you saw it. Review the change again." in terminal.screen
    assert board.asked(run)["digest"] != question["digest"]
    assert "has changed since" in piped(board.data, "approve", run, name_of(question)).err
    assert decisions(board, run) == []


def test_questions_are_answered_not_approved(board: Board) -> None:
    """All options with what they mean; a question is not approved but answered."""
    run = board.start("ask")
    question = board.asked(run)
    refused = piped(board.data, "approve", run, name_of(question))
    assert refused.code == 2
    assert f"is a question. Answer it: unspool answer {run} {question['asked']['id']} --choose N" in refused.err
    count = len(question["asked"]["choices"])
    terminal = Terminal(board.data, "answer", run)
    for number in range(1, count + 1):
        terminal.until(f"Answer to question {number} ")
        terminal.type("2")
    assert terminal.end() == 0, terminal.screen
    assert "  │   1: Blue: as everywhere else\n  │   2: Green: as in the sketch\n" in terminal.screen
    assert "→ to the agent: Which colour should the button have? Green" in terminal.screen
    (decision,) = decisions(board, run)
    assert decision.answers["Which colour should the button have?"] == ["Green"]


def test_attach_shows_everything_and_answers_what_was_shown(board: Board) -> None:
    """Diffs, help, denials with a reason, messages to the agent, and the end of watching."""
    run = board.start("edit")
    board.asked(run)
    terminal = Terminal(board.data, "attach", run)
    terminal.until("Type a message for the agent")
    terminal.until('  │     +    return f"hello {name}"\n')
    terminal.type("?")
    terminal.until("With several requests, name one")
    terminal.type("d use the class we have")
    terminal.until("! denied by ann at a terminal\n→ to the agent: use the class we have\n")
    terminal.until("Denied because use the class we have.")
    terminal.type("say Hello.")
    terminal.until("→ to the agent: say Hello.\n")
    terminal.type("d")
    terminal.until("No request is open. To send this as a message, type `m` before it")
    terminal.type("q")
    assert terminal.end() == 0
    assert board.view(run)["state"] != "ended"
    assert [(each.verdict, each.reason) for each in decisions(board, run)] == [("deny", "use the class we have")]


@pytest.mark.agent
@pytest.mark.parametrize(("agent", "step"), [("claude", "write notes.sh="), ("codex", "ask ")])
def test_escapes_hide_nothing_of_what_a_real_agent_would_do(agent: str, step: str, tmp_path: Path) -> None:
    """In `ps`, in a terminal and while attached. What is shown is the whole text, and denied nothing happens.

    Claude Code itself rejects commands with such characters, but not files.
    """
    with whole(tmp_path, agent) as at:
        run = at.start(f"@do {step}{SPOOF};;say Well then.")
        question = at.asked(run)
        assert SHOWN in piped(at.data, "ps", "--full").out
        attached = Terminal(at.data, "attach", run)
        attached.until(SHOWN)
        terminal = Terminal(at.data, "deny", run, "--reason", "it hides something")
        terminal.until("Deny this? [y/N] ")
        for screen in (terminal.screen, attached.screen):
            line = next(line for line in screen.splitlines() if SHOWN in line)
            assert SPOOF in original(line)
            assert "U+001B ESCAPE" in screen
            assert "U+202E" in screen
            assert "\x1bP" not in screen
            assert "\u202e" not in screen
        terminal.type("y")
        assert terminal.end() == 0
        attached.until("→ to the agent: it hides something")
        session = at.until_in(run, "idle", "interrupted")["session"]
        attached.type("q")
        assert attached.end() == 0
        assert [path.name for path in at.project.iterdir()] == []
        (decision,) = at.decisions(session)
        assert (decision.verdict, decision.digest) == ("deny", question["digest"])
        assert piped(at.data, "verify").code == 0
