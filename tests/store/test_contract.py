"""The contract of a store, for every backend."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from unspool.core import model as m
from unspool.core.errors import AmbiguousError, NotFoundError, UnspoolError
from unspool.ingest.restore import restore_session
from unspool.ingest.retention import session_retentions
from unspool.redact import Redactor
from unspool.search.query import Filters, parse
from unspool.store.backends import postgres, sqlite
from unspool.store.backends.sqlite import SqliteDatabase
from unspool.store.filters import EventFilter, SessionFilter
from unspool.store.migrations import Migrations
from unspool.store.regex_search import regex_hit, search_regex
from unspool.store.rows import NOTHING
from unspool.store.session_usage import turn_usage
from unspool.store.stats import compute_stats
from unspool.store.store import Store
from unspool.store.touched_files import TouchedFiles
from unspool.store.usage_report import UsageFilter, UsageReporter
from unspool.store.usage_rows import UsageRows
from unspool.testing import ClaudeLog, Recording, call
from unspool.usage.prices import shipped_prices

from ..forks import continued, forked, raw_output_tokens
from ..recordings import recordings
from .conftest import Open
from .contents import MACHINE, contents, difference, fresh, synced
from .homes import AGENTS, append, claude_log, log_of, put, rest_of, write_home
from .more_migrations import MoreMigrations

OTHER = ("key of another machine", "another machine")


def _chosen() -> list[Recording]:
    """Some recordings of each agent, from its oldest version to its newest; a few left no session behind."""
    found: list[Recording] = []
    for agent in AGENTS:
        all = recordings(agent)
        found += [recording for recording in all[:: len(all) // 8] if recording.refs()]
    return found


def _records(home: Path, sessions: list[Recording]) -> dict[str, bytes]:
    return {
        f"{session.info.agent} {session.info.id}": msgspec.json.encode(session)
        for recording in sessions
        for session in recording.sessions()
    }


def _found(store: Store, words: str) -> list[tuple[str, int]]:
    """The sessions and messages that a search finds."""
    names = {row.id: row.name for row in store.sessions.select()}
    return sorted((names[match.session], match.message) for match in store.search.matches(parse(words), 1000))


def test_unknown_is_null_and_not_zero(store: Store) -> None:
    """Rows may say `NOTHING` for what is not known; the database holds NULL there, and 0 where 0 was counted."""
    with store.transaction():
        id = store.sessions.create("claude", "one", "one")
        usage = UsageRows()
        usage.counts += [(0, 0, "prompt", "", NOTHING, NOTHING), (1, 0, "call", "Bash", "ok", 5)]
        usage.add_tokens(2, 0, "reply", None, NOTHING, m.Usage(input=0, output=7))
        store.usage.add(id, usage)
        store.texts.add(id, [(0, 0, 0, "", "", NOTHING, "something"), (1, 0, 0, "Bash", "a model", 5, "else")])
    ((bash,),) = store.database.rows("SELECT id FROM name WHERE text = 'Bash'")
    ((model,),) = store.database.rows("SELECT id FROM name WHERE text = 'a model'")
    counted = (
        "SELECT name, outcome, at, input, output, cache_read, reasoning FROM act WHERE session = ? ORDER BY message"
    )
    assert [tuple(row) for row in store.database.rows(counted, id)] == [
        (None, None, None, None, None, None, None),
        (bash, "ok", 5, None, None, None, None),
        (None, None, None, 0, 7, None, None),
    ]
    said = "SELECT tool, model, at FROM part WHERE session = ? ORDER BY id"
    assert [tuple(row) for row in store.database.rows(said, id)] == [(None, None, None), (bash, model, 5)]


# --- taking in --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("recording", _chosen(), ids=lambda recording: recording.name)
def test_a_recording_is_stored_completely(recording: Recording, store: Store, tmp_path: Path) -> None:
    """The records in the store are those that are read from the files, and a second run finds nothing to do."""
    synced(store, recording.home)
    assert {name: entry["record"] for name, entry in contents(store)["sessions"].items()} == _records(
        recording.home, [recording]
    )
    assert difference(contents(store), fresh(tmp_path, recording.home)) == ""
    last = store.changes.since(0, 10_000)[-1].seq
    again = synced(store, recording.home)
    assert (again.new, again.changed, again.gone, again.bytes) == (0, 0, 0, 0)
    assert store.changes.since(last) == []


def _append(path: Path, agent: str) -> None:
    append(path, rest_of(log_of(agent, 5), log_of(agent, 3)))


def _append_long(path: Path, agent: str) -> None:
    append(path, rest_of(log_of(agent, 90), log_of(agent, 3)))


def _append_half(path: Path, agent: str) -> None:
    append(path, rest_of(log_of(agent, 4), log_of(agent, 3))[:-40])


def _rewrite(path: Path, agent: str) -> None:
    put(path, path.read_bytes().replace(b"please do", b"would you") + rest_of(log_of(agent, 4), log_of(agent, 3)))


def _rewrite_as_long(path: Path, agent: str) -> None:
    put(path, path.read_bytes().replace(b"please do", b"please un"))


def _cut(path: Path, agent: str) -> None:
    put(path, log_of(agent, 1).data)


def _empty(path: Path, agent: str) -> None:
    put(path, b"")


def _delete(path: Path, agent: str) -> None:
    path.unlink()


def _replace_and_append(path: Path, agent: str) -> None:
    """As editors do: another file takes the place."""
    new = path.with_suffix(".new")
    new.write_bytes(log_of(agent, 5).data)
    new.replace(path)


def _move(path: Path, agent: str) -> None:
    new = path.parent.parent / "elsewhere" / path.name
    new.parent.mkdir()
    path.rename(new)


def _move_and_append(path: Path, agent: str) -> None:
    new = path.parent.parent / "elsewhere" / path.name
    new.parent.mkdir()
    path.rename(new)
    _append(new, agent)


CHANGES = (
    _append, _append_long, _append_half, _rewrite, _rewrite_as_long, _cut, _empty, _delete, _replace_and_append,
)  # fmt: skip


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__.strip("_"))
def test_a_change_is_recognised(change: Callable[[Path, str], None], store: Store, tmp_path: Path) -> None:
    """After any change the store is as if it had been made then."""
    home = tmp_path / "home"
    for agent, path in write_home(home).items():
        synced(store, home)
        change(path, agent)
        synced(store, home)
        assert difference(contents(store), fresh(tmp_path, home)) == "", agent


@pytest.mark.parametrize("move", [_move, _move_and_append])
def test_a_file_that_moved_is_recognised(move: Callable[[Path, str], None], store: Store, tmp_path: Path) -> None:
    """It is the same session at another path, and its bytes are stored once."""
    home = tmp_path / "home"
    path = claude_log(3, "one").write(home)
    synced(store, home)
    ((id,),) = store.database.rows("SELECT id FROM session")
    move(path, "claude")
    synced(store, home)
    assert difference(contents(store), fresh(tmp_path, home)) == ""
    assert store.database.rows("SELECT id FROM session") == [(id,)]
    assert len(store.database.rows("SELECT id FROM file")) == 1


def test_a_file_with_another_name_is_another_session(store: Store, tmp_path: Path) -> None:
    """What the agent would not find under the old name any more is not listed under it."""
    home = tmp_path / "home"
    for agent, path in write_home(home).items():
        synced(store, home)
        path.rename(path.with_name(path.name.replace(path.stem[-4:], "abcd")))
        synced(store, home)
        assert difference(contents(store), fresh(tmp_path, home)) == "", agent


def test_the_newest_copy_of_a_session_counts(store: Store, tmp_path: Path) -> None:
    """As they are made when a project moves. Each of them may grow, or go."""
    home = tmp_path / "home"
    path = claude_log(3).write(home)
    copy = path.parent.with_name("-home-dev-moved") / path.name
    copy.parent.mkdir()
    shutil.copy(path, copy)

    def check(messages: int) -> None:
        synced(store, home)
        assert difference(contents(store), fresh(tmp_path, home)) == ""
        assert [row.messages for row in store.sessions.select()] == [messages]

    check(12)
    append(copy, rest_of(claude_log(6), claude_log(3)))
    check(24)
    append(path, rest_of(claude_log(9), claude_log(3)))
    check(36)
    path.unlink()
    check(24)


def test_a_pushed_session_gives_way_to_the_local_one(store: Store, tmp_path: Path) -> None:
    """Two homes of one machine may have the same session: it is stored once, as it was found last."""
    homes = [tmp_path / "one", tmp_path / "two"]
    for turns, home in enumerate(homes, 2):
        claude_log(turns).write(home)
        synced(store, *homes[: turns - 1])
        assert [row.messages for row in store.sessions.select()] == [4 * turns]
    append(claude_log(2).write(homes[0]), rest_of(claude_log(9), claude_log(2)))
    synced(store, *homes)
    assert contents(store)["sessions"] == fresh(tmp_path, homes[0])["sessions"]


def test_deleted_sessions_stay(store: Store, tmp_path: Path) -> None:
    """A session whose file is gone is marked; when the file returns, the mark is removed."""
    home = tmp_path / "home"
    path = claude_log().write(home)
    synced(store, home)
    before, data = contents(store), path.read_bytes()
    path.unlink()
    assert synced(store, home).gone == 1
    (row,) = store.sessions.select()
    assert row.gone_at is not None
    assert store.changes.since()[-1].kind == "session.gone"
    assert contents(store, gone=True) == before
    assert len(_found(store, "please")) == 3
    assert synced(store, home).gone == 0
    path.write_bytes(data)
    synced(store, home)
    assert store.sessions.select()[0].gone_at is None
    assert contents(store) == before


@pytest.mark.parametrize("keep_ids", [True, False])
def test_a_fork_of_a_deleted_session_inherits_from_the_store(store: Store, tmp_path: Path, keep_ids: bool) -> None:
    """What they share counts once after the origin was deleted, the fork has grown, and another fork was made."""
    home = tmp_path / "home"
    origin = continued(ClaudeLog("origin"), "origin")
    fork = forked(origin, "fork", keep_ids=keep_ids)
    deleted = origin.write(home)
    fork.write(home)
    agent = continued(ClaudeLog("origin", agent="a1"), "agent")
    files = [deleted, agent.write(home)]
    copied = ClaudeLog("fork", agent="a1")
    # The sub-agents of a session are copied with it.
    for line in agent.lines:
        copied.record(json.loads(line) | ({} if keep_ids else {"sessionId": copied.session}))
    copied.write(home)
    synced(store, home)
    begun = store.messages.load_session(store.sessions.find(fork.session).id).info.origin
    assert (begun.kind, begun.session) == ("fork", origin.session)

    def counted() -> int:
        """Return the output tokens of all sessions, and check that the fork is still known as one."""
        loaded = [store.messages.load_session(row.id) for row in store.sessions.select()]
        assert begun in [session.info.origin for session in loaded]
        return sum(tokens.output for tokens in compute_stats(store.database, SessionFilter()).tokens)

    assert counted() == raw_output_tokens(origin, fork, agent)
    for path in files:
        path.unlink()
    assert synced(store, home).gone == 2
    assert counted() == raw_output_tokens(origin, fork, agent)
    continued(fork, "fork again").write(home)
    synced(store, home)
    assert counted() == raw_output_tokens(origin, fork, agent)
    if keep_ids:
        # A fork that names its origin is recognised although it is new.
        late = forked(origin, "late", keep_ids=True)
        late.write(home)
        synced(store, home)
        assert counted() == raw_output_tokens(origin, fork, agent, late)
    for log in (origin, agent):
        log.write(home)
    synced(store, home)
    assert counted() == raw_output_tokens(origin, fork, agent, *([late] if keep_ids else []))


def test_truncated_bytes_stay_in_the_archive(store: Store, tmp_path: Path) -> None:
    """The bytes of a file that became shorter are kept beside the new ones."""
    home = tmp_path / "home"
    path = claude_log().write(home)
    data = path.read_bytes()
    synced(store, home)
    put(path, claude_log(1).data)
    synced(store, home)
    kept = [b"".join(store.files.chunks(id)) for (id,) in store.database.rows("SELECT id FROM file ORDER BY id")]
    assert kept == [data, claude_log(1).data]


def test_records_of_unknown_kinds_are_kept(store: Store, tmp_path: Path) -> None:
    """Unknown records come out of the store as they went in."""
    log = ClaudeLog()
    log.user("hello")
    log.line("from-the-future", None, content={"deep": [1, {"x": "y"}]})
    log.write(tmp_path)
    synced(store, tmp_path)
    (row,) = store.sessions.select()
    (problem,) = store.messages.load_session(row.id).problems
    assert isinstance(problem.record, msgspec.Raw)
    assert bytes(problem.record) == log.lines[1]
    assert [message.index for message in store.messages.read(row.id, 0, 10)] == [0]


def test_search_results_follow_the_files(store: Store, tmp_path: Path) -> None:
    """Words are found as long as their messages exist."""
    home = tmp_path / "home"
    log = claude_log(2)
    path = log.write(home)
    synced(store, home)
    assert _found(store, "please") == [(log.session, 0), (log.session, 4)]
    assert _found(store, '"number 1"') == [(log.session, 4)]
    put(path, path.read_bytes().replace(b"please do", b"kindly do"))
    synced(store, home)
    assert _found(store, "please") == []
    assert _found(store, "kindly -lines") == [(log.session, 0), (log.session, 4)]
    assert _found(store, "tool:read lines") == [(log.session, 2), (log.session, 6)]


# --- giving back ------------------------------------------------------------------------------------------------------


def test_files_are_restored_byte_for_byte(store: Store, tmp_path: Path) -> None:
    """Byte by byte, those over several chunks too, after many small additions."""
    home = tmp_path / "home"
    log = ClaudeLog()
    log.user("begin")
    path = log.write(home)
    for number in range(6):
        synced(store, home)
        append(path, b'{"type":"x","filler":"' + bytes([65 + number]) * 450_000 + b'"}\n')
    synced(store, home)
    data = path.read_bytes()
    (row,) = store.sessions.select()
    shutil.rmtree(home)
    written = restore_session(store, row, tmp_path / "back")
    assert [file.to.read_bytes() for file in written] == [data]
    assert len(store.database.rows("SELECT start FROM chunk")) == 3


def test_saved_outputs_belong_to_their_session(store: Store, tmp_path: Path) -> None:
    """They are found, given back and forgotten with it."""
    (recording,) = recordings("claude", "2.1.325", "large")
    home, back = tmp_path / "home", tmp_path / "back"
    shutil.copytree(recording.home, home)
    log_of("claude", 3, "other").write(home)
    synced(store, home)
    (saved,) = home.rglob("tool-results/*")
    (row,) = store.sessions.select(SessionFilter(name=saved.parent.parent.name))
    assert _found(store, '"line 1199 of many"') == [(row.name, 12)]
    restored = {path.relative_to(back): path.read_bytes() for path, _, _ in restore_session(store, row, back)}
    files = (*home.rglob(f"{row.name}.jsonl"), saved)
    assert restored == {path.relative_to(home): path.read_bytes() for path in files}
    with store.transaction():
        inner = store.sessions.create("claude", f"{row.name}/inner", row.ref)
        store.files.set_for_session(inner, [file.id for file in store.files.of_session(row.id)])
        store.sessions.delete(inner)
    assert len(store.files.in_session_folder(row.id)) == 1, "a sub-agent in the same log does not take it away"
    with store.transaction():
        store.sessions.delete(row.id)
    assert [path for path in store.files.all() if row.name in path] == []
    assert _found(store, '"line 1199 of many"') == []
    assert len(store.sessions.select()) == len(store.files.all()) == 1


@pytest.mark.parametrize("agent", AGENTS)
def test_a_session_can_be_forgotten(agent: str, store: Store, tmp_path: Path) -> None:
    """Nothing of it is left: no text, no events, no bytes, not even those before a truncation."""
    home, kept = tmp_path / "home", tmp_path / "kept"
    log = log_of(agent)
    path = log.write(home)
    log_of(agent, 3, "other").write(home)
    log_of(agent, 3, "other").write(kept)
    synced(store, home)
    put(path, log_of(agent, 1).data)
    synced(store, home)
    name = next(
        row for row in store.sessions.select() if "one" in str(msgspec.json.encode(store.messages.load_session(row.id)))
    ).name
    with store.transaction():
        store.sessions.delete(store.sessions.find(name).id)
    path.unlink()
    shutil.rmtree(home)
    shutil.move(kept, home)
    assert difference(contents(store), fresh(tmp_path, home)) == ""
    assert len(store.database.rows("SELECT id FROM file")) == len(fresh(tmp_path, home)["files"])
    assert _found(store, "one") == []


def test_the_change_log_records_changes(store: Store, tmp_path: Path) -> None:
    """Its numbers grow, and nothing is recorded twice."""
    home = tmp_path / "home"
    paths = write_home(home)
    synced(store, home)
    entries = store.changes.since()
    assert [entry.seq for entry in entries] == sorted({entry.seq for entry in entries})
    assert [entry.kind for entry in entries] == ["session.created"] * 6
    assert {msgspec.json.decode(entry.data)["agent"] for entry in entries} == set(AGENTS)
    _append(paths["claude"], "claude")
    synced(store, home)
    (later,) = store.changes.since(entries[-1].seq)
    assert later.seq > entries[-1].seq
    assert (later.kind, msgspec.json.decode(later.data)) == ("messages.appended", {"first": 12, "count": 8})


def test_old_changes_are_pruned(store: Store) -> None:
    """A client that returns after a long time can see that it has to reload; numbers are never reused."""
    assert (store.changes.first_seq(), store.changes.last_seq()) == (0, 0)
    for number in range(8):
        store.changes.append("session.gone", number)
    last = store.changes.last_seq()
    store.changes.prune(8)
    assert store.changes.first_seq() == last - 7
    store.changes.prune(3)
    assert [entry.session for entry in store.changes.since()] == [5, 6, 7]
    assert (store.changes.first_seq(), store.changes.last_seq()) == (last - 2, last)
    store.changes.prune(0)
    store.changes.append("session.gone", 8)
    assert store.changes.first_seq() > last


def test_sessions_have_short_names(store: Store, tmp_path: Path) -> None:
    """The beginning of an id is enough while it fits one session only."""
    home = tmp_path / "home"
    write_home(home)
    synced(store, home)
    for row in store.sessions.select():
        assert (
            store.sessions.find(row.name)
            == store.sessions.find(row.name[:8])
            == store.sessions.find(row.name[:8].upper())
            == row
        )
    with pytest.raises(AmbiguousError, match="'' matches 6 sessions"):
        store.sessions.find("")
    with pytest.raises(NotFoundError, match="no session"):
        store.sessions.find("nothing%")


def test_sessions_without_a_time_come_last(store: Store, tmp_path: Path) -> None:
    """The newest come first, in every database."""
    home = tmp_path / "home"
    timeless = ClaudeLog("timeless")
    timeless.user("when", timestamp="never")
    timeless.write(home)
    claude_log().write(home)
    synced(store, home)
    assert [row.ended_at is None for row in store.sessions.select()] == [False, True]


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("9999-12-31T23:59:59.999999Z", datetime.max),
        ("9999-12-31T23:59:59-14:00", datetime.max),
        ("0001-01-01T00:00:00Z", datetime.min),
        ("0001-01-01T00:00:00+14:00", datetime.min),
    ],
)
def test_times_at_the_edge_of_the_calendar(written: str, read: datetime, store: Store, tmp_path: Path) -> None:
    """Seconds are rounded, and zones differ: no list, search or report may fail because of one session."""
    home = tmp_path / "home"
    log = ClaudeLog()
    log.user("when is this", timestamp=written)
    log.model("now", call("call"), timestamp=written)
    log.result("call", "not now", error=True, timestamp=written)
    log.write(home)
    synced(store, home)
    edge = read.replace(tzinfo=UTC)
    (row,) = store.sessions.select()
    assert (row.started_at, row.ended_at) == (edge, edge)
    (found,) = store.search.run(parse("when")).found
    (match,) = search_regex(store, "when", Filters())
    assert [hit.timestamp for hit in found.hits] == [regex_hit(match).timestamp] == [edge]
    assert [event.timestamp for event in store.events.select(EventFilter(kinds=("error",)))] == [edge]
    for zone in (-14 * 3600, 0, 14 * 3600):
        days = [day.day for day in compute_stats(store.database, SessionFilter(), zone).days]
        (entry,) = UsageReporter(store.database, shipped_prices(), zone).report(UsageFilter(), ("day",)).entries
        assert days == [entry.day]
    assert sum(turn.replies for turn in turn_usage(store.database, shipped_prices(), row.id)) == 1
    (retained,) = session_retentions(store, [home])
    assert retained.session.name == row.name
    assert retained.is_near(10**12)
    assert not retained.is_near(-(10**12))


# --- several ----------------------------------------------------------------------------------------------------------


def test_machines_are_independent(open_again: Open, tmp_path: Path) -> None:
    """The same session of two machines is two sessions: one may change, or go, while the other stays."""
    home = tmp_path / "home"
    paths = write_home(home)
    here, there = open_again(MACHINE), open_again(OTHER)
    synced(here, home)
    synced(there, home)
    before = contents(here)
    assert difference(before, contents(there)) == ""
    for agent, path in paths.items():
        _append(path, agent)
    synced(there, home)
    assert difference(contents(here), before) == ""
    assert difference(contents(there), fresh(tmp_path, home)) == ""
    shutil.rmtree(home / ".claude")
    (home / ".claude" / "projects").mkdir(parents=True)
    assert synced(there, home).gone == 2
    assert difference(contents(here), before) == ""
    assert (
        len(here.sessions.select(SessionFilter(machine=here.machine)))
        == len(here.sessions.select(SessionFilter(machine=there.machine)))
        == 6
    )


def test_a_session_of_two_machines_is_not_removed_by_its_id(open_again: Open, tmp_path: Path) -> None:
    """Reading takes the most recent one; what removes or writes has to know which."""
    home = tmp_path / "home"
    write_home(home)
    here, there = open_again(MACHINE), open_again(OTHER)
    synced(here, home)
    name = here.sessions.select(SessionFilter(), limit=1)[0].name
    assert here.sessions.find(name, is_exact=True).name == name
    synced(there, home)
    assert here.sessions.find(name).name == name
    with pytest.raises(AmbiguousError, match="exists on several machines: "):
        here.sessions.find(name, is_exact=True)


def test_a_failed_transaction_leaves_nothing(open_again: Open, tmp_path: Path) -> None:
    """A transaction that fails leaves nothing, and the next one works."""
    home = tmp_path / "home"
    write_home(home)
    store = open_again()
    empty = contents(store)

    def fail() -> None:
        with store.transaction():
            id = store.sessions.create("claude", "name", "ref")
            store.texts.add_touched_files(id, [(0, "/some/path")])
            store.changes.append("session", id)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert contents(store) == contents(open_again()) == empty
    assert store.changes.since() == []
    synced(store, home)
    assert difference(contents(store), fresh(tmp_path, home)) == ""


# --- versions ---------------------------------------------------------------------------------------------------------


def _steps(*more: str) -> dict[str, Migrations]:
    """The real steps and some more after them, for each kind."""
    return {kind: MoreMigrations(kind, *more) for kind in ("sqlite", "postgres")}


def _use(steps: dict[str, Migrations], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite, "_MIGRATIONS", steps["sqlite"])
    monkeypatch.setattr(postgres, "_MIGRATIONS", steps["postgres"])


def test_an_older_store_is_migrated(open_again: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Migrations run once, in order, and keep the data."""
    home = tmp_path / "home"
    write_home(home)
    store = open_again()
    synced(store, home)
    before = contents(store)
    _use(_steps("CREATE TABLE extra (number BIGINT)", "INSERT INTO extra VALUES (7)"), monkeypatch)
    for _ in range(2):
        newer = open_again()
        assert newer.database.rows("SELECT number FROM extra") == [(7,)]
        assert difference(contents(newer), before) == ""


