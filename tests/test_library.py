"""Finding sessions: in homes, folders and files, by any kind of name."""

from __future__ import annotations

import os
import shutil
from datetime import timedelta
from pathlib import Path

import pytest

import unspool
from unspool.agents import AGENTS
from unspool.core.errors import AmbiguousError, NotFoundError, UnspoolError
from unspool.library import Library
from unspool.testing import ClaudeLog, CodexLog, GeminiLog, texts


def write_all(home: Path) -> dict[str, Path]:
    """A session of each agent, and a sub-agent."""
    claude = ClaudeLog()
    claude.user("from claude")
    claude.model("hi")
    child = ClaudeLog(agent="a1b2c3")
    child.user("look around")
    child.model("found it")
    child.write(home)
    codex = CodexLog()
    codex.turn("from codex", "hi")
    gemini = GeminiLog("chat")
    gemini.user("u", "from gemini")
    gemini.model("g", "hi")
    return {"claude": claude.write(home), "codex": codex.write(home), "gemini": gemini.write(home)}


def agents_in(*places: str | Path) -> list[str]:
    return sorted(ref.agent for ref in Library(*places).refs() if ref.kind == "main")


# --- places -----------------------------------------------------------------------------------------------------------


def test_a_home_has_all_agents(tmp_path: Path) -> None:
    """Sessions and sub-agents of all of them."""
    write_all(tmp_path)
    assert agents_in(tmp_path) == ["claude", "codex", "gemini"]
    assert sum(ref.kind == "subagent" for ref in Library(tmp_path).refs()) == 1


@pytest.mark.parametrize("agent", AGENTS)
def test_the_folder_of_an_agent(agent: str, tmp_path: Path) -> None:
    """By its own name, or moved to another one."""
    write_all(tmp_path)
    folder = tmp_path / AGENTS[agent].info.folder
    assert agents_in(folder) == [agent]
    folder.rename(tmp_path / "moved")
    assert agents_in(tmp_path / "moved") == [agent]


def test_any_folder_with_logs_in_it(tmp_path: Path) -> None:
    """Copies may be anywhere; files that are not logs are skipped."""
    paths = write_all(tmp_path / "home")
    folder = tmp_path / "copies" / "deep"
    folder.mkdir(parents=True)
    for path in paths.values():
        shutil.copy(path, folder)
    (folder / "package.json").write_text('{"name": "x"}')
    (folder / "empty.jsonl").write_text("")
    (folder / "dead.jsonl").symlink_to("nowhere")
    assert agents_in(tmp_path / "copies") == ["claude", "codex", "gemini"]
    assert list(Library(tmp_path / "copies").refs()) == list(Library(tmp_path / "copies").refs())


@pytest.mark.parametrize("agent", AGENTS)
def test_a_single_file(agent: str, tmp_path: Path) -> None:
    """Only that file is listed, even if there are others beside it."""
    path = write_all(tmp_path)[agent]
    (ref,) = Library(path).refs()
    assert (ref.agent, ref.path) == (agent, path)
    assert texts(Library(path).load(ref))[0] == f"from {agent}"


def test_a_file_that_begins_with_a_very_long_record(tmp_path: Path) -> None:
    """The first record that names the session can be far from the beginning."""
    log = ClaudeLog()
    log.record({"type": "file-history-snapshot", "snapshot": {"files": "x" * 100_000}})
    log.user("hello")
    path = log.write(tmp_path)
    (ref,) = Library(path).refs()
    assert texts(Library(path).load(ref)) == ["hello"]


def test_relative_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A place may be named from where one is."""
    path = write_all(tmp_path)["claude"]
    monkeypatch.chdir(tmp_path)
    assert agents_in(".") == ["claude", "codex", "gemini"]
    monkeypatch.chdir(path.parent)
    (ref,) = Library(path.name).refs()
    assert ref.path == path


def test_the_home_of_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without places: the user's own, or where the agents' variables point."""
    write_all(tmp_path / "own")
    write_all(tmp_path / "other")
    monkeypatch.setenv("HOME", str(tmp_path / "own"))
    roots = {ref.root for ref in Library(environ={}).refs()}
    assert roots == {tmp_path / "own" / agent.info.folder for agent in AGENTS.values()}
    environ = {
        "CLAUDE_CONFIG_DIR": "~/../other/.claude", "CODEX_HOME": str(tmp_path / "other" / ".codex"),
        "GEMINI_CLI_HOME": str(tmp_path / "other"),
    }  # fmt: skip
    moved = {ref.root.resolve() for ref in Library(environ=environ).refs()}
    assert moved == {tmp_path / "other" / agent.info.folder for agent in AGENTS.values()}
    assert list(Library(environ=dict.fromkeys(environ, str(tmp_path / "nowhere"))).refs()) == []


@pytest.mark.parametrize("name", ["nowhere", "~nobody-at-all/x"])
def test_a_missing_location(name: str, tmp_path: Path) -> None:
    """It is reported, not skipped."""
    with pytest.raises(NotFoundError, match="no such file or directory"):
        Library(tmp_path / name if name == "nowhere" else name)


def test_a_file_of_another_program(tmp_path: Path) -> None:
    """It is not a session, and neither is an empty file."""
    for content in ("", "hello\n", '{"hello":"there"}\n', "[]"):
        path = tmp_path / "x.jsonl"
        path.write_text(content)
        with pytest.raises(NotFoundError, match="not a session file of Claude Code, Codex CLI, Gemini CLI"):
            Library(path)


