"""Compares unspool with agentsview: the same home, the same browser, taking turns.

`python -m bench.compare_agentsview HOME` prints the time until the first content of each page is on the screen, and the
time from writing a line to a log until it is on the screen, with twenty tabs open. The median of several runs counts;
each run starts with an empty cache. Requests to other hosts are blocked. agentsview (`pip install agentsview`) is found
on PATH, next to Python, or at the path given by --agentsview; without it, only unspool is measured.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from tests.web.browser import CHROMIUM

from .web import message_line

SIZE = 4_000_000
"""Size in bytes of the session that is opened."""
TABS = 20
LINES = 12
TIMEOUT = 120
TAB_TIMEOUT = 30
"""Maximum time for one of many tabs to open, in seconds."""
LIVE = "589996c1-6fe7-4b3a-ba36-da8abcdd8ab4"

_WHEN_SHOWN = """
(selector) => {
  const look = () => {
    const found = [...document.querySelectorAll(selector)].find(
      (each) => (each.textContent.trim() || each.tagName === 'svg') && each.getClientRects().length);
    if (!found) return requestAnimationFrame(look);
    // The element is painted in the next frame.
    requestAnimationFrame(() => setTimeout(() => { window.shownAt = performance.now(); }));
  };
  look();
}
"""
_WHEN_FOUND = """
([selector, word]) => {
  const look = () => [...document.querySelectorAll(selector)].some(
    (each) => each.textContent.toLowerCase().includes(word))
    ? requestAnimationFrame(() => { window.shownAt = performance.now(); }) : requestAnimationFrame(look);
  look();
}
"""
_HIDDEN = """
Object.defineProperty(document, 'hidden', { get: () => true });
Object.defineProperty(document, 'visibilityState', { get: () => 'hidden' });
"""
_WHEN_SEEN = """
(selector) => {
  window.seen = {};
  const look = () => {
    for (const [, number] of document.querySelector(selector).textContent.matchAll(/zebra(\\d+) /g)) {
      window.seen[number] ??= Date.now();
    }
  };
  look();
  new MutationObserver(look).observe(document.body, { childList: true, subtree: true, characterData: true });
}
"""


class Program(NamedTuple):
    """A running server, with the paths of its pages and selectors for their content."""

    name: str
    base: str
    open: str
    """The address that logs in a browser; empty if none is needed."""
    pages: dict[str, tuple[str, str]]
    """For each task, the path of a page and the selector of its first content."""
    palette: tuple[str, str]
    """The selectors of the input that Ctrl-K opens, and of a match."""
    transcript: str
    """The selector of the element with the messages of a session."""
    following: str = "html"
    """A selector that matches once the page receives updates, if it shows that."""


# --- the programs ----------------------------------------------------------------------------------------------------


@contextmanager
def unspool(home: Path, data: Path, session: str) -> Iterator[Program]:
    """Run `unspool serve` after everything is synced."""
    environ = {**os.environ, "UNSPOOL_DATA": str(data)}
    common = [sys.executable, "-m", "unspool"]
    options = ["--home", str(home), "--store", str(data / "sessions.db")]
    subprocess.run([*common, "sync", *options], check=True, capture_output=True, env=environ)
    with _running([*common, "serve", *options, "--no-browser", "--port", "0"], environ) as address:
        pages = {
            "list": ("/", "li.session .title, li.session a"),
            "session": (f"/sessions/{session}", "#pages .entry .prose, #pages .entry .call"),
            "stats": ("/stats", ".plot svg"),
        }
        yield Program(
            "unspool",
            address.partition("/open")[0],
            address,
            pages,
            ("#palette-input", "#palette-list mark"),
            "#pages",
            "html[data-stream=open]",
        )


@contextmanager
def agentsview(program: str, home: Path, data: Path, session: str) -> Iterator[Program]:
    """Run `agentsview serve`, and wait until everything is in its database."""
    environ = {**os.environ, "HOME": str(home), "AGENTSVIEW_DATA_DIR": str(data)}
    serve = [program, "serve", "--no-browser", "--no-update-check", "--port", "0"]
    with _running(serve, environ) as address:
        _wait_for_sync(program, environ)
        pages = {
            "list": ("/", ".session-item .session-name"),
            "session": (f"/sessions/{session}", ".message .message-body"),
            "stats": ("/", ".heatmap-svg"),
        }
        yield Program(
            "agentsview", address, "", pages, (".palette-input", ".palette-item .item-snippet"), ".message-list-scroll"
        )


@contextmanager
def _running(command: list[str], environ: dict[str, str]) -> Iterator[str]:
    """Run a server; yields the address that it prints."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environ, text=True)
    assert process.stdout is not None
    try:
        printed = []
        for line in process.stdout:
            printed.append(line)
            if found := re.search(r"http://127\.0\.0\.1:\d+\S*", line):
                yield found[0].rstrip("/.,")
                return
        raise SystemExit(f"{command[0]} printed no address:\n{''.join(printed)}")
    finally:
        process.terminate()
        process.communicate()


