"""Starts the process that keeps the store up to date, and hears from it."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import Any

import msgspec

_PAUSES = (0.5, 1, 2, 5, 10, 30)
"""Seconds before it is started again, the longer the more often it has ended."""
_END_SECONDS = 10
"""What it needs to finish what it writes, on a machine that has much else to do."""
_decode = msgspec.json.Decoder(dict[str, Any]).decode


class IngestProcess:
    """The child that reads the agents' files. It ends when we do, because its input ends."""

    def __init__(self, arguments: list[str], hear: Callable[[dict[str, Any]], None]) -> None:
        """`hear` is told each thing the child says."""
        self._command = [sys.executable, "-m", "unspool.ingest.worker", *arguments]
        self._hear = hear
        self._process: asyncio.subprocess.Process | None = None

    async def run(self) -> None:
        """Keep it running until this is cancelled."""
        ended = 0
        try:
            while True:
                heard = await self._once()
                ended = 0 if heard else ended + 1
                await asyncio.sleep(_PAUSES[min(ended, len(_PAUSES) - 1)])
        finally:
            await self._end()

    async def _once(self) -> bool:
        """Start it and listen until it ends; whether it said anything."""
        pipe = asyncio.subprocess.PIPE
        # Ctrl-C in a terminal goes to the whole group. The child ends because its input does, and needs no signal.
        self._process = process = await asyncio.create_subprocess_exec(
            *self._command, stdin=pipe, stdout=pipe, limit=1 << 20, start_new_session=True
        )
        assert process.stdout is not None
        heard = False
        async for line in process.stdout:
            try:
                self._hear(_decode(line))
                heard = True
            except msgspec.DecodeError:
                continue
        await process.wait()
        return heard

    async def _end(self) -> None:
        process = self._process
        if process is None or process.returncode is not None:
            return
        assert process.stdin is not None
        process.stdin.close()
        try:
            await asyncio.wait_for(process.wait(), _END_SECONDS)
        except TimeoutError:
            process.kill()
            await process.wait()
