"""A real server, a real browser, and checks that all browser tests share."""

from __future__ import annotations

import json
import os
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import urllib.request
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import pytest

from unspool.library import Library

from ..waiting import PATIENCE as PATIENCE
from ..waiting import wait_until
from .conftest import home_of_recordings as home_of_recordings

sync_api = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")

BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
CHROMIUM = os.environ.get("UNSPOOL_TEST_BROWSER") or next(filter(None, map(shutil.which, BROWSERS)), None)
SHOTS = os.environ.get("UNSPOOL_SHOTS")
"""A folder for pictures of what the tests see. Without it none are taken."""
DESK = {"width": 1400, "height": 900}
PHONE = {"width": 390, "height": 844}
Page = Any
expect = sync_api.expect
expect.set_options(timeout=PATIENCE * 1000)

_WATCH = """
document.addEventListener('securitypolicyviolation', (event) =>
  window.complain(`the policy forbade ${event.violatedDirective} of ${event.blockedURI} ${event.sample}`));
"""


# --- the server ------------------------------------------------------------------------------------------------------


def held_port() -> socket.socket:
    """A socket that keeps a port of this computer for a server that is started, killed and started again.

    Linux lets a server listen on a port that another socket holds without listening. Nobody else is given that port,
    neither at first nor while the server is away.
    """
    held = socket.socket()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind(("127.0.0.1", 0))
    return held


_started: weakref.WeakValueDictionary[str, Server] = weakref.WeakValueDictionary()
"""Servers by their address."""


class Server:
    """`unspool serve` as a user starts it, on a home directory that a test may write to."""

    def __init__(self, folder: Path, home: Path, *options: str, within: tuple[str, ...] = ()) -> None:
        """`within` is a command that runs it."""
        self.home = home
        self.store = folder / "sessions.db"
        self.port = 0
        if sys.platform == "linux":
            held = held_port()
            weakref.finalize(self, held.close)
            self.port = int(held.getsockname()[1])
        self._folder = folder
        self._options = options
        self._within = within
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> Server:
        """Start it, on the port that it has from its first start on."""
        command = [
            *self._within, sys.executable, "-m", "unspool", "serve", "--home", str(self.home),
            "--store", str(self.store), "--no-browser", "--port", str(self.port), *self._options,
        ]  # fmt: skip
        # If it crashes, its log says where.
        environment = os.environ | {"UNSPOOL_DATA": str(self._folder / "data"), "PYTHONFAULTHANDLER": "1"}
        with (self._folder / "errors.txt").open("ab") as errors:
            self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, env=environment)
        output = self._process.stdout
        assert output is not None
        self.link = output.readline().strip() if select.select([output], [], [], PATIENCE)[0] else ""
        found = re.fullmatch(r"http://127\.0\.0\.1:(\d+)/open\?token=(\S+)", self.link)
        assert found, (self._folder / "errors.txt").read_text()
        self.port, self.token = int(found[1]), found[2]
        self.base = f"http://127.0.0.1:{self.port}"
        _started[urlsplit(self.base).netloc] = self
        return self

    def stop(self) -> None:
        """Ask it to end. It must not have ended by itself."""
        if self._process is not None:
            try:
                self.assert_running()
            finally:
                self._process.terminate()
                self._process.communicate(timeout=PATIENCE)
                self._process = None

    def kill(self) -> None:
        """End it without asking."""
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        self._process.communicate(timeout=PATIENCE)
        self._process = None

    @property
    def errors(self) -> str:
        """What it had to complain about."""
        path = self._folder / "errors.txt"
        return path.read_text() if path.exists() else ""

    def assert_running(self) -> None:
        """Fail with its exit status and log if it ended although nobody asked it to."""
        status = self._process.poll() if self._process is not None else None
        assert status is None, f"the server ended by itself with status {status}: {self.errors}"

    def api(self, path: str) -> Any:
        """An answer of the API."""
        self.assert_running()
        request = urllib.request.Request(f"{self.base}/api{path}", headers={"authorization": f"Bearer {self.token}"})
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            return json.load(answer)

    def sessions(self, query: str = "") -> list[dict[str, Any]]:
        """The rows of the list."""
        found: list[dict[str, Any]] = self.api(f"/sessions?limit=500{query}")["sessions"]
        return found

    def with_count(self, kind: str, agent: str | None = None) -> list[dict[str, Any]]:
        """Rows of sessions in which something happened, those with most of it first."""
        rows = [listed["row"] for listed in self.sessions(f"&agent={agent}" if agent else "")]
        found = [row for row in rows if row["counts"].get(kind)]
        return sorted(found, key=lambda row: (-row["counts"][kind], row["name"]))

    def history(self, key: str, branch: int = 0) -> list[dict[str, Any]]:
        """The whole history of one branch."""
        items: list[dict[str, Any]] = []
        before = ""
        while True:
            answer = self.api(f"/sessions/{quote(key, safe='')}/history?branch={branch}&limit=200{before}")
            items = answer["items"] + items
            if answer["before"] is None:
                return items
            before = f"&before={answer['before']}"

    def wait_for(self, condition: Callable[[], Any], what: str) -> Any:
        """Until the server knows something; what the condition gives then."""
        return wait_until(condition, what, detail=lambda: self.errors)

    def wait_until_ready(self) -> None:
        """Until everything that was there at its start is in the store."""
        library = Library(self.home)
        count = sum(1 for ref in library.refs() for _ in library.load_all(ref))
        self.wait_for(lambda: self.api("/health")["sessions"] == count, "reading the sessions")


