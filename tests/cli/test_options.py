"""One set of options with one meaning: every command that lists is called with every shared option."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

import unspool
from unspool.cli._shared.output_types import output_schema
from unspool.cli.main import command_parser
from unspool.core.events import LISTED_KINDS

from ..regen import OUTPUT_SCHEMA, output_schema_text
from .run import Done, Run, run_captured

SHARED = ("--agent", "--project", "--since", "--until", "--limit", "--json", "--home", "--store", "--samples")
LISTS = {
    "ls": (),
    "events": (),
    "export": (),
    "search": ("tide",),
    "sync": (),
    "stats": (),
    "usage": ("--by", "session"),
    "archive": ("--all",),
    "restore": ("--kind", "all", "--to", "restored"),
    "forget": ("--kind", "all", "--yes"),
    "lineage": (),
    "doctor": (),
    "context": ("--each",),
    **{kind.plural: () for kind in LISTED_KINDS if kind.listing and kind.listing.command},
}
"""Commands that list sessions, or what is in them, with what they need besides the shared options."""
CHANGING = ("sync", "restore", "forget")


@pytest.fixture
def listed(home: Path, monkeypatch: pytest.MonkeyPatch, run: Run) -> Callable[..., list[dict[str, Any]]]:
    """Runs a command in a home with the samples, and returns what it prints as JSON."""
    shutil.copytree(unspool.samples(), home, dirs_exist_ok=True)
    monkeypatch.setenv("UNSPOOL_DATA", str(home.parent / "data"))
    monkeypatch.chdir(home.parent)

    def call(command: str, *options: str | Path, code: int = 0) -> list[dict[str, Any]]:
        done = run(command, *LISTS[command], "--json", *options)
        assert done.code == code, done.err
        return [json.loads(line) for line in done.lines]

    return call


@pytest.mark.parametrize("command", LISTS)
def test_every_list_has_every_shared_option(command: str) -> None:
    assert set(SHARED) - command_parser(command)._option_string_actions.keys() == set()


def sessions_in(record: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The sessions that a printed object is about."""
    if "nodes" in record:
        yield from record["nodes"]
    elif isinstance(record.get("session"), dict):
        yield record["session"]
    elif "name" in record or isinstance(record.get("session"), str):
        yield record


@pytest.mark.parametrize("command", [name for name in LISTS if name not in ("sync", "stats", "usage", "forget")])
def test_agent(listed: Callable[..., list[dict[str, Any]]], command: str) -> None:
    """Sessions of other agents are left out; an option and a word mean the same."""
    found = listed(command, "--agent", "codex")
    if command != "restore":
        assert in_order(listed(command, "agent:codex")) == in_order(found)
    agents = {session.get("agent") for record in found for session in sessions_in(record)}
    assert agents == (set() if command == "clears" else {"codex"})


def without_times(record: dict[str, Any]) -> dict[str, Any]:
    """A score depends on the age of a session."""
    return {name: value for name, value in record.items() if name != "score"}


def in_order(records: list[dict[str, Any]]) -> list[str]:
    """Records that can be compared: with a limit, the newest come first."""
    return sorted(json.dumps(without_times(record)) for record in records)


FILTERS = {
    ("--project", "tidepool"): True, ("--project", "nowhere"): False,
    ("--since", "2020-01-01"): True, ("--since", "2030-01-01"): False,
    ("--until", "2020-01-01"): False, ("--until", "2030-01-01"): True,
    ("-n", "0"): False, ("-n", "999"): True,
}  # fmt: skip
"""Options, and whether everything passes or nothing."""


@pytest.mark.parametrize("command", [name for name in LISTS if name not in CHANGING])
def test_filters(listed: Callable[..., list[dict[str, Any]]], command: str) -> None:
    """What passes is what passes without a filter, or nothing."""
    everything = in_order(listed(command))
    for options, is_all in FILTERS.items():
        if command in ("stats", "usage"):
            (report,) = listed(command, *options)
            counted = report["sessions" if command == "stats" else "entries"]
            assert bool(counted) == (is_all or (command == "stats" and options[0] == "-n")), options
        else:
            # Like grep, search exits with 1 if nothing matches.
            found = listed(command, *options, code=0 if is_all or command != "search" else 1)
            assert in_order(found) == (everything if is_all else []), options


