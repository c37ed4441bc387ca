"""The connections of the pool: one for each thread, closed when they are no longer used."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from typing import Any

import pytest

from unspool.core.errors import UnspoolError
from unspool.web.store_pool import StorePool


class Connection:
    """A store whose connection can break."""

    def __init__(self) -> None:
        self.is_lost = False
        self.closed = 0

    snapshot = nullcontext

    def close(self) -> None:
        self.closed += 1


def test_a_lost_connection_is_closed_and_replaced() -> None:
    """Each may hold a second connection that still works, and a server only has so many."""
    opened: list[Connection] = []

    def open_store() -> Any:
        opened.append(Connection())
        return opened[-1]

    def lose(store: Any) -> None:
        store.is_lost = True
        raise UnspoolError("the server has closed the connection")

    def identity(store: Any) -> int:
        return id(store)

    async def scene() -> None:
        with pytest.raises(UnspoolError, match="closed the connection"):
            await pool.run(lose)
        assert [one.closed for one in opened] == [1]
        for _ in range(2):
            assert await pool.run(identity) == id(opened[1])

    pool = StorePool(open_store, threads=1)
    asyncio.run(scene())
    pool.close()
    assert [one.closed for one in opened] == [1, 1], "each is closed once"
