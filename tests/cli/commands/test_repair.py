"""`unspool repair`: the copy has everything that was intact, lacks nothing, and the original stays as it is."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from unspool.agents import AGENTS, unanswered
from unspool.core import model as m
from unspool.core.errors import UnspoolError
from unspool.core.session import Session
from unspool.library import Library
from unspool.repair import Repair, _write, repair_session
from unspool.testing import ClaudeLog, CodexLog, GeminiLog, call, load, texts, write_file

from ...recordings import recordings
from ..run import SAMPLES, Run

HARMLESS = {"unknown-record", "unknown-shape", "duplicate-id"}


def repaired(path: Path, target: Path) -> tuple[Repair, Session]:
    """Repair the session of a file, and read the copy."""
    library = Library(path)
    done = repair_session(library, library.ref_of(path), target)
    return done, load(Path(done.files[0].path))


def is_sound(session: Session) -> bool:
    """Nothing is damaged, and no call lacks a result."""
    return not {problem.reason for problem in session.problems} - HARMLESS and not unanswered(session)


def path_of(session: Session) -> list[int]:
    return [message.index for message in session.active_path()]


def results(session: Session) -> dict[str, str]:
    return {
        block.call_id: block.content
        for message in session.messages
        for block in message.blocks
        if isinstance(block, m.ToolResult)
    }


def parents(path: str) -> dict[str, Any]:
    lines = [json.loads(line) for line in Path(path).read_bytes().split(b"\n") if line]
    return {line["uuid"]: line["parentUuid"] for line in lines if "uuid" in line}


# --- Claude Code ------------------------------------------------------------------------------------------------------


def test_a_call_at_the_end_gets_a_result(tmp_path: Path) -> None:
    """Its result says that there was none, and the conversation continues from there."""
    log = ClaudeLog()
    log.user("hello")
    call_line = log.model("I look", call("open", command="ls"))
    log.record({"type": "last-prompt", "leafUuid": call_line, "sessionId": log.session})
    done, session = repaired(log.write(tmp_path / "home"), tmp_path / "out")
    assert done.changes == {"results added": 1}
    assert done.left == {}
    assert is_sound(session)
    assert results(session) == {"open": m.MADE_UP_RESULT}
    (result,) = [x for message in session.messages for x in message.blocks if isinstance(x, m.ToolResult)]
    assert (result.outcome, result.synthetic) == ("unknown", True)
    assert session.info.tip == 2
    assert session.errors == []


@pytest.mark.parametrize("version", ["2.0.76", "2.1.325"])
def test_a_torn_result_is_replaced_under_its_id(tmp_path: Path, version: str) -> None:
    """What followed still finds its parent: one line of conversation, as before."""
    log = ClaudeLog(version=version)
    log.user("hello")
    log.model(call("one", command="ls"), name="call")
    lost = log.result("one", "some files")
    log.model("I saw them")
    log.user("and now?")
    log.lines[2] = log.lines[2][:100]
    done, session = repaired(log.write(tmp_path / "home"), tmp_path / "out")
    assert done.changes == {"lines left out": 1, "results added": 1}
    assert is_sound(session)
    assert texts(session) == ["hello", "I saw them", "and now?"]
    assert path_of(session) == [0, 1, 2, 3, 4]
    assert parents(done.files[0].path)[lost] == log.id("call")


@pytest.mark.parametrize("version", ["2.0.76", "2.1.325"])
def test_parallel_calls_with_one_result_missing(tmp_path: Path, version: str) -> None:
    """The made-up result goes where the version would have put it: on its call, or at the end of the chain."""
    log = ClaudeLog(version=version)
    log.user("hello")
    log.model(call("one", command="ls"), name="first", reply="r")
    second = log.model(call("two", command="pwd"), name="second", reply="r")
    answer = log.result("one", "files", parent="second" if version == "2.0.76" else "first")
    done, session = repaired(log.write(tmp_path / "home"), tmp_path / "out")
    assert done.changes == {"results added": 1}
    assert is_sound(session)
    (added,) = set(parents(done.files[0].path)) - set(parents(str(log.write(tmp_path / "again"))))
    assert parents(done.files[0].path)[added] == (answer if version == "2.0.76" else second)


def test_a_prompt_after_a_call_without_a_result_follows_the_result(tmp_path: Path) -> None:
    """No message may be between a call and its result."""
    log = ClaudeLog()
    log.user("hello")
    log.model(call("open", command="ls"))
    log.user("go on")
    log.model("well")
    done, session = repaired(log.write(tmp_path / "home"), tmp_path / "out")
    assert done.changes == {"results added": 1}
    assert path_of(session) == [0, 1, 2, 3, 4]
    assert [type(message.blocks[0]) for message in session.messages[1:3]] == [m.ToolCall, m.ToolResult]


def test_lost_parents_are_stitched(tmp_path: Path) -> None:
    """A message whose parent was torn hangs on the message before, and every other id stays."""
    log = ClaudeLog()
    log.user("one")
    log.model("two", name="two")
    log.user("three")
    after = log.model("four")
    before = dict(parents(str(log.write(tmp_path / "whole"))))
    log.lines[2] = log.lines[2][:80]
    done, session = repaired(log.write(tmp_path / "home"), tmp_path / "out")
    assert done.changes == {"lines left out": 1, "parents stitched": 1}
    assert is_sound(session)
    assert path_of(session) == [0, 1, 2]
    assert parents(done.files[0].path)[after] == log.id("two")
    assert parents(done.files[0].path).keys() < before.keys()


def test_cycles_of_parents_are_broken(tmp_path: Path) -> None:
    """Two messages that hang on each other are hung in their order."""
    log = ClaudeLog()
    log.user("one")
    log.user("two", "two", parent="three")
    log.user("three", "three", parent="two")
    done, session = repaired(log.write(tmp_path / "home"), tmp_path / "out")
    assert done.changes == {"parents stitched": 1}
    assert session.problems == []
    assert path_of(session) == [0, 1, 2]


def test_glued_torn_and_zeroed_lines(tmp_path: Path) -> None:
    """Each record gets a line of its own; zeros and halves of signs go."""
    log = ClaudeLog()
    for name in ("one", "two", "three", "four", "five"):
        log.user(name)
    log.lines[1] = log.lines[1] + log.lines.pop(2)
    log.lines[2] = b"\0" * 5_000 + log.lines[2][:40] + b"\0" * 700 + log.lines[2][40:]
    log.lines[3] = log.lines[3].replace(b"five", b"five \\ud83d \xff")
    log.raw(b'{"type":"user","message":{"ro')
    log.raw(b"\0" * 300)
    done, session = repaired(log.write(tmp_path / "home"), tmp_path / "out")
    assert done.changes == {"lines left out": 2, "lines mended": 2, "lines split": 1}
    assert texts(session) == ["one", "two", "three", "four", "five \ufffd \ufffd"]
    assert session.problems == []
    assert b"\0" not in Path(done.files[0].path).read_bytes()


# --- Codex CLI --------------------------------------------------------------------------------------------------------


def test_a_codex_rollout_gets_results_and_its_first_line(tmp_path: Path) -> None:
    """Calls of every kind get a result in place; the first line is derived from the others."""
    log = CodexLog()
    log.envelope("turn_context", cwd="/home/dev/demo", model="gpt-5")
    log.turn("hello", "hi")
    log.call("one", cmd="ls")
    log.item("custom_tool_call", name="apply_patch", input="*** Begin", call_id="two")
    log.turn("again", "there")
    log.lines[0] = log.lines[0][:60]
    done, session = repaired(log.write(tmp_path / "home"), tmp_path / "out")
    assert done.changes == {"headers added": 1, "lines left out": 1, "results added": 2}
    assert is_sound(session)
    assert session.id == log.thread
    assert session.info.project == m.Project("/home/dev/demo", "demo")
    assert results(session) == {"one": m.MADE_UP_RESULT, "two": m.MADE_UP_RESULT}
    lines = [json.loads(line)["payload"].get("type") for line in Path(done.files[0].path).read_bytes().splitlines()]
    assert lines.index("custom_tool_call_output") == lines.index("custom_tool_call") + 1


def test_ordinals_of_a_codex_rollout_are_unchanged(tmp_path: Path) -> None:
    """An added line takes a number that is free, or that of the line before it; the last line has one."""
    log = CodexLog(version="0.166.0")
    log.turn("hello", "hi")
    log.call("one", cmd="ls")
    log.turn("again", "there")
    log.call("two", cmd="ls")
    log.lines = [json.dumps(json.loads(line) | {"ordinal": number}).encode() for number, line in enumerate(log.lines)]
    done, session = repaired(log.write(tmp_path / "home"), tmp_path / "out")
    assert is_sound(session)
    numbers = [json.loads(line)["ordinal"] for line in Path(done.files[0].path).read_bytes().splitlines()]
    assert numbers == [*range(8), 7, *range(8, 16)]


@pytest.mark.parametrize(
    ("folder", "is_bare"), [("found", False), ("sessions/2026/03/01", False), ("sessions/2026/03/01", True)]
)
def test_a_renamed_codex_rollout(tmp_path: Path, folder: str, is_bare: bool) -> None:
    """The copy has the name that Codex would give it, from the id and the time in its first line."""
    log = CodexLog()
    log.turn("hello", "hi")
    log.call("one", cmd="ls")
    if is_bare:
        log.lines = [json.dumps(json.loads(line)["payload"]).encode() for line in log.lines]
    path = write_file(tmp_path / folder / "rollout (1).jsonl", log.data)
    done, session = repaired(path, tmp_path / "out")
    assert Path(done.files[0].path) == tmp_path / "out" / log.write(tmp_path / "home").relative_to(tmp_path / "home")
    assert (session.id, results(session)) == (log.thread, {"one": m.MADE_UP_RESULT})
    assert is_sound(session)


@pytest.mark.parametrize("id", [None, "../../elsewhere"])
def test_a_renamed_codex_rollout_without_an_id(tmp_path: Path, id: str | None) -> None:
    """The message says what is missing: Codex finds threads by the id in the name of the file."""
    log = CodexLog()
    log.turn("hello", "hi")
    first = json.loads(log.lines[0])
    first["payload"]["id"] = id
    log.lines[0] = json.dumps(first).encode()
    with pytest.raises(UnspoolError, match="neither its name nor its first line has the id of a thread"):
        repaired(write_file(tmp_path / "found.jsonl", log.data), tmp_path / "out")


def test_a_legacy_codex_document_cannot_be_repaired(run: Run) -> None:
    """The message says so."""
    (recording, *_) = recordings("codex", "0.1.2505172129")
    done = run("repair", "latest", "--home", recording.home)
    assert (done.code, done.out) == (1, "")
    assert "no version of Codex can continue" in done.err


# --- Gemini CLI -------------------------------------------------------------------------------------------------------


def test_a_gemini_log(tmp_path: Path) -> None:
    """Torn lines are removed, a misplaced header is moved to the start, and each call has a result."""
    log = GeminiLog()
    header = log.lines[0]
    log.lines[0] = header[:30]
    log.user("u1", "hello")
    log.model("g1", "I look", [{"id": "c1", "name": "ls", "args": {}, "status": "executing"}])
    log.raw(b"\0" * 40 + b'{"$set":{"mess')
    log.raw(header)
    log.user("u2", "again")
    done, session = repaired(log.write(tmp_path / "home"), tmp_path / "out")
    assert done.changes == {"headers added": 1, "lines left out": 2, "results added": 1}
    assert is_sound(session)
    assert texts(session) == ["hello", "I look", "again"]
    assert results(session) == {"c1": m.MADE_UP_RESULT}
    assert Path(done.files[0].path).read_bytes().startswith(header)


@pytest.mark.parametrize("end", ["torn", "leftover", "closed"])
def test_a_gemini_document(tmp_path: Path, end: str) -> None:
    """Whatever is behind the last whole message, the copy is a document with all messages before."""
    (recording,) = recordings("gemini", "0.38.2", "kill-shell")
    (path,) = (path for path in recording.home.rglob("session-*.json"))
    data = path.read_bytes()
    last = data.rfind(b"\n    {")
    damaged = {"torn": data[: last + 30], "leftover": data + data[-40:], "closed": data[:last]}[end]
    source = tmp_path / "home" / path.relative_to(recording.home)
    source.parent.mkdir(parents=True)
    source.write_bytes(damaged)
    done, session = repaired(source, tmp_path / "out")
    assert done.changes["documents closed"] == 1
    assert session.problems == []
    whole = json.loads(data)
    copy = json.loads(Path(done.files[0].path).read_bytes())
    kept = len(whole["messages"]) - (end != "leftover")
    assert copy["messages"] == whole["messages"][:kept]
    assert copy["sessionId"] == whole["sessionId"]


def test_a_gemini_document_with_other_field_names(tmp_path: Path) -> None:
    """`id` instead of `sessionId`: it can be listed, so it can be repaired."""
    messages = [{"id": f"u{number}", "type": "user", "content": f"prompt {number}"} for number in range(3)]
    document = {"id": "s1", "projectHash": "ab" * 32, "messages": messages}
    path = tmp_path / "home" / ".gemini" / "tmp" / "demo" / "chats" / "session-2026-03-01T09-00-s1.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(document, indent=2)[:-30])
    done, session = repaired(path, tmp_path / "out")
    assert done.changes["documents closed"] == 1
    assert (session.id, texts(session)) == ("s1", ["prompt 0", "prompt 1"])
    assert session.problems == []


# --- all of them ------------------------------------------------------------------------------------------------------

DAMAGED = [
    recording
    for recording in recordings()
    if any(word in recording.scenario for word in ("kill", "orphan", "torn", "splice"))
    and recording.version[:4] != "0.1."
]


@pytest.mark.parametrize("recording", DAMAGED, ids=lambda recording: recording.name)
def test_recordings_of_killed_agents(recording: Any, tmp_path: Path) -> None:
    """All sessions become valid, every intact record is kept, and nothing more is left to repair."""
    library = Library(recording.home)
    for ref in library.refs():
        done = repair_session(library, ref, tmp_path / "once")
        assert done.left == {}
        for file in done.files:
            wanted = {line for line in Path(file.source).read_bytes().split(b"\n") if line}
            changed = sum(done.changes.values())
            assert len(wanted - set(Path(file.path).read_bytes().split(b"\n"))) <= changed
        copies = Library(tmp_path / "once")
        again = repair_session(copies, copies.find(ref.id), tmp_path / "twice")
        assert again.changes == {}


@pytest.mark.parametrize("agent", AGENTS)
def test_copies_of_randomly_damaged_logs_are_valid(agent: str, tmp_path: Path) -> None:
    """Bytes lost, doubled, zeroed or strange, at chosen places of many logs."""
    chance = random.Random(agent)
    every = [ref for recording in recordings(agent)[::9] for ref in recording.refs() if ref.path.suffix != ".zst"]
    checked = 0
    for number, ref in enumerate(every):
        data = bytearray(ref.path.read_bytes())
        for _ in range(chance.randint(1, 4)):
            at = chance.randrange(len(data))
            lost = chance.choice([0, 1, 40, 900])
            data[at : at + lost] = chance.choice([b"", b"\0" * 30, b"\n", b'}{"', b"\xff"])
        path = tmp_path / str(number) / AGENTS[agent].info.folder / ref.path.relative_to(ref.root)
        path.parent.mkdir(parents=True)
        path.write_bytes(bytes(data))
        library = Library(tmp_path / str(number))
        for found in list(library.refs()):
            try:
                done = repair_session(library, found, tmp_path / "out" / str(number))
            except UnspoolError:
                continue
            checked += 1
            assert done.left == {}, ref.path
    assert checked > len(every) // 2


# --- the command ------------------------------------------------------------------------------------------------------


@pytest.fixture
def torn(tmp_path: Path) -> Path:
    log = ClaudeLog()
    log.user("hello")
    log.model(call("open", command="make"))
    log.raw(b'{"type":"user"')
    return log.write(tmp_path / "home")


def test_copies_are_written_to_the_data_directory(
    run: Run, torn: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the agent's own layout; the original is not touched, and a second time is as good as the first."""
    monkeypatch.setenv("UNSPOOL_DATA", str(tmp_path / "data"))
    before = torn.read_bytes()
    for _ in range(2):
        done = run("repair", "latest", "--home", tmp_path / "home")
        place = tmp_path / "data" / "repaired" / torn.relative_to(tmp_path / "home")
        assert done.code == 0
        assert done.lines[0].startswith(f"{place}  ")
        assert done.lines[1:] == ["    1  lines left out", "    1  results added"]
        assert "claude --resume" in done.err
        assert is_sound(load(place))
    assert torn.read_bytes() == before


