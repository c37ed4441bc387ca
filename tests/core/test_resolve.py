"""How names are matched with ids of sessions."""

from __future__ import annotations

import pytest

from unspool.core.errors import AmbiguousError, NotFoundError
from unspool.core.resolve import looks_like_path, matching, resolve_name

IDS = ["abcd-1", "abcd-2", "ABxy", "parent", "parent/child", "parent/chill", "other/child"]


def _same(id: str) -> str:
    return id


def _resolved(name: str, ids: list[str] = IDS) -> list[str]:
    return resolve_name(name, ids, _same, lambda: len(ids))


@pytest.mark.parametrize(
    ("name", "id"),
    [
        ("abcd-1", "abcd-1"),
        ("ABCD-2", "abcd-2"),
        ("abx", "ABxy"),
        ("par", "parent"),
        ("PARENT", "parent"),
        ("chill", "parent/chill"),
        ("Chil-no", None),
        ("parent/chil", None),
        ("parent/CHILD", "parent/child"),
        ("oth", None),
        ("other/c", "other/child"),
    ],
)
def test_ids_and_prefixes(name: str, id: str | None) -> None:
    """In any case. The beginning of the id of a sub-agent means its parent, unless it has a slash."""
    if id is None:
        with pytest.raises((NotFoundError, AmbiguousError)):
            _resolved(name)
    else:
        assert _resolved(name) == [id]


def test_a_whole_id_wins_over_a_prefix() -> None:
    """Also where other ids begin with it, and where one differs only in case."""
    assert _resolved("abc", ["abcd", "abc", "ABC"]) == ["abc"]
    assert _resolved("Abc", ["abcd", "abc"]) == ["abc"]
    assert _resolved("child", ["x/child", "childish"]) == ["x/child"]


def test_copies_share_an_id() -> None:
    """They are returned together: the caller knows how they differ."""
    assert matching("one", [("one", 1), ("one", 2), ("one more", 3)], lambda pair: pair[0]) == [("one", 1), ("one", 2)]


def test_messages_for_unknown_and_ambiguous_names() -> None:
    """Which ids it could mean, or where to look."""
    with pytest.raises(AmbiguousError) as several:
        _resolved("abcd")
    assert str(several.value) == "'abcd' matches 2 sessions: abcd-1, abcd-2"
    with pytest.raises(AmbiguousError, match=r"matches 9 sessions: x0, x1, x2, x3, x4, …$"):
        _resolved("x", [f"x{number}" for number in range(9)])
    with pytest.raises(NotFoundError) as none:
        _resolved("nothing", ["x"] * 1200)
    assert str(none.value) == "no session 'nothing' among 1,200; `unspool ls` lists them"


def test_paths() -> None:
    """Anything with a folder, or the suffix of a session file."""
    assert [looks_like_path(name) for name in ("a/b", "a\\b", "x.jsonl", "x.json", "x.jsonl.zst", "x")] == [
        True,
        True,
        True,
        True,
        True,
        False,
    ]