def test_a_file_that_cannot_be_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message has the reason: it is not a file of another program."""
    path = write_all(tmp_path)["claude"]

    def refuse(*_: object, **__: object) -> object:
        raise PermissionError(13, "Permission denied", str(path))

    with monkeypatch.context() as change:
        change.setattr("builtins.open", refuse)
        with pytest.raises(UnspoolError, match="Permission denied"):
            Library(path)
        assert list(Library(path.parent).refs()) == []


# --- each once --------------------------------------------------------------------------------------------------------


def test_the_same_home_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However it is named: sessions are listed once."""
    home = tmp_path / "home"
    path = write_all(home)["claude"]
    (tmp_path / "link").symlink_to(home, target_is_directory=True)
    monkeypatch.chdir(tmp_path)
    everything = (home, home, "home", tmp_path / "link", home / ".claude", path, path, tmp_path / "x" / ".." / "home")
    (tmp_path / "x").mkdir()
    assert agents_in(*everything) == ["claude", "codex", "gemini"]
    assert agents_in(*reversed(everything)) == ["claude", "codex", "gemini"]


def test_the_same_loose_folder_twice(tmp_path: Path) -> None:
    """Also where no agent's layout helps."""
    path = write_all(tmp_path / "home")["codex"]
    (tmp_path / "copies").mkdir()
    copy = shutil.copy(path, tmp_path / "copies")
    assert agents_in(tmp_path / "copies", copy, tmp_path / "copies") == ["codex"]


def test_two_homes_with_the_same_sessions(tmp_path: Path) -> None:
    """A copy is another file: both are listed, and each is read from its own place."""
    for name in ("one", "two"):
        write_all(tmp_path / name)
    library = Library(tmp_path / "one", tmp_path / "two")
    refs = [ref for ref in library.refs() if ref.agent == "claude" and ref.kind == "main"]
    assert [library.load(ref).info.files[0].path for ref in refs] == [str(ref.path) for ref in refs]
    assert len(refs) == 2
    with pytest.raises(AmbiguousError) as raised:
        library.find(refs[0].id)
    assert all(str(ref.path) in str(raised.value) for ref in refs)


def test_symlink_loops(tmp_path: Path) -> None:
    """In a home and in a loose folder, links that lead round do not keep us busy, and add nothing."""
    path = write_all(tmp_path / "home")["claude"]
    folder = tmp_path / "copies"
    folder.mkdir()
    shutil.copy(path, folder)
    for place in (tmp_path / "home", tmp_path / "home" / ".claude" / "projects", folder):
        (place / "again").symlink_to(place, target_is_directory=True)
    assert agents_in(tmp_path / "home") == ["claude", "codex", "gemini"]
    assert agents_in(folder) == ["claude"]


# --- names ------------------------------------------------------------------------------------------------------------


def test_names(tmp_path: Path) -> None:
    """Id, beginning, path, and for a sub-agent its own part."""
    paths = write_all(tmp_path)
    library = Library(tmp_path)
    log = ClaudeLog()
    for name in (log.session, log.session[:5], str(paths["claude"])):
        assert library.find(name).path == paths["claude"]
    child = f"{log.session}/a1b2c3"
    for name in (child, "a1b2c3", "a1b", f"{log.session}/a1"):
        assert library.find(name).id == child
    with pytest.raises(NotFoundError, match="no session 'nosuch' among 4"):
        library.find("nosuch")
    with pytest.raises(AmbiguousError, match="'' matches 4 sessions"):
        library.find("")


def test_latest_is_by_the_last_change(tmp_path: Path) -> None:
    """Of all agents, sub-agents left out; an empty library has none."""
    paths = write_all(tmp_path)
    for place, path in enumerate(sorted((tmp_path).rglob("*.jsonl"))):
        os.utime(path, (1_000 + place, 1_000 + place))
    os.utime(paths["gemini"], (5_000, 5_000))
    assert Library(tmp_path).find("latest").agent == "gemini"
    (child,) = (tmp_path / ".claude").rglob("agent-*.jsonl")
    os.utime(child, (9_000, 9_000))
    assert Library(tmp_path).find("latest").agent == "gemini"
    with pytest.raises(NotFoundError, match="there are no sessions yet"):
        Library(environ=dict.fromkeys(("CLAUDE_CONFIG_DIR", "CODEX_HOME", "GEMINI_CLI_HOME"), "/nowhere")).find(
            "latest"
        )


# --- vanishing --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("agent", AGENTS)
def test_a_file_that_is_deleted(agent: str, tmp_path: Path) -> None:
    """Between listing and reading: the record is empty and says so; `latest` and peeking still work."""
    path = write_all(tmp_path)[agent]
    library = Library(tmp_path)
    refs = list(library.refs())
    path.unlink()
    assert library.find("latest").path != path
    for ref in refs:
        library.peek(ref)
        session = library.load(ref)
        assert bool(session.messages) == (ref.path != path)
        assert [problem.reason for problem in session.problems] == (["unreadable"] if ref.path == path else [])


def test_a_folder_that_is_deleted(tmp_path: Path) -> None:
    """A home that is gone by the time it is listed has no sessions."""
    write_all(tmp_path / "home")
    library = Library(tmp_path / "home")
    shutil.rmtree(tmp_path / "home")
    assert list(library.refs()) == []


def test_peeks_match_the_records() -> None:
    """The first lines give the same information as the whole log."""
    library = Library(unspool.samples())
    for ref in library.refs():
        peek, session = library.peek(ref), library.load(ref)
        assert peek.started_at is not None
        assert session.info.started_at is not None
        assert abs(peek.started_at - session.info.started_at) < timedelta(minutes=1)
        assert peek.project == session.info.project
        assert peek.size == sum(path.stat().st_size for path in (ref.path, *ref.more))
