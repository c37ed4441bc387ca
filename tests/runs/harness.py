"""What the tests of all drivers share: a bound on everything, and somebody who listens."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from tests.waiting import PATIENCE, finished
from unspool.runs.protocol import DriverEvent, TextDelta

T = TypeVar("T")
Result = TypeVar("Result")


def run(body: Coroutine[Any, Any, Result]) -> Result:
    """Run an asynchronous test; it ends, one way or the other."""

    async def bounded() -> Result:
        # Twice the patience of a single wait: if something in the test never comes, that wait says what it was.
        try:
            async with asyncio.timeout(2 * PATIENCE) as limit:
                return await body
        except TimeoutError:
            if limit.expired():
                raise AssertionError(f"the test did not end within {2 * PATIENCE:.0f} s") from None
            raise

    return asyncio.run(bounded())


class Listener:
    """Collects what a driver tells. `next` waits for something and goes on from there."""

    def __init__(self) -> None:
        self.told: list[DriverEvent] = []
        self._seen = 0
        self._more = asyncio.Event()

    def __call__(self, told: DriverEvent) -> None:
        self.told.append(told)
        self._more.set()

    async def next(self, kind: type[T], where: Callable[[T], bool] = lambda _: True) -> T:
        """The next of this kind that was not waited for before; what is told in between is passed over."""

        async def look() -> T:
            while True:
                while self._seen < len(self.told):
                    told = self.told[self._seen]
                    self._seen += 1
                    if isinstance(told, kind) and where(told):
                        return told
                self._more.clear()
                await self._more.wait()

        return await finished(
            look(), f"the next {getattr(kind, '__name__', kind)}", detail=lambda: f"Told was {self.told[-12:]}"
        )

    def skip(self) -> None:
        """Pass over everything told so far: events whose order is not fixed, and which were waited for otherwise."""
        self._seen = len(self.told)

    def all(self, kind: type[T]) -> list[T]:
        """Everything of this kind, from the beginning."""
        return [told for told in self.told if isinstance(told, kind)]

    def words(self) -> str:
        """What the model has said, put together; not what it thought."""
        return "".join(told.text for told in self.all(TextDelta) if not told.thinking)
