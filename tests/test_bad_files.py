"""One bad file never stops the rest: it is read as far as possible, or reported and left out."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zstandard

from unspool import load
from unspool.agents.codex.discovery import CodexFolder
from unspool.core import builder
from unspool.core import model as m
from unspool.core.session import Session
from unspool.core.stream import collect
from unspool.ingest import archive
from unspool.io import lines
from unspool.io.sources import ByteStream, read_fully
from unspool.library import Library
from unspool.repair import repair_session
from unspool.testing import ClaudeLog, CodexLog, GeminiLog, call, texts
from unspool.testing.builders import write_file

from .cli.run import Run, run_captured
from .store.contents import new_store, synced
from .validation import check_session


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a command."""
    return lambda *arguments: run_captured(capsys, arguments)


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


@pytest.mark.parametrize("agent", ["claude", "codex", "gemini"])
def test_a_long_number_in_an_input_is_exported_as_its_digits(agent: str, tmp_path: Path) -> None:
    """Other programs could not read the export; a text of as many digits stays as it is."""
    claude, codex, gemini = ClaudeLog(), CodexLog(), GeminiLog()
    given: dict[str, Any] = {"number": "NUMBER", "text": 'a \\" ' + "7" * 5000, "fraction": "NUMBER.5", "short": 12}
    claude.model(call("c", "Bash", **given))
    codex.turn("hello", "hi")
    codex.call("c", **given)
    gemini.model("g", "hi", [{"id": "c", "name": "read_file", "args": given, "status": "success", "result": []}])
    log = {"claude": claude, "codex": codex, "gemini": gemini}[agent]
    for quote in (b'"', b'\\"'):
        for number in (b"NUMBER", b"NUMBER.5"):
            value = number.replace(b"NUMBER", b"-" + b"9" * 5000)
            log.lines = [line.replace(quote + number + quote, value) for line in log.lines]
    session = log.load(tmp_path)
    exported = json.loads(session.to_json())
    (found,) = (
        block for message in exported["messages"] for block in message["blocks"] if block["type"] == "tool_call"
    )
    assert found["input"]["number"] == "-" + "9" * 5000
    assert found["input"]["text"] == given["text"]
    assert (found["input"]["fraction"], found["input"]["short"]) == (float("-inf"), 12)


@pytest.mark.parametrize("digits", ["9" * 30, "9" * 500, "9" * 5000], ids=len)
def test_a_program_prints_any_number_of_digits(digits: str, tmp_path: Path) -> None:
    """What looks like an exit code, a count or a position is none with so many digits, and stops nothing."""
    claude, codex, gemini = ClaudeLog(), CodexLog(), GeminiLog()
    claude.model(call("c", command="ls"))
    claude.result("c", f"Exit code {digits}", error=True)
    codex.turn("hello", "hi")
    codex.call("c", command=["ls"])
    codex.output("c", f"Exit code: {digits}\nOutput:\n")
    gemini.user("u", "hello")
    gemini.message("info", "i", f"Chat history compressed from: {digits} to {digits} tokens.")
    given: dict[str, Any] = {"name": "run_shell_command", "args": {"command": "ls"}, "status": "error"}
    output = {"functionResponse": {"id": "c", "name": "x", "response": {"output": f"Exit Code: {digits}\n"}}}
    gemini.model("g", "hi", [{"id": f"x_1234567890_{digits}{n}", "result": [output], **given} for n in range(2)])
    sessions = [log.load(tmp_path) for log in (claude, codex, gemini)]
    failures = [failure for session in sessions for failure in session.errors]
    assert [(failure.kind, failure.exit_code) for failure in failures] == [("tool_error", None)] * 4
    store = new_store(tmp_path / "store.db")
    synced(store, tmp_path)
    store.close()


