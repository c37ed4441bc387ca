"""Maintenance: smaller files, an index in the order of results, and nothing else changes."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path

import pytest

from unspool.search.query import parse
from unspool.store.backends.sqlite import SqliteDatabase
from unspool.store.maintenance import Maintenance
from unspool.store.store import Store
from unspool.testing import GeminiLog

from .contents import contents, difference, fresh, new_store, synced
from .homes import put, write_home

FIXTURES = Path(__file__).parent / "fixtures"


def _used(store: Store) -> dict[str, int]:
    """The pages of the file, those that are free, and the bytes of the text index."""
    ((pages,),) = store.database.rows("PRAGMA page_count")
    ((free,),) = store.database.rows("PRAGMA freelist_count")
    ((words,),) = store.database.rows("SELECT sum(length(block)) FROM words_data")
    return {"pages": pages, "free": free, "words": words}


def test_maintenance_changes_no_contents(store: Store, tmp_path: Path) -> None:
    """In any kind of store, also if it is run twice."""
    home = tmp_path / "home"
    write_home(home)
    synced(store, home)
    for _ in range(2):
        Maintenance(store).run()
        assert difference(contents(store), fresh(tmp_path, home)) == ""


def _chat(turns: int, changed: int) -> bytes:
    log = GeminiLog("chat")
    for turn in range(turns):
        words = " ".join(
            f"word{(turn * 37 + number * number + (changed if turn % 7 == changed % 7 else 0)) % 3000}"
            for number in range(80)
        )
        log.user(f"u{turn}", words)
        log.model(f"g{turn}", f"answer {turn} {words}")
    return log.data


def _rewritten(folder: Path, times: int, turns: int) -> tuple[Store, Path]:
    """A store, and the home of a chat that was stored after each of several rewrites."""
    home = folder / "home"
    path = GeminiLog("chat").write(home)
    store = new_store(folder / "store.db")
    for changed in range(times):
        put(path, _chat(turns, changed))
        synced(store, home)
    return store, home


def test_a_file_that_is_rewritten_again_and_again_takes_no_more_space(tmp_path: Path) -> None:
    """The index is as large as if the file had been read once, and no page of the store is free."""
    store, home = _rewritten(tmp_path, 20, turns=40)
    grown = _used(store)
    Maintenance(store).run()
    after = _used(store)
    assert difference(contents(store), fresh(tmp_path, home)) == ""
    once = new_store(tmp_path / "once.db")
    synced(once, home)
    assert after["words"] <= 1.3 * _used(once)["words"]
    assert after["free"] == 0
    assert after["pages"] < grown["pages"]
    store.close()
    once.close()


def test_versions_that_become_differences_leave_no_empty_pages(tmp_path: Path) -> None:
    """A file that is rewritten with each message: its versions need little more than the last one alone."""
    chance = random.Random(1)
    home, log, store = tmp_path / "home", GeminiLog("chat"), new_store(tmp_path / "store.db")
    for number in range(40):
        log.user(f"u{number}", " ".join(f"{chance.randrange(1 << 60):x}" for _ in range(50)))
        path = log.write(home).with_suffix(".json")
        document = json.loads(log.lines[0]) | {"messages": [json.loads(line) for line in log.lines[1:]]}
        path.with_suffix(".jsonl").unlink()
        put(path, json.dumps(document).encode())
        synced(store, home)
    once = new_store(tmp_path / "once.db")
    synced(once, home)
    for used in (store, once):
        Maintenance(used, everything=True).run()
    assert difference(contents(store), contents(once)) == ""
    assert _used(store)["pages"] <= 1.3 * _used(once)["pages"]
    store.close()
    once.close()


@pytest.mark.parametrize("done", [0, 1, 3])
def test_an_interrupted_run_is_continued(tmp_path: Path, done: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever was done stays done, and nothing is lost."""
    monkeypatch.setattr("unspool.store.backends.sqlite._STEP_PAGES", 1)
    store, home = _rewritten(tmp_path, 5, turns=9)
    steps = Maintenance(store).steps()
    for _ in range(done):
        next(steps)
    store.close()
    store = Store(SqliteDatabase(tmp_path / "store.db", machine=("key of the machine", "machine")))
    assert difference(contents(store), fresh(tmp_path, home)) == ""
    Maintenance(store).run()
    assert difference(contents(store), fresh(tmp_path, home)) == ""
    assert _used(store)["free"] == 0
    assert len(store.database.rows("SELECT DISTINCT segid FROM words_idx")) == 1
    store.close()


def test_texts_of_an_old_store_get_their_ranks(tmp_path: Path) -> None:
    """A store whose ids are in the order of insertion: afterwards each is in its bucket, and the same is found."""
    shutil.copy(FIXTURES / "store-0.1.db", tmp_path / "old.db")
    store = Store(SqliteDatabase(tmp_path / "old.db", machine=("laptop", "laptop")))
    queries = json.loads((FIXTURES / "store-0.1.json").read_text())["search"]
    before = {query: {found[:5] for found in store.search.matches(parse(query), 1000)} for query in queries}
    outdated = f"SELECT count(*) FROM part WHERE {store.database.words.outdated}"
    assert store.database.rows(outdated)[0][0] > 0
    Maintenance(store).run()
    assert store.database.rows(outdated)[0][0] == 0
    assert {query: {found[:5] for found in store.search.matches(parse(query), 1000)} for query in queries} == before
    home = tmp_path / "home"
    write_home(home)
    synced(store, home)
    assert store.database.rows(outdated)[0][0] == 0
    store.close()


def test_a_damaged_session_keeps_no_other_from_its_ranks(tmp_path: Path) -> None:
    """The texts of a damaged block are unknown, so they stay where they are."""
    shutil.copy(FIXTURES / "store-0.1.db", tmp_path / "old.db")
    store = Store(SqliteDatabase(tmp_path / "old.db", machine=("laptop", "laptop")))
    outdated = f"SELECT DISTINCT session FROM part WHERE {store.database.words.outdated}"
    ((damaged,), *others) = store.database.rows(f"{outdated} LIMIT 9")
    assert others
    store.database.rows("UPDATE block SET data = x'00' WHERE session = ?", damaged)
    Maintenance(store).run()
    assert store.database.rows(outdated) == [(damaged,)]
    store.close()