@contextmanager
def serving(folder: Path, home: Path, *options: str, within: tuple[str, ...] = ()) -> Iterator[Server]:
    """A server for a while; at the end, its log must have no errors."""
    server = Server(folder, home, *options, within=within)
    try:
        yield server.start()
    finally:
        server.stop()
    assert "failed" not in server.errors, server.errors


# --- the browser -----------------------------------------------------------------------------------------------------


@contextmanager
def chromium() -> Iterator[Any]:
    """The browser."""
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--process-per-site"], timeout=PATIENCE * 1000
        )
        yield browser
        browser.close()


class Visitor:
    """A browser context that records everything that should not have happened."""

    def __init__(self, browser: Any, server: Server, **options: Any) -> None:
        self.server = server
        self.complaints: list[str] = []
        self._size = options.get("viewport", DESK)
        self._kept_tab: Page | None = None
        self._idle_tab: Page | None = None
        self.context = browser.new_context(**{"viewport": DESK, **options})
        self.context.set_default_timeout(PATIENCE * 1000)
        self.context.expose_binding("complain", lambda _, words: self.complaints.append(words))
        self.context.add_init_script(_WATCH)
        self.context.on("weberror", lambda error: self.complaints.append(f"a script failed: {error.error}"))
        self.context.on("console", self._hear)
        self.context.on("request", self._watch)
        self.context.on("dialog", self._refuse)
        self._log_in(server)

    def _log_in(self, server: Server) -> None:
        """What the page of the link does; no page has to be drawn for that."""
        address, _, token = server.link.partition("?token=")
        answer = self.context.request.post(
            address, data={"token": token}, headers={"origin": server.base}, timeout=PATIENCE * 1000
        )
        assert answer.ok, answer.text()
        keep = f"if (location.origin === '{server.base}') localStorage['unspool-key'] = '{answer.json()['key']}'"
        self.context.add_init_script(keep)

    def _hear(self, said: Any) -> None:
        if said.type == "error" and "ERR_" not in said.text:
            self.complaints.append(f"the console says: {said.text} ({said.location})")

    def _watch(self, request: Any) -> None:
        address = urlsplit(request.url)
        if (
            address.scheme in ("http", "https", "ws", "wss", "ftp")
            and address.netloc != urlsplit(self.server.base).netloc
        ):
            self.complaints.append(f"something was asked of {request.url[:200]}")

    def _refuse(self, dialog: Any) -> None:
        self.complaints.append(f"a dialog says: {dialog.message[:200]}")
        dialog.dismiss()

    def tab(self) -> Page:
        """A blank tab. One that a previous test used saves the start of another process."""
        page = self._idle_tab or self.context.new_page()
        self._kept_tab, self._idle_tab = self._kept_tab or page, None
        return page

    def open(self, path: str = "/") -> Page:
        """A page in a tab of its own."""
        page = self.tab()
        go(page, self.server, path)
        return page

    def reset(self) -> None:
        """Close everything but one tab, forget what was stored, and say what was wrong."""
        for page in self.context.pages:
            if page is not self._kept_tab:
                page.close()
        self.context.clear_permissions()
        if self._kept_tab is not None and not self._kept_tab.is_closed():
            self._clear(self._kept_tab)
            self._idle_tab = self._kept_tab
        else:
            self._kept_tab = self._idle_tab = None
        complaints, self.complaints[:] = list(self.complaints), []
        assert not complaints, "\n".join(complaints)

    def _clear(self, page: Page) -> None:
        page.unroute_all(behavior="ignoreErrors")
        if page.url.startswith(self.server.base):
            page.evaluate("sessionStorage.clear()")
        page.goto("about:blank")
        page.set_viewport_size(self._size)
        page.emulate_media(color_scheme="light")
        protocol = self.context.new_cdp_session(page)
        stored = {"origin": self.server.base, "storageTypes": "local_storage,indexeddb,cache_storage,service_workers"}
        protocol.send("Storage.clearDataForOrigin", stored)
        protocol.detach()

    def leave(self) -> None:
        """Close everything, and say what was wrong."""
        self.context.close()
        assert not self.complaints, "\n".join(self.complaints)


