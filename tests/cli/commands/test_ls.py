"""`unspool ls`: which sessions are listed, with which columns."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from unspool.io.sources import LineFile
from unspool.library import Library
from unspool.testing import ClaudeLog, CodexLog, GeminiLog, call

from ...file_faults import ERRORS, failing
from ...recordings import recordings
from ..run import SAMPLES, Run


def write_one_of_each(home: Path) -> None:
    """A session of each agent."""
    claude = ClaudeLog()
    claude.user("from claude")
    claude.model("hi")
    claude.write(home)
    codex = CodexLog()
    codex.turn("from codex", "hi")
    codex.write(home)
    gemini = GeminiLog()
    gemini.user("u1", "from gemini")
    gemini.model("g1", "hi")
    gemini.write(home)


def test_sessions_are_listed_newest_first(run: Run) -> None:
    """Main sessions of all agents, the newest on top, in columns with tabs between them."""
    done = run("ls", "--home", SAMPLES)
    rows = [line.split("\t") for line in done.lines]
    assert (done.code, done.err) == (0, "")
    assert rows[0] == ["agent", "session", "last active", "project", "title"]
    assert {len(row) for row in rows} == {5}
    assert {row[0] for row in rows[1:]} == {"claude", "codex", "gemini"}
    times = [row[2] for row in rows[1:]]
    assert times == sorted(times, reverse=True)
    assert len(rows) - 1 == sum(ref.kind == "main" for ref in Library(SAMPLES).refs())


def test_json_has_the_same_sessions(run: Run) -> None:
    """Every line is an object; ids are whole there, and each names its file."""
    rows = run("ls", "--home", SAMPLES, "--json").records
    table = [line.split("\t") for line in run("ls", "--home", SAMPLES).lines[1:]]
    assert [row["name"][:13] for row in rows] == [cells[1] for cells in table]
    assert all(Path(row["path"]).is_file() for row in rows)
    assert {row["kind"] for row in rows} == {"main"}


@pytest.mark.parametrize(
    ("kind", "expected"), [("main", {"main"}), ("subagent", {"subagent"}), ("all", {"main", "subagent"})]
)
def test_kinds(run: Run, kind: str, expected: set[str]) -> None:
    """`--kind` chooses between sessions and sub-agents."""
    rows = run("ls", "--home", SAMPLES, "--kind", kind, "--json").records
    assert {row["kind"] for row in rows} == expected


def test_short_ids_name_sub_agents(run: Run) -> None:
    """The beginning of such an id is that of its session, so its end is shown as well."""
    shown = {line.split("\t")[1] for line in run("ls", "--home", SAMPLES, "--kind", "subagent").lines[1:]}
    expected = {ref.id for ref in Library(SAMPLES).refs() if ref.kind == "subagent"}
    assert {Library(SAMPLES).find(name).id for name in shown} == expected


def test_subagents_in_the_same_file(run: Run) -> None:
    """1.0.x wrote them there: they are listed like any other, and can be shown alone by their ids."""
    (recording,) = recordings("claude", "1.0.60", "subagent")
    home = str(recording.home)
    rows = run("ls", "--home", home, "--kind", "subagent", "--json").records
    records = {session.info.id: session for session in recording.sessions() if session.info.kind == "subagent"}
    assert {row["name"] for row in rows} == records.keys() != set()
    for row in rows:
        shown = run("export", "--home", home, row["name"], "--format", "ndjson").records
        assert [line["session"]["id"] for line in shown] == [row["name"]]
        assert len(shown[0]["messages"]) == len(records[row["name"]].messages)
        assert row["title"] == records[row["name"]].info.title
    streamed = run("export", "--home", home, rows[0]["name"][:50], "--format", "stream").records
    assert sum(line["type"] == "message" for line in streamed) == len(records[rows[0]["name"]].messages)
    assert run("show", "--home", home, f"{rows[0]['parent']}/nobody").code == 1


def test_agents(run: Run) -> None:
    """`--agent` may be given several times; an unknown agent is a usage error."""
    rows = run("ls", "--home", SAMPLES, "--agent", "codex", "--agent", "gemini", "--json").records
    assert {row["agent"] for row in rows} == {"codex", "gemini"}
    assert run("ls", "--agent", "clippy").code == 2


def test_projects(run: Run) -> None:
    """`--project` takes a part of the path, in any case."""
    assert len(run("ls", "--home", SAMPLES, "--project", "TidePool").lines) > 1
    assert run("ls", "--home", SAMPLES, "--project", "other").lines == []


def test_times(run: Run, tmp_path: Path) -> None:
    """`--since` looks at the end of a session, `--until` at its beginning."""
    write_one_of_each(tmp_path)
    place = ("ls", "--home", tmp_path, "--json")
    assert len(run(*place, "--since", "2026-03-01T00:00+00:00").records) == 3
    assert run(*place, "--since", "2026-03-02T00:00+00:00").records == []
    assert len(run(*place, "--until", "2026-03-02T00:00+00:00").records) == 3
    assert run(*place, "--until", "2026-03-01T00:00+00:00").records == []


@pytest.mark.parametrize("text", ["soon", "2026-13-01", "99999999999999d", "7 years"])
def test_an_invalid_time_is_a_usage_error(run: Run, text: str) -> None:
    """The message says what a time looks like."""
    done = run("ls", "--since", text)
    assert done.code == 2
    assert done.err.startswith(f"unspool: {text!r} is not a time; try ")


@pytest.mark.parametrize(
    "words", [("--has", "rejection"), ("has:rejection",), ("--has", "refused"), ("has:rejections",), ("is:rejected",)]
)
def test_sessions_with_an_event(run: Run, words: tuple[str, ...]) -> None:
    """By option or by word: only those, with a column that counts."""
    done = run("ls", "--home", SAMPLES, *words)
    assert done.lines[0].endswith("\tevents")
    assert all(" rejection" in line.rsplit("\t", 1)[1] for line in done.lines[1:])
    assert len(done.lines) - 1 == len(run("ls", "--home", SAMPLES, "--json", *words).records)
    library = Library(SAMPLES)
    expected = {ref.id for ref in library.refs() if ref.kind == "main" and library.load(ref).rejections}
    assert {row["name"] for row in run("ls", "--home", SAMPLES, "--json", *words).records} == expected


def test_several_event_filters_are_combined(run: Run) -> None:
    """Two filters are combined with AND."""
    rows = run("ls", "--home", SAMPLES, "--json", "has:rejection", "has:interruption").records
    assert rows
    assert all(row["counts"]["rejection"] and row["counts"]["interruption"] for row in rows)


def test_an_unknown_event_type(run: Run) -> None:
    """The message lists those that do."""
    for words in (("has:fun",), ("is:fun",), ("--has", "fun")):
        done = run("ls", "--home", SAMPLES, *words)
        assert done.code == 2
        assert "Unknown event type 'fun'; choose from compaction, clear" in done.err


def test_counting_events(run: Run) -> None:
    """`--events` counts in every session, and leaves out what there is none of."""
    rows = run("ls", "--home", SAMPLES, "--events", "--json").records
    assert len(rows) == len(run("ls", "--home", SAMPLES, "--json").records)
    assert all(count > 0 for row in rows for count in row.get("events", {}).values())
    assert any(row["counts"].get("compaction") for row in rows)


def test_a_limit(run: Run) -> None:
    """`-n` keeps the newest."""
    assert run("ls", "--home", SAMPLES, "-n", "2").lines == run("ls", "--home", SAMPLES).lines[:3]


def test_an_unreadable_session_does_not_hide_the_others(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The others are listed; the unreadable one is reported with its path, and the exit code is 1."""
    library = Library(SAMPLES)
    bad = library.find("latest")
    load = Library.load_all

    def load_or_fail(self: Library, ref: object, *rest: object) -> object:
        if ref == bad:
            raise OSError(5, "Input/output error", str(bad.path))
        return load(self, ref, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(Library, "load_all", load_or_fail)
    done = run("ls", "--home", SAMPLES, "--events", "--json")
    assert done.code == 1
    assert str(bad.path) in done.err
    assert len(done.records) == len(run("ls", "--home", SAMPLES, "--json").records) - 1


@pytest.mark.parametrize("name", ERRORS)
def test_a_folder_that_cannot_be_listed_is_reported(run: Run, tmp_path: Path, name: str) -> None:
    """The sessions of the others are listed, and the exit code says that some may be missing."""
    write_one_of_each(tmp_path)
    folder = tmp_path / ".codex" / "sessions"
    with failing(tmp_path, lambda kind, where: kind == "scandir" and where == folder, ERRORS[name]).active():
        done = run("ls", "--home", tmp_path)
    assert {line.split("\t")[0] for line in done.lines[1:]} == {"claude", "gemini"}
    assert (done.code, done.err) == (1, f"unspool: cannot read {folder}: {os.strerror(ERRORS[name])}\n")


def test_an_empty_home(run: Run) -> None:
    """No sessions is not an error; a hint is printed to stderr."""
    done = run("ls")
    assert (done.code, done.out) == (0, "")
    assert "--samples" in done.err
    assert run("ls", "--json").out == ""


def test_a_home_that_does_not_exist(run: Run, tmp_path: Path) -> None:
    """A place that was named has to be there."""
    done = run("ls", "--home", tmp_path / "nowhere")
    assert (done.code, done.out) == (1, "")
    assert done.err == f"unspool: {tmp_path / 'nowhere'}: no such file or directory\n"


def test_samples_are_suggested_without_sessions(run: Run) -> None:
    """`--or-samples` lists them, and says that they are samples."""
    done = run("ls", "--or-samples")
    assert done.out == run("ls", "--home", SAMPLES).out
    assert "samples" in done.err


def test_samples_are_not_suggested_with_sessions(run: Run, home: Path) -> None:
    """Not even when a filter leaves none of the person's own."""
    log = ClaudeLog()
    log.user("mine")
    log.write(home)
    done = run("ls", "--or-samples")
    assert [line.split("\t")[-1] for line in done.lines] == ["title", "mine"]
    filtered = run("ls", "--or-samples", "--agent", "gemini")
    assert filtered.out == ""
    assert "bundled samples" not in filtered.err.split(".")[0]


def test_two_homes(run: Run, tmp_path: Path) -> None:
    """`--home` given twice lists both; the same home twice is listed once."""
    write_one_of_each(tmp_path)
    both = run("ls", "--home", tmp_path, "--home", SAMPLES, "--json").records
    ours = run("ls", "--home", tmp_path, "--json").records
    samples = run("ls", "--home", SAMPLES, "--json").records
    assert len(both) == len(ours) + len(samples)
    twice = run("ls", "--home", tmp_path, "--home", f"{tmp_path}/../{tmp_path.name}", "--json").records
    assert len(twice) == len(ours) == 3


@pytest.mark.parametrize("options", [(), ("-n", "3")])
def test_a_session_that_is_stored_from_another_home(
    run: Run, home: Path, tmp_path: Path, options: tuple[str, ...]
) -> None:
    """It is listed if the home has a copy, with the state of that copy."""
    write_one_of_each(home)
    before = run("ls", *options)
    log = ClaudeLog()
    log.user("from claude")
    log.model("hi")
    log.user("continued elsewhere")
    log.write(tmp_path / "other")
    other = ClaudeLog("not in this home")
    other.user("something else")
    other.write(tmp_path / "other")
    assert run("sync").code == 0
    assert run("sync", "--home", tmp_path / "other").out.startswith("1 new, 1 changed")
    assert len(before.lines) > 2
    assert sorted(run("ls", *options).lines) == sorted(before.lines)


def test_folders_and_files(run: Run, tmp_path: Path) -> None:
    """A home, an agent's folder, a project's folder and a file are all places to list."""
    write_one_of_each(tmp_path)
    (file,) = (tmp_path / ".claude").rglob("*.jsonl")
    assert len(run("ls", tmp_path, "--json").records) == 3
    for place in (tmp_path / ".claude", file.parent, file):
        (row,) = run("ls", place, "--json").records
        assert row["title"] == "from claude"


def test_environment_variables_of_the_agents(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each agent's own variable says where its sessions are."""
    write_one_of_each(tmp_path)
    assert run("ls", "--json").records == []
    places = {
        "CLAUDE_CONFIG_DIR": (".claude", "from claude"),
        "CODEX_HOME": (".codex", "from codex"),
        "GEMINI_CLI_HOME": ("", "from gemini"),
    }
    for variable, (folder, title) in places.items():
        with monkeypatch.context() as change:
            change.setenv(variable, str(tmp_path / folder))
            assert [row["title"] for row in run("ls", "--json").records] == [title]
            assert [row["title"] for row in run("ls", "--home", SAMPLES, "--json").records].count(title) == 0


def test_titles_stay_in_their_column(run: Run, tmp_path: Path) -> None:
    """Tabs, newlines and escape sequences in a prompt do not break the table."""
    log = ClaudeLog()
    log.user("a\tb\x1b[31mc")
    log.model(call("c", command="ls"))
    log.write(tmp_path)
    rows = [line.split("\t") for line in run("ls", "--home", tmp_path).lines]
    assert [row[-1] for row in rows] == ["title", "a bc"]


def test_files_without_a_conversation_are_listed_on_request(run: Run, tmp_path: Path) -> None:
    """Notes and summaries of other sessions are no sessions; `--all` shows them, and doctor counts them."""
    write_one_of_each(tmp_path)
    notes = ClaudeLog("notes")
    notes.record({"type": "summary", "summary": "Another session", "leafUuid": notes.id("elsewhere")})
    path = notes.write(tmp_path)
    assert len(run("ls", "--home", tmp_path, "--json").records) == 3
    found = run("ls", "--all", "--home", tmp_path, "--json").records
    assert [row["path"] for row in found if row.get("no_conversation")] == [str(path)]
    assert len(found) == 4
    assert "(no conversation)" in run("ls", "--all", "--home", tmp_path).out
    assert len(run("ls", "--all", "--agent", "codex", "--home", tmp_path, "--json").records) == 1
    assert "1 file without a conversation" in run("doctor", "--home", tmp_path).out


def test_a_file_from_a_year_that_python_does_not_know(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some file systems have 64 bits for the seconds."""
    notes = ClaudeLog("notes")
    notes.record({"type": "summary", "summary": "Another session", "leafUuid": notes.id("elsewhere")})
    notes.write(tmp_path)
    monkeypatch.setattr(LineFile, "modified", lambda _: 2**40 * 10**9)
    (row,) = run("ls", "--all", "--home", tmp_path, "--json").records
    assert row["ended_at"] == "9999-12-31T23:59:59.999999Z"


def test_a_session_without_a_prompt_is_listed_on_request(run: Run, tmp_path: Path) -> None:
    """Gemini CLI also writes a file when nothing is typed."""
    write_one_of_each(tmp_path)
    empty = GeminiLog("empty")
    empty.message("info", "note", "Update successful!")
    path = empty.write(tmp_path)
    found = run("ls", "--all", "--agent", "gemini", "--home", tmp_path, "--json").records
    assert [row["path"] for row in found if row.get("no_conversation")] == [str(path)]
    assert len(run("ls", "--agent", "gemini", "--home", tmp_path, "--json").records) == len(found) - 1
