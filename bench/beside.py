"""agentsview and unspool beside each other: the same home, the same browser, in turns.

`python -m bench.beside HOME` prints when the first content of each page is on the screen, and how long a line that is
written to a log takes to be seen with twenty tabs open. The median of several runs counts; each run has an empty cache.
Requests to other hosts fail at once. agentsview is found on PATH, beside Python, or where --agentsview says
(`pip install agentsview`); without it, only unspool is measured.
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
"""Bytes of the session that is opened."""
TABS = 20
LINES = 12
PATIENCE = 120
TAB_PATIENCE = 30
"""Seconds for one of many tabs to open."""
LIVE = "589996c1-6fe7-4b3a-ba36-da8abcdd8ab4"

_WHEN_SHOWN = """
(selector) => {
  const look = () => {
    const found = [...document.querySelectorAll(selector)].find(
      (each) => (each.textContent.trim() || each.tagName === 'svg') && each.getClientRects().length);
    if (!found) return requestAnimationFrame(look);
    // What was found is painted by the frame that follows.
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
    """A running server, and where it shows what."""

    name: str
    base: str
    open: str
    """The address that logs a browser in; empty if none is needed."""
    pages: dict[str, tuple[str, str]]
    """For each task, a path and what its first content is."""
    palette: tuple[str, str]
    """Where words are typed after Ctrl-K, and what a match is."""
    transcript: str
    """The element with the messages of a session."""
    following: str = "html"
    """What a page has as soon as it hears of changes, where it says so."""


# --- the programs ----------------------------------------------------------------------------------------------------


@contextmanager
def unspool(home: Path, data: Path, session: str) -> Iterator[Program]:
    """`unspool serve`, when everything is in the store."""
    environ = {**os.environ, "UNSPOOL_DATA": str(data)}
    common = [sys.executable, "-m", "unspool"]
    place = ["--home", str(home), "--store", str(data / "sessions.db")]
    subprocess.run([*common, "sync", *place], check=True, capture_output=True, env=environ)
    with _running([*common, "serve", *place, "--no-browser", "--port", "0"], environ) as address:
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
    """`agentsview serve`, when everything is in its database."""
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
    """A server; the address that it prints."""
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
    """The server of agentsview reads in the background; `sync` returns when it is done."""
    subprocess.run([program, "sync"], env=environ, check=True, capture_output=True)


# --- measuring -------------------------------------------------------------------------------------------------------


@contextmanager
def context_of(browser: Any, program: Program) -> Iterator[Any]:
    """An empty browser, logged in."""
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    context.set_default_timeout(PATIENCE * 1000)
    own = urlsplit(program.base).netloc
    context.route(lambda url: urlsplit(url).netloc != own, lambda route: route.abort())
    if program.open:
        page = context.new_page()
        page.goto(program.open)
        page.wait_for_url(f"{program.base}/")
        page.close()
        # What the page of the link loaded would be in the cache.
        context.new_cdp_session(context.new_page()).send("Network.clearBrowserCache")
    yield context
    context.close()


def first_content(browser: Any, program: Program, *, task: str) -> float:
    """Milliseconds from the beginning of a navigation until its content is painted."""
    path, selector = program.pages[task]
    with context_of(browser, program) as context:
        page = context.new_page()
        context.new_cdp_session(page).send("Network.setCacheDisabled", {"cacheDisabled": True})
        page.add_init_script(f"({_WHEN_SHOWN})({json.dumps(selector)})")
        page.goto(program.base + path, wait_until="commit")
        return _value(page, "window.shownAt")


def search(browser: Any, program: Program, *, words: str) -> float:
    """Milliseconds from the last letter in the palette until the first match is shown."""
    where, selector = program.palette
    with context_of(browser, program) as context:
        page = context.new_page()
        page.goto(program.base + "/")
        page.wait_for_selector(program.pages["list"][1])
        page.keyboard.press("Control+k")
        page.wait_for_selector(where)
        page.locator(where).fill(words[:-1])
        page.wait_for_timeout(1000)
        page.evaluate(_WHEN_FOUND, [selector, words])
        page.keyboard.press("End")
        start = page.evaluate("performance.now()")
        page.keyboard.type(words[-1])
        return _value(page, "window.shownAt") - float(start)


def append_to_screen(browser: Any, program: Program, log: Path) -> list[float] | None:
    """Milliseconds from a line in a log until it is on the screen, for each line, with twenty tabs open.

    None if not all tabs can be opened: a browser has six connections to a server, and each tab may hold one.
    """
    from playwright.sync_api import TimeoutError

    with context_of(browser, program) as context:
        pages = [context.new_page() for _ in range(TABS)]
        for page in pages[:-1]:
            # Without a screen, every tab would count as visible.
            page.add_init_script(_HIDDEN)
        try:
            for page in pages:
                page.goto(f"{program.base}/sessions/{LIVE}", wait_until="commit", timeout=TAB_PATIENCE * 1000)
            for page in pages:
                page.wait_for_selector(f"{program.transcript}:has-text('zebra0 ')", timeout=TAB_PATIENCE * 1000)
                # On a busy machine, the text can be there long before the scripts of the page are at work.
                page.wait_for_selector(program.following, timeout=TAB_PATIENCE * 1000)
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
    end = time.monotonic() + PATIENCE
    while (found := page.evaluate(f"() => {expression} ?? null")) is None:
        if time.monotonic() > end:
            raise SystemExit(f"{page.url} did not show what it should in {PATIENCE} s")
        page.wait_for_timeout(20)
    return float(found)


# --- what is measured on ---------------------------------------------------------------------------------------------


def session_of_size(home: Path, size: int) -> Path:
    """The Claude session in a home whose log is nearest to a size."""
    logs = [path for path in home.glob(".claude/projects/*/*.jsonl") if not path.name.startswith("agent-")]
    if not logs:
        raise SystemExit(f"{home} has no sessions of Claude Code; name another home directory")
    return min(logs, key=lambda path: abs(path.stat().st_size - size))


def _append(log: Path, number: int) -> None:
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("a", encoding="utf-8") as file:
        file.write(message_line(number, LIVE))


def line(task: str, times: dict[str, float | None]) -> str:
    """The times of a task, and how they compare."""
    found = list(times.values())
    ratio = f"{found[0] / found[1]:>10.2f}" if len(found) > 1 and found[0] and found[1] else ""
    return f"{task:<48}" + "".join(f"{'-' if time is None else f'{time:.0f}':>12}" for time in found) + ratio


# --- all of it -------------------------------------------------------------------------------------------------------


def compare(browser: Any, home: Path, program: str | None, runs: int, words: str, folder: Path) -> Iterator[str]:
    """Everything, in turns; a line as soon as it is known."""
    log = session_of_size(home, SIZE)
    with ExitStack() as servers:
        both = [servers.enter_context(unspool(home, folder / "unspool", log.stem))]
        if program is not None:
            both.append(servers.enter_context(agentsview(program, home, folder / "agentsview", log.stem)))
        yield f"{f'median of {runs} runs, in ms':<48}" + "".join(f"{one.name:>12}" for one in both) + "     ratio"
        titles = {
            "list": "first content of the list",
            "session": f"first content of a session of {log.stat().st_size / 1e6:.1f} MB",
            "stats": "first content of the statistics",
        }
        for task, title in titles.items():
            yield line(title, _medians(both, runs, partial(first_content, browser, task=task)))
        yield line(f"search for {words!r}", _medians(both, runs, partial(search, browser, words=words)))
    live = _live(browser, program, folder)
    title = f"from a line in a log to the screen, {TABS} tabs"
    for name, of in ((title, statistics.median), ("the slowest line", max)):
        yield line(name, {program: of(times) if times else None for program, times in live.items()})


def _live(browser: Any, program: str | None, folder: Path) -> dict[str, list[float] | None]:
    """On a home with one session, a fresh copy for each program."""
    found: dict[str, list[float] | None] = {}
    for name in ("unspool", *(["agentsview"] if program else [])):
        with tempfile.TemporaryDirectory(prefix="live-", dir=folder) as made:
            home, data = Path(made) / "home", Path(made) / "data"
            log = home / ".claude" / "projects" / "-home-dev-demo" / f"{LIVE}.jsonl"
            data.mkdir()
            _append(log, 0)
            ours = name == "unspool"
            with unspool(home, data, LIVE) if ours else agentsview(program or "", home, data, LIVE) as one:
                found[name] = append_to_screen(browser, one, log)
    return found


def _medians(programs: list[Program], runs: int, measure: Callable[[Program], float]) -> dict[str, float | None]:
    found: dict[str, list[float]] = {one.name: [] for one in programs}
    for _ in range(runs):
        for one in programs:
            found[one.name].append(measure(one))
    return {name: statistics.median(times) for name, times in found.items()}


def main() -> int:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(prog="python -m bench.beside", description=__doc__)
    parser.add_argument("home", type=Path, help="a home directory with sessions; nothing is written to it")
    parser.add_argument("--runs", type=int, default=5, help="how often each page is opened (default: 5)")
    parser.add_argument("--words", default="checkpoint", help="what is searched for (default: checkpoint)")
    parser.add_argument("--data", type=Path, help="keep the databases of both programs here, for another run")
    parser.add_argument("--agentsview", help="the program; default: the one on PATH or beside Python")
    args = parser.parse_args()
    if CHROMIUM is None:
        raise SystemExit("no Chromium was found; install it, or name it in UNSPOOL_TEST_BROWSER")
    beside_python = Path(sys.executable).parent / "agentsview"
    program = args.agentsview or shutil.which("agentsview") or (str(beside_python) if beside_python.exists() else None)
    if program is None:
        print("agentsview is not installed (`pip install agentsview`); only unspool is measured")
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory(prefix="unspool-beside-") as name, sync_playwright() as playwright:
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
