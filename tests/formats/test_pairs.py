"""Preference pairs: what was rejected, why, and what was accepted instead."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema_rs
import msgspec
import pytest

from unspool.cli._shared.output_types import output_schema
from unspool.core.session import Session
from unspool.formats.pairs import PairMessage, PreferencePair, pairs_of
from unspool.testing import ClaudeLog, call, load

from .checks import check_openai
from .corpus import recorded_sessions
from .rejecting import reject


def calls_in(messages: list[PairMessage]) -> list[tuple[str, Any]]:
    found = [one.function for message in messages for one in message.tool_calls]
    return [(function.name, json.loads(function.arguments)) for function in found]


def edited(tmp_path: Path, *then: dict[str, Any]) -> Session:
    """A session in which an edit is rejected, and something else is done."""
    log = ClaudeLog()
    log.user("rename it")
    log.model("I rename x.", call("one", "Edit", file_path="/a.py", old_string="x", new_string="y"))
    reject(log, "one", "use a longer name")
    for block in then:
        log.model("Like this?", block)
        log.result(block["id"], "done")
    return load(log.write(tmp_path))


def edit(id: str, path: str, new: str) -> dict[str, Any]:
    return call(id, "Edit", file_path=path, old_string="x", new_string=new)


def test_a_rejected_edit_and_the_accepted_one(tmp_path: Path) -> None:
    """Of several actions that followed, the one on the same file."""
    session = edited(tmp_path, call("two", command="ls"), edit("three", "/b.py", "z"), edit("four", "/a.py", "longer"))
    [pair] = pairs_of(session)
    assert pair.reason == "use a longer name"
    assert calls_in(pair.rejected)[0][1]["new_string"] == "y"
    assert calls_in(pair.chosen)[0][1]["new_string"] == "longer"
    assert pair.rejected[0].content == "I rename x."
    assert (pair.match, pair.confidence, pair.rejected_by, pair.rejection_type) == ("same_target", 1.0, "user", "edit")
    assert [message.role for message in pair.prompt] == ["user"]
    assert (pair.rejected_index, pair.rejection_index, pair.chosen_index) == (1, 2, 7)
    assert (pair.agent, pair.session, pair.model) == ("claude", session.id, "claude-sonnet-4-5")


def test_an_action_of_another_kind_is_less_certain(tmp_path: Path) -> None:
    [pair] = pairs_of(edited(tmp_path, edit("two", "/b.py", "z")))
    assert (pair.match, pair.confidence) == ("same_kind", 0.8)
    [pair] = pairs_of(edited(tmp_path, call("two", command="ls")))
    assert (pair.match, pair.confidence) == ("next_action", 0.5)


def test_nothing_is_preferred_to_what_was_accepted_in_the_end(tmp_path: Path) -> None:
    assert list(pairs_of(edited(tmp_path, edit("two", "/a.py", "y")))) == []
    assert list(pairs_of(edited(tmp_path))) == []


def test_a_prompt_says_what_to_do_instead(tmp_path: Path) -> None:
    """After a rejection without a reason, until the prompt after that."""
    log = ClaudeLog()
    log.user("clean up")
    log.model("I delete it.", call("one", command="rm -r build"))
    log.result(
        "one",
        "The user doesn't want to proceed with this tool use. The tool use was rejected (eg. if it was a file "
        "edit, the new_string was NOT written to the file). STOP what you are doing and wait for the user to tell you "
        "how to proceed.",
        error=True,
        toolUseResult="User rejected tool use",
        toolDenialKind="user-rejected",
    )
    log.user("make clean does that")
    log.model("Then so.", call("two", command="make clean"))
    log.result("two", "cleaned")
    log.user("something else")
    log.model("Now.", call("three", command="rm other"))
    log.result("three", "")
    [pair] = pairs_of(load(log.write(tmp_path)))
    assert pair.next_prompt == "make clean does that"
    assert calls_in(pair.chosen) == [("Bash", {"command": "make clean"})]
    assert (pair.match, pair.confidence) == ("same_kind", 0.6)


@pytest.mark.slow
def test_recordings() -> None:
    """Every pair is valid by the published schema, its parts are valid messages, and its places are right."""
    schema = output_schema()
    validator = jsonschema_rs.Draft202012Validator({"$ref": "#/$defs/PreferencePair", "$defs": schema["$defs"]})
    count = 0
    for session in recorded_sessions():
        for pair in pairs_of(session):
            data = json.loads(msgspec.json.encode(pair))
            validator.validate(data)
            check_pair(session, pair, data)
            count += 1
    assert count


def check_pair(session: Session, pair: PreferencePair, data: dict[str, Any]) -> None:
    """The places name a call that was rejected and one that ran after it; the messages are a valid conversation."""
    uses = {use.message_index: use for use in session.tool_calls()}
    assert uses[pair.rejected_index].rejection is not None
    assert uses[pair.chosen_index].outcome in ("ok", "error")
    assert pair.rejected_index < pair.chosen_index
    assert calls_in(pair.rejected) != calls_in(pair.chosen)
    for side in ("chosen", "rejected"):
        [answer] = data[side]
        ids = [one["id"] for one in answer["tool_calls"]]
        results = [{"role": "tool", "tool_call_id": id, "content": "x"} for id in ids]
        check_openai({"model": "m", "messages": [*data["prompt"], answer, *results]})
