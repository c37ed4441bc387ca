"""The recount of public sessions: each check finds a difference that was planted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tools.public_check import __main__ as program
from tools.public_check.__main__ import groups, main, report
from tools.public_check.compare import Comparison, Group, Tally
from tools.public_check.raw import Fact, copied_requests, facts, has_text, plan_starts, prompt_class
from tools.public_check.recorded import RecordedSession

from unspool.testing import ClaudeLog, CodexLog, GeminiLog, call

Json = dict[str, Any]
REFUSED = "The user doesn't want to proceed with this tool use. The tool use was rejected."


class Recorded:
    """A session as unspool might report it: a test says what it reports wrongly."""

    def __init__(self, path: Path, agent: str = "claude", **info: Any) -> None:
        files = [{"path": str(path)}]
        self.session = RecordedSession(
            {"id": "s", "agent": agent, "kind": "main", "title": "A title", "usage": {}, "files": files} | info
        )
        self._index = 0

    def message(self, line: int, *blocks: Json, role: str = "user", **fields: Any) -> Recorded:
        """Report a message at a line."""
        message = {
            "index": self._index, "role": role, "author": "harness", "blocks": list(blocks),
            "source": {"file": 0, "line": line},
        }  # fmt: skip
        self._index += 1
        self.session.add("message", {"message": message | fields})
        return self

    def event(self, kind: str, **event: Any) -> Recorded:
        """Report an event."""
        self.session.add(kind, {kind: event})
        return self

    def check(self, name: str, *, titles: dict[tuple[str, str], str | None] | None = None) -> Tally:
        """Run a check on it."""
        path = self.session.logs[0]
        comparison = Comparison(plan_starts(path.parent), titles or {}, copied_requests(path.parent))
        for group in groups([self.session]):
            comparison.add(group)
        comparison.finish_usage()
        return comparison.tallies[self.session.agent, name]


def whats(tally: Tally) -> list[tuple[int, str]]:
    """The differences, each with its line."""
    return [(difference.line, difference.what) for difference in tally.differences]


# --- the raw files ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ('{"task_id": 1}', "json"),
        (' [{"a": []}] ', "json"),
        ("[Image #1]", ""),
        ("{not json}", ""),
        ("42", ""),
        ("<note>x</note>", "tags"),
        ('<a b="c">x</a>\n<d>\n</d> ', "tags"),
        ("<b>bold</b> and more", ""),
        ("a < b", ""),
        ("<open>", ""),
        ("<command-name>/clear</command-name>", ""),
        ("", ""),
    ],
)
def test_prompts_that_no_person_types(text: str, kind: str) -> None:
    assert prompt_class(text) == kind


def test_text_of_attachments() -> None:
    """Names and paths are none."""
    assert has_text({"snippet": "1 line"})
    assert has_text({"files": [{"uri": "a", "diagnostics": [{"message": "unused"}]}]})
    assert has_text({"content": {"file": {"filePath": "a"}}})
    assert not has_text({"filename": "a", "exitCode": 0, "stdout": " "})


def test_facts_of_each_agent(tmp_path: Path) -> None:
    """Calls, results, prompts and usage, with their lines."""
    claude = ClaudeLog()
    claude.user("<note>x</note>")
    claude.model(call("a"), reply="one")
    claude.result("a", "done")
    codex = CodexLog()
    codex.item("message", role="user", content=[{"type": "input_text", "text": "[1]"}])
    codex.call("a")
    codex.output("a", "done")
    usage = {"input_tokens": 5, "output_tokens": 2}
    codex.event("token_count", info={"total_token_usage": usage, "last_token_usage": usage})
    gemini = GeminiLog()
    gemini.user("p", "{}")
    gemini.model("r", "", [{"id": "a", "name": "read_file", "status": "success", "result": [{}]}])
    found = {
        log.__class__.__name__: [(fact.kind, fact.line) for fact in facts(agent, log.write(tmp_path))]
        for agent, log in (("claude", claude), ("codex", codex), ("gemini", gemini))
    }
    assert found == {
        "ClaudeLog": [("prompt", 1), ("call", 2), ("usage", 2), ("result", 3)],
        "CodexLog": [("prompt", 2), ("call", 3), ("result", 4), ("usage", 5)],
        "GeminiLog": [("prompt", 2), ("call", 3), ("result", 3), ("usage", 3)],
    }


def test_damaged_lines_and_documents(tmp_path: Path) -> None:
    """Of a damaged line only the ids of requests are known."""
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"torn","id":"msg_1"\n[1]\n\n{"type":"user","message":{"content":"{}"}}\n')
    assert [(fact.kind, fact.line) for fact in facts("claude", path)] == [("usage", 1), ("prompt", 4)]
    document = tmp_path / "a.json"
    document.write_text(json.dumps({"messages": [{"id": "m", "type": "user", "content": "[]"}, 1]}))
    assert list(facts("gemini", document)) == [Fact("prompt", "m", 1, text="json")]
    document.write_text("no document")
    assert list(facts("gemini", document)) == []


# --- the checks ------------------------------------------------------------------------------------------------------


def test_orphans(tmp_path: Path) -> None:
    """Results are matched in either order; those that were written later to fill a gap are none."""
    log = ClaudeLog()
    log.result("early", "done")
    log.model(call("early"), call("open"), call("filled"), call("copied"), reply="one")
    log.result("filled", "[Tool result missing due to internal error]")
    calls = [{"type": "tool_call", "id": id} for id in ("early", "open", "filled")]
    recorded = Recorded(log.write(tmp_path)).message(2, *calls)
    recorded.message(2, {"type": "tool_call", "id": "copied"}, inherited=True)
    recorded.event("orphan", tool_use_id="early").event("orphan", tool_use_id="filled")
    tally = recorded.check("orphans")
    assert whats(tally) == [(2, "finished call is reported as unfinished"), (2, "unfinished call is not reported")]
    assert (tally.raw, tally.recorded, tally.explained) == (3, 2, 1)


def plan_logs(home: Path, text: str, second: int | None = None) -> Path:
    """A plan with this result at second 2, and perhaps a session that carries it out."""
    log = ClaudeLog()
    log.model(call("p", "ExitPlanMode", plan="Build."), reply="one")
    log.result("p", text, error=text == REFUSED)
    if second is not None:
        after = ClaudeLog("after")
        after.user("Implement the following plan:\n\nBuild.", timestamp=f"2026-03-01T09:00:{second:02}.999Z")
        after.write(home)
    return log.write(home)


@pytest.mark.parametrize(
    ("text", "second", "is_reported", "found"),
    [
        ("User has approved your plan. You can now start coding.", None, True, "approved plan is reported as rejected"),
        ("User has approved your plan. You can now start coding.", None, False, None),
        (REFUSED, 1, True, "approved plan is reported as rejected"),
        (REFUSED, 3, False, None),
        (REFUSED, 40, True, None),
        (REFUSED, None, False, "rejected plan is not reported"),
    ],
)
def test_plans(tmp_path: Path, text: str, second: int | None, is_reported: bool, found: str | None) -> None:
    """A refusal is an approval if a session begins with the plan right after it."""
    recorded = Recorded(plan_logs(tmp_path, text, second))
    if is_reported:
        recorded.event("rejection", tool_use_id="p")
    assert whats(recorded.check("plans")) == ([] if found is None else [(2, found)])


def test_prompts(tmp_path: Path) -> None:
    log = ClaudeLog()
    log.user('{"task_id": "1"}')
    log.user("<ide_selection>x</ide_selection>")
    log.user("please")
    log.user('{"pasted": 1}', permissionMode="default")
    recorded = Recorded(log.write(tmp_path)).message(1)
    for line in (2, 3, 4):
        recorded.message(line, author="human")
    tally = recorded.check("prompts")
    assert whats(tally) == [(2, "tags is reported as typed by a person")]
    assert (tally.raw, tally.recorded, tally.explained) == (3, 2, 1)


def test_attachments(tmp_path: Path) -> None:
    log = ClaudeLog()
    log.line("attachment", None, attachment={"type": "edited_text_file", "filename": "a", "snippet": "1 x"})
    log.line("attachment", None, attachment={"type": "skill_listing", "content": "- a skill"})
    log.line("attachment", None, attachment={"type": "opened_file_in_ide", "filename": "a"})
    recorded = Recorded(log.write(tmp_path)).message(1, {"type": "attachment", "kind": "edited_text_file"})
    recorded.message(2, {"type": "attachment", "kind": "skill_listing", "text": "- a skill"})
    assert whats(recorded.check("attachments")) == [(1, "attachment has lost its text")]


@pytest.mark.parametrize(
    ("title", "listed", "found"),
    [
        ("Fix it", "Fix it", []),
        (None, None, ["title is empty"]),
        ("Implement the following plan:", "Implement the following plan:", ["title is noise"]),
        ("<system-reminder>", "<system-reminder>", ["title is noise"]),
        ("Fix it", None, ["title differs between ls and export"]),
    ],
)
def test_titles(tmp_path: Path, title: str | None, listed: str | None, found: list[str]) -> None:
    log = ClaudeLog()
    log.user("Fix it")
    path = log.write(tmp_path)
    recorded = Recorded(path, title=title).message(1, author="human")
    tally = recorded.check("titles", titles={("s", str(path)): listed})
    assert [what for _, what in whats(tally)] == found


def test_usage_is_counted_once_over_forks(tmp_path: Path) -> None:
    """A fork copies the lines of its origin; a request that is counted in no session is lost."""
    log = ClaudeLog()
    for reply in ("one", "two", "three"):
        log.model("hi", reply=reply)
    path = log.write(tmp_path)
    fork = tmp_path / "fork.jsonl"
    fork.write_bytes(path.read_bytes())
    usage = {"input": 10, "output": 5}
    comparison = Comparison([], {})
    original = Recorded(path).message(1, usage=usage).message(2, usage=usage)
    copy = Recorded(fork, id="fork").message(1, usage=usage).message(2, usage=usage, inherited=True)
    for group in groups([original.session, copy.session]):
        comparison.add(group)
    comparison.finish_usage()
    tally = comparison.tallies["claude", "usage"]
    assert whats(tally) == [(1, "request is counted again"), (0, "request is counted nowhere")]
    assert (tally.raw, tally.recorded) == (3, 3)


def test_usage_of_codex(tmp_path: Path) -> None:
    """Its counts are repeated; only a new total is a request."""
    log = CodexLog()
    for total, last in ((5, 5), (5, 5), (12, 7)):
        counts = [{"input_tokens": each, "output_tokens": each} for each in (total, last)]
        log.event("token_count", info={"total_token_usage": counts[0], "last_token_usage": counts[1]})
    path = log.write(tmp_path)
    assert whats(Recorded(path, "codex", usage={"output": 12}).check("usage")) == []
    wrong = Recorded(path, "codex", usage={"output": 17}).check("usage")
    assert whats(wrong) == [(0, "12 output tokens in the file, 0 of them copied, 17 in the record")]
    fork = path.with_name("rollout-fork.jsonl")
    fork.write_bytes(b"\n".join(path.read_bytes().splitlines()[:2]) + b"\n")
    forked = Recorded(path, "codex", usage={"output": 7}).check("usage")
    assert (whats(forked), forked.explained) == ([], 5)


def conversation(path: Path, *steps: tuple[int, int]) -> Recorded:
    """A prompt of so many tokens before each request with so many input tokens."""
    recorded = Recorded(path)
    for number, (written, sent) in enumerate(steps):
        recorded.message(2 * number + 1, {"type": "text", "text": "word" * written})
        recorded.message(2 * number + 2, role="assistant", reply=2 * number + 1, usage={"input": 1, "cache_read": sent})
    return recorded


def test_context(tmp_path: Path) -> None:
    """What the record claims to be in context must fit what was sent next."""
    path = ClaudeLog().write(tmp_path)
    shrunk = conversation(path, (90_000, 100_000), (100, 20_000))
    assert whats(shrunk.check("context")) == [(4, "context shrank, the record still claims it")]
    grown = conversation(path, (90_000, 100_000), (100, 100_200))
    assert whats(grown.check("context")) == []
    doubted = shrunk.event("problem", reason="context-doubt", message_index=3).check("context")
    assert (doubted.differences, doubted.explained) == ([], 1)
    stitched = conversation(path, (90_000, 100_000)).message(3, {"type": "text", "text": "on"}, link="stitched")
    stitched.message(3, role="assistant", reply=3, usage={"input": 9_000})
    assert whats(stitched.check("context")) == []
    for event in ("compaction", "resume"):
        recorded = conversation(path, (90_000, 100_000))
        field = "replaced_message_indices" if event == "compaction" else "lost_message_indices"
        recorded.event(event, **{field: [0]})
        recorded.message(3, {"type": "text", "text": "on"}).message(
            4, role="assistant", reply=3, usage={"input": 99_000}
        )
        assert whats(recorded.check("context")) == [(4, "the record claims a smaller context than was sent")]


def test_a_sub_agent_in_the_log_belongs_to_its_session(tmp_path: Path) -> None:
    path = ClaudeLog().write(tmp_path)
    inner = Recorded(path, id="s/inner", kind="subagent").session
    other = Recorded(tmp_path / "gone.jsonl").session
    found = list(groups([Recorded(path).session, inner, other]))
    assert [[session.id for session in group.sessions] for group in found] == [["s", "s/inner"], ["s"]]
    assert all(isinstance(group, Group) for group in found)


# --- the whole -------------------------------------------------------------------------------------------------------


def test_sessions_that_are_read_rightly(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing of their content is printed."""
    log = ClaudeLog()
    log.user("a secret prompt")
    log.model(call("a", command="make"), reply="one")
    log.result("a", "done")
    log.model("a secret answer", reply="two")
    log.write(tmp_path)
    codex = CodexLog()
    codex.turn("a secret prompt", "a secret answer")
    codex.write(tmp_path)
    gemini = GeminiLog()
    gemini.user("p", "a secret prompt")
    gemini.model("r", "a secret answer")
    gemini.write(tmp_path)
    assert main([str(tmp_path)]) == 0
    output = capsys.readouterr().out
    assert output.count("differences     0") == 21
    assert "secret" not in output


def test_differences_are_listed_and_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the session and the line, and no more than asked for."""
    comparison = Comparison([], {})
    for line in range(5):
        comparison.tallies["claude", "orphans"].differ("s", line, "is wrong")
    lines = list(report(comparison, 2))
    assert lines[0].startswith("claude  orphans ")
    assert lines[0].endswith("differences     5")
    assert lines[1:] == ["    s:0  is wrong", "    s:1  is wrong", "    and 3 more"]
    log = ClaudeLog()
    log.user("do it")
    wrong = Recorded(log.write(tmp_path)).event("orphan", tool_use_id="made up").session
    monkeypatch.setattr(program, "recorded_sessions", lambda _: [wrong])
    assert main([str(tmp_path)]) == 1
