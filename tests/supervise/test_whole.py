"""The whole: a real server, the real Claude Code and the real Codex, and models that say what they are told.

Each test asks three witnesses: what the model was sent next, what the agent's own file says, and what the server says.
"""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from .whole import Listening, Whole, cut_off, is_gone, results, said, whole

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="processes are ended with signals")
both = pytest.mark.parametrize("agent", ["claude", "codex"])
OVER = "idle"


# --- two who answer --------------------------------------------------------------------------------------------------


def answered_at_once(at: Whole, run: str, verdict: str, reasons: bool) -> tuple[str, str]:
    """Two answers to one question in the same moment: who won, and what the other was told."""
    question = at.asked(run)
    together = threading.Barrier(2, timeout=10)
    told: dict[str, tuple[int, Any]] = {}

    def answer(who: str) -> None:
        more = {"reason": f"So says {who}."} if reasons else {}
        together.wait()
        told[who] = at.answer(run, question, verdict, who, **more)

    people = [threading.Thread(target=answer, args=(who,)) for who in ("Ann", "Ben")]
    for person in people:
        person.start()
    for person in people:
        person.join(30)
    assert sorted(status for status, _ in told.values()) == [200, 409]
    winner, loser = sorted(told, key=lambda who: told[who][0])
    return winner, told[loser][1]["error"]["message"]


@both
def test_of_two_answers_in_the_same_moment_one_counts(agent: str, tmp_path: Path) -> None:
    with whole(tmp_path, agent) as at:
        heard = Listening(at.server)
        ask = at.agent.asking
        run = at.start(f"@do {ask} echo once >> refused;;{ask} echo once >> done;;say Well then.")
        session = at.view(run)["session"]
        refuser, sentence = answered_at_once(at, run, "deny", reasons=True)
        assert sentence == f"this answer comes too late, it was answered already: deny by {refuser}"
        allower, sentence = answered_at_once(at, run, "allow", reasons=False)
        assert sentence == f"this answer comes too late, it was answered already: allow by {allower}"
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
        ledger = at.server.api("/events/rejections")["entries"]
        assert [entry["event"]["reason"] for entry in ledger] == [f"So says {refuser}."]
        # The book, and those who watch.
        assert [(each.call_ids, each.verdict, each.who) for each in at.decisions(session)] == [
            ([refused], "deny", refuser),
            ([done], "allow", allower),
        ]
        assert [(each["verdict"], each["who"]) for each in heard.of("answered")] == [
            ("deny", refuser),
            ("allow", allower),
        ]
        assert heard.words().endswith("Well then.")


# --- going on --------------------------------------------------------------------------------------------------------


@both
def test_a_session_goes_on_after_its_agent_was_idle_for_too_long(agent: str, tmp_path: Path) -> None:
    with whole(tmp_path, agent, IDLE_TIMEOUT="1") as at:
        first = at.start("@do say First.")
        view = at.until_in(first, "ended")
        assert view["reason"] == "idle"
        assert view["error"] is None
        assert is_gone(view["pid"])
        assert at.nothing_runs()
        session = view["session"]
        status, told = at.post(f"/runs/{first}/messages", id="late", text="@do say Too late.")
        assert (status, told["error"]["message"]) == (409, "this agent has ended; resume the session to go on")
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
def test_a_session_goes_on_after_the_server_was_killed_while_its_agent_asked(agent: str, tmp_path: Path) -> None:
    with whole(tmp_path, agent) as at:
        ask = at.agent.asking
        aside = "setsid sleep 300 > aside.log 2>&1 & echo $! > aside"
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
        # Nobody has refused anything: the call was cut off.
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
        assert at.server.api("/events/rejections")["entries"] == []
        assert [(each.verdict, each.who, each.call_ids) for each in at.decisions(session)][1:] == [
            ("interrupt", "the server was killed", [call])
        ]
        assert not (at.project / "made").exists()
        assert said(record, "human")[-1] == "@do say Alive."


def test_an_agent_that_is_ended_while_it_asks_was_not_refused(tmp_path: Path) -> None:
    """In the file of Codex both look the same."""
    with whole(tmp_path, "codex") as at:
        run = at.start("@do ask touch made;;say Never.")
        call = at.asked(run)["asked"]["call_id"]
        assert at.post(f"/runs/{run}/stop", who="Ann")[0] == 200
        view = at.until_in(run, "ended")
        assert view["reason"] == "stopped by Ann"
        record = at.agreed(view["session"], lambda record: call in cut_off(record))
        assert record.rejections == []
        assert not (at.project / "made").exists()
