"""The child process that keeps the store up to date, and its reports."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec

from ..core import typed_json
from ..store.locate import STORE_VARIABLE

_PAUSES = (0.5, 1, 2, 5, 10, 30)
"""Seconds before a restart. They increase while the process keeps exiting without a report."""
_END_SECONDS = 10
"""Time to finish a transaction, even on a busy machine."""
_LONGEST_REPORT = 1 << 20
_decode = typed_json.decoder(dict[str, Any]).decode
_log = logging.getLogger("unspool.web")


class IngestProcess:
    """Runs the process that reads the agents' files. It exits when this process does, because its input ends."""

    def __init__(
        self, arguments: list[str], on_report: Callable[[dict[str, Any]], None], store: str | None = None
    ) -> None:
        """`on_report` is called with each report of the process.

        The address of the store is passed in the environment: it may contain a password, and all users of a computer
        can read the arguments of its processes.
        """
        self._command = [sys.executable, "-m", "unspool.ingest.worker", *arguments]
        self._environment = {**os.environ, **({STORE_VARIABLE: store} if store else {})}
        self._on_report = on_report
        self._process: asyncio.subprocess.Process | None = None

    async def run(self) -> None:
        """Keep the process running until cancelled."""
        failures = 0
        try:
            while True:
                try:
                    has_reported = await self._run_once()
                except Exception as error:
                    # For example, there may be too many processes or open files; try again in a moment.
                    _log.warning("The process that reads the agents' files has failed: %s", error)
                    has_reported = False
                    await self._end()
                failures = 0 if has_reported else failures + 1
                await asyncio.sleep(_PAUSES[min(failures, len(_PAUSES) - 1)])
        finally:
            await self._end()

    async def _run_once(self) -> bool:
        """Start the process and wait until it exits. Returns whether it reported anything."""
        pipe = asyncio.subprocess.PIPE
        # Ctrl-C in a terminal goes to the whole process group. The child is not in it, and exits when its input ends.
        self._process = process = await asyncio.create_subprocess_exec(
            *self._command,
            stdin=pipe,
            stdout=pipe,
            limit=_LONGEST_REPORT,
            start_new_session=True,
            env=self._environment,
        )
        assert process.stdout is not None
        has_reported = False
        async for line in _lines(process.stdout):
            try:
                self._on_report(_decode(line))
                has_reported = True
            except msgspec.DecodeError:
                continue
        await process.wait()
        return has_reported

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


async def _lines(output: asyncio.StreamReader) -> AsyncIterator[bytes]:
    while True:
        try:
            line = await output.readline()
        except ValueError:
            # What has been read of it was discarded. The rest arrives as a line that cannot be decoded.
            _log.warning("A report of the process that reads the agents' files is too long.")
            continue
        if not line:
            return
        yield line
