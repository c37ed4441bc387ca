"""The questions that a record answers about itself, checked on every kind of recording."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest

import unspool
from unspool.core import model as m
from unspool.core.errors import NotFoundError, UsageError
from unspool.core.events import count_events
from unspool.core.session import Session
from unspool.testing import ClaudeLog, Recording, call, texts

from ..recordings import recordings

NEWEST = {recording.agent: recording.version for recording in recordings()}
NEWEST_RECORDINGS = [recording for recording in recordings() if recording.version == NEWEST[recording.agent]]


@cache
def sessions_of(recording: Recording) -> list[Session]:
    return recording.sessions()


def each_session() -> list[Session]:
    """Every session of the newest recordings of each agent."""
    return [session for recording in NEWEST_RECORDINGS for session in sessions_of(recording)]


def log_with_calls() -> ClaudeLog:
    """A call that worked, one that was rejected with a reason, and one without a result."""
    log = ClaudeLog()
    log.user("clean up")
    log.model(call("ok", command="ls"))
    log.result("ok", "README.md")
    log.model(call("no", command="rm -r ."))
    log.result(
        "no",
        "The user doesn't want to proceed with this tool use. The tool use was rejected (eg. if it was a file "
        "edit, the new_string was NOT written to the file). To tell you how to proceed, the user said:\nkeep it",
        error=True,
        toolUseResult="Error: keep it",
        toolDenialKind="user-rejected",
        userFeedback="keep it",
    )
    log.model(call("open", command="sleep 1000"))
    return log


# --- a container of messages ------------------------------------------------------------------------------------------


def test_a_session_is_a_container_of_messages(tmp_path: Path) -> None:
    log = ClaudeLog()
    log.user("hello")
    log.model("hi")
    session = log.load(tmp_path)
    assert len(session) == 2
    assert list(session) == session.messages
    assert [message.text for message in session] == ["hello", "hi"]


def test_a_session_without_messages_is_truthy(tmp_path: Path) -> None:
    log = ClaudeLog()
    log.user("hello")
    session = msgspec.structs.replace(log.load(tmp_path), messages=[])
    assert len(session) == 0
    assert session


def test_the_repr_is_one_short_line(tmp_path: Path) -> None:
    log = ClaudeLog()
    log.user("hello")
    log.model("a very long answer " * 1000)
    session = log.load(tmp_path)
    assert repr(session) == f"<Session claude {log.session} 'hello': 2 messages, complete>"


def test_the_notebook_card_escapes_everything(tmp_path: Path) -> None:
    log = ClaudeLog(version="<i>2</i>")
    log.user("<script>alert(1)</script>", cwd="/home/dev/<b>demo</b>")
    log.model("hi")
    html = log.load(tmp_path)._repr_html_()
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in html
    assert all(markup not in html for markup in ("<script", "<b>", "<i>"))
    assert "2 messages" in html
    assert "claude" in html


# --- questions --------------------------------------------------------------------------------------------------------


def test_prompts_are_what_a_person_typed(tmp_path: Path) -> None:
    log = log_with_calls()
    log.user("<system-reminder>not typed</system-reminder>", isMeta=True)
    assert [prompt.text for prompt in log.load(tmp_path).prompts()] == ["clean up"]


def test_tool_calls_come_with_their_results(tmp_path: Path) -> None:
    worked, rejected, unfinished = log_with_calls().load(tmp_path).tool_calls()
    assert (worked.id, worked.name, worked.input) == ("ok", "Bash", {"command": "ls"})
    assert worked.result is not None
    assert (worked.result.content, worked.outcome, worked.result_index) == ("README.md", "ok", 2)
    assert rejected.rejection is not None
    assert (rejected.rejection.reason, rejected.outcome) == ("keep it", "rejected")
    assert (unfinished.result, unfinished.result_index, unfinished.outcome) == (None, None, "unknown")


def test_a_call_id_that_is_used_twice(tmp_path: Path) -> None:
    """Each call gets the result that follows it."""
    log = ClaudeLog()
    log.user("start")
    for number in ("first", "second"):
        log.model(call("same", command=number))
        log.result("same", number)
    found = [(use.input["command"], use.result and use.result.content) for use in log.load(tmp_path).tool_calls()]
    assert found == [("first", "first"), ("second", "second")]


def test_events_are_in_order(tmp_path: Path) -> None:
    session = log_with_calls().load(tmp_path)
    assert [(event.kind, event.message_index) for event in session.events()] == [("rejection", 4), ("orphan", 5)]
    (rejection,) = session.events("rejected")
    assert rejection.event is session.rejections[0]
    assert rejection.timestamp == session.messages[4].timestamp
    with pytest.raises(UsageError, match="Unknown event type 'nosuch'"):
        session.events("nosuch")


def test_every_event_is_listed_once() -> None:
    """In the order of the messages, in every recording."""
    for session in each_session():
        events = session.events()
        assert len(events) == sum(count_events(session).values())
        places = [len(session) if event.message_index is None else event.message_index for event in events]
        assert places == sorted(places)


def test_branches_by_number(tmp_path: Path) -> None:
    log = ClaudeLog()
    log.user("start", "start")
    log.model("answer", name="answer")
    log.user("left", parent="answer")
    log.model("dead end")
    log.user("alive", parent="answer")
    session = log.load(tmp_path)
    assert texts(session, session.branch(0)) == texts(session, session.active_path()) == ["start", "answer", "alive"]
    assert texts(session, session.branch(1)) == ["left", "dead end"]
    with pytest.raises(NotFoundError, match="has no branch 2; it has branches 0 to 1"):
        session.branch(2)


def test_every_call_has_one_outcome() -> None:
    """What `tool_calls` says agrees with the results and the rejections, in every recording."""
    seen: set[str] = set()
    for session in each_session():
        results = {b.call_id: b for message in session for b in message.blocks if isinstance(b, unspool.ToolResult)}
        uses = list(session.tool_calls())
        seen.update(use.outcome for use in uses)
        assert {use.id for use in uses} >= {r.tool_use_id for r in session.rejections if r.tool_use_id in results}
        for use in uses:
            assert (use.outcome == "rejected") >= (use.rejection is not None)
            assert use.result is None or use.result.call_id == use.id
            assert (use.result is None) <= (use.id not in results or use.branch != 0)
    assert seen >= {"ok", "error", "rejected", "interrupted"}


# --- context ----------------------------------------------------------------------------------------------------------


def test_the_context_after_the_last_message(tmp_path: Path) -> None:
    """`len(session)` means the next message."""
    log = ClaudeLog()
    log.user("hello")
    log.model("hi")
    session = log.load(tmp_path)
    assert session.context_at(0).message_indices == []
    assert session.context_at(1).message_indices == [0]
    assert session.context_at(2) == session.context_now()
    assert session.context_now().message_indices == [0, 1]
    for index in (-1, 3):
        with pytest.raises(IndexError, match=f"message index {index} is out of range"):
            session.context_at(index)


def test_the_context_of_an_empty_session(tmp_path: Path) -> None:
    log = ClaudeLog()
    log.user("hello")
    session = log.load(tmp_path)
    empty = msgspec.structs.replace(session, messages=[], info=msgspec.structs.replace(session.info, tip=None))
    assert empty.context_at(0).message_indices == []


def test_what_is_live_is_what_is_in_context_now() -> None:
    """The mark on each message and the context at the tip are two views of one fact, in every recording."""
    for session in each_session():
        live = {message.index for message in session if message.context == "live"}
        assert set(session.context_now().message_indices) <= live


# --- conversion -------------------------------------------------------------------------------------------------------


def plain(value: Any) -> bool:
    """Whether a value consists only of dicts with string keys, lists, strings, numbers, booleans and None."""
    if type(value) is dict:
        return all(type(key) is str and plain(item) for key, item in value.items())
    if type(value) in (list, tuple):
        return all(plain(item) for item in value)
    return value is None or type(value) in (str, int, float, bool)


@pytest.mark.parametrize("recording", NEWEST_RECORDINGS, ids=lambda recording: recording.name)
def test_records_convert_to_plain_values_and_back(recording: Recording) -> None:
    """As Python values, as JSON, as their parts; nothing is lost."""
    for session in sessions_of(recording):
        as_dict = session.to_dict()
        assert plain(as_dict)
        assert as_dict == json.loads(session.to_json())
        assert msgspec.json.decode(session.to_json(), type=Session) == session
        for part in (
            *session.tool_calls(),
            *session.replies(),
            *session.events(),
            session.context_now(),
            *unspool.stream(recording.refs()[0]),
        ):
            assert plain(unspool.to_builtins(part))
            assert unspool.to_builtins(part) == json.loads(unspool.to_json(part))
            assert msgspec.to_builtins([part], enc_hook=unspool.enc_hook) == [unspool.to_builtins(part)]
    for ref in recording.refs():
        assert plain(unspool.to_builtins(ref))


def test_raw_inputs_convert_with_the_hook() -> None:
    """Of any kind of JSON; without the hook, msgspec raises rather than leave the input out."""
    for raw, value in ((b'{"a": [1, {"b": null}]}', {"a": [1, {"b": None}]}), (b'"text"', "text"), (b"null", None)):
        call = m.ToolCall("call", "Tool", msgspec.Raw(raw))
        assert msgspec.to_builtins(call, enc_hook=unspool.enc_hook)["input"] == value
        assert raw in msgspec.json.encode(call)
        with pytest.raises(TypeError, match="Raw"):
            msgspec.to_builtins(call)


def test_other_values_cannot_be_converted() -> None:
    with pytest.raises(NotImplementedError, match="object is not part of a session record"):
        unspool.to_builtins(object())