class Visitors:
    """Browser contexts that the tests of a module use one after the other: what a page loads is then cached."""

    def __init__(self, browser: Any) -> None:
        self._browser = browser
        self._idle: dict[str, Visitor] = {}

    @contextmanager
    def visit(self, server: Server, **options: Any) -> Iterator[Visitor]:
        """A context without anything that an earlier test has left in it."""
        key = f"{id(server)} {server.link} {sorted(options.items())}"
        visitor = self._idle.pop(key, None) or Visitor(self._browser, server, **options)
        yield visitor
        visitor.reset()
        self._idle[key] = visitor


def go(page: Page, server: Server, path: str) -> None:
    """Open an address of the server; its scripts are at work when this returns."""
    answer = page.goto(server.base + path)
    assert answer is not None
    assert answer.status < 400, f"{path}: {answer.status}"


def until(page: Page, condition: str, argument: Any = None) -> Any:
    """Until an expression is true in a page; its value. (Playwright's own waiting evaluates text in the page, which the
    page's policy forbids.)
    """
    server = _started.get(urlsplit(page.url).netloc)

    def value() -> Any:
        if server is not None:
            server.assert_running()
        return _evaluated(page, condition, argument)

    return wait_until(
        value,
        f"{condition} with {argument}",
        detail=lambda: f"{page.url} {_evaluated(page, _STATE, None)}",
    )


_STATE = """
() => JSON.stringify({
  scroll: scrollY, view: innerHeight, height: document.body.scrollHeight,
  busy: document.documentElement.dataset.busy, focus: document.activeElement?.className,
  entries: [...document.querySelectorAll('section.page > .entry')].slice(0, 12).map((entry) => {
    const { top, bottom } = entry.getBoundingClientRect();
    return [entry.dataset.key, entry.dataset.index, entry.dataset.result, top, bottom, entry.className];
  }),
})
"""
"""What is on the screen, for the message of a test that fails."""


def _evaluated(page: Page, condition: str, argument: Any) -> Any:
    try:
        return page.evaluate(condition, argument)
    except sync_api.Error as error:
        if "navigat" not in str(error) and "destroyed" not in str(error):
            raise
        return None


def rest(page: Page) -> None:
    """Until the page has put everything in its place and drawn it."""
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


_SETTLED = """
async (patience) => {
  const frame = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
  const end = Date.now() + patience;
  for (let [calm, before] = [0, NaN]; calm < 3; before = scrollY) {
    if (Date.now() > end) return document.documentElement.dataset.busy || 'scrolling';
    await frame();
    calm = !document.documentElement.dataset.busy && scrollY === before ? calm + 1 : 0;
  }
  return '';
}
"""


def settle(page: Page) -> None:
    """Until the page is at rest: for three frames nothing is fetched, put in, scrolled or written into the address."""
    left = page.evaluate(_SETTLED, PATIENCE * 1000)
    assert not left, f"waited {PATIENCE:.0f} s for {page.url} to come to rest; it is still {left}"