@pytest.mark.parametrize("code", ["true", "1.5", "9" * 30, "9" * 5000, "[" * 50_000 + "]" * 50_000], ids=len)
def test_json_in_an_output_may_be_of_a_program(code: str, tmp_path: Path) -> None:
    """Older versions wrap outputs in JSON. What only looks like it has no exit code."""
    log = CodexLog()
    log.turn("hello", "hi")
    log.call("c", command=["ls"])
    log.output("c", f'{{"output":"x","metadata":{{"exit_code":{code}}}}}')
    session = log.load(tmp_path)
    blocks = [block for message in session.messages for block in message.blocks]
    (result,) = [block for block in blocks if isinstance(block, m.ToolResult)]
    assert (result.outcome, result.exit_code) == ("ok", None)
    check_session(session)


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


DEEP = b'{"sessionId":"a","value":' + b"[" * 100_000 + b"]" * 100_000 + b"}\n"
BESIDE = (
    ".claude/history.jsonl", ".claude/settings.json", ".claude/sessions/1.json", ".claude/jobs/job/state.json",
    ".codex/history.jsonl", ".codex/session_index.jsonl", ".gemini/projects.json", ".gemini/settings.json",
    ".gemini/tmp/demo/logs.json",
)  # fmt: skip


def test_deep_nesting_in_other_files_hides_no_session(tmp_path: Path, run: Run) -> None:
    """In files beside the logs, and in the metadata of a sub-agent."""
    good_logs(tmp_path)
    agent = ClaudeLog(agent="a1")
    agent.user("hello agent", "task")
    agent.write(tmp_path).with_suffix(".meta.json").write_bytes(DEEP)
    for name in BESIDE:
        write_file(tmp_path / name, DEEP)
    found = run("ls", "--kind", "all", "--home", tmp_path, "--json")
    assert (found.code, found.err) == (0, "")
    assert sorted(record["title"] for record in found.records) == ["hello agent", *GOOD[:3]]


