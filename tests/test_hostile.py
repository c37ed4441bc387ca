"""Whatever the files hold: reading ends, raises nothing, keeps what is intact, and the record stays valid."""

from __future__ import annotations

import json
import os
import random
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from unspool.agents import AGENTS
from unspool.core.session import Session
from unspool.core.stream import collect
from unspool.io import files, listing, sources
from unspool.library import Library
from unspool.testing import ClaudeLog, CodexLog, GeminiLog, call, texts

from .fuzz import CORPUS
from .fuzz.checks import HomeCheck
from .fuzz.homes import copy_with_times, place, write_beside
from .fuzz.mutations import mutated
from .fuzz.records import random_mutation, seeds, time_mutations
from .recordings import recordings, sampled_versions


def read_all(home: Path) -> list[Session]:
    """Read everything in every form."""
    library = Library(home)
    found = []
    for ref in library.refs():
        library.peek(ref)
        sessions = list(library.load_all(ref))
        assert len(list(collect(library.stream(ref)))) == len(sessions)
        found += sessions
    for session in found:
        for reply in session.replies():
            session.context_at(reply.message_indices[0])
    return found


VERSIONS = sorted({recording[:2] for recording in recordings()})


@cache
def small_logs(agent: str, version: str) -> list[Path]:
    """The shortest log of a version in each form that its logs have."""
    chosen: dict[str, Path] = {}
    for recording in recordings(agent, version):
        for path in recording.logs():
            size = path.stat().st_size
            if size > 0 and (path.suffix not in chosen or size < chosen[path.suffix].stat().st_size):
                chosen[path.suffix] = path
    return sorted(chosen.values())


def small_line_files(agent: str, version: str) -> list[Path]:
    """The ones with a record on each line."""
    return [path for path in small_logs(agent, version) if path.suffix == ".jsonl"]


def home_of(path: Path) -> Path:
    return next(parent for parent in path.parents if parent.name == "home")


def copied(path: Path, home: Path, data: bytes) -> Path:
    target = home / path.relative_to(home_of(path))
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(data)
    return target


def rewrite(path: Path, data: bytes) -> None:
    """Rewrite a file. Some file systems flush a file to the disk when it is truncated; a new one they do not."""
    path.unlink()
    path.write_bytes(data)


@pytest.mark.parametrize("agent", AGENTS)
def test_a_log_cut_at_any_byte_is_read(agent: str, tmp_path: Path) -> None:
    """However much of a log a crash left, every complete line is read, and nothing raises."""
    versions = [version for name, version in VERSIONS if name == agent]
    logs = [path for version in versions for path in small_line_files(agent, version)]
    path = min(logs, key=lambda log: log.stat().st_size)
    data = path.read_bytes()
    target = copied(path, tmp_path, data)
    for cut in range(len(data) + 1):
        rewrite(target, data[:cut])
        whole = data[:cut].count(b"\n")
        for session in read_all(tmp_path):
            (file,) = [file for file in session.info.files if file.role == "log"]
            assert whole <= file.lines <= whole + 1
            assert file.damaged <= 1


# --- generated: see tests/fuzz ---------------------------------------------------------------------------------------

SEED = os.environ.get("UNSPOOL_FUZZ_SEED", "1")


@pytest.mark.parametrize("agent", AGENTS)
def test_any_value_in_any_field(agent: str, tmp_path: Path) -> None:
    """Every JSON type and its extremes in fields of known records, through all commands, the store and the pages."""
    chance = random.Random(f"{SEED} {agent}")
    for number in range(24):
        mutation = random_mutation(agent, chance)
        place(tmp_path, mutation.seed, mutation.data, str(number))
    write_beside(tmp_path, agent, chance)
    assert HomeCheck(tmp_path).run(whole=True) == []


@pytest.mark.parametrize("agent", AGENTS)
def test_extreme_times_in_every_field(agent: str, tmp_path: Path) -> None:
    """The first and the last time that Python supports are times like all others."""
    for number, mutation in enumerate(time_mutations(agent)):
        place(tmp_path, mutation.seed, mutation.data, str(number))
    assert HomeCheck(tmp_path).run(whole=False) == []


@pytest.mark.parametrize("times", [("first time", "first second"), ("last time", "last millisecond")], ids=str)
def test_extreme_times_in_whole_recordings(times: tuple[str, str], tmp_path: Path) -> None:
    """Also where times of several files are compared, as those of a clear and of the session that follows it."""
    for number, recording in enumerate(chain.from_iterable(sampled_versions())):
        home = tmp_path / str(number)
        copy_with_times(recording.home, home, *times)
        assert len(read_all(home)) == len(read_all(recording.home)), recording


