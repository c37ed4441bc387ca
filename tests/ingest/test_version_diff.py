"""The difference between two versions of a file, as lines."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unspool.ingest.history import FileState
from unspool.ingest.version_diff import VersionDiff, diff_versions
from unspool.store import Store
from unspool.store.compression import pack
from unspool.store.rows import FileRow

from ..store.contents import new_store

CHUNK = 1 << 20


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """An empty store."""
    made = new_store(tmp_path_factory.mktemp("diff") / "sessions.db")
    yield made
    made.close()


def archived(store: Store, data: bytes, path: str = "log.jsonl") -> FileState:
    """A file in the archive."""
    ((number,),) = store.database.rows("SELECT count(*) FROM file")
    id = store.files.put(FileRow(0, "claude", f"/{number}/{path}", 0, 0, len(data), 0, len(data), b""))
    for start in range(0, len(data), CHUNK):
        piece = data[start : start + CHUNK]
        store.files.put_chunk(id, start, len(piece), pack(piece))
    return FileState(id, "claude", path, len(data))


def diff(store: Store, before: bytes, after: bytes, path: str = "log.jsonl") -> VersionDiff:
    """The difference of two files."""
    return diff_versions(store, archived(store, before, path), archived(store, after, path))


def test_lines_around_a_change_are_shown(store: Store) -> None:
    """One on each side, with the numbers of the lines."""
    before = b"".join(b"line %d\n" % number for number in range(100))
    found = diff(store, before, before.replace(b"line 50\n", b"other\nlines\n"))
    assert found == VersionDiff(
        path="log.jsonl", line=51, text="@@ -51,2 +51,3 @@\n-line 50\n+other\n+lines\n line 51\n"
    )


def test_a_change_after_many_megabytes(store: Store) -> None:
    """In a later chunk, and in a line that is longer than a chunk."""
    before = b"first\n" + b"x" * (3 * CHUNK) + b"\nlast\n"
    found = diff(store, before, before + b"more\n")
    assert (found.line, found.text) == (4, "@@ -4,0 +4,1 @@\n+more\n")
    found = diff(store, before, before.replace(b"last", b"LAST"))
    assert (found.line, found.text) == (3, "@@ -3,1 +3,1 @@\n-last\n+LAST\n")
    found = diff(store, before, before.replace(b"x\nlast", b"y\nlast"))
    assert (found.line, found.is_cut) == (2, True)


def test_a_new_file_and_a_compressed_one(store: Store) -> None:
    """The first has lines only on one side, the other is not compared."""
    assert diff_versions(store, None, archived(store, b"a\nb\n")).text == "@@ -1,0 +1,2 @@\n+a\n+b\n"
    assert diff(store, b"\0a", b"\0b", "log.jsonl.zst").text == ""


def test_a_part_of_a_file_is_an_earlier_version(store: Store) -> None:
    """A file that grew has its earlier versions in the same bytes."""
    state = archived(store, b"one\ntwo\nthree\n")
    assert diff_versions(store, state._replace(size=8), state).text == "@@ -3,0 +3,1 @@\n+three\n"
    assert diff_versions(store, state._replace(size=6), state).text == "@@ -2,1 +2,2 @@\n-tw\n+two\n+three\n"


@given(
    st.lists(st.sampled_from(("a", "b", "c" * 700, "é")), max_size=8), st.lists(st.text("abé", max_size=3), max_size=8)
)
def test_a_diff_says_how_to_get_from_one_to_the_other(store: Store, before: list[str], after: list[str]) -> None:
    """The lines that are removed and added are those that differ."""
    old, new = ("".join(f"{line}\n" for line in lines).encode() for lines in (before, after))
    found = diff(store, old, new)
    added = sum(line.startswith("+") for line in found.text.splitlines())
    removed = sum(line.startswith("-") for line in found.text.splitlines())
    assert added - removed == len(after) - len(before)
    assert (found.text == "") == (before == after)
