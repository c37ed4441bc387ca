"""The commands that ask the store: sync, search, events, stats, archive, restore, forget, push."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest

import unspool
from unspool.cli._shared import store as shared_store
from unspool.core.errors import NotWritableError
from unspool.ingest.verify import Verifier
from unspool.store import Store, open_store
from unspool.testing import ClaudeLog

from .run import call_main


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The samples as a home directory, with a data directory of their own."""
    shutil.copytree(unspool.samples(), tmp_path / "home")
    return _use(tmp_path, monkeypatch)


@pytest.fixture(scope="module")
def folder_to_read(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home and its store, which the first test that needs them fills."""
    folder = tmp_path_factory.mktemp("to-read")
    shutil.copytree(unspool.samples(), folder / "home")
    return folder


@pytest.fixture
def home_to_read(folder_to_read: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same for tests that change nothing: it is taken in once."""
    return _use(folder_to_read, monkeypatch)


def _use(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(folder / "home"))
    monkeypatch.setenv("UNSPOOL_DATA", str(folder / "data"))
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "GEMINI_CLI_HOME", "UNSPOOL_STORE"):
        monkeypatch.delenv(name, raising=False)
    return folder / "home"


def output(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    """What a command prints."""
    assert call_main(arguments) == code
    return capsys.readouterr().out


def test_sync_prints_a_summary(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Everything the first time, nothing the second."""
    assert output(capsys, "sync").startswith("9 new, 0 changed, 0 deleted from disk")
    again = json.loads(output(capsys, "sync", "--json"))
    assert (again["new"], again["changed"], again["bytes"]) == (0, 0, 0)
    assert home.joinpath(".claude").is_dir()


@pytest.mark.parametrize(
    ("query", "session"),
    [
        ("frozen dataclass", "37c23395"),
        ('"no tide left"', "01a1e16d"),
        ("is:rejected tool:edit", "37c23395"),
        ("agent:gemini colours", "4acf7e79"),
        ("is:compacted agent:codex", "01a1e16f"),
        ("tool:agent", "3cbae489"),
        ("branch:dead local flag", "3cbae489"),
        ("role:user benchmark", "e84b6583"),
        ("in:thinking colour", "4acf7e79"),
    ],
)
@pytest.mark.usefixtures("home_to_read")
def test_search(query: str, session: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The best session for each query, with a place that can be opened."""
    found = [json.loads(line) for line in output(capsys, "search", "--json", query).splitlines()]
    assert found[0]["session"]["name"].startswith(session)
    hit = found[0]["hits"][0]
    record = unspool.load(found[0]["session"]["name"])
    assert record.messages[hit["message_index"]].author == hit["author"]
    assert all(0 <= start < end <= len(hit["snippet"]["text"]) for start, end in hit["snippet"]["marks"])


@pytest.mark.usefixtures("home_to_read")
def test_search_pages_follow_each_other(capsys: pytest.CaptureFixture[str]) -> None:
    """Each page but the last says how to see the next one."""
    every = output(capsys, "search", "--json", "-n", "100", "--hits", "1", "the").splitlines()
    assert call_main(("search", "--json", "-n", "2", "--hits", "1", "the")) == 0
    first = capsys.readouterr()
    assert first.err == "More sessions match; use --offset 2 to see the next ones\n"
    assert call_main(("search", "--json", "-n", "100", "--hits", "1", "--offset", "2", "the")) == 0
    rest = capsys.readouterr()
    assert rest.err == ""
    names = [json.loads(line)["session"]["name"] for line in (*first.out.splitlines(), *rest.out.splitlines())]
    assert names == [json.loads(line)["session"]["name"] for line in every]


@pytest.mark.usefixtures("home_to_read")
def test_an_invalid_query_is_marked(capsys: pytest.CaptureFixture[str]) -> None:
    """Wrong usage, with the place under it."""
    assert call_main(("search", "foo (bar")) == 2
    assert capsys.readouterr().err.splitlines()[1:] == ["  foo (bar", "      ^"]


@pytest.mark.usefixtures("home_to_read")
def test_search_without_results_exits_with_1(capsys: pytest.CaptureFixture[str]) -> None:
    """As grep does."""
    assert output(capsys, "search", "xyzzyplugh", code=1) == "No matches\n"


@pytest.mark.usefixtures("home_to_read")
def test_regex_search(capsys: pytest.CaptureFixture[str]) -> None:
    """Each match once, with the rest of its line."""
    found = [
        json.loads(line)
        for line in output(capsys, "search", "--regex", r"class \w+\(NamedTuple\)", "--json").splitlines()
    ]
    hits = [hit["snippet"] for entry in found for hit in entry["hits"]]
    assert {hit["text"][start:end] for hit in hits for start, end in hit["marks"]} == {"class Tide(NamedTuple)"}
    assert all(hit["text"][hit["marks"][0][1]] == ":" for hit in hits)
    assert call_main(("search", "--regex", "(")) == 2


@pytest.mark.parametrize("kind", ["rejection", "interruption", "compaction", "clear"])
@pytest.mark.usefixtures("home_to_read")
def test_events_equal_those_of_the_records(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    """No event more, and none fewer, in every form."""
    events = [json.loads(line) for line in output(capsys, "events", "--type", kind, "--json").splitlines()]
    stored = [json.loads(line) for line in output(capsys, f"{kind}s", "--json").splitlines()]
    assert sorted(json.dumps(entry["event"], sort_keys=True) for entry in stored) == sorted(
        json.dumps(entry["event"], sort_keys=True) for entry in events
    )
    assert output(capsys, f"{kind}s", "--format", "markdown").count("## ") >= len(events)
    assert len(output(capsys, f"{kind}s").splitlines()) == len(events) + 1


@pytest.mark.usefixtures("home_to_read")
def test_rejections_show_what_was_rejected(capsys: pytest.CaptureFixture[str]) -> None:
    """With the diff, and filtered by tool."""
    text = output(capsys, "rejections", "--tool", "edit", "--format", "markdown")
    assert "+class Tide(NamedTuple):" in text
    assert "“use a frozen dataclass" in text
    assert output(capsys, "rejections", "--tool", "edit", "--until", "2020-01-01").splitlines()[1:] == []


@pytest.mark.usefixtures("home_to_read")
def test_stats_equal_those_of_the_records(capsys: pytest.CaptureFixture[str]) -> None:
    """Sessions, events and tokens are those of the export."""
    stats = json.loads(output(capsys, "stats", "--json"))
    records = [unspool.load(ref) for ref in unspool.sessions()]
    assert sum(stats["sessions"].values()) + stats["subagents"] == len(records)
    assert stats["events"].get("rejection", 0) == sum(len(record.rejections) for record in records)
    assert stats["messages"] == sum(len(record.messages) for record in records)
    for name in ("input", "output", "cache_read", "cache_write", "reasoning"):
        told = sum(entry[name] for entry in stats["tokens"])
        assert told == sum(getattr(record.info.usage, name) or 0 for record in records), name
    assert "turns" in output(capsys, "stats")


@pytest.mark.usefixtures("home")
def test_deleted_sessions_stay_in_the_store(home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is searched, listed as only here, given back byte for byte, and forgotten only on purpose."""
    (path,) = home.glob(".claude/projects/*/37c23*.jsonl")
    data = path.read_bytes()
    output(capsys, "sync")
    path.unlink()
    assert output(capsys, "sync").startswith("0 new, 0 changed, 1 deleted from disk")
    (gone,) = [json.loads(line) for line in output(capsys, "archive", "--json").splitlines()]
    assert (gone["name"], bool(gone["gone_at"])) == (path.stem, True)
    assert json.loads(output(capsys, "search", "--json", "-n", "1", "frozen dataclass"))["session"]["name"] == path.stem
    assert "frozen dataclass" in output(capsys, "show", "37c23")
    assert json.loads(output(capsys, "export", "37c23"))["session"]["id"] == path.stem
    output(capsys, "restore", "37c23", "--to", str(tmp_path / "restored"))
    (restored,) = (tmp_path / "restored").rglob("37c23*.jsonl")
    assert restored.read_bytes() == data
    assert restored.relative_to(tmp_path / "restored") == path.relative_to(home)
    assert call_main(("restore", "37c23", "--to", str(tmp_path / "restored"))) == 1
    assert call_main(("forget", "37c23")) == 2
    capsys.readouterr()
    assert output(capsys, "forget", "37c23", "--yes").startswith("1 removed\n")
    assert "37c23" not in output(capsys, "search", "frozen dataclass")


@pytest.mark.skipif(sys.platform == "win32", reason="such names are not possible there")
def test_a_session_that_cannot_be_restored_does_not_stop_the_others(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is reported, and the exit status is 1."""
    everything = {path.relative_to(home) for path in home.glob(".claude/projects/*/*.jsonl")}
    in_the_way = tmp_path / "restored" / max(everything)
    in_the_way.parent.mkdir(parents=True)
    in_the_way.write_bytes(b"")
    assert call_main(("restore", "--agent", "claude", "--to", str(tmp_path / "restored"))) == 1
    assert f"{in_the_way} already exists" in capsys.readouterr().err
    found = {path.relative_to(tmp_path / "restored") for path in in_the_way.parent.glob("*.jsonl")}
    assert found == everything
    assert in_the_way.read_bytes() == b""


def test_restored_files_are_private_and_their_names_harmless(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A directory of the archived path may contain a sequence with which a terminal sets the clipboard (OSC 52)."""
    monkeypatch.setenv("HOME", str(tmp_path))
    log = ClaudeLog("hostile")
    log.user("hello")
    folder = tmp_path / ".claude" / "projects" / "-demo-\x1b]52;c;cHduZWQ=\x07"
    folder.mkdir(parents=True)
    (folder / f"{log.session}.jsonl").write_bytes(log.data)
    output(capsys, "sync")
    for _ in range(2):
        call_main(("restore", log.session, "--to", str(tmp_path / "restored")))
        said = capsys.readouterr()
        assert "projects" in said.out + said.err
        assert "\x1b" not in said.out + said.err
    (restored,) = (tmp_path / "restored").rglob("*.jsonl")
    assert restored.stat().st_mode & 0o077 == 0


def test_push_copies_everything(home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What is on disk, and what only the own store still has."""
    output(capsys, "sync")
    (path,) = home.glob(".claude/projects/*/37c23*.jsonl")
    path.unlink()
    output(capsys, "sync")
    team = str(tmp_path / "team.db")
    assert "1 deleted from disk" in output(capsys, "push", team)
    assert "0 deleted from disk" in output(capsys, "push", team)
    ours = output(capsys, "search", "--json", "frozen dataclass")
    theirs = output(capsys, "search", "--json", "--store", team, "--no-sync", "frozen dataclass")
    names = [[json.loads(line)["session"]["name"] for line in text.splitlines()] for text in (ours, theirs)]
    assert sorted(names[0]) == sorted(names[1])


@pytest.mark.usefixtures("home")
def test_sessions_of_other_machines_have_no_command_that_resumes_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Their files are not here."""
    team = str(tmp_path / "team.db")
    output(capsys, "push", team)

    def resumes() -> list[bool]:
        found = []
        for query in (["frozen dataclass"], ["--regex", "frozen dataclass"]):
            lines = output(capsys, "search", "--json", "--store", team, "--no-sync", *query).splitlines()
            found += [json.loads(line)["resume"] is not None for line in lines]
        return found

    assert any(resumes())
    monkeypatch.setenv("UNSPOOL_DATA", str(tmp_path / "another"))
    found = resumes()
    assert found
    assert not any(found)


@pytest.mark.usefixtures("home")
def test_a_data_directory_that_cannot_be_created(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """And what to try."""
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("UNSPOOL_DATA", str(tmp_path / "file" / "data"))
    assert call_main(("sync",)) == 1
    assert "UNSPOOL_DATA" in capsys.readouterr().err


# --- a store that cannot be updated -----------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["search frozen", "stats", "rejections", "archive", "lineage 37c23"])
@pytest.mark.usefixtures("home_to_read")
def test_reading_continues_while_another_process_imports(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The answer is what the store has, with a notice that it may be behind."""
    expected = output(capsys, *command.split())
    monkeypatch.setattr(shared_store, "_LOCK_SECONDS", 0.0)
    store = open_store()
    with store.exclusive(), store.transaction():
        assert call_main(tuple(command.split())) == 0
    store.close()
    found = capsys.readouterr()
    assert found.out == expected
    assert "may be missing" in found.err


@pytest.mark.parametrize("options", [[], ["--no-sync"]])
@pytest.mark.usefixtures("home_to_read")
def test_reading_continues_in_a_read_only_folder(
    options: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is not written to; without --no-sync, a notice says that the answer may be behind."""
    expected = output(capsys, "search", "frozen")
    writable = open_store

    def refuse(location: str | None = None, *, read_only: bool = False) -> Store:
        if not read_only:
            raise NotWritableError("the folder is read-only")
        return writable(location, read_only=True)

    monkeypatch.setattr(shared_store, "open_store", refuse)
    assert call_main(("search", "frozen", *options)) == 0
    found = capsys.readouterr()
    assert found.out == expected
    assert ("may be missing" in found.err) == (not options)
    assert call_main(("forget", "37c23", "--yes")) == 1


def test_a_relative_home_is_stored_absolute(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same home is the same wherever a command runs."""
    (tmp_path / "elsewhere").mkdir()
    for folder, name in ((tmp_path, "home"), (home, "."), (tmp_path / "elsewhere", "../home")):
        monkeypatch.chdir(folder)
        output(capsys, "sync", "--home", name)
    store = open_store()
    assert len(store.files.all()) == len({path for path in store.files.all() if path.startswith(f"{home}/")})
    assert len(store.sessions.select()) == 9
    store.close()


# --- sessions that were forgotten -------------------------------------------------------------------------------------


def test_a_forgotten_session_is_not_imported_again(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither by `sync` nor by `push`, although it is on disk and grows, until that is lifted."""
    (path,) = home.glob(".claude/projects/*/37c23*.jsonl")
    output(capsys, "sync")
    assert "unspool forget --lift 37c23395-e85b" in output(capsys, "forget", "37c23", "--yes")
    team = str(tmp_path / "team.db")
    for place in (path, path.parent.with_name("-elsewhere") / path.name):
        with open(path, "ab") as file:
            file.write(b"\n")
        place.parent.mkdir(exist_ok=True)
        path.rename(place)
        output(capsys, "sync")
        output(capsys, "push", team)
        for store in ([], ["--store", team, "--no-sync"]):
            output(capsys, "search", '"frozen dataclass"', "session:37c23", *store, code=1)
    for each in (open_store(), open_store(team)):
        assert [name for name in each.files.all() if "37c23" in name] == []
        each.close()
    (listed,) = [json.loads(line) for line in output(capsys, "forget", "--list", "--json").splitlines()]
    assert (listed["name"], listed["paths"][0]) == (path.stem, str(path))
    assert "next sync" in output(capsys, "forget", "--lift", "37c23")
    assert output(capsys, "sync").startswith("1 new")
    assert output(capsys, "push", team).startswith("1 new")
    assert output(capsys, "forget", "--list") == "No sessions were forgotten\n"
    assert output(capsys, "forget", "37c23", "--yes", "--until-seen-again") == "1 removed\n"
    assert output(capsys, "sync").startswith("1 new")


def test_what_a_team_has_forgotten_is_not_pushed_again(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """From the disk or from the own store."""
    team = str(tmp_path / "team.db")
    output(capsys, "sync")
    output(capsys, "push", team)
    output(capsys, "forget", "37c23", "--yes", "--store", team)
    assert output(capsys, "push", team).startswith("0 new")
    next(home.glob(".claude/projects/*/37c23*.jsonl")).unlink()
    output(capsys, "sync")
    assert output(capsys, "push", team).startswith("0 new, 0 changed, 0 deleted from disk")


def test_push_completes_a_session_that_grew_and_was_deleted(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """All messages and all bytes arrive, also if only bytes were added."""
    team = str(tmp_path / "team.db")
    (path,) = home.glob(".claude/projects/*/37c23*.jsonl")
    whole = path.read_bytes()
    lines = whole.splitlines(keepends=True)
    path.write_bytes(b"".join(lines[: len(lines) // 2]))
    output(capsys, "push", team)
    path.write_bytes(whole + b"\n")
    output(capsys, "sync")
    path.unlink()
    output(capsys, "sync")
    assert "1 deleted from disk" in output(capsys, "push", team)
    assert "0 deleted from disk" in output(capsys, "push", team)
    output(capsys, "restore", "37c23", "--to", str(tmp_path / "restored"), "--store", team, "--no-sync")
    assert next((tmp_path / "restored").rglob("37c23*.jsonl")).read_bytes() == whole + b"\n"
    ours, theirs = open_store(), open_store(team)
    records = [each.messages.load_session(each.sessions.find("37c23").id) for each in (ours, theirs)]
    assert records[0] == records[1]
    assert Verifier(theirs).run().is_intact
    ours.close()
    theirs.close()


@pytest.mark.usefixtures("home_to_read")
@pytest.mark.parametrize(
    "options", [(), ("-n", "2"), ("--agent", "claude", "--agent", "codex", "-n", "3"), ("has:error",)]
)
def test_the_list_of_the_store_is_that_of_the_files(
    options: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    """The same sessions in the same order, without opening a file of an agent."""
    output(capsys, "sync")
    listed = [json.loads(line) for line in output(capsys, "ls", "--json", *options).splitlines()]
    stored = [json.loads(line) for line in output(capsys, "ls", "--stored", "--json", *options).splitlines()]
    assert listed
    names = ("agent", "id", "kind", "title", "path", "events")
    assert [[row.get(name) for name in names] for row in stored] == [
        [row.get(name) for name in names] for row in listed
    ]
    assert call_main(("ls", "--stored", "--home", "elsewhere")) == 2