@pytest.mark.parametrize("agent", AGENTS)
def test_damaged_logs(agent: str, tmp_path: Path) -> None:
    """Lines lost, doubled and out of order, ids exchanged, bytes flipped: loading and streaming still agree."""
    chance = random.Random(f"{SEED} {agent}")
    for number in range(60):
        seed = chance.choice(seeds(agent))
        place(tmp_path, seed, mutated(seed, chance), str(number))
    assert HomeCheck(tmp_path).run(whole=False) == []


@pytest.mark.parametrize("case", sorted(CORPUS.iterdir()), ids=lambda case: case.name)
def test_what_fuzzing_found(case: Path) -> None:
    """Each of these homes once made something fail."""
    assert HomeCheck(case).run(whole=True) == []


@pytest.mark.parametrize("agent", AGENTS)
@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(data=st.binary(max_size=400))
def test_any_bytes_are_read(agent: str, data: bytes, tmp_path: Path) -> None:
    """Whatever the bytes behind a good beginning: no exception, and each line that is not blank is counted."""
    log: ClaudeLog | CodexLog | GeminiLog
    if agent == "claude":
        log = ClaudeLog()
        log.user("hello")
    elif agent == "codex":
        log = CodexLog()
    else:
        log = GeminiLog()
        log.user("u1", "hello")
    start = log.data
    for former in tmp_path.rglob("*.jsonl"):
        former.unlink()
    rewrite(log.write(tmp_path), start + data)
    for session in read_all(tmp_path):
        expected = sum(bool(line.strip()) for line in (start + data).split(b"\n"))
        assert session.info.files[0].lines == expected


# --- the list of what has been seen in the wild ----------------------------------------------------------------------


def test_a_line_of_fifty_megabytes(tmp_path: Path) -> None:
    """A huge line is a line."""
    log = ClaudeLog()
    log.user("before")
    log.result("c", "x" * 50_000_000)
    log.model("after")
    session = log.load(tmp_path)
    assert [len(text) for text in texts(session)] == [6, 5]
    assert len(session.messages[1].blocks[0].content) == 50_000_000  # type: ignore[union-attr]
    assert session.problems == []


def test_deep_nesting_is_reported_and_skipped(tmp_path: Path) -> None:
    """Brackets a hundred thousand deep stop nothing."""
    log = ClaudeLog()
    log.user("before")
    log.raw(b'{"type":"user","uuid":"u","message":{"role":"user","content":' + b"[" * 100_000 + b"]" * 100_000 + b"}}")
    log.raw(b"[" * 300_000)
    log.model(call("deep", "Tool", value=json.loads("[" * 400 + "]" * 400)))
    session = log.load(tmp_path)
    assert texts(session) == ["before"]
    assert len(session.messages) == 2
    assert {problem.reason for problem in session.problems} == {"too-deep"}


def test_a_damaged_line_takes_bounded_time(tmp_path: Path) -> None:
    """A torn line full of text that looks like records is abandoned in time, and records before it are found."""
    log = ClaudeLog()
    log.user("before")
    log.user("glued", "glued")
    log.lines[1] += b'{"' + b'{"a":[' * 200_000
    log.user("after")
    session = log.load(tmp_path)
    assert texts(session) == ["before", "glued", "after"]
    assert [problem.reason for problem in session.problems] == ["salvaged"]


