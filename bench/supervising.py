"""Measures running agents: the delay from the driver of an agent to the browser, and the CPU time of idle processes."""

from __future__ import annotations

import asyncio
import os
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
from tests.runs.scripted import drivers, install
from tests.web.browser import CHROMIUM

from unspool.runs.protocol import DriverEvent, RunSpec, TextDelta, TurnEnded

from .report import Measure

_WORDS = 60
_PAUSE = 0.05
_IDLE_SECONDS = 10.0
_SCRIPT = f"clock {_WORDS} {_PAUSE}"
"""Has the agent say the time, again and again."""
_RECORD_DELAYS = """() => {
    window.seen = new Map();
    const look = () => {
        for (const found of document.body.textContent.matchAll(/at(\\d{13})\\./g)) {
            if (!window.seen.has(found[1])) window.seen.set(found[1], Date.now() - Number(found[1]));
        }
    };
    new MutationObserver(look).observe(document.body, {childList: true, subtree: true, characterData: true});
}"""
_TIME = re.compile(r"at(\d{13})\.")


def measure(folder: Path) -> Iterator[Measure]:
    """Measure the delay up to the driver, then up to the screen; then the CPU time of idle processes."""
    home, project = folder / "agents-home", folder / "agents-project"
    home.mkdir()
    project.mkdir()
    os.environ["UNSPOOL_GEMINI_PROGRAM"] = str(install(folder))
    driver = statistics.median(asyncio.run(_driver_alone(home, project)))
    environ = {**os.environ, "UNSPOOL_DATA": str(folder / "agents-data")}
    command = [sys.executable, "-m", "unspool", "serve", "--home", str(home), "--no-browser", "--port", "0"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environ)
    assert server.stdout is not None
    found = re.match(r"(http://[^/]+)/open\?token=(\S+)", server.stdout.readline().decode())
    assert found is not None
    try:
        screen = statistics.median(_to_the_screen(found[1], found[2], project))
        detail = f"driver {driver:.0f} ms, screen {screen:.0f} ms after the agent sent it"
        yield Measure("from the driver to the screen, median", screen - driver, " ms", 100, detail)
        cpu = _idle(server.pid)
        detail = "server and ingest worker, three idle agents"
        yield Measure("CPU time of an idle supervisor, of one core", 100 * cpu, " %", 1.0, detail)
    finally:
        server.terminate()
        server.wait(20)


async def _driver_alone(home: Path, project: Path) -> list[float]:
    delays: list[float] = []
    done = asyncio.Event()

    def handle(event: DriverEvent) -> None:
        if isinstance(event, TextDelta):
            delays.extend(1e3 * time.time() - int(sent_at) for sent_at in _TIME.findall(event.text))
        elif isinstance(event, TurnEnded):
            done.set()

    driver = drivers()["gemini"].create()
    await driver.start(RunSpec(folder=str(project), home=str(home)), handle)
    await driver.send("m", _SCRIPT)
    await asyncio.wait_for(done.wait(), 60)
    await driver.stop()
    return delays


def _to_the_screen(base: str, token: str, project: Path) -> list[float]:
    assert CHROMIUM is not None, "Chromium is required"
    from playwright.sync_api import sync_playwright

    with httpx.Client(base_url=base, headers={"authorization": f"Bearer {token}"}, timeout=60) as client:
        body = {"agent": "gemini", "folder": str(project), "prompt": "say hello"}
        runs = [client.post("/api/runs", json=body).json()["run"]["id"] for _ in range(3)]
        with sync_playwright() as playwright:
            page = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"]).new_page()
            page.goto(f"{base}/open?token={token}&next=/runs/{runs[0]}")
            page.wait_for_timeout(1500)
            page.evaluate(_RECORD_DELAYS)
            client.post(f"/api/runs/{runs[0]}/messages", json={"id": "clock", "text": _SCRIPT})
            page.wait_for_timeout(1000 * (_WORDS * _PAUSE + 2))
            seen: list[float] = page.evaluate("() => [...window.seen.values()]")
    assert len(seen) > _WORDS * 0.8, f"only {len(seen)} of {_WORDS} words were displayed"
    return seen


def _idle(pid: int) -> float:
    """Return the CPU time of a process and its children while they are idle, as a share of one core."""
    time.sleep(3)
    before = _cpu(pid)
    time.sleep(_IDLE_SECONDS)
    return (_cpu(pid) - before) / _IDLE_SECONDS


def _cpu(pid: int) -> float:
    total = 0
    for name in [str(pid), *Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]:
        fields = Path(f"/proc/{name}/stat").read_text().rpartition(") ")[2].split()
        total += int(fields[11]) + int(fields[12])
    return total / os.sysconf("SC_CLK_TCK")
