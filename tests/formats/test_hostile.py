"""Whatever is in a log, every format is valid: values that no agent writes, at every place of a conversation."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from msgspec import Raw

from unspool.agents import AGENTS
from unspool.core.session import Session
from unspool.formats.values import arguments_of, encode, portable
from unspool.library import Library
from unspool.testing import ClaudeLog, call, load

from ..fuzz import CORPUS
from ..fuzz.homes import place
from ..fuzz.mutations import mutated
from ..fuzz.records import random_mutation, seeds
from ..fuzz.values import VALUES
from .checks import check_all, check_log, check_spans, check_trajectory

MARK = b'"PUT IT HERE"'
MARKED: Any = json.loads(MARK)


def with_values(tmp_path: Path, log: ClaudeLog) -> list[Session]:
    """A session for each value, which is in the place of the mark."""
    path = log.write(tmp_path)
    data = path.read_bytes()
    assert MARK in data
    found: list[Session] = []
    for value in VALUES.values():
        path.write_bytes(data.replace(MARK, value))
        found += Library(path).load_all(Library(path).ref_of(path))
    return found


def test_inputs_texts_and_results(tmp_path: Path) -> None:
    """As the input of a call, a part of it, the text of a prompt, and the content of a result."""
    whole = {"type": "tool_use", "id": "a", "name": "Bash", "input": MARKED}
    for number, block in enumerate((whole, call("a", command=MARKED), call("a", name=MARKED, x=1), call(MARKED, x=1))):
        log = ClaudeLog(f"calls {number}")
        log.user("go")
        log.model("I go.", block)
        log.result("a", "done")
        for session in with_values(tmp_path, log):
            check_all(session)
    log = ClaudeLog("texts")
    log.user(MARKED)
    log.model({"type": "text", "text": MARKED}, call("b", command="ls"))
    log.result("b", MARKED)
    for session in with_values(tmp_path, log):
        check_all(session)


@pytest.mark.parametrize("field", ["timestamp", "uuid", "sessionId", "cwd", "version"])
def test_fields_of_lines(tmp_path: Path, field: str) -> None:
    """Also times that are missing, impossible, or before and after what a protocol can express."""
    log = ClaudeLog()
    log.user("go", **{field: MARKED})
    log.model("I go.", call("a", command="ls"), **{field: MARKED})
    log.result("a", "done", **{field: MARKED})
    for session in with_values(tmp_path, log):
        check_all(session)


def check_home(home: Path) -> int:
    """Raise unless all sessions in a home directory are valid in every format; returns how many there are."""
    sessions = [session for ref in Library(home).refs() for session in Library(home).load_all(ref)]
    for session in sessions:
        check_all(session)
    return len(sessions)


def test_what_fuzzing_found() -> None:
    """Homes that once made something fail."""
    assert sum(map(check_home, sorted(CORPUS.iterdir())))


@pytest.mark.parametrize("agent", AGENTS)
def test_damaged_logs(agent: str, tmp_path: Path) -> None:
    """Any value in any field; lines lost, doubled and out of order."""
    chance = random.Random(f"formats {agent}")
    for number in range(16):
        mutation = random_mutation(agent, chance)
        place(tmp_path, mutation.seed, mutation.data, f"value {number}")
        seed = chance.choice(seeds(agent))
        place(tmp_path, seed, mutated(seed, chance), f"damage {number}")
    assert check_home(tmp_path)


def test_a_session_without_messages_and_times(tmp_path: Path) -> None:
    log = ClaudeLog()
    log.record({"type": "summary", "summary": "nothing", "leafUuid": "x"})
    session = load(log.write(tmp_path))
    assert len(session) == 0
    check_trajectory(session)
    check_log(session)
    [root] = check_spans(session)
    assert root["startTimeUnixNano"] == "0"


def test_values_become_what_every_parser_accepts() -> None:
    """Large numbers and deep nesting are text; half of a surrogate pair is replaced."""
    assert portable({"a": 10**300, "b": 2**63 - 1, "c": [True, None, 1.5]}) == {
        "a": str(10**300),
        "b": 2**63 - 1,
        "c": [True, None, 1.5],
    }
    deep: Any = 1
    for _ in range(200):
        deep = [deep]
    flat = json.dumps(portable(deep))
    assert flat.startswith("[" * 48 + '"[')
    assert encode({"a\ud800": ["\udc00"]}) == b'{"a?":["?"]}'


def test_inputs_that_are_no_objects() -> None:
    assert arguments_of(Raw(b'{"a":1}')) == {"a": 1}
    assert arguments_of(Raw(b"[1]")) == {"input": [1]}
    assert arguments_of(Raw(b"null")) == {"input": None}
    assert arguments_of(Raw(b"1e999")) == {"input": "1e999"}
    assert arguments_of(Raw(b"")) == {"input": ""}
