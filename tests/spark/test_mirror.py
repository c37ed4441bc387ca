"""Homes in an object store: read with the real client, on loopback."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import unspool
from unspool.core.errors import NotFoundError, UnspoolError
from unspool.io.listing import fetch_file, mounted, open_file
from unspool.library import Library
from unspool.spark.file_systems import RemoteFile, RemoteFileSystem, RemoteFolder, resolve_paths
from unspool.spark.filters import KeyFilters
from unspool.spark.mirror import Mirror
from unspool.spark.options import Options, parse_options
from unspool.spark.plan import plan_changes, plan_everything
from unspool.spark.stream_offsets import find_latest

from .s3_server import BUCKET, CREDENTIALS, ObjectStore, serve
from .test_planning import expected, read


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectStore]:
    """An object store with two homes."""
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    shutil.copytree(unspool.samples(), tmp_path / "objects" / "homes" / "ada")
    shutil.copytree(unspool.samples() / ".gemini", tmp_path / "objects" / "homes" / "bob" / ".gemini")
    with serve(tmp_path / "objects") as served:
        yield served


def options_for(store: ObjectStore, path: str, **more: str) -> Options:
    """The options of a reader."""
    given = {"table": "messages", "path": f"s3a://{BUCKET}/{path}"} | more
    return parse_options(given | {f"fs.{name}": value for name, value in store.options.items()})


def test_the_same_rows_as_on_disk(store: ObjectStore) -> None:
    """With addresses instead of paths, in every column."""
    partitions = plan_everything(options_for(store, "homes/*", partitionBytes="200k"), KeyFilters())
    assert len(partitions) > 2
    homes = [store.folder / "homes" / name for name in ("ada", "bob")]
    for table in ("sessions", "messages", "problems"):
        wanted = expected(table, *homes)
        moved = {row.replace(f"{store.folder}/", f"s3a://{BUCKET}/"): count for row, count in wanted.items()}
        assert read(partitions, table) == moved


def test_planning_reads_only_beginnings(store: ObjectStore, tmp_path: Path) -> None:
    log = max((store.folder / "homes" / "ada").glob(".claude/projects/*/*.jsonl"), key=lambda path: path.stat().st_size)
    with log.open("ab") as file:
        file.write(log.read_bytes().splitlines(keepends=True)[-1] * 4000)
    size = log.stat().st_size
    assert size > 3 << 20
    plan_everything(options_for(store, "homes/ada"), KeyFilters())
    assert store.sent[log.relative_to(store.folder).as_posix()] < 1 << 20


def test_a_file_that_may_not_be_read(store: ObjectStore) -> None:
    """It is a problem of that file, in a mirror as on disk."""
    log = next((store.folder / "homes" / "ada").glob(".codex/sessions/**/*.jsonl"))
    store.statuses[log.relative_to(store.folder).as_posix()] = 403
    partitions = plan_everything(options_for(store, "homes/ada"), KeyFilters())
    problems = read(partitions, "problems")
    assert any("unreadable" in row and log.name in row for row in problems)
    assert read(partitions, "messages").total() > 100


def test_an_error_is_not_a_fact(store: ObjectStore) -> None:
    """If the store fails, a task fails, so that Spark repeats it: no session is silently without its rows."""
    partitions = plan_everything(options_for(store, "homes/ada"), KeyFilters())
    log = next((store.folder / "homes" / "ada").glob(".codex/sessions/**/*.jsonl"))
    log.write_bytes(log.read_bytes()[:10])
    # Listed again, it is a file of ten bytes; but listed before it changed, it is one that fails.
    store.statuses[log.relative_to(store.folder).as_posix()] = 400
    with pytest.raises(UnspoolError, match=rf"reading failed; it may succeed later: s3a://{BUCKET}/homes/ada/.codex"):
        read(partitions, "messages")
    with pytest.raises(UnspoolError, match="may succeed later"):
        plan_everything(options_for(store, "homes/ada"), KeyFilters())


def test_a_stream_over_objects(store: ObjectStore) -> None:
    options = options_for(store, "homes/*")
    first = find_latest(options)
    assert find_latest(options) == first
    log = next((store.folder / "homes" / "ada").glob(".codex/sessions/**/*.jsonl"))
    with log.open("ab") as file:
        file.write(b"\n")
    second = find_latest(options)
    found = [ref.path.name for partition in plan_changes(options, first, second) for ref in partition.sessions]
    assert log.name in found
    assert len(found) < len(list(Library(store.folder / "homes" / "ada").refs()))


def test_resolve_paths(store: ObjectStore) -> None:
    """Wildcards in the middle, single files, and addresses of nothing."""
    names = [
        folder.url
        for folder in resolve_paths([f"s3a://{BUCKET}/homes/*/.gemini"], store.options)
        if isinstance(folder, RemoteFolder)
    ]
    assert names == [f"s3a://{BUCKET}/homes/ada/.gemini", f"s3a://{BUCKET}/homes/bob/.gemini"]
    log = next((store.folder / "homes" / "ada").glob(".claude/projects/*/*.jsonl"))
    (only,) = plan_everything(options_for(store, log.relative_to(store.folder).as_posix()), KeyFilters())
    assert [ref.id for ref in only.sessions] == [log.stem]
    assert read([only], "messages").total() == len(Library(log).load(next(Library(log).refs())))
    for path in ("nothing", "homes/z*"):
        with pytest.raises(NotFoundError, match="no such file or directory"):
            plan_everything(options_for(store, path), KeyFilters())


# --- mirrors ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def remote(tmp_path: Path) -> RemoteFileSystem:
    """A file system that is not mounted."""
    import pyarrow.fs as fs

    (tmp_path / "far").mkdir()
    return RemoteFileSystem(fs.SubTreeFileSystem(str(tmp_path / "far"), fs.LocalFileSystem()), "far://", "")


def test_reading_pieces_of_a_file(tmp_path: Path, remote: RemoteFileSystem) -> None:
    """At the beginning, at the end, across blocks, all of it; and by a program that opens it by itself."""
    data = bytes(range(256)) * 5000
    for name in ("a", "b", "empty"):
        (tmp_path / "far" / name).write_bytes(data if name != "empty" else b"")
    mirror = Mirror(tmp_path / "near", remote)
    assert all(mirror.add(file) for name in ("a", "b", "empty") for file in remote.walk(name))
    near = tmp_path / "near" / "a"
    assert near.stat().st_size == len(data)
    with mounted(mirror.folder, mirror):
        with open_file(near) as file:
            assert file.read(10) == data[:10]
            file.seek(-7, 2)
            assert file.read(100) == data[-7:]
            assert file.read(1) == b""
            file.seek((1 << 16) - 3)
            buffer = bytearray(9)
            assert (file.readinto(buffer), bytes(buffer)) == (9, data[(1 << 16) - 3 : (1 << 16) + 6])
            file.seek(0)
            assert file.readall() == data
        with open_file(tmp_path / "near" / "empty") as file:
            assert file.read() == b""
        fetch_file(tmp_path / "near" / "b")
        assert (tmp_path / "near" / "b").read_bytes() == data
        with pytest.raises(FileNotFoundError):
            open_file(tmp_path / "near" / "c")
    mirror.close()


@pytest.mark.parametrize("is_started", [False, True])
def test_a_file_that_shrinks_is_a_failure(tmp_path: Path, remote: RemoteFileSystem, is_started: bool) -> None:
    """Whether or not its beginning was fetched in advance."""
    (tmp_path / "far" / "a").write_bytes(b"x" * 100)
    mirror = Mirror(tmp_path / "near", remote)
    assert all(mirror.add(file) for file in remote.walk("a"))
    (tmp_path / "far" / "a").write_bytes(b"x")
    if is_started:
        mirror.fetch_starts()
    with (
        mounted(mirror.folder, mirror),
        open_file(tmp_path / "near" / "a") as file,
        pytest.raises(OSError, match="changed"),
    ):
        file.read()
    assert mirror.failure == "far://a: the file changed while it was read"


@pytest.mark.parametrize("name", ["../out", "a/../../out", "a//b", "./a", "a\0b", "x" * 300, ""])
def test_names_that_no_file_can_have(tmp_path: Path, remote: RemoteFileSystem, name: str) -> None:
    """Objects can be called anything; nothing is written outside of the mirror."""
    mirror = Mirror(tmp_path / "near", remote)
    assert not mirror.add(RemoteFile(name, 5, 0))
    assert not (tmp_path / "out").exists()