def _wait_for_sync(program: str, environ: dict[str, str]) -> None:
    """Wait until the server of agentsview, which reads in the background, has read everything."""
    subprocess.run([program, "sync"], env=environ, check=True, capture_output=True)


# --- measuring -------------------------------------------------------------------------------------------------------


@contextmanager
def context_of(browser: Any, program: Program) -> Iterator[Any]:
    """Open a new browser context, logged in and with an empty cache."""
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    context.set_default_timeout(TIMEOUT * 1000)
    own = urlsplit(program.base).netloc
    context.route(lambda url: urlsplit(url).netloc != own, lambda route: route.abort())
    if program.open:
        page = context.new_page()
        page.goto(program.open)
        page.wait_for_url(f"{program.base}/")
        page.close()
        # The page that the link opened has filled the cache.
        context.new_cdp_session(context.new_page()).send("Network.clearBrowserCache")
    yield context
    context.close()


def first_content(browser: Any, program: Program, *, task: str) -> float:
    """Return the milliseconds from the start of a navigation until the first content is painted."""
    path, selector = program.pages[task]
    with context_of(browser, program) as context:
        page = context.new_page()
        context.new_cdp_session(page).send("Network.setCacheDisabled", {"cacheDisabled": True})
        page.add_init_script(f"({_WHEN_SHOWN})({json.dumps(selector)})")
        page.goto(program.base + path, wait_until="commit")
        return _value(page, "window.shownAt")


def search(browser: Any, program: Program, *, words: str) -> float:
    """Return the milliseconds from typing the last letter in the palette until the first match is shown."""
    palette, selector = program.palette
    with context_of(browser, program) as context:
        page = context.new_page()
        page.goto(program.base + "/")
        page.wait_for_selector(program.pages["list"][1])
        page.keyboard.press("Control+k")
        page.wait_for_selector(palette)
        page.locator(palette).fill(words[:-1])
        page.wait_for_timeout(1000)
        page.evaluate(_WHEN_FOUND, [selector, words])
        page.keyboard.press("End")
        start = page.evaluate("performance.now()")
        page.keyboard.type(words[-1])
        return _value(page, "window.shownAt") - float(start)


def append_to_screen(browser: Any, program: Program, log: Path) -> list[float] | None:
    """Return the milliseconds from writing a line to a log until it is on the screen, for several lines.

    Twenty tabs are open. Returns None if not all of them can be opened: a browser has six connections to a server, and
    each tab may use one.
    """
    from playwright.sync_api import TimeoutError

    with context_of(browser, program) as context:
        pages = [context.new_page() for _ in range(TABS)]
        for page in pages[:-1]:
            # In a headless browser, every tab would count as visible.
            page.add_init_script(_HIDDEN)
        try:
            for page in pages:
                page.goto(f"{program.base}/sessions/{LIVE}", wait_until="commit", timeout=TAB_TIMEOUT * 1000)
            for page in pages:
                page.wait_for_selector(f"{program.transcript}:has-text('zebra0 ')", timeout=TAB_TIMEOUT * 1000)
                # On a busy machine, the text can be visible long before the scripts of the page run.
                page.wait_for_selector(program.following, timeout=TAB_TIMEOUT * 1000)
        except TimeoutError:
            return None
        front = pages[-1]
        front.bring_to_front()
        front.wait_for_timeout(2000)
        front.evaluate(_WHEN_SEEN, program.transcript)
        took = []
        for number in range(1, LINES + 1):
            start = time.time() * 1000
            _append(log, number)
            took.append(_value(front, f"window.seen[{number}]") - start)
            front.wait_for_timeout(300)
        return took


def _value(page: Any, expression: str) -> float:
    end = time.monotonic() + TIMEOUT
    while (found := page.evaluate(f"() => {expression} ?? null")) is None:
        if time.monotonic() > end:
            raise SystemExit(f"{page.url} did not show the expected content within {TIMEOUT} s")
        page.wait_for_timeout(20)
    return float(found)


# --- inputs and output -----------------------------------------------------------------------------------------------


