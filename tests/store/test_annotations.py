"""Pins, notes and tags belong to a session by its name, until they are removed or the session is forgotten."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from unspool.core.errors import NotFoundError, UsageError
from unspool.store.store import Store
from unspool.store.transfer import copy_annotations

from .contents import new_store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with closing(new_store(tmp_path / "store.db")) as store:
        yield store


def _texts(store: Store, name: str = "one") -> list[tuple[str, str, int | None]]:
    return [(one.kind, one.text, one.message_index) for one in store.annotations.of("claude", name)]


def test_they_are_listed_tags_first(store: Store) -> None:
    add = store.annotations.add
    add("claude", "one", "note", " look here ", 7)
    add("claude", "one", "pin", "", 3)
    add("claude", "one", "tag", "zebra")
    add("claude", "one", "tag", "Ant")
    add("claude", "other", "tag", "Ant")
    assert _texts(store) == [
        ("tag", "Ant", None),
        ("tag", "zebra", None),
        ("pin", "", 3),
        ("note", "look here", 7),
    ]
    assert all(one.at is not None for one in store.annotations.of("claude", "one"))


def test_a_tag_or_a_pin_is_added_once_and_a_note_every_time(store: Store) -> None:
    for _ in range(2):
        store.annotations.add("claude", "one", "tag", "again")
        store.annotations.add("claude", "one", "pin", "", 3)
        store.annotations.add("claude", "one", "note", "same words")
    assert [kind for kind, _, _ in _texts(store)] == ["tag", "note", "note", "pin"]


def test_those_of_the_whole_session_come_before_those_of_its_first_message(store: Store) -> None:
    store.annotations.add("claude", "one", "note", "at the start", 0)
    store.annotations.add("claude", "one", "note", "about all of it")
    store.annotations.add("claude", "one", "pin", "", 0)
    assert [message for _, _, message in _texts(store)] == [None, 0, 0]


def test_invalid_ones_are_refused(store: Store) -> None:
    with pytest.raises(UsageError, match="cannot be empty"):
        store.annotations.add("claude", "one", "note", "  ")
    with pytest.raises(UsageError, match="at most 60 characters"):
        store.annotations.add("claude", "one", "tag", "x" * 61)
    assert _texts(store) == []


def test_one_is_removed(store: Store) -> None:
    store.annotations.add("claude", "one", "tag", "gone")
    store.annotations.add("claude", "one", "tag", "stays")
    (gone, _) = store.annotations.of("claude", "one")
    with pytest.raises(NotFoundError, match="no pin, note or tag"):
        store.annotations.remove("claude", "other", gone.id)
    store.annotations.remove("claude", "one", gone.id)
    assert _texts(store) == [("tag", "stays", None)]


def test_they_are_copied_into_a_rebuilt_store(store: Store, tmp_path: Path) -> None:
    store.annotations.add("claude", "one", "note", "kept", 2)
    with closing(new_store(tmp_path / "other.db")) as other:
        copy_annotations(store, other)
        assert _texts(other) == [("note", "kept", 2)]
