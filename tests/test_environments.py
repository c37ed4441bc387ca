"""Homes in unusual places, and clocks that are wrong: each session is there once, and nothing is lost."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from unspool.ingest.history import History
from unspool.ingest.restore import restore_session
from unspool.ingest.watch import Watcher
from unspool.library import Library
from unspool.store import Store
from unspool.store.filters import SessionFilter
from unspool.web.session_list import is_live

from .cli.run import run_captured
from .store.contents import contents, difference, fresh, new_store, synced
from .store.homes import AGENTS, append, claude_log, log_of, put, rest_of, write_home


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    made = new_store(tmp_path / "store.db")
    yield made
    made.close()


# --- links -----------------------------------------------------------------------------------------------------------


def project_of(agent: str, log: Path) -> Path:
    """A folder that sessions are in: of a project, of a day, or of a project with others beside the sessions."""
    return log.parent.parent if agent == "gemini" else log.parent


def links_to_folders_elsewhere(home: Path, elsewhere: Path) -> None:
    """Of each agent, one folder with a session is a link."""
    for agent in AGENTS:
        folder = project_of(agent, log_of(agent, 2, "elsewhere").write(elsewhere))
        link = home / folder.relative_to(elsewhere)
        link.parent.mkdir(parents=True, exist_ok=True)
        link.with_name("linked").symlink_to(folder)


def links_to_files_elsewhere(home: Path, elsewhere: Path) -> None:
    """Of each agent, one log is a link."""
    for agent in AGENTS:
        log = log_of(agent, 2, "elsewhere").write(elsewhere)
        (home / log.relative_to(elsewhere)).symlink_to(log)


def links_to_agents_folders(home: Path, elsewhere: Path) -> None:
    """All folders of agents are links."""
    for agent in AGENTS:
        log_of(agent, 2, "elsewhere").write(home)
        (home / f".{agent}").rename(elsewhere / agent)
        (home / f".{agent}").symlink_to(elsewhere / agent)


LINKS = [links_to_folders_elsewhere, links_to_files_elsewhere, links_to_agents_folders]


@pytest.mark.parametrize("link", LINKS, ids=lambda link: link.__name__)
def test_what_links_lead_to_is_read_and_archived(
    link: Callable[[Path, Path], None], home: Path, store: Store, tmp_path: Path
) -> None:
    """As if it were in the home, also when it grows, and it can be restored when it is gone."""
    write_home(home)
    (tmp_path / "elsewhere").mkdir()
    link(home, tmp_path / "elsewhere")
    assert len(list(Library(home).refs())) == 9
    synced(store, home)
    names = {agent: log_of(agent, 2, "elsewhere") for agent in AGENTS}
    paths = {log.data: path for path in logs_in(tmp_path) for log in names.values() if path.read_bytes() == log.data}
    for agent, log in names.items():
        append(paths[log.data], rest_of(log_of(agent, 3, "elsewhere"), log))
    assert synced(store, home).changed == 3
    assert difference(contents(store), fresh(tmp_path, home)) == ""
    for path in paths.values():
        path.unlink()
    assert synced(store, home).gone == 3
    for row in store.sessions.select(SessionFilter(is_gone=True)):
        ((restored, _, _),) = restore_session(store, row, tmp_path / "restored" / row.agent)
        assert restored.read_bytes() == log_of(row.agent, 3, "elsewhere").data


def logs_in(folder: Path) -> list[Path]:
    """All logs below a folder that are no links."""
    return [path for path in folder.rglob("*.jsonl") if path.is_file() and not path.is_symlink()]


def links_to_the_same_folder(paths: dict[str, Path]) -> None:
    """A project under two names."""
    for agent, path in paths.items():
        folder = project_of(agent, path)
        folder.with_name("another-name").symlink_to(folder.name)
        folder.with_name("-a-name-that-comes-first").symlink_to(folder)


def links_in_circles(paths: dict[str, Path]) -> None:
    """To the folder itself, to those above it, and to each other."""
    for agent, path in paths.items():
        folder = project_of(agent, path)
        for name, target in {"here": ".", "above": "..", "top": "/", "one": "two", "two": "one"}.items():
            (folder / f"circle-{name}").symlink_to(target)
            folder.with_name(f"circle-{name}").symlink_to(target)


def links_to_the_same_file(paths: dict[str, Path]) -> None:
    """A copy of a project that shares its files."""
    for agent, path in paths.items():
        folder = project_of(agent, path)
        other = folder.with_name("symbolic") / path.relative_to(folder)
        other.parent.mkdir(parents=True)
        other.symlink_to(path)


def second_names_of_files(paths: dict[str, Path]) -> None:
    """A backup of hard links."""
    for agent, path in paths.items():
        folder = project_of(agent, path)
        other = folder.with_name("hard") / path.relative_to(folder)
        other.parent.mkdir(parents=True)
        other.hardlink_to(path)


@pytest.mark.parametrize(
    "link",
    [links_to_the_same_folder, links_in_circles, links_to_the_same_file, second_names_of_files],
    ids=lambda link: link.__name__,
)
def test_links_to_what_is_there_already(
    link: Callable[[dict[str, Path]], None],
    home: Path,
    store: Store,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Each session is listed and stored once."""
    paths = write_home(home)
    plain = fresh(tmp_path, home)["sessions"]
    link(paths)
    assert sorted(ref.id for ref in Library(home).refs()) == sorted(name.split()[1] for name in plain)
    synced(store, home)
    assert contents(store)["sessions"].keys() == plain.keys()
    for agent, path in paths.items():
        append(path, rest_of(log_of(agent, 4), log_of(agent, 3)))
    synced(store, home)
    again = synced(store, home)
    assert (again.new, again.changed, again.gone) == (0, 0, 0)
    assert difference(contents(store), fresh(tmp_path, home)) == ""
    for arguments in (("ls",), ("doctor",), ("events",)):
        assert run_captured(capsys, (*arguments, "--home", home)).code == 0