@pytest.mark.parametrize(
    "text",
    [
        "<command-name>", "<command-name>x</command-name><command-args>", "<bash-input>", "<task-id>a</task-id>",
        "PreToolUse: ", "Permission to use x ", "requested permissions to x ",
    ],
)  # fmt: skip
def test_words_of_an_agent_without_end(text: str, tmp_path: Path) -> None:
    """The agents' own words, repeated in a text, are searched in linear time: a regular expression takes hours."""
    long = text * (1_000_000 // len(text))
    log = ClaudeLog()
    log.user(long)
    log.line("system", None, subtype="local_command", content=long)
    log.model(call("c"))
    log.result("c", f"The command says: {long}", error=True)
    log.user(f"<task-notification>{long}")
    assert log.load(tmp_path).problems == []


def test_unpaired_surrogates_and_invalid_utf8(tmp_path: Path) -> None:
    """What can be repaired is repaired, and reported."""
    log = ClaudeLog()
    log.user("marker A")
    log.user("marker B")
    log.lines[0] = log.lines[0].replace(b"marker A", b"cut \\ud83d here")
    log.lines[1] = log.lines[1].replace(b"marker B", b"bad \xff\xfe bytes")
    session = log.load(tmp_path)
    assert texts(session) == ["cut \ufffd here", "bad \ufffd\ufffd bytes"]
    assert [problem.reason for problem in session.problems] == ["unpaired-surrogate", "invalid-utf8"]


def test_empty_and_foreign_files_are_not_sessions(tmp_path: Path) -> None:
    """What holds no conversation is not listed, and does no harm."""
    for folder in (".claude/projects/-p", ".codex/sessions/2026/03/01", ".gemini/tmp/p/chats"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / ".claude/projects/-p/empty.jsonl").write_bytes(b"")
    (tmp_path / ".claude/projects/-p/blank.jsonl").write_bytes(b"\n\n \n")
    (tmp_path / ".claude/projects/-p/summary.jsonl").write_bytes(b'{"type":"summary","summary":"s","leafUuid":"x"}\n')
    (tmp_path / ".gemini/tmp/p/chats/session-x.json").write_bytes(b"")
    (tmp_path / ".gemini/tmp/p/chats/session-y.jsonl").write_bytes(b"{}\n")
    (tmp_path / ".gemini/tmp/p/logs.json").write_bytes(b"[{]")
    (tmp_path / ".gemini/projects.json").write_bytes(b"\xff")
    (tmp_path / ".claude/history.jsonl").write_bytes(b"\x00\n[]\n{\n")
    (tmp_path / ".codex/history.jsonl").write_bytes(b"[]\nnull\n")
    assert read_all(tmp_path) == []


def test_symlink_loops_and_dead_links(tmp_path: Path) -> None:
    """Links that lead round in a circle or nowhere do not keep the others from being read."""
    log = ClaudeLog()
    log.user("hello")
    path = log.write(tmp_path)
    (path.parent / "loop.jsonl").symlink_to("loop.jsonl")
    (path.parent / "nowhere.jsonl").symlink_to("gone.jsonl")
    (path.parent / "round").symlink_to("..", target_is_directory=True)
    (tmp_path / ".claude/projects/again").symlink_to(".", target_is_directory=True)
    codex = CodexLog()
    codex.turn("hello", "hi")
    folder = codex.write(tmp_path).parent
    (folder / "up").symlink_to("../../..", target_is_directory=True)
    (folder / "rollout-2026-03-01T09-00-00-00000000-0000-0000-0000-000000000000.jsonl").symlink_to("loop")
    found = read_all(tmp_path)
    assert sorted({text for session in found for text in texts(session)}) == ["hello", "hi"]


@pytest.mark.parametrize("agent", ["claude", "codex", "gemini"])
def test_an_unreadable_file_is_reported(agent: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file we may not read is listed, with the reason why there is nothing of it, and stops no other."""
    other = ClaudeLog("other")
    other.user("still here")
    other.write(tmp_path)
    _close(_greeting(agent, tmp_path), monkeypatch)
    found = {tuple(texts(session)): session for session in read_all(tmp_path)}
    assert set(found) == {("still here",), ()}
    assert [problem.reason for problem in found[()].problems] == ["unreadable"]


def _greeting(agent: str, home: Path) -> Path:
    log: ClaudeLog | CodexLog | GeminiLog
    if agent == "claude":
        log = ClaudeLog()
        log.user("hello")
    elif agent == "codex":
        log = CodexLog()
        log.turn("hello", "hi")
    else:
        log = GeminiLog()
        log.user("first", "hello")
    return log.write(home)


def _close(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove the permission to read a file; skipped for root, who can read it anyway."""

    def guarded(name: str | Path, *args: Any, **options: Any) -> Any:
        if Path(name) == path:
            raise PermissionError(13, "Permission denied", str(path))
        return open(name, *args, **options)

    for module in (files, listing, sources):
        monkeypatch.setattr(module, "open", guarded, raising=False)


def test_a_file_that_is_deleted_after_discovery_is_reported(tmp_path: Path) -> None:
    """Agents delete their logs at any time; what is left of one is an empty record with a problem."""
    for log in (ClaudeLog(), CodexLog(), GeminiLog()):
        if isinstance(log, ClaudeLog):
            log.user("hello")
        elif isinstance(log, CodexLog):
            log.turn("hello", "hi")
        else:
            log.user("u", "hello")
        path = log.write(tmp_path)
        library = Library(tmp_path)
        refs = [ref for ref in library.refs() if ref.path == path]
        path.unlink()
        for ref in refs:
            library.peek(ref)
            (session,) = library.load_all(ref)
            assert session.messages == []
            assert [problem.reason for problem in session.problems] == ["unreadable"]
            assert session.info.status == "empty"


def test_a_file_that_grows_while_it_is_read_is_read_as_it_was(tmp_path: Path) -> None:
    """Lines appended in the meantime belong to the next read; both passes of a stream see the same."""
    log = ClaudeLog()
    for number in range(3_000):
        log.user(f"prompt {number} " + "x" * 1_000)
    path = log.write(tmp_path)
    library = Library(tmp_path)
    (ref,) = library.refs()
    lines = library.stream(ref)
    first = next(lines)
    with path.open("ab") as file:
        file.write(log.lines[0] + b"\n")
    rest = list(lines)
    assert type(first).__name__ == "SessionLine"
    assert sum(type(line).__name__ == "MessageLine" for line in rest) == 3_000
