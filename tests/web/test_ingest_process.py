"""The child process that keeps the store up to date."""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from unspool.cli._shared.store import warn_of_password
from unspool.web import ingest_process
from unspool.web.ingest_process import IngestProcess

from ..waiting import finished

PASSWORD = "a-password-nobody-may-see"
STORE = f"postgresql://team:{PASSWORD}@/unspool?host=/no/such/folder"


def arguments() -> list[bytes]:
    """Those of every process of this computer."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            found.append((folder / "cmdline").read_bytes())
    return found


@pytest.mark.server
@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="this system does not show arguments in /proc")
def test_passwords_are_not_on_the_command_line(tmp_path: Path) -> None:
    """The process knows the store, because it reports that it cannot be reached; neither shows the password."""
    reports: list[dict[str, Any]] = []
    seen: list[list[bytes]] = []

    async def run() -> None:
        has_reported = asyncio.Event()

        def keep(report: dict[str, Any]) -> None:
            reports.append(report)
            # The process is running now.
            seen.append(arguments())
            has_reported.set()

        task = asyncio.create_task(IngestProcess(["--home", str(tmp_path)], keep, STORE).run())
        await has_reported.wait()
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task

    asyncio.run(run())
    assert any(b"unspool.ingest.worker" in each for each in seen[0])
    assert not any(PASSWORD.encode() in each for each in seen[0])
    assert "no/such/folder" in str(reports[0]["error"])
    assert PASSWORD not in str(reports)


@pytest.mark.parametrize(
    ("store", "warns"),
    [(None, False), ("sessions.db", False), ("postgresql://team@db/x", False), (STORE, True)],
)
def test_a_password_on_the_command_line_is_warned_of(
    capsys: pytest.CaptureFixture[str], store: str | None, warns: bool
) -> None:
    warn_of_password(store)
    assert ("password" in capsys.readouterr().err) == warns


# --- faults ----------------------------------------------------------------------------------------------------------

LONG_LINE = """
import sys
print('{"number": 1}', flush=True)
print('{"error": "' + "x" * (3 << 20) + '"}', flush=True)
print('{"number": 2}', flush=True)
sys.stdin.read()
"""
"""Reports something that is too long to read, and runs until its input ends."""


def reports_until(child: str, count: int) -> list[dict[str, Any]]:
    """The first reports of a process that runs a script, which is started again whenever it exits."""
    reports: list[dict[str, Any]] = []

    async def run() -> None:
        has_all = asyncio.Event()

        def keep(report: dict[str, Any]) -> None:
            reports.append(report)
            if len(reports) == count:
                has_all.set()

        process = IngestProcess([], keep)
        process._command = [sys.executable, "-c", child]
        running = asyncio.create_task(process.run())
        waiting = asyncio.create_task(has_all.wait())
        done, _ = await finished(
            asyncio.wait([running, waiting], return_when=asyncio.FIRST_COMPLETED), "the reports of the process"
        )
        assert running not in done, "it no longer runs the process"
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    asyncio.run(run())
    return reports[:count]


def test_the_process_is_started_later_if_it_cannot_be_started_now(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The computer may be short of processes, memory or files for a moment."""
    faults = [BlockingIOError(11, "Resource temporarily unavailable"), OSError(24, "Too many open files")]
    start = asyncio.create_subprocess_exec

    async def start_sometimes(*command: str, **options: Any) -> asyncio.subprocess.Process:
        if faults:
            raise faults.pop(0)
        return await start(*command, **options)

    monkeypatch.setattr(asyncio, "create_subprocess_exec", start_sometimes)
    monkeypatch.setattr(ingest_process, "_PAUSES", (0,))
    assert reports_until("""print('{"number": 1}')""", 2) == [{"number": 1}] * 2
    assert "Resource temporarily unavailable" in caplog.text
    assert "Too many open files" in caplog.text


def test_a_report_that_is_too_long_does_not_hide_later_ones(caplog: pytest.LogCaptureFixture) -> None:
    assert reports_until(LONG_LINE, 2) == [{"number": 1}, {"number": 2}]
    assert "too long" in caplog.text