# --- a home that is not there ----------------------------------------------------------------------------------------


def test_a_mount_point_without_its_drive(home: Path, store: Store, tmp_path: Path) -> None:
    """The sessions are gone from the disk, and back again, with what was added to them elsewhere."""
    paths = write_home(home)
    synced(store, home)
    before = contents(store)
    for agent in AGENTS:
        (home / f".{agent}").rename(tmp_path / agent)
        (home / f".{agent}").mkdir()
    assert synced(store, home).gone == 6
    assert difference(contents(store, gone=True), before) == ""
    for agent, path in paths.items():
        (home / f".{agent}").rmdir()
        (tmp_path / agent).rename(home / f".{agent}")
        append(path, rest_of(log_of(agent, 4), log_of(agent, 3)))
    synced(store, home)
    assert difference(contents(store), fresh(tmp_path, home)) == ""


def test_a_home_that_is_gone_while_it_is_watched(home: Path, store: Store, tmp_path: Path) -> None:
    """Nothing else is read instead, and nothing is lost."""
    write_home(home)
    watcher = Watcher(store, home)
    watcher.read_all()
    before = contents(store)
    home.rename(tmp_path / "away")
    for _ in range(2):
        watcher._schedule.due = 0.0
        watcher.ingest({home / ".claude"})
        watcher._find_homes()
    assert difference(contents(store, gone=True), before) == ""


# --- clocks ----------------------------------------------------------------------------------------------------------


def test_a_clock_that_is_set_back(home: Path, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files get older as they change; versions stay in their order."""
    real = time.time
    path = claude_log(2).write(home)
    for years, data in enumerate((claude_log(2).data, claude_log(3).data, claude_log(3).data.replace(b"do", b"DO"))):
        monkeypatch.setattr(time, "time", lambda years=years: real() - years * 365 * 86_400)
        path.write_bytes(data)
        os.utime(path, (time.time(), time.time()))
        synced(store, home)
        assert difference(contents(store), fresh(tmp_path, home)) == ""
    (row,) = store.sessions.select()
    assert [version.change for version in History(store, row).versions] == ["created", "appended", "edited"]
    assert [entry.seq for entry in store.changes.since()] == sorted(entry.seq for entry in store.changes.since())
    ((restored, _, _),) = restore_session(store, row, tmp_path / "old", 1)
    assert restored.read_bytes() == claude_log(2).data


def test_files_from_the_future(home: Path, store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """They are read like others, and read again when they change without getting newer."""
    paths = write_home(home)
    future = datetime(2199, 1, 1, tzinfo=UTC).timestamp()
    for path in paths.values():
        os.utime(path, (future, future))
    synced(store, home)
    for agent, path in paths.items():
        path.write_bytes(log_of(agent, 4).data)
        os.utime(path, (future, future))
    assert synced(store, home).changed == 3
    assert difference(contents(store), fresh(tmp_path, home)) == ""
    for arguments in (("ls",), ("show", "latest"), ("events",), ("doctor",)):
        assert run_captured(capsys, (*arguments, "--home", home)).code == 0


def test_a_session_from_the_future_is_not_live(home: Path, store: Store) -> None:
    """One that was written with a wrong clock would be live for years."""
    now = datetime.now(UTC)
    for name, at in {"now": now, "zone": now + timedelta(hours=14), "wrong": now + timedelta(days=400)}.items():
        log = claude_log(1, name)
        log.user(name, f"last of {name}", timestamp=at.isoformat(timespec="milliseconds").replace("+00:00", "Z"))
        put(log.write(home), log.data)
    synced(store, home)
    live = [row for row in store.sessions.select() if is_live(row)]
    assert sorted(row.title or "" for row in live) == ["please do now number 0", "please do zone number 0"]
