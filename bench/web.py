"""Measures the web app: a very long session relative to a short one, the delay of a written line, and many clients."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
from tests.web.browser import CHROMIUM

from . import memory
from .report import Measure

_SESSION = "389996c1-6fe7-4b3a-ba36-da8abcdd8ab4"
_SHORT = "489996c1-6fe7-4b3a-ba36-da8abcdd8ab4"
_LONG_BYTES = 200 << 20
_SHORT_BYTES = 200_000
_REQUESTS = 20
_LINES = 40
_CLIENTS = 200


_RECORD_WHEN_SEEN = """() => {
    window.seen = [];
    const look = () => {
        for (const found of document.getElementById("pages").textContent.matchAll(/zebra(\\d+) /g)) {
            const number = Number(found[1]);
            if (!window.seen.some(pair => pair[0] === number)) window.seen.push([number, Date.now()]);
        }
    };
    new MutationObserver(look).observe(document.getElementById("pages"), {childList: true, subtree: true});
}"""


def measure(corpus: Path, folder: Path) -> Iterator[Measure]:
    """Measure everything, on one server."""
    home = folder / "web-home"
    _write_sessions(corpus, home, folder)
    with _server(home, folder / "web.db") as (base, token, pid):
        yield from _first_content(base, token)
        yield from _to_the_screen(base, token, home)
        yield from _many(base, token, home, pid)
    shutil.rmtree(home)


def _write_sessions(corpus: Path, home: Path, folder: Path) -> None:
    log = folder / "web-long.jsonl"
    memory.write(log, corpus, _LONG_BYTES + (10 << 20))
    data = log.read_bytes()
    log.unlink()
    project = home / ".claude" / "projects" / "-home-dev-demo"
    project.mkdir(parents=True)
    for name, size in ((_SESSION, _LONG_BYTES), (_SHORT, _SHORT_BYTES)):
        part = data[: data.rfind(b"\n", 0, size) + 1]
        (project / f"{name}.jsonl").write_bytes(part.replace(_SESSION.encode(), name.encode()))


@contextmanager
def _server(home: Path, database: Path) -> Iterator[tuple[str, str, int]]:
    """Run a server after everything is synced; yields its address, its token and its process id."""
    environ = {**os.environ, "UNSPOOL_DATA": str(database.parent / "web-data")}
    common = [sys.executable, "-m", "unspool"]
    sync = [*common, "sync", "--home", str(home), "--store", str(database)]
    subprocess.run(sync, check=True, capture_output=True, env=environ)
    command = [*common, "serve", "--home", str(home), "--store", str(database), "--no-browser", "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environ)
    assert process.stdout is not None
    found = re.match(r"(http://[^/]+)/open\?token=(\S+)", process.stdout.readline().decode())
    assert found is not None
    time.sleep(2)
    try:
        yield found[1], found[2], process.pid
    finally:
        process.terminate()
        process.wait(10)


def _first_content(base: str, token: str) -> Iterator[Measure]:
    """Measure the server's responses for the page with the first messages of a session."""
    with httpx.Client(base_url=base, headers={"authorization": f"Bearer {token}"}) as client:
        took = {}
        for name in (_SHORT, _SESSION):
            times = []
            for _ in range(_REQUESTS):
                start = time.perf_counter()
                response = client.get(f"/sessions/{name}")
                times.append(time.perf_counter() - start)
                assert response.status_code == 200, response.text
                assert 'id="m0"' in response.text
            took[name] = statistics.median(times)
    long, short = 1e3 * took[_SESSION], 1e3 * took[_SHORT]
    detail = f"{long:.0f} and {short:.0f} ms"
    yield Measure("first content of 200 MB, relative to that of 200 kB", long / short, "x", 3, detail)
    yield Measure("first content of 200 MB", long, " ms", 300)