def session_of_size(home: Path, size: int) -> Path:
    """Return the log of the Claude Code session in a home whose size is closest to `size`."""
    logs = [path for path in home.glob(".claude/projects/*/*.jsonl") if not path.name.startswith("agent-")]
    if not logs:
        raise SystemExit(f"{home} has no sessions of Claude Code; choose another home directory")
    return min(logs, key=lambda path: abs(path.stat().st_size - size))


def _append(log: Path, number: int) -> None:
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("a", encoding="utf-8") as file:
        file.write(message_line(number, LIVE))


def table_row(task: str, times: dict[str, float | None]) -> str:
    """Format the times of a task, and their ratio."""
    found = list(times.values())
    ratio = f"{found[0] / found[1]:>10.2f}" if len(found) > 1 and found[0] and found[1] else ""
    return f"{task:<48}" + "".join(f"{'-' if time is None else f'{time:.0f}':>12}" for time in found) + ratio


# --- comparison ------------------------------------------------------------------------------------------------------


def compare(browser: Any, home: Path, program: str | None, runs: int, words: str, folder: Path) -> Iterator[str]:
    """Measure everything, alternating between the programs; yields each row of the table as soon as it is known."""
    log = session_of_size(home, SIZE)
    with ExitStack() as servers:
        programs = [servers.enter_context(unspool(home, folder / "unspool", log.stem))]
        if program is not None:
            programs.append(servers.enter_context(agentsview(program, home, folder / "agentsview", log.stem)))
        yield f"{f'median of {runs} runs, in ms':<48}" + "".join(f"{one.name:>12}" for one in programs) + "     ratio"
        titles = {
            "list": "first content of the list",
            "session": f"first content of a session of {log.stat().st_size / 1e6:.1f} MB",
            "stats": "first content of the statistics",
        }
        for task, title in titles.items():
            yield table_row(title, _medians(programs, runs, partial(first_content, browser, task=task)))
        yield table_row(f"search for {words!r}", _medians(programs, runs, partial(search, browser, words=words)))
    live = _live(browser, program, folder)
    title = f"from a line in a log to the screen, {TABS} tabs"
    for name, of in ((title, statistics.median), ("the slowest line", max)):
        yield table_row(name, {program: of(times) if times else None for program, times in live.items()})


def _live(browser: Any, program: str | None, folder: Path) -> dict[str, list[float] | None]:
    """Measure appended lines, in a home with one session that is created again for each program."""
    found: dict[str, list[float] | None] = {}
    for name in ("unspool", *(["agentsview"] if program else [])):
        with tempfile.TemporaryDirectory(prefix="live-", dir=folder) as made:
            home, data = Path(made) / "home", Path(made) / "data"
            log = home / ".claude" / "projects" / "-home-dev-demo" / f"{LIVE}.jsonl"
            data.mkdir()
            _append(log, 0)
            is_unspool = name == "unspool"
            with unspool(home, data, LIVE) if is_unspool else agentsview(program or "", home, data, LIVE) as server:
                found[name] = append_to_screen(browser, server, log)
    return found


def _medians(programs: list[Program], runs: int, measure: Callable[[Program], float]) -> dict[str, float | None]:
    found: dict[str, list[float]] = {one.name: [] for one in programs}
    for _ in range(runs):
        for one in programs:
            found[one.name].append(measure(one))
    return {name: statistics.median(times) for name, times in found.items()}


def main() -> int:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(prog="python -m bench.compare_agentsview", description=__doc__)
    parser.add_argument("home", type=Path, help="a home directory with sessions; nothing is written to it")
    parser.add_argument("--runs", type=int, default=5, help="number of times each page is opened (default: 5)")
    parser.add_argument("--words", default="checkpoint", help="words to search for (default: checkpoint)")
    parser.add_argument("--data", type=Path, help="directory for the databases of both programs, to reuse them")
    parser.add_argument("--agentsview", help="path of agentsview (default: found on PATH or next to Python)")
    args = parser.parse_args()
    if CHROMIUM is None:
        raise SystemExit("Chromium was not found; install it, or set UNSPOOL_TEST_BROWSER to its path")
    own = Path(sys.executable).parent / "agentsview"
    program = args.agentsview or shutil.which("agentsview") or (str(own) if own.exists() else None)
    if program is None:
        print("agentsview is not installed (`pip install agentsview`); only unspool is measured")
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory(prefix="unspool-compare-") as name, sync_playwright() as playwright:
        folder = args.data or Path(name)
        for part in ("unspool", "agentsview"):
            (folder / part).mkdir(parents=True, exist_ok=True)
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        for row in compare(browser, args.home.resolve(), program, args.runs, args.words, folder):
            print(row, flush=True)
        browser.close()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