def test_copies_are_written_to_a_given_path(run: Run, torn: Path, tmp_path: Path) -> None:
    """To a file, or below a folder; an existing file stays."""
    target = tmp_path / "mended.jsonl"
    (record,) = run("repair", torn, "--to", target, "--json").records
    assert record["changes"] == {"lines left out": 1, "results added": 1}
    assert record["files"] == [{"source": str(torn), "path": str(target), "size": target.stat().st_size}]
    again = run("repair", torn, "--to", target)
    assert (again.code, again.err) == (1, f"unspool: {target} already exists; choose another target with --to\n")
    assert run("repair", torn, "--to", f"{tmp_path}/folder/").code == 0
    assert (tmp_path / "folder" / torn.relative_to(tmp_path / "home")).exists()


@contextmanager
def full_disk() -> Iterator[None]:
    """Let every file fail that grows."""
    resource = pytest.importorskip("resource")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_nothing_is_left_of_a_copy_that_cannot_be_written(tmp_path: Path) -> None:
    """Because the disk is full, or because there is a directory of this name."""
    with full_disk(), pytest.raises(UnspoolError, match="cannot write"):
        _write(tmp_path / "out" / "full.jsonl", b"{}\n", replace=False)
    assert list((tmp_path / "out").iterdir()) == []
    folder = tmp_path / "out" / "folder.jsonl"
    folder.mkdir()
    with pytest.raises(UnspoolError, match="cannot write"):
        _write(folder, b"{}\n", replace=True)
    assert list((tmp_path / "out").iterdir()) == [folder]