def test_an_error_in_a_listing_is_reported(tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the error is: the sessions that are missing are not left out without a message."""
    good_logs(tmp_path)

    def fail(*_: object) -> None:
        raise RecursionError("too deep")

    monkeypatch.setattr(CodexFolder, "_files", fail)
    found = run("ls", "--home", tmp_path, "--json")
    assert sorted(record["agent"] for record in found.records) == ["claude", "gemini"]
    assert found.code == 1
    assert f"{tmp_path / '.codex'}: RecursionError: too deep" in found.err


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


# --- neighbours that are no logs -------------------------------------------------------------------------------------


def good_logs(home: Path) -> list[Path]:
    """A session of each agent; the texts in it are those of `GOOD`."""
    claude, codex, gemini = ClaudeLog(), CodexLog(), GeminiLog()
    claude.user("hello claude")
    codex.turn("hello codex", "hi")
    gemini.user("u", "hello gemini")
    return [log.write(home) for log in (claude, codex, gemini)]


GOOD = ["hello claude", "hello codex", "hello gemini", "hi"]


def neighbours(logs: list[Path], number: int, suffix: str = ".jsonl") -> list[Path]:
    """Names beside the logs that each agent would take for one of its own."""
    id = f"{number:08}-0000-0000-0000-000000000000"
    names = (id, f"rollout-2026-03-01T09-00-00-{id}", f"session-2026-03-01T09-00-{id}")
    return [log.with_name(name + suffix) for log, name in zip(logs, names, strict=True)]


def socket_at(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server, contextlib.chdir(path.parent):
        server.bind(path.name)


NEIGHBOURS: dict[str, Callable[[Path], object]] = {
    "pipe": os.mkfifo,
    "socket": socket_at,
    "device": lambda path: path.symlink_to("/dev/zero"),
    "folder": Path.mkdir,
    "empty file": lambda path: path.write_bytes(b""),
    "NULs": lambda path: path.write_bytes(b"\0" * 70_000),
    "UTF-16": lambda path: path.write_bytes('{"sessionId":"a","projectHash":"b"}\n'.encode("utf-16")),
    "link to itself": lambda path: path.symlink_to(path.name),
    "link to a folder": lambda path: path.symlink_to("."),
    "no line ends": lambda path: path.write_bytes(b"[" * 300_000),
}


def test_neighbours_of_any_kind_stop_nothing(tmp_path: Path, run: Run) -> None:
    """Reading a pipe blocks, and devices never end; a link to itself hid all sessions of a project."""
    home = tmp_path / "home"
    logs = good_logs(home)
    for number, make in enumerate(NEIGHBOURS.values()):
        for path in neighbours(logs, number):
            make(path)
    beside = (".claude/history.jsonl", ".codex/history.jsonl", ".codex/session_index.jsonl", ".gemini/projects.json")
    for name in beside:
        os.mkfifo(home / name)
    library = Library(home)
    found = [text for ref in library.refs() for session in library.load_all(ref) for text in texts(session)]
    assert sorted(found) == GOOD
    report = run("doctor", "--home", home)
    assert report.code == 0
    assert report.out.count("not a regular file") == 2 * 3 + 4
    store = new_store(tmp_path / "store.db")
    synced(store, home)
    again = synced(store, home)
    assert (again.new, again.changed) == (0, 0)
    store.close()


def test_doctor_names_files_in_place_of_folders(tmp_path: Path, run: Run) -> None:
    """And folders in place of files. The sessions of other agents are listed as usual."""
    home = tmp_path / "home"
    good_logs(home)
    expected = run("ls", "--home", home).out.splitlines()
    for name in (".codex/sessions", ".gemini/tmp"):
        shutil.rmtree(home / name)
        (home / name).write_text("")
    (home / ".claude/history.jsonl").mkdir()
    listed = run("ls", "--home", home)
    assert (listed.code, listed.out.splitlines()) == (
        0,
        [line for line in expected if "claude" in line or "agent" in line],
    )
    report = run("doctor", "--home", home).out
    assert report.count("a file instead of a directory: left out") == 2
    assert report.count("a directory instead of a file: left out") == 1


def sized(lines: int, line: bytes) -> Callable[[Path], object]:
    """A file of many equal lines."""
    return lambda path: path.write_bytes((line + b"\n") * lines)


def sparse(path: Path) -> None:
    """A file of nothing, longer than any line may be."""
    with path.open("wb") as file:
        file.truncate(24 << 20)


STRANGE: dict[str, Callable[[Path], object]] = {
    "byte order mark": lambda path: path.write_bytes(b"\xef\xbb\xbf" + b'{"sessionId":"a","type":"user"}\n'),
    "deep nesting": sized(3, b'{"sessionId":"a","a":' + b"[" * 200_000 + b"]" * 200_000 + b"}"),
    "many short lines": sized(30_000, b"{}"),
    "one long line": sized(1, b'{"sessionId":"a","type":"user","message":"' + b"x" * (5 << 20) + b'"}'),
    "sparse": sparse,
    "half a character": sized(2, b'{"sessionId":"\xf0\x9f"}'),
    "cut off": lambda path: path.write_bytes(b'{"sessionId":"a","type":"user","mess'),
}
COMMANDS = (
    ("ls", "--kind", "all"), ("export", "--format", "stream"), ("events",), ("doctor", "--all"),
)  # fmt: skip


@pytest.mark.parametrize("name", STRANGE)
def test_every_command_copes_with_strange_files(
    name: str, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The good sessions beside them are listed, shown, exported, stored and found."""
    monkeypatch.setattr(lines, "LONGEST_LINE", 8 << 20)
    monkeypatch.setattr(lines, "MOST_ZEROS", 4 << 20)
    home, store = tmp_path / "home", tmp_path / "store.db"
    logs = good_logs(home)
    for path in (*neighbours(logs, 1), *neighbours(logs, 2, ".json")[2:]):
        STRANGE[name](path)
    for arguments in COMMANDS:
        done = run(*arguments, "--home", home)
        assert done.code == 0 or "more than 4 MB of NUL bytes; it and all" in done.err, (arguments, done.err)
        assert "a bug in unspool" not in done.err
    for log, text in zip(logs, GOOD, strict=False):
        assert text in run("show", log).out
        assert run("context", log, "--at", "0").code == 0
    run("sync", "--home", home, "--store", store)
    for text in GOOD[:3]:
        assert text.split()[1] in run("search", f'"{text}"', "--no-sync", "--store", store).out
    assert run("stats", "--no-sync", "--store", store).code == 0


EDITED: dict[str, Callable[[bytes], bytes]] = {
    "line ends": lambda data: data.replace(b"\n", b"\r\n"),
    "byte order mark": lambda data: b"\xef\xbb\xbf" + data,
    "NULs": lambda data: data + b"\0" * 4096,
}


@pytest.mark.parametrize("name", EDITED)
def test_logs_that_were_edited_are_read(name: str, tmp_path: Path) -> None:
    """What an editor or a power cut makes of a log is read like the log."""
    for log in good_logs(tmp_path):
        log.write_bytes(EDITED[name](log.read_bytes()))
    library = Library(tmp_path)
    found = [text for ref in library.refs() for session in library.load_all(ref) for text in texts(session)]
    assert sorted(found) == GOOD


def test_names_as_long_as_a_file_system_allows(tmp_path: Path, run: Run) -> None:
    """Files that are written beside or instead of them have other names."""
    home = tmp_path / "home"
    for log in good_logs(tmp_path / "made"):
        relative = log.relative_to(tmp_path / "made")
        stem = relative.stem + "-" + "é" * ((254 - len(relative.name)) // 2)
        write_file((home / relative).with_name(stem + relative.suffix), log.read_bytes())
    for arguments in COMMANDS:
        assert run(*arguments, "--home", home).code == 0
    store = new_store(tmp_path / "store.db")
    synced(store, home)
    assert store.sessions.count() > 0
    store.close()


def test_file_names_that_are_no_text(tmp_path: Path, run: Run) -> None:
    """Bytes that are not UTF-8, line feeds and escape sequences: a session is known by a name that can be written."""
    home = tmp_path / "home"
    for number, name in enumerate((b"\xff\xfe", b"line\nfeed \x1b]52;c;eA==\x07")):
        for log in good_logs(tmp_path / "made"):
            relative = log.relative_to(tmp_path / "made")
            data = log.read_bytes().replace(b'"sessionId"', b'"sessionName"') + b"\n" * number
            write_file(home / relative.parent / os.fsdecode(name) / relative.name, data)
            write_file((home / relative).with_name(os.fsdecode(name) + ".jsonl"), data)
    library = Library(home)
    found = [session for ref in library.refs() for session in library.load_all(ref)]
    assert set(GOOD) == {text for session in found for text in texts(session)}
    assert "\\xff\\xfe" in {session.id for session in found}
    for arguments in (["ls", "--kind", "all", "--json"], ["ls"], ["doctor", "--all"], ["export"], ["events"]):
        done = run(*arguments, "--home", home)
        assert done.code == 0
        assert "\x1b" not in done.out + done.err
    store = new_store(tmp_path / "store.db")
    synced(store, home)
    assert store.sessions.count() == len({(session.agent, session.id) for session in found})
    store.close()


def test_a_compressed_log_that_unpacks_to_gigabytes(tmp_path: Path) -> None:
    """It is read in small pieces, up to a limit, and the lines before that are kept."""
    log = CodexLog()
    log.turn("hello", "hi")
    path = log.write(tmp_path)
    packer = zstandard.ZstdCompressor(level=1).compressobj()
    pieces = [log.data, *[b"x" * (1 << 20)] * 300]
    packed = b"".join(map(packer.compress, pieces)) + packer.flush()
    path.unlink()
    path.with_suffix(".jsonl.zst").write_bytes(packed)
    library = Library(tmp_path)
    (ref,) = library.refs()
    session = library.load(ref)
    assert texts(session) == ["hello", "hi"]
    assert reasons(session) == ["broken-compression"]
    assert [other.to_json() for other in collect(library.stream(ref))] == [session.to_json()]


def add_zeros(path: Path, size: int) -> None:
    with path.open("ab") as file:
        file.truncate(size)


def add_text(path: Path, size: int) -> None:
    with path.open("ab") as file:
        file.write(b"x" * size)


@pytest.mark.parametrize(
    ("add", "size"), [(add_zeros, 20 << 20), (add_text, 20 << 20), (add_zeros, 1 << 40)], ids=["NUL", "text", "1 TB"]
)
def test_a_line_without_end_is_left_out(
    add: Callable[[Path, int], None], size: int, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file of any size neither fills the memory nor is read to its end; what comes before the line is read."""
    monkeypatch.setattr(lines, "LONGEST_LINE", 4 << 20)
    monkeypatch.setattr(lines, "MOST_ZEROS", 2 << 20)
    read = []

    def read_little(file: ByteStream, size: int) -> bytes:
        read.append(size)
        assert sum(read) < 50 << 20
        return read_fully(file, size)

    monkeypatch.setattr(archive, "read_fully", read_little)
    home, store = tmp_path / "home", tmp_path / "store.db"
    log, other = ClaudeLog(), ClaudeLog("other")
    log.user("before")
    other.user("another session")
    other.write(home)
    path = log.write(home)
    add(path, size)
    # It belongs to no session that can be read.
    add(path.with_name("11111111-1111-4111-8111-111111111111.jsonl"), size)
    session = load(path)
    assert texts(session) == ["before"]
    assert reasons(session) == ["unreadable"]
    done = run("sync", "--home", home, "--store", store)
    assert done.code == 1
    assert "11111111-1111-4111-8111-111111111111.jsonl: a line " in done.err
    assert "another session" in run("search", "another", "--no-sync", "--store", store).out


def test_a_document_that_is_too_large_is_reported(tmp_path: Path, run: Run) -> None:
    """It is not taken for an empty one."""
    path = tmp_path / ".gemini" / "tmp" / "project" / "chats" / "session-2026-01-01T00-00-abc.json"
    path.parent.mkdir(parents=True)
    add_zeros(path, 2 << 30)
    for command in (("ls",), ("sync", "--store", tmp_path / "store.db")):
        done = run(*command, "--home", tmp_path)
        assert (done.code, "larger than 1 GB" in done.err) == (1, True)


def test_a_file_of_nothing_but_damage_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Millions of damaged lines are not kept one by one, and none is lost without being counted."""
    monkeypatch.setattr(builder, "MOST_PROBLEMS", 10)
    log = ClaudeLog()
    log.user("before")
    for _ in range(50):
        log.raw(b"{")
    log.user("after")
    library = Library(log.write(tmp_path))
    (ref,) = library.refs()
    session = library.load(ref)
    assert texts(session) == ["before", "after"]
    assert session.problems[-1].detail == "40 more problems, not listed"
    assert len(session.problems) == 11
    assert session.info.files[0].damaged == 50
    assert [other.to_json() for other in collect(library.stream(ref))] == [session.to_json()]


def test_a_folder_that_may_not_be_read_is_reported(tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The others are listed; `doctor` says what is missing."""
    logs = good_logs(tmp_path)
    closed = logs[1].parent
    listed = os.scandir

    def refuse(folder: str) -> Any:
        if folder == str(closed):
            raise PermissionError(13, "Permission denied", folder)
        return listed(folder)

    with monkeypatch.context() as patched:
        patched.setattr(os, "scandir", refuse)
        assert sorted(ref.agent for ref in Library(tmp_path).refs()) == ["claude", "gemini"]
        report = run("doctor", "--home", tmp_path)
    assert f"{closed}\n" in report.out
    assert "Permission denied: the contents of this folder are missing" in report.out
