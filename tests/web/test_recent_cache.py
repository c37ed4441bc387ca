"""The cache that the threads of the pool share."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from unspool.web.recent_cache import RecentCache


def test_the_least_recently_used_result_is_forgotten() -> None:
    computed: list[str] = []

    def get(key: str) -> None:
        assert cache.get(key, lambda: computed.append(key) or key.upper()) == key.upper()  # type: ignore[func-returns-value]

    cache: RecentCache[str, str] = RecentCache(2)
    for key in ("a", "b", "a", "c", "a", "b"):
        get(key)
    assert computed == ["a", "b", "c", "b"]


def test_none_is_a_result() -> None:
    cache: RecentCache[str, None] = RecentCache(2)
    cache.get("a", lambda: None)
    cache.get("a", lambda: pytest.fail("it is computed again"))


def test_what_fails_is_not_remembered() -> None:
    cache: RecentCache[str, int] = RecentCache(2)
    with pytest.raises(ZeroDivisionError):
        cache.get("a", lambda: 1 // 0)
    assert cache.get("a", lambda: 1) == 1


def test_one_thread_at_a_time_changes_it_while_others_compute() -> None:
    """Otherwise a dictionary could change while its first key is looked up."""

    def is_free() -> bool:
        with ThreadPoolExecutor(1) as another:
            if acquired := another.submit(cache._lock.acquire, blocking=False).result():
                cache._lock.release()
            return acquired

    class Key:
        """Whenever the dictionary is used, it asks a key for its hash."""

        def __hash__(self) -> int:
            while_used.append(is_free())
            return 1

    while_used: list[bool] = []
    cache: RecentCache[Key, bool] = RecentCache(1)
    for _ in range(3):
        assert cache.get(Key(), is_free), "a result takes long; others need not wait for it"
    assert while_used
    assert not any(while_used)