@pytest.mark.parametrize("command", CHANGING)
def test_filters_of_changes(listed: Callable[..., list[dict[str, Any]]], command: str, home: Path) -> None:
    """The same for commands after which something is different: each begins without a store."""
    for options, is_all in FILTERS.items():
        if command == "sync":
            (report,) = listed(command, *options)
            assert report["new"] == (9 if is_all else 0), options
        else:
            found = listed(command, *options, code=0 if is_all else 2)
            assert len({json.dumps(each.get("session", each)) for each in found}) == (9 if is_all else 0), options
        for name in ("data", "restored"):
            shutil.rmtree(home.parent / name, ignore_errors=True)


@pytest.mark.parametrize("command", [name for name in LISTS if name not in ("sync", "forget")])
def test_home_and_store(listed: Callable[..., list[dict[str, Any]]], command: str, home: Path, tmp_path: Path) -> None:
    """The same sessions from another place, in another store."""
    expected = [without_times(record) for record in listed(command, *(["-n", "99"] if command == "restore" else []))]
    other = tmp_path / "elsewhere"
    home.rename(other)
    home.mkdir()
    shutil.rmtree(tmp_path / "restored", ignore_errors=True)
    more = ("-n", "99") if command == "restore" else ()
    found = listed(command, "--home", other, "--store", tmp_path / "other.db", *more)
    text = json.dumps([without_times(record) for record in found]).replace(str(other), str(home))
    assert json.loads(text) == expected


@pytest.mark.parametrize("command", LISTS)
def test_samples(command: str, home: Path, monkeypatch: pytest.MonkeyPatch, run: Run) -> None:
    """They are in a store of their own, and nothing of the user's is read or changed."""
    monkeypatch.setenv("UNSPOOL_DATA", str(home.parent / "data"))
    monkeypatch.chdir(home.parent)
    more = ("-n", "99") if command in ("restore", "forget") else ()
    done = run(command, *LISTS[command], "--json", "--samples", *more)
    assert done.code == 0, done.err
    assert done.lines
    assert not (home.parent / "data" / "sessions.db").exists()
    assert run(command, *LISTS[command], "--samples", "--home", home).code == 2


def test_the_output_schema_is_published(run: Run) -> None:
    """As the command prints it; `make regen` updates it."""
    assert OUTPUT_SCHEMA.read_bytes() == output_schema_text()
    assert json.loads(run("schema", "--output").out) == json.loads(output_schema_text())


@cache
def output_validator() -> Any:
    return jsonschema_rs.Draft202012Validator(output_schema())


@pytest.mark.parametrize("command", [name for name in LISTS if name != "export"])
def test_output_has_the_published_schema(
    listed: Callable[..., list[dict[str, Any]]], command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each line says what it is, and is that."""
    validator = output_validator()
    found = listed(command, *(["-n", "99"] if command in ("restore", "forget") else []))
    assert found
    for record in found:
        validator.validate(record)
    for arguments in (("history", "latest"), ("explain", "latest#1"), ("verify",), ("forget", "--list")):
        if command == "forget":
            done: Done = run_captured(capsys, (*arguments, "--json"))
            for line in done.lines:
                validator.validate(json.loads(line))


@pytest.mark.parametrize(
    "command", [name for name in LISTS if name not in ("search", "stats", "restore", "forget", "sync")]
)
def test_names(listed: Callable[..., list[dict[str, Any]]], command: str, home: Path) -> None:
    """An id, the beginning of one, a path, and `latest` name the same session everywhere."""
    newest = max(home.glob(".gemini/**/chats/*.jsonl"), key=lambda path: path.read_bytes().count(b"23:1"))
    newest.touch()
    (path,) = home.glob(".claude/projects/*/37c2*.jsonl")
    expected = in_order(listed(command, path.stem))
    assert expected or command in ("clears", "compactions")
    assert [in_order(listed(command, name)) for name in ("37c2", str(path))] == [expected] * 2
    assert in_order(listed(command, "latest")) == in_order(listed(command, "4acf7e79"))