def test_a_failed_migration_leaves_nothing(open_again: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next program finds the store as it was."""
    open_again()
    broken = "CREATE TABLE extra (number BIGINT); INSERT INTO nowhere VALUES (1)"
    with monkeypatch.context() as patch:
        _use(_steps(broken), patch)
        with pytest.raises(UnspoolError, match="nowhere"):
            open_again()
    assert open_again().sessions.select() == []


def test_a_newer_store_is_rejected(open_again: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its tables may mean something else."""
    with monkeypatch.context() as patch:
        _use(_steps("CREATE TABLE extra (number BIGINT)"), patch)
        open_again()
    with pytest.raises(UnspoolError, match="written by a newer unspool"):
        open_again()


# --- SQLite alone -----------------------------------------------------------------------------------------------------


def test_a_read_only_store(tmp_path: Path) -> None:
    """Nothing is written, not even beside it; an attempt raises an error."""
    home, path = tmp_path / "home", tmp_path / "store.db"
    write_home(home)
    writer = Store(SqliteDatabase(path, machine=MACHINE))
    synced(writer, home)
    reader = Store(SqliteDatabase(path, machine=MACHINE, read_only=True))
    assert difference(contents(reader), contents(writer)) == ""
    with pytest.raises(UnspoolError, match="cannot be written"):
        reader.database.rows("DELETE FROM session")
    reader.close()
    writer.close()


def test_an_old_read_only_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is upgraded first."""
    Store(SqliteDatabase(tmp_path / "store.db", machine=MACHINE)).close()
    _use(_steps("CREATE TABLE extra (number BIGINT)"), monkeypatch)
    for read_only in (True, False):
        store = Store(SqliteDatabase(tmp_path / "store.db", machine=MACHINE, read_only=read_only))
        assert store.database.rows("SELECT * FROM extra") == []
        store.close()


def test_a_locked_store_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second writer waits for a while, then exits with the reason."""
    for name in ("_WAIT_SECONDS", "_STEP_SECONDS"):
        monkeypatch.setattr(sqlite, name, 0.05)
    first, second = (Store(SqliteDatabase(tmp_path / "store.db", machine=MACHINE)) for _ in range(2))

    def write() -> None:
        with second.transaction():
            raise AssertionError("it is locked")

    with first.transaction(), pytest.raises(UnspoolError, match="locked by another program"):
        write()
    with first.exclusive(), pytest.raises(UnspoolError, match="locked by another program"):
        synced(second, tmp_path)
    # However long it waited, and whether it waited at all.
    with first.exclusive(), pytest.raises(UnspoolError) as raised, second.exclusive(patience=0.0):
        raise AssertionError("it is locked")
    assert str(raised.value) == f"{tmp_path / 'store.db'} is locked by another program; try again"
    first.close()
    second.close()


def test_a_file_that_is_not_a_store(tmp_path: Path) -> None:
    """A file of something else is left alone."""
    path = tmp_path / "store.db"
    path.write_bytes(b"something else entirely\n" * 100)
    with pytest.raises(UnspoolError, match="damaged or not an unspool store"):
        Store(SqliteDatabase(path, machine=MACHINE))
    assert path.read_bytes() == b"something else entirely\n" * 100


# --- some sessions only ---


def test_questions_can_be_limited_to_some_sessions(store: Store, tmp_path: Path) -> None:
    """Searches and touched files, with and without secrets."""
    secret = "ghp_" + "a1B2c3D4e5F6" * 3
    ids = {}
    for name in ("one", "two"):
        log = ClaudeLog(name)
        log.user(f"Use {secret} for {name}", name=f"{name} prompt")
        log.model(call(f"{name} call", "Read", file_path=f"/home/dev/demo/src/{name}%.py"), name=f"{name} call")
        log.write(tmp_path / "home")
        ids[name] = log.session
    synced(store, tmp_path / "home")
    rows = {row.name: row.id for row in store.sessions.select()}
    only_one = SessionFilter(without=(rows[ids["two"]],))

    def found(query: str, among: SessionFilter | None, redactor: Redactor | None) -> list[tuple[str, list[str]]]:
        page = store.search.run(parse(query), among=among, redactor=redactor)
        return [(found.session.name, [hit.snippet.text for hit in found.hits]) for found in page.found]

    assert found("use", only_one, None) == [(ids["one"], [f"Use {secret} for one"])]
    assert {name for name, _ in found("use", None, None)} == set(ids.values())
    redactor = Redactor(b"key")
    ((name, (text,)),) = found("use", only_one, redactor)
    assert (name, text) == (ids["one"], f"Use {redactor.text(secret)} for one")
    assert found(secret, only_one, None)
    assert found(secret, only_one, redactor) == []
    files = TouchedFiles(store.database, store.sessions)
    for path in ("one%.py", "src/one%.py", "/home/dev/demo/src/one%.py"):
        assert [touch.path for touch in files.touches(path, only_one, 10)] == ["/home/dev/demo/src/one%.py"]
    for path in ("e%.py", "two%.py", "%", "src/one%.p"):
        assert files.touches(path, only_one, 10) == []
    assert files.count_of(rows[ids["one"]]) == 1
