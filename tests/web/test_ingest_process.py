"""The child process that keeps the store up to date."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from unspool.cli._shared.store import warn_of_password
from unspool.web.ingest_process import IngestProcess

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
