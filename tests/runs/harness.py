"""What the tests of all drivers share: a time limit on everything, and a collector of events."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from importlib.util import find_spec
from typing import Any, TypeVar

import pytest

from tests.waiting import PATIENCE, finished
from unspool.runs.protocol import DriverEvent, TextDelta

T = TypeVar("T")
Result = TypeVar("Result")
needs_acp = pytest.mark.skipif(
    find_spec("acp") is None, reason="the protocol's package is not installed: pip install 'unspool[gemini]'"
)


def run(body: Coroutine[Any, Any, Result]) -> Result:
    """Run an asynchronous test; it ends, one way or the other."""

    async def bounded() -> Result:
        # Twice the patience of a single wait: if something never happens, the wait for it fails first and names it.
        try:
            async with asyncio.timeout(2 * PATIENCE) as limit:
                return await body
        except TimeoutError:
            if limit.expired():
                raise AssertionError(f"the test did not end within {2 * PATIENCE:.0f} s") from None
            raise

    return asyncio.run(bounded())


class EventCollector:
    """Collects the events of a driver. `next` waits for one and continues after it the next time."""

    def __init__(self) -> None:
        self.events: list[DriverEvent] = []
        self._seen = 0
        self._more = asyncio.Event()

    def __call__(self, event: DriverEvent) -> None:
        self.events.append(event)
        self._more.set()

    async def next(self, kind: type[T], where: Callable[[T], bool] = lambda _: True) -> T:
        """The next event of this kind that was not returned before; others are skipped."""

        async def look() -> T:
            while True:
                while self._seen < len(self.events):
                    event = self.events[self._seen]
                    self._seen += 1
                    if isinstance(event, kind) and where(event):
                        return event
                self._more.clear()
                await self._more.wait()

        name = getattr(kind, "__name__", kind)
        return await finished(look(), f"the next {name}", detail=lambda: f"The last events: {self.events[-12:]}")

    def skip(self) -> None:
        """Skip all events so far: their order is not fixed, and they were waited for in another way."""
        self._seen = len(self.events)

    def forget(self) -> None:
        """Forget all events so far, as if the driver had just been started."""
        self.events.clear()
        self._seen = 0

    def all(self, kind: type[T]) -> list[T]:
        """All events of this kind, from the start."""
        return [event for event in self.events if isinstance(event, kind)]

    def text(self) -> str:
        """The text of the model, without its thinking."""
        return "".join(delta.text for delta in self.all(TextDelta) if not delta.thinking)
