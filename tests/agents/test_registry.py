"""The table of agents, and agents of installed packages."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import msgspec
import pytest

import unspool
from unspool.agents import AGENTS, Agent, AgentInfo, AgentRegistry, Colour
from unspool.runs.registry import DRIVERS, load_drivers
from unspool.testing import registered

from ..cli.run import environment
from ..waiting import PATIENCE, wait_until
from .fourth.acme_unspool import AcmeAgent, AcmeSource
from .fourth.logs import AcmeLog

SOURCES = Path(unspool.__file__).parents[1]


def installed(folder: Path, name: str, points: str) -> None:
    """Put the metadata of a package into a folder, as an installer would."""
    info = folder / f"{name}-1.5.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.5\n")
    (info / "entry_points.txt").write_text(f"[unspool.agents]\n{points}\n")


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    """A folder of installed packages with the made-up agent in it."""
    folder = tmp_path / "packages"
    installed(folder, "acme-unspool", "acme = acme_unspool:AcmeAgent\ndesk = acme_unspool:DeskAgent")
    shutil.copy(Path(__file__).parent / "fourth" / "acme_unspool.py", folder)
    return folder


def run(home: Path, packages: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command in a process of its own, which knows the packages."""
    paths = os.pathsep.join((str(packages), str(SOURCES)))
    command = (sys.executable, "-m", "unspool.cli.main", *arguments)
    variables = environment(home, PYTHONPATH=paths)
    return subprocess.run(command, env=variables, capture_output=True, text=True, check=False)


