"""Models on loopback that follow a script in their prompt."""

from __future__ import annotations

import asyncio
import threading

_LOOK_SECONDS = 0.02


async def held(reader: asyncio.StreamReader, go_on: threading.Event) -> None:
    """Wait until a test lets an answer continue. Raises ConnectionResetError if the client is gone."""
    gone = asyncio.ensure_future(reader.read(1))
    try:
        while not go_on.is_set():
            if (await asyncio.wait({gone}, timeout=_LOOK_SECONDS))[0]:
                raise ConnectionResetError
    finally:
        gone.cancel()
        await asyncio.gather(gone, return_exceptions=True)
