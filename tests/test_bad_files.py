"""One bad file never stops the rest: it is read as far as possible, or reported and left out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from unspool.core.session import Session
from unspool.core.stream import collect
from unspool.library import Library
from unspool.repair import repair_session
from unspool.testing import ClaudeLog, CodexLog, GeminiLog, call, texts
from unspool.testing.builders import write_file

from .store.contents import new_store, synced


def reasons(session: Session) -> list[str]:
    return [problem.reason for problem in session.problems]


def test_opening_a_ring_of_parents_makes_no_other_ring(tmp_path: Path) -> None:
    """The message before the first one of a ring may itself lead back to the ring."""
    log = ClaudeLog()
    log.user("first", "first", parent="third")
    log.model("second", name="second", parent="fourth")
    log.user("third", "third", parent="second")
    log.model("fourth", name="fourth", parent="third")
    log.user("fifth", "fifth", parent="second")
    session = log.load(tmp_path)
    assert texts(session) == ["first", "second", "third", "fourth", "fifth"]
    assert "cycle" in reasons(session)
    for message in session.messages:
        above = [message.index]
        while (parent := session.messages[above[-1]].parent_index) is not None:
            above.append(parent)
            assert len(above) <= len(session.messages)
    store = new_store(tmp_path / "store.db")
    synced(store, tmp_path)
    store.close()


COUNTS = [-1, 2**63, 10**400]


@pytest.mark.parametrize("count", COUNTS, ids=["negative", "over 64 bits", "hundreds of digits"])
def test_impossible_token_counts_are_left_out(count: int, tmp_path: Path) -> None:
    """Of a usage with such a count, the others are kept; the store and its sums have room for all of them."""
    claude, codex, gemini = ClaudeLog(), CodexLog(), GeminiLog()
    claude.user("hello")
    claude.model("hi", tokens=count)
    codex.turn("hello", "hi")
    used = {"input_tokens": count, "output_tokens": 5, "total_tokens": 5}
    codex.event("token_count", info={"total_token_usage": used, "last_token_usage": used})
    gemini.user("u", "hello")
    gemini.message("gemini", "g", "hi", model="gemini-3-pro", tokens={"input": count, "output": 5})
    sessions = [log.load(tmp_path) for log in (claude, codex, gemini)]
    assert [session.info.usage.output for session in sessions] == [5, 5, 5]
    assert [session.info.usage.input or 0 for session in sessions] == [0, 0, 0]
    assert [reasons(session) for session in sessions] == [["unknown-shape"]] * 3
    store = new_store(tmp_path / "store.db")
    synced(store, tmp_path)
    assert store.sessions.count() == 3
    store.close()


def test_a_number_of_thousands_of_digits_is_left_out(tmp_path: Path) -> None:
    """Python refuses to convert it; the rest of the line is read."""
    log = ClaudeLog()
    log.user("before")
    log.user("with a number")
    log.lines[1] = log.lines[1][:-1] + b',"apiErrorStatus":' + b"9" * 5000 + b"}"
    session = log.load(tmp_path)
    assert texts(session) == ["before", "with a number"]
    assert reasons(session) == ["unknown-shape"]


@pytest.mark.parametrize("messages", [7, "text", {"a": 1}, [1, None, {"id": "u", "type": "user", "content": "hello"}]])
def test_a_document_with_other_messages_stops_nothing(messages: object, tmp_path: Path) -> None:
    """What is no list of messages is reported."""
    document = {"sessionId": "odd", "projectHash": "ab", "messages": messages}
    path = write_file(tmp_path / ".gemini/tmp/p/chats/session-odd.json", json.dumps(document).encode())
    library = Library(tmp_path)
    session = library.load(library.ref_of(path))
    assert reasons(session) == ["not-a-record" if isinstance(messages, list) else "unknown-shape"]
    assert texts(session) == (["hello"] if isinstance(messages, list) else [])


def test_a_log_without_its_header_is_known_by_its_name(tmp_path: Path) -> None:
    """A damaged first line does not hide the conversation."""
    log = GeminiLog()
    log.user("u", "hello")
    log.lines[0] = log.lines[0][:20]
    path = log.write(tmp_path)
    (ref,) = Library(tmp_path).refs()
    assert (ref.id, ref.path) == (path.stem, path)
    assert texts(Library(tmp_path).load(ref)) == ["hello"]


def test_repair_takes_values_of_any_type(tmp_path: Path) -> None:
    """Ids and kinds that are lists or objects, and numbers that Python does not convert."""
    log = CodexLog()
    log.turn("hello", "hi")
    log.call("c1", command=["ls"])
    log.envelope("turn_context", cwd=["not", "text"])
    log.lines[0] = log.lines[0].replace(b'"id":"' + log.thread.encode() + b'"', b'"id":[{}],"history_base":{"a":[]}')
    log.lines.append(b'{"timestamp":' + b"9" * 5000 + b',"type":"event_msg","payload":{"type":{}}}')
    library = Library(log.write(tmp_path))
    (ref,) = library.refs()
    done = repair_session(library, ref, tmp_path / "copy")
    assert done.changes["results added"] == 1


def test_a_repaired_log_stays_in_its_folder(tmp_path: Path) -> None:
    """The id that a log gives itself leads nowhere else."""
    log = ClaudeLog()
    log.user("hello")
    path = write_file(tmp_path / "loose.jsonl", log.data.replace(log.session.encode(), b"../../../escaped"))
    library = Library(path)
    done = repair_session(library, library.ref_of(path), tmp_path / "copy")
    assert [Path(file.path).is_relative_to(tmp_path / "copy") for file in done.files] == [True]
    assert ".." not in Path(done.files[0].path).parts


def test_loading_and_streaming_agree_on_a_ring(tmp_path: Path) -> None:
    """Both open it at the same message."""
    log = ClaudeLog()
    log.user("one", "one", parent="two")
    log.model("two", call("c"), name="two", parent="one")
    library = Library(log.write(tmp_path))
    (ref,) = library.refs()
    assert [session.to_json() for session in collect(library.stream(ref))] == [library.load(ref).to_json()]