def scrolled(page: Page, pixels: int) -> None:
    """Turn the wheel, and wait until the page is at rest again."""
    before = page.evaluate("scrollY")
    page.mouse.wheel(0, pixels)
    until(
        page,
        """([before, pixels]) => scrollY !== before ||
          (pixels > 0 && innerHeight + scrollY >= document.documentElement.scrollHeight - 2)""",
        [before, pixels],
    )
    settle(page)


def expand(summary: Any) -> None:
    """Open the details of a summary. Content laid out between press and release can move it away from the mouse, and
    then nothing was clicked.
    """
    wait_until(
        lambda: summary.evaluate("(summary) => summary.parentElement.open") or summary.click(),
        f"the details of {summary} to open",
    )


def unfolded(page: Page) -> None:
    """Wait until all expanded content has been fetched, or could not be fetched."""
    until(
        page,
        """![...document.querySelectorAll('details[data-load][open]')].some((details) =>
          details.dataset.state !== 'loaded' && !details.querySelector(':scope > .loaded > .failed')) &&
          !document.querySelector('[aria-busy=true], button[data-load]:disabled')""",
    )


def shot(page: Page, name: str) -> None:
    """Take a screenshot, if a folder for screenshots is set."""
    if SHOTS:
        Path(SHOTS).mkdir(parents=True, exist_ok=True)
        page.screenshot(path=str(Path(SHOTS) / f"{name}.png"))


# --- what a page shows -----------------------------------------------------------------------------------------------

_GATHER = """
async (patience) => {
  const end = Date.now() + patience;
  const isEmpty = document.querySelector('#transcript').dataset.count === '0';
  const found = [];
  for (const section of document.querySelectorAll('#pages > section.page')) {
    while (!isEmpty && !section.querySelector(':scope > .entry')) {
      if (Date.now() > end) throw new Error(
        `page ${section.dataset.page} got no entries: ${section.outerHTML.slice(0, 500)}`);
      if (!section.isConnected) break;
      section.scrollIntoView();
      await new Promise((done) => setTimeout(done, 20));
    }
    for (const entry of section.querySelectorAll(':scope > .entry')) {
      const { key, kind, index, contextState } = entry.dataset;
      const number = index === undefined ? null : Number(index);
      found.push({ key, kind, index: number, contextState, text: entry.textContent });
    }
  }
  return found;
}
"""


def transcript(page: Page) -> list[dict[str, Any]]:
    """All entries of a transcript from its first page to its last, as they are shown."""
    found: list[dict[str, Any]] = page.evaluate(_GATHER, PATIENCE * 1000)
    return found


def entries(page: Page, box: str = "section.page") -> list[dict[str, Any]]:
    """The entries in some part of a page, as they are now."""
    found: list[dict[str, Any]] = page.evaluate(
        """(box) => [...document.querySelectorAll(`${box} > .entry`)].map((entry) =>
          ({ ...entry.dataset, text: entry.textContent, current: entry.classList.contains('current') }))""",
        box,
    )
    return found


def current(page: Page) -> int | None:
    """The message the reader is at."""
    found: int | None = page.evaluate("Number(document.querySelector('.entry.current')?.dataset.index ?? NaN)")
    return None if found is None or found != found else int(found)


def wait_at(page: Page, index: int) -> None:
    """Until the reader is at a message, and sees it; a result is seen in its call."""
    until(
        page,
        """(index) => {
          const entry = document.querySelector('.entry.current');
          const rect = entry?.getBoundingClientRect();
          const { index: own, result } = entry?.dataset ?? {};
          return [own, result].includes(String(index)) && rect.bottom > 48 && rect.top < innerHeight;
        }""",
        index,
    )


def words(text: str | None) -> str:
    """A text without its spaces and signs, to compare what was set as Markdown with what it was set from."""
    return "".join(re.findall(r"[^\W_]+", text or ""))


def is_sideways(page: Page) -> bool:
    """Whether a page is wider than the screen."""
    found: bool = page.evaluate("document.scrollingElement.scrollWidth > document.documentElement.clientWidth")
    return found