def message_line(number: int, session: str) -> str:
    """Return a line of a Claude Code log, with a word that contains the number."""
    record = {
        "parentUuid": None if not number else f"{number - 1:08x}-2222-4000-8000-000000000000", "isSidechain": False,
        "type": "user", "uuid": f"{number:08x}-2222-4000-8000-000000000000", "version": "2.1.325",
        "sessionId": session, "cwd": "/home/dev/demo",
        "timestamp": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime()) + ".000Z",
        "message": {"role": "user", "content": f"zebra{number} crossing"},
    }  # fmt: skip
    return json.dumps(record) + "\n"


def _append(home: Path, number: int) -> None:
    with open(home / ".claude" / "projects" / "-home-dev-demo" / f"{_SESSION}.jsonl", "a", encoding="utf-8") as file:
        file.write(message_line(number, _SESSION))


def _to_the_screen(base: str, token: str, home: Path) -> Iterator[Measure]:
    """Measure the time from writing a line to the long session's log until a real browser shows it."""
    if CHROMIUM is None:
        return
    from playwright.sync_api import sync_playwright

    times = []
    with sync_playwright() as playwright:
        page = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"]).new_page()
        page.goto(f"{base}/open?token={token}&next=/sessions/{_SESSION}?at=999999999")
        page.wait_for_selector(".entry")
        page.wait_for_timeout(1500)
        page.evaluate(_RECORD_WHEN_SEEN)
        for number in range(_LINES):
            start = time.time()
            _append(home, number)
            while number not in (seen := page.evaluate("() => window.seen.map(pair => pair[0])")):
                assert time.time() < start + 20, f"line {number} is not on the screen, only {seen}"
                page.wait_for_timeout(20)
            times.append(dict(page.evaluate("() => window.seen"))[number] / 1e3 - start)
            page.wait_for_timeout(150)
    detail = f"max {1e3 * max(times):.0f} ms"
    yield Measure("from a written line to the screen, median", 1e3 * statistics.median(times), " ms", 250, detail)


def _many(base: str, token: str, home: Path, pid: int) -> Iterator[Measure]:
    """Measure the server's memory while 200 clients follow a session that changes, and the changes they receive."""
    before, after, seen = asyncio.run(_watched(base, token, home, pid))
    expected = _CLIENTS * _LINES
    yield Measure(
        f"memory of the server with {_CLIENTS} clients, relative to none",
        after / before,
        "x",
        1.5,
        f"{before / 1e6:.0f} and {after / 1e6:.0f} MB; {seen:,} of {expected:,} changes arrived",
    )


async def _watched(base: str, token: str, home: Path, pid: int) -> tuple[int, int, int]:
    before = _memory(pid)
    limits = httpx.Limits(max_connections=_CLIENTS + 1)
    headers = {"authorization": f"Bearer {token}"}
    async with httpx.AsyncClient(base_url=base, headers=headers, limits=limits, timeout=60) as client:
        counts = [0] * _CLIENTS
        ready = asyncio.Semaphore(0)
        tasks = [asyncio.create_task(_listen(client, counts, index, ready)) for index in range(_CLIENTS)]
        for _ in tasks:
            await ready.acquire()
        for number in range(_LINES, 2 * _LINES):
            _append(home, number)
            await asyncio.sleep(0.1)
        deadline = time.monotonic() + 30
        while min(counts) < _LINES and time.monotonic() < deadline:
            await asyncio.sleep(0.1)
        after = _memory(pid)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return before, after, sum(counts)


async def _listen(client: httpx.AsyncClient, counts: list[int], index: int, ready: asyncio.Semaphore) -> None:
    async with client.stream("GET", "/api/events", params={"session": _SESSION}) as response:
        is_ready = False
        async for line in response.aiter_lines():
            if not is_ready:
                is_ready = True
                ready.release()
            if line.startswith("data: ") and '"messages.appended"' in line[:200]:
                counts[index] += json.loads(line[6:])["count"]


def _memory(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    found = re.search(r"VmRSS:\s+(\d+) kB", status)
    assert found is not None
    return int(found[1]) * 1024