def test_a_file_outside_the_agents_folder(run: Run, torn: Path, tmp_path: Path) -> None:
    """Its own lines name the project and the session."""
    lost = tmp_path / "found.jsonl"
    lost.write_bytes(torn.read_bytes())
    assert run("repair", lost, "--to", f"{tmp_path}/folder/").code == 0
    assert (tmp_path / "folder" / torn.relative_to(tmp_path / "home")).exists()


@pytest.mark.parametrize("folder", ["", "projects/app", "sessions", "sessions/app", "tmp/app"])
@pytest.mark.parametrize("agent", ["claude", "codex", "gemini"])
def test_a_file_in_a_folder_with_a_common_name(agent: str, folder: str, tmp_path: Path) -> None:
    """The name of a folder alone does not make it one of the agent's."""
    claude, codex, gemini = ClaudeLog(), CodexLog(), GeminiLog()
    claude.user("hello")
    codex.turn("hello", "hi")
    gemini.user("u1", "hello")
    log = {"claude": claude, "codex": codex, "gemini": gemini}[agent]
    original = log.write(tmp_path / "home")
    path = tmp_path / folder / "found.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(original.read_bytes())
    done, session = repaired(path, tmp_path / "out")
    assert "hello" in texts(session)
    place = original.relative_to(tmp_path / "home")
    if agent == "gemini":
        # Neither its name nor its lines name the folder of the project.
        place = Path(".gemini/tmp/repaired/chats/found.jsonl")
    assert Path(done.files[0].path) == tmp_path / "out" / place