def test_an_installed_package_adds_an_agent(packages: Path, tmp_path: Path) -> None:
    """Through an entry point, without a line in unspool."""
    log = AcmeLog("red")
    log.turn("launch the rocket", "Ignition.")
    log.write(tmp_path / "home")
    done = run(tmp_path / "home", packages, "ls", "--agent", "acme", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    (found,) = map(json.loads, done.stdout.splitlines())
    assert (found["agent"], found["name"], found["title"]) == ("acme", "red", "launch the rocket")
    searched = run(tmp_path / "home", packages, "search", "agent:acme", "launch", "--json")
    assert (searched.returncode, searched.stderr) == (0, "")
    assert len(searched.stdout.splitlines()) == 1


def test_a_package_in_an_archive_adds_an_agent(packages: Path, tmp_path: Path) -> None:
    """Python imports from archives too."""
    archive = shutil.make_archive(str(tmp_path / "packages"), "zip", packages)
    done = run(tmp_path, Path(archive), "ls", "--agent", "acme")
    assert (done.returncode, "No sessions" in done.stdout + done.stderr) == (0, True)


def test_metadata_is_not_loaded_without_a_package(tmp_path: Path) -> None:
    """It would take longer than most commands."""
    (tmp_path / "other-1.0.dist-info").mkdir()
    (tmp_path / "other-1.0.dist-info" / "entry_points.txt").write_text("[console_scripts]\nother = other:main\n")
    program = "import sys; from unspool.agents import AGENTS; print(*AGENTS, 'importlib.metadata' in sys.modules)"
    paths = os.pathsep.join((str(tmp_path), str(tmp_path / "missing"), str(SOURCES)))
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment(tmp_path, PYTHONPATH=paths), capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    assert done.stdout == "claude codex gemini False\n"


def test_a_broken_package_is_told_by_name(packages: Path, tmp_path: Path) -> None:
    """And changes nothing for the others."""
    installed(packages, "broken", "fifth = broken_agent:Fifth\nsixth = broken_agent:missing\nseventh = json:loads")
    (packages / "broken_agent.py").write_text(
        "class Fifth:\n    def __init__(self):\n        raise OSError('no disk')\n"
    )
    done = run(tmp_path, packages, "ls", "--agent", "acme")
    assert done.returncode == 0
    assert "The agent 'fifth' of package broken 1.5 was not loaded: OSError: no disk" in done.stderr
    assert "The agent 'sixth' of package broken 1.5 was not loaded: AttributeError" in done.stderr
    assert "The agent 'seventh' of package broken 1.5 was not loaded: TypeError" in done.stderr
    assert "acme" not in done.stderr


def test_two_packages_with_one_name_are_told(packages: Path, tmp_path: Path) -> None:
    """The first one stays."""
    installed(packages, "other", "acme-too = acme_unspool:AcmeAgent")
    done = run(tmp_path, packages, "ls", "--agent", "acme")
    assert done.returncode == 0
    assert "The agent 'acme-too' of package other 1.5 was not loaded" in done.stderr
    assert "has an agent 'acme', but package acme-unspool 1.5 has one with the same name" in done.stderr


def test_a_name_is_taken_once() -> None:
    """Nobody can replace an agent that is there."""
    with registered(AcmeAgent()):
        assert list(AGENTS) == ["claude", "codex", "gemini", "acme"]
        with pytest.raises(ValueError, match="this program has an agent 'acme', but this program has one"):
            AGENTS.register(AcmeAgent())
    assert "acme" not in AGENTS


@pytest.mark.parametrize(
    ("field", "value", "why"),
    [
        ("name", "Acme Coder", "lower-case"),
        ("name", 'a"] { }', "lower-case"),
        ("letter", "AC", "one character"),
        ("colour", Colour("red", "#ffffff"), "#0d6b52"),
    ],
)
def test_a_row_that_would_not_work_is_refused(field: str, value: object, why: str) -> None:
    """Names and colours go into addresses and style sheets."""
    fields = msgspec.structs.asdict(AcmeAgent.info)
    with pytest.raises(ValueError, match=why):
        AgentInfo(**fields | {field: value})


def test_every_agent_has_a_name_of_its_own() -> None:
    """In every form in which people see it."""
    infos = [agent.info for agent in AGENTS.values()]
    for field in ("name", "title", "letter", "colour", "folder", "variable"):
        assert len({getattr(info, field) for info in infos}) == len(infos)


def test_drivers_come_from_the_table(caplog: pytest.LogCaptureFixture) -> None:
    """All agents of ours can be run; one whose driver is broken is left out, by name."""
    assert list(DRIVERS) == [name for name, agent in AGENTS.items() if agent.info.driver is not None]
    assert all(factory.name == name for name, factory in DRIVERS.items())
    fields = msgspec.structs.asdict(AcmeAgent.info)

    class Broken(Agent):
        info = AgentInfo(**fields | {"driver": "acme_unspool_runs:Driver"})

    with registered(Broken()):
        assert list(load_drivers()) == list(DRIVERS)
    assert "The driver of agent 'acme' was not loaded" in caplog.text


def test_a_registry_of_its_own_knows_what_it_was_given() -> None:
    """And finds packages only when it is asked."""
    registry = AgentRegistry((AcmeAgent(),))
    assert isinstance(registry["acme"].open(Path("/nowhere")), AcmeSource)
    assert (list(registry)[:1], dict(registry.failures)) == (["acme"], {})


class _Point:
    """An entry point whose package is imported until the test lets it continue."""

    name = value = "acme"
    dist = None

    def __init__(self, registry: AgentRegistry) -> None:
        self._registry = registry
        self.is_loading, self.may_end = threading.Event(), threading.Event()
        self.seen: list[str] = []

    def load(self) -> type[Agent]:
        self.seen = list(self._registry)
        self.is_loading.set()
        wait_until(self.may_end.is_set, "the test to let the import continue")
        return AcmeAgent


class _WatchedLock:
    """A lock that shows that a thread is about to wait for it."""

    def __init__(self, lock: AbstractContextManager[bool]) -> None:
        self._lock = lock
        self.is_wanted = threading.Event()

    def __enter__(self) -> bool:
        self.is_wanted.set()
        return self._lock.__enter__()

    def __exit__(self, *error: Any) -> None:
        self._lock.__exit__(*error)


def test_a_second_thread_waits_for_the_agents_of_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    """It must not take a table without them for the whole one; only a package that is being imported sees that."""
    registry = AgentRegistry((AGENTS["claude"],))
    point = _Point(registry)
    monkeypatch.setattr("unspool.agents.registry.entry_points_in", lambda _: [point])
    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(lambda: list(registry))
        wait_until(point.is_loading.is_set, "the package to be imported")
        lock = _WatchedLock(registry._lock)
        monkeypatch.setattr(registry, "_lock", lock)
        second = threads.submit(lambda: list(registry))
        second.add_done_callback(lambda _: lock.is_wanted.set())
        wait_until(lock.is_wanted.is_set, "the second thread to reach the lock")
        point.may_end.set()
        assert (first.result(PATIENCE), second.result(PATIENCE)) == (["claude", "acme"], ["claude", "acme"])
    assert point.seen == ["claude"]


def test_agents_that_are_added_while_others_are_listed() -> None:
    """Whoever goes through the table sees it as it was."""
    registry = AgentRegistry((AGENTS["claude"], AGENTS["codex"]))
    names = iter(registry)
    assert next(names) == "claude"
    registry.register(AcmeAgent())
    assert list(names) == ["codex"]
    names = iter(registry)
    registry.unregister("acme")
    assert list(names) == ["claude", "codex", "acme"]
    assert list(registry) == ["claude", "codex"]
