"""A store of a team: each role reads and removes what it may, whatever it tries."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from unspool.core.errors import UnspoolError
from unspool.ingest.history import History
from unspool.ingest.restore import restore_session
from unspool.ingest.sync import Syncer
from unspool.search.query import parse
from unspool.store.backends.postgres import PostgresDatabase
from unspool.store.migrations import Migrations
from unspool.store.sessions import check_removable
from unspool.store.store import Store
from unspool.testing import ClaudeLog

TABLES = (
    "machine", "session", "file", "session_file", "block", "part", "event", "place", "span", "touch", "act", "chunk",
    "usage_slot", "tool_outcome", "words", "piece", "journal", "growth", "unreadable",
)  # fmt: skip


class Team:
    """A store with a role for each member."""

    def __init__(self, address: str, folder: Path) -> None:
        self._address = address
        self._folder = folder
        self._suffix = uuid.uuid4().hex[:8]
        self.opened: list[Store] = []
        self.owner = self._open(address, "owner")

    def role(self, name: str) -> str:
        """The name of a role: roles belong to a server, not to a database."""
        return f"{name}_{self._suffix}"

    def member(self, name: str, *, reads_all: bool = False) -> Store:
        """The store, as a new member opens it."""
        database = self.owner.database
        database.rows(f"CREATE ROLE {self.role(name)} LOGIN")
        database.rows("SELECT add_member(?, ?)", self.role(name), reads_all)
        return self._open(self.address_of(name), name)

    def address_of(self, name: str) -> str:
        """The address for a member."""
        return self._address.replace("postgres@", f"{self.role(name)}@")

    def _open(self, address: str, machine: str) -> Store:
        store = Store(PostgresDatabase(address, machine=(f"key of {machine}", machine)))
        self.opened.append(store)
        return store

    def synced(self, store: Store, name: str) -> str:
        """Import a session of a member; returns its id."""
        log = ClaudeLog(name)
        for turn in range(12):
            log.user(f"please look for treasure{name} {turn}")
            log.model(f"answer {turn}")
        home = self._folder / name
        log.write(home)
        assert not Syncer(store, home).run().failures
        return log.session


@pytest.fixture
def team(postgres_address: str, tmp_path: Path) -> Iterator[Team]:
    team = Team(postgres_address, tmp_path)
    yield team
    for store in team.opened:
        store.close()


def names(store: Store) -> set[str]:
    """The sessions that a member sees."""
    return {row.name for row in store.sessions.select()}


def found(store: Store, word: str) -> set[str]:
    """The sessions in which a member finds a word."""
    return {each.session.name for each in store.search.run(parse(word)).found}


def test_members_read_and_remove_their_own_sessions(team: Team) -> None:
    """Searching finds no words of others, no table shows their rows, and statements of any kind change none."""
    ann, ben = team.member("ann"), team.member("ben")
    hers, his = team.synced(ann, "ann"), team.synced(ben, "ben")
    assert (names(ann), names(ben), names(team.owner)) == ({hers}, {his}, {hers, his})
    assert found(ann, "treasureann") == {hers}
    assert found(ben, "treasureann") == set()
    mine = {table: ben.database.rows(f"SELECT count(*) FROM {table}") for table in TABLES}
    everything = {table: team.owner.database.rows(f"SELECT count(*) FROM {table}") for table in TABLES}
    assert [table for table in TABLES if mine[table] == everything[table] != [(0,)]] == []
    id = ann.sessions.find(hers).id
    before = {table: ann.database.rows(f"SELECT count(*) FROM {table}") for table in TABLES}
    ben.database.rows("UPDATE session SET title = 'mine'")
    for table in ("words", "piece", "part", "block", "event", "chunk", "journal"):
        ben.database.rows(f"DELETE FROM {table}")
    assert {table: ann.database.rows(f"SELECT count(*) FROM {table}") for table in TABLES} == before
    assert ann.sessions.find(hers).title != "mine"
    assert len(ann.messages.load_session(id).messages) == 24
    with pytest.raises(UnspoolError, match="row-level security"):
        ben.database.rows("INSERT INTO event (session, place, kind, data) VALUES (?, 999, 'x', '')", id)


def test_a_member_that_reads_everything_removes_nothing_of_others(team: Team) -> None:
    """`forget` says so, instead of removing nothing."""
    ann, lead = team.member("ann"), team.member("lead", reads_all=True)
    hers = team.synced(ann, "ann")
    assert names(lead) == {hers}
    assert found(lead, "treasureann") == {hers}
    row = lead.sessions.find(hers)
    with pytest.raises(UnspoolError, match="a session of ann"):
        check_removable(lead.database, row, of_any_machine=False)
    with pytest.raises(UnspoolError, match="another role"):
        check_removable(lead.database, row, of_any_machine=True)
    lead.database.rows("DELETE FROM session WHERE id = ?", row.id)
    assert names(ann) == {hers}
    check_removable(ann.database, row, of_any_machine=False)
    ann.sessions.delete(row.id)
    assert names(ann) == set()


def test_a_role_that_belongs_to_another_acts_for_it(team: Team) -> None:
    """Membership of roles is that of PostgreSQL."""
    ann, lead = team.member("ann"), team.member("lead")
    hers = team.synced(ann, "ann")
    assert names(lead) == set()
    team.owner.database.rows(f"GRANT {team.role('ann')} TO {team.role('lead')}")
    assert names(lead) == {hers}
    check_removable(lead.database, lead.sessions.find(hers), of_any_machine=True)


def test_a_machine_belongs_to_the_role_that_registered_it(team: Team) -> None:
    """Another role cannot write for it, though it knows its key."""
    team.member("ann")
    team.member("ben")
    with pytest.raises(UnspoolError, match="under another role"):
        PostgresDatabase(team.address_of("ben"), machine=("key of ann", "ann"))
    with pytest.raises(UnspoolError, match="does not allow this"):
        team.opened[-1].database.rows("SELECT add_member('x', TRUE)")


def test_members_have_versions_of_their_own_files(team: Team, tmp_path: Path) -> None:
    """A file grows and is rewritten; another member sees nothing of it."""
    ann, ben = team.member("ann"), team.member("ben")
    name = team.synced(ann, "ann")
    (path,) = (tmp_path / "ann").rglob("*.jsonl")
    states = [path.read_bytes()]
    for data in (states[0] + b"{}\n", states[0].replace(b"treasure", b"TREASURE")):
        path.write_bytes(data)
        states.append(data)
        assert not Syncer(ann, tmp_path / "ann").run().failures
    row = ann.sessions.find(name)
    assert [version.change for version in History(ann, row).versions] == ["created", "appended", "rewritten"]
    for number, state in enumerate(states, 1):
        ((restored, _, _),) = restore_session(ann, row, tmp_path / str(number), number)
        assert restored.read_bytes() == state
    for table in ("growth", "chunk"):
        assert ann.database.rows(f"SELECT count(*) FROM {table}")[0][0] > 0
        assert ben.database.rows(f"SELECT count(*) FROM {table}") == [(0,)]
    with ann.transaction():
        ann.sessions.delete(row.id)
    assert ann.database.rows("SELECT count(*) FROM growth") == [(0,)]


def test_a_store_of_one_role_works_as_before(postgres_address: str, tmp_path: Path) -> None:
    """A store of the first version is migrated: its role and its machines keep everything."""
    script = dict(Migrations("postgres").after(0, ""))[1]
    with psycopg.connect(postgres_address, autocommit=True) as database:
        database.execute(script)
        database.execute("CREATE TABLE store_version (version BIGINT NOT NULL)")
        database.execute("INSERT INTO store_version VALUES (1)")
        database.execute("INSERT INTO machine (key, name) VALUES ('key of owner', 'owner'), ('another', 'other')")
    team = Team(postgres_address, tmp_path)
    session = team.synced(team.owner, "owner")
    assert names(team.owner) == {session}
    row = team.owner.sessions.find(session)
    check_removable(team.owner.database, row, of_any_machine=False)
    assert team.owner.database.rows("SELECT count(*) FROM machine WHERE owner = current_user") == [(2,)]
    team.owner.close()