def test_both_files_of_a_session_outside_the_agents_folder(tmp_path: Path) -> None:
    """A session may continue in a second file, which must not replace the first one."""
    log = ClaudeLog(version="1.0.40")
    log.user("hello", "one")
    first = log.data
    log.user("again", "two")
    folder = tmp_path / "found"
    folder.mkdir()
    (folder / "a.jsonl").write_bytes(first)
    (folder / "b.jsonl").write_bytes(log.data.removeprefix(first))
    done, session = repaired(folder / "a.jsonl", tmp_path / "out")
    assert len({file.path for file in done.files}) == len(done.files)
    assert sorted(texts(session)) == ["again", "hello"]


def test_the_agents_folders_are_never_written(run: Run, torn: Path, tmp_path: Path, home: Path) -> None:
    """Neither those of the session, nor the user's own, by any path."""
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "home")
    for target in (tmp_path / "home", link, home, tmp_path / "home/.claude/new.jsonl", home / ".codex/x.jsonl", torn):
        done = run("repair", torn, "--to", target, "--home", tmp_path / "home")
        assert (done.code, done.out) == (2, "")
        assert "choose another target with --to" in done.err
    assert sorted((tmp_path / "home").rglob("*.jsonl")) == [torn]
    assert list(home.rglob("*")) == []


def test_nothing_to_repair(run: Run, tmp_path: Path) -> None:
    """The message says so, and the copy is written anyway, byte for byte."""
    done = run("repair", "37c23", "--home", SAMPLES, "--to", f"{tmp_path}/out/")
    assert done.code == 0
    assert done.lines[1:] == ["Nothing to repair: this is an exact copy"]
    (copy,) = (tmp_path / "out").rglob("*.jsonl")
    (original,) = Path(SAMPLES).rglob(copy.name)
    assert copy.read_bytes() == original.read_bytes()


def test_sessions_that_cannot_be_repaired(run: Run, tmp_path: Path) -> None:
    """A log without anything intact is an error, and leaves nothing behind."""
    log = ClaudeLog()
    log.user("hello")
    log.lines[0] = log.lines[0][:-30]
    path = log.write(tmp_path / "home")
    done = run("repair", path, "--to", f"{tmp_path}/out/")
    assert (done.code, done.out) == (1, "")
    assert "too little of it is intact" in done.err
    assert not (tmp_path / "out").exists()
