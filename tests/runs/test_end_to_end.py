"""End to end: a real server, the real Claude Code and the real Codex, and scripted models.

Each test asks three witnesses: what the model was sent next, what the agent's own file says, and what the server says.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from unspool import Session
from unspool.core.errors import NotFoundError
from unspool.runs.driver_events import EXITED_IN_TURN
from unspool.runs.drivers.claude_requests import refusal

from ..waiting import PATIENCE
from ..web.browser import CHROMIUM, Visitor, chromium, expect
from .end_to_end import Listening, Whole, calls, cut_off, is_gone, results, said, whole

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="processes are ended with signals")
both = pytest.mark.parametrize("served", ["claude", "codex"], indirect=True)
claude = pytest.mark.parametrize("served", ["claude"], indirect=True)
codex = pytest.mark.parametrize("served", ["codex"], indirect=True)
OVER = "idle"


@pytest.fixture(scope="module")
def served(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Whole]:
    """One server for the tests of an agent: its start costs more than most of what they do."""
    folder = tmp_path_factory.mktemp(request.param)
    aside = folder / "tmp"
    aside.mkdir()
    with whole(folder, request.param, TMPDIR=str(aside)) as made:
        yield made


@pytest.fixture
def at(served: Whole, request: pytest.FixtureRequest) -> Iterator[Whole]:
    """The server, with a folder for this test; no agent of this test runs during the next one."""
    served.work_in(request.node.originalname)
    yield served
    served.stop_all()


# --- two answers -----------------------------------------------------------------------------------------------------


def answered_at_once(at: Whole, run: str, verdict: str, reasons: bool) -> tuple[str, str]:
    """Two simultaneous answers to one request: who won, and the error that the other got."""
    question = at.asked(run)
    together = threading.Barrier(2, timeout=PATIENCE)
    replies: dict[str, tuple[int, Any]] = {}

    def answer(who: str) -> None:
        more = {"reason": f"So says {who}."} if reasons else {}
        together.wait()
        replies[who] = at.answer(run, question, verdict, who, **more)

    people = [threading.Thread(target=answer, args=(who,)) for who in ("Ann", "Ben")]
    for person in people:
        person.start()
    for person in people:
        person.join(PATIENCE)
    assert sorted(status for status, _ in replies.values()) == [200, 409]
    winner, loser = sorted(replies, key=lambda who: replies[who][0])
    return winner, replies[loser][1]["error"]["message"]


@both
def test_of_two_simultaneous_answers_one_counts(at: Whole) -> None:
    heard = Listening(at.server)
    ask = at.agent.asking
    run = at.start(f"@do {ask} echo once >> refused;;{ask} echo once >> done;;say Well then.")
    session = at.view(run)["session"]
    refuser, sentence = answered_at_once(at, run, "deny", reasons=True)
    assert sentence == f"Already answered: denied by {refuser}"
    allower, sentence = answered_at_once(at, run, "allow", reasons=False)
    assert sentence == f"Already answered: allowed by {allower}"
    at.until_in(run, OVER)
    # The model: one result for each of its calls, and the reason of the one who won.
    refused, done = at.agent.calls(at.last)
    assert [id for id, _ in at.agent.results(at.last)] == [refused, done]
    heard_by_model = str(at.last)
    assert heard_by_model.count(f"So says {refuser}.") == 1
    assert heard_by_model.count("So says ") == 1
    # What was done.
    assert not (at.project / "refused").exists()
    assert (at.project / "done").read_text() == "once\n"
    # The file and the server.
    record = at.agreed(session, lambda record: "Well then." in said(record, "model"))
    assert [(each.tool_use_id, each.reason, each.by, each.evidence) for each in record.rejections] == [
        (refused, f"So says {refuser}.", "user", "supervisor")
    ]
    assert [each.call_id for each in results(record)] == [refused, done]
    assert (record.interruptions, record.orphans) == ([], [])
    ledger = at.listed("rejections", session)
    assert [entry["event"]["reason"] for entry in ledger] == [f"So says {refuser}."]
    # The run log, and the live events.
    assert [(each.call_ids, each.verdict, each.who) for each in at.decisions(session)] == [
        ([refused], "deny", refuser),
        ([done], "allow", allower),
    ]
    at.until(lambda: heard.words().endswith("Well then."), "the last words, told to those who watch")
    assert [(each["verdict"], each["who"]) for each in heard.of("answered") if each["run"] == run] == [
        ("deny", refuser),
        ("allow", allower),
    ]


# --- going on --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("agent", ["claude", "codex"])
def test_a_session_is_resumed_after_the_idle_timeout(agent: str, tmp_path: Path) -> None:
    with whole(tmp_path, agent, IDLE_TIMEOUT="1") as at:
        first = at.start("@do say First.")
        view = at.until_in(first, "ended")
        assert view["reason"] == "idle"
        assert view["error"] is None
        assert is_gone(view["pid"])
        assert at.nothing_runs()
        session = view["session"]
        status, replies = at.post(f"/runs/{first}/messages", id="late", text="@do say Too late.")
        assert (status, replies["error"]["message"]) == (409, "This agent has ended; resume the session to continue")
        second = at.resume(session, "@do say Second.")
        assert at.view(second)["session"] == session
        view = at.until_in(second, "ended")
        assert (view["reason"], view["error"]) == ("idle", None)
        assert is_gone(view["pid"])
        spoken = ["@do say First.", "First.", "@do say Second."]
        assert [text for text in at.agent.words(at.last) if text in spoken] == spoken
        record = at.agreed(session, lambda record: len(said(record, "model")) == 2)
        assert said(record, "human") == ["@do say First.", "@do say Second."]
        assert said(record, "model") == ["First.", "Second."]
        assert record.interruptions == []
        assert len(at.server.sessions()) == 1


@both
def test_a_session_is_resumed_after_the_server_was_killed_during_a_request(at: Whole) -> None:
    ask = at.agent.asking
    # It is in a session of its own before the command ends: an agent may end what is left in that of the command.
    apart = "setsid sh -c 'echo $$ > aside; exec sleep 300' > aside.log 2>&1"
    aside = f"{apart} & until [ -s aside ]; do sleep 0.1; done"
    run = at.start(f"@do {ask} {aside};;{ask} touch made;;say Never.")
    at.answer(run, at.asked(run), "allow")
    asked = at.until(lambda: [each for each in at.view(run)["questions"] if "made" in str(each)], "the question")
    view = at.view(run)
    session, call = view["session"], asked[0]["asked"]["call_id"]
    pids = [view["pid"], int((at.project / "aside").read_text())]
    assert not any(is_gone(pid) for pid in pids)
    at.until(lambda: call in str(at.record(session).messages), "the call in the file")
    at.server.kill()
    at.server.start()
    assert all(is_gone(pid) for pid in pids)
    assert at.nothing_runs()
    assert [entry.kind for entry in at.entries(run, "run.ended")] == ["run.ended"]
    assert b"the server was killed" in bytes(at.entries(run, "run.ended")[0].data)
    # Nothing was rejected: the call was cut off.
    record = at.agreed(session, lambda record: call in cut_off(record))
    assert record.rejections == []
    second = at.resume(session, "@do say Alive.")
    assert at.until_in(second, "idle", "ended")["error"] is None
    # The model has something for the call that was lost, and nothing twice.
    calls, given = at.agent.calls(at.last), at.agent.results(at.last)
    assert call in calls
    assert sorted(id for id, _ in given) == sorted(calls)
    record = at.agreed(session, lambda record: "Alive." in said(record, "model"))
    assert call in cut_off(record)
    assert (record.rejections, record.errors) == ([], [])
    assert at.listed("rejections", session) == []
    assert [(each.verdict, each.who, each.call_ids) for each in at.decisions(session)][1:] == [
        ("interrupt", "the server was killed", [call])
    ]
    assert not (at.project / "made").exists()
    assert said(record, "human")[-1] == "@do say Alive."


@codex
def test_stopping_an_agent_during_a_request_is_not_a_rejection(at: Whole) -> None:
    """In the session file of Codex both look the same."""
    run = at.start("@do ask touch made;;say Never.")
    call = at.asked(run)["asked"]["call_id"]
    assert at.post(f"/runs/{run}/stop", who="Ann")[0] == 200
    view = at.until_in(run, "ended")
    assert view["reason"] == "stopped by Ann"
    record = at.agreed(view["session"], lambda record: call in cut_off(record))
    assert record.rejections == []
    assert not (at.project / "made").exists()


# --- another way -----------------------------------------------------------------------------------------------------


def index_of(record: Session, words: str) -> int:
    """The index of a message of the model."""
    return next(each.index for each in record.messages if each.author == "model" and f"'{words}'" in str(each.blocks))


def go_back(at: Whole, session: str, words: str, prompt: str) -> None:
    """Continue from an earlier response in a terminal, which abandons the branch after it."""
    message = at.record(session).messages[index_of(at.record(session), words)].id
    program = at.agent.factory.find_program()
    command = [program, "--print", f"--resume={session}", f"--resume-session-at={message}", prompt]
    environment = os.environ | {"HOME": str(at.home)}
    subprocess.run(
        command,
        cwd=at.project,
        env=environment,
        check=True,
        timeout=PATIENCE,
        stdin=subprocess.DEVNULL,
        capture_output=True,
    )


@both
def test_a_fork_continues_from_an_older_branch(at: Whole) -> None:
    aside = at.folder / "tmp"
    earlier = set(aside.glob("unspool-*"))
    run = at.start("@do say One.")
    for word in ("Two.", "Three."):
        at.until_in(run, "idle")
        at.send(run, word, f"@do say {word}")
    session = at.until_in(run, "idle")["session"]
    at.post(f"/runs/{run}/stop")
    line = ["One.", "Two.", "Three."]
    is_claude = at.agent.name == "claude"
    if is_claude:
        go_back(at, session, "One.", "@do say Four.")
        line = ["One.", "Four."]
    before = at.agreed(session, lambda record: said(record, "model") == line)
    assert len(before.branches) == is_claude
    fork = at.resume(session, "@do say Elsewhere.", at=index_of(before, "Two."))
    forked = at.until_in(fork, "idle")["session"]
    assert forked != session
    spoken = ["One.", "Two.", "Three.", "Four.", "@do say Elsewhere."]
    assert [text for text in at.agent.words(at.last) if text in spoken] == ["One.", "Two.", "@do say Elsewhere."]
    record = at.agreed(forked, lambda record: "Elsewhere." in said(record, "model"))
    assert said(record, "model") == ["One.", "Two.", "Elsewhere."]
    assert (record.info.origin.kind, record.info.origin.session) == ("fork", session)
    assert at.shown(forked)["session"]["origin"]["session"] == session
    assert said(at.agreed(session), "model") == line
    assert set(aside.glob("unspool-*")) <= earlier


# --- again and again -------------------------------------------------------------------------------------------------


def allow_until(at: Whole, run: str, holds: Callable[[], bool], what: str) -> None:
    """Allow every request until a condition holds."""

    def over() -> bool:
        for question in at.view(run)["questions"]:
            lasting = "allow_session" in question["asked"]["verdicts"]
            at.answer(run, question, "allow_session" if lasting else "allow")
        return holds()

    at.until(over, what)


def is_written(at: Whole, session: str, prompt: str) -> bool:
    """Whether a prompt is in the session file: one that only waits is lost when the agent is killed."""
    try:
        return prompt in said(at.record(session), "human")
    except NotFoundError:
        return False


@both
def test_an_agent_is_killed_again_and_again(at: Whole) -> None:
    """Whenever that happens, nothing is lost or repeated, and the model never gets half a call."""
    chance = random.Random(7)
    step = f"{at.agent.asking} echo x >> log"
    prompts = [f"@do {';;'.join([step] * 4)};;say Round {number}." for number in range(4)]
    session = ""
    for prompt in prompts:
        before = len(at.agent.model.requests)
        run = at.resume(session, prompt) if session else at.start(prompt)
        view = at.view(run)
        session = view["session"]
        at.until(lambda: is_written(at, session, prompt), "the prompt in the file")  # noqa: B023
        if prompt is prompts[0]:
            allow_until(at, run, lambda: calls(at.record(session)) != [], "a call in the file")  # noqa: B023
        # In each round it has come further or less far, from the first request to the last of five.
        steps = before + chance.randint(1, 5)
        allow_until(at, run, lambda: len(at.agent.model.requests) >= steps, "the model to be asked")  # noqa: B023
        os.kill(view["pid"], signal.SIGKILL)
        # It may have finished its turn just before.
        assert at.until_in(run, "ended")["reason"] in (EXITED_IN_TURN, "failed")
        assert at.nothing_runs()
    run = at.resume(session, "@do say All is well.")
    assert at.until_in(run, "idle", "ended")["error"] is None
    prompts.append("@do say All is well.")
    # The model: every call has one result.
    asked, given = at.agent.calls(at.last), [id for id, _ in at.agent.results(at.last)]
    assert len(set(asked)) == len(asked) > 0
    assert sorted(given) == sorted(asked)
    assert [text for text in at.agent.words(at.last) if text in prompts] == prompts
    # The file and the server.
    record = at.agreed(session, lambda record: "All is well." in said(record, "model"))
    assert said(record, "human") == prompts
    ended = [each.call_id for each in results(record)]
    assert len(set(ended)) == len(ended)
    assert set(calls(record)) == set(ended) | {each.tool_use_id for each in record.orphans}
    assert set(asked) <= set(calls(record))
    assert record.rejections == []
    # The run log: each was sent once.
    sent = [entry for one in at.runs for entry in at.entries(one, "sent")]
    assert [text for entry in sent for text in prompts if text.encode() in bytes(entry.data)] == prompts


@claude
def test_a_clear_moves_the_run_to_its_new_session(at: Whole) -> None:
    """The model starts afresh, both files are whole, and the old session is neither live nor killed."""
    run = at.start("@do say First.")
    at.until_in(run, "idle")
    old = at.view(run)["session"]
    at.send(run, "clear", "/clear")
    at.until(lambda: at.view(run)["session"] != old, "another session")
    at.until_in(run, "idle")
    at.send(run, "second", "@do say Second.")
    new = at.view(run)["session"]
    record = at.agreed(new, lambda record: "Second." in said(record, "model"))
    assert "First." not in str(at.last)
    assert said(at.record(old), "model") == ["First."]
    assert record.info.origin.kind == "clear"
    at.until_in(run, "idle")
    listed = {each["row"]["name"]: each for each in at.server.sessions()}
    assert (listed[new]["live"], listed[new]["run_state"]) == (True, "idle")
    assert (listed[old]["live"], listed[old]["run_state"]) == (False, "ended")
    assert [each.data for each in at.entries(run, "session")][-1] == msgspec.Raw(
        msgspec.json.encode({"session": new, "left": old})
    )


# --- in a browser ----------------------------------------------------------------------------------------------------


@pytest.mark.skipif(CHROMIUM is None, reason="there is no browser")
def test_a_request_is_denied_in_a_browser(tmp_path: Path) -> None:
    """Started from the board; text arrives live; a denial and its reason are shown everywhere."""
    with whole(tmp_path, "claude") as at, chromium() as browser:
        visitor = Visitor(browser, at.server)
        page = visitor.open("/agents")
        page.locator("[name=agent][value=claude]").check()
        page.locator("[name=folder]").fill(str(at.project))
        page.locator("[name=prompt]").fill("@do slow 5")
        page.locator("[data-start] .primary").click()
        words = page.locator("#board .run[data-run-state=in-turn] .latest-text")
        expect(words).to_contain_text("word3")
        assert "word4" not in words.inner_text()
        page.locator("#board .run h3 a").first.click()
        at.agent.model.go_on.set()
        expect(page.locator("#pages .entry.answer", has_text="word4")).to_have_count(1)
        page.locator("#message").fill("@do run touch made;;say Understood.")
        page.locator("[data-send]").click()
        expect(page.locator(".approval .approval-title")).to_have_text("touch made")
        expect(page.locator(".approval")).to_be_focused()
        page.wait_for_timeout(550)  # Keys pressed too soon after a request appears are ignored.
        page.keyboard.press("r")
        page.keyboard.type("Not in this folder.")
        page.keyboard.press("Control+Enter")
        expect(page.locator("#pages .entry.answer", has_text="Understood.")).to_have_count(1)
        expect(page.locator("#pages .entry", has_text="Not in this folder.")).to_have_count(1)
        ledger = visitor.open("/events/rejections")
        expect(ledger.locator("main")).to_contain_text("Not in this folder.")
        visitor.leave()
        # The model reads it as a refusal, in the words that it knows.
        assert at.agent.results(at.last)[-1][1] == json.dumps(refusal("Not in this folder."))
        session = at.server.sessions()[0]["row"]["name"]
        record = at.agreed(session, lambda record: "Understood." in said(record, "model"))
        assert [(each.reason, each.evidence) for each in record.rejections] == [("Not in this folder.", "supervisor")]
        assert (at.decisions(session)[0].who or "").startswith("Chrome on ")
        assert not (at.project / "made").exists()
