"""Responses that arrive late, in another order than they were requested, or not at all: a page never stays outdated."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from ..waiting import wait_until
from .browser import Page, Server, Visitor, go, home_of_recordings, serving, settle, until
from .test_browser_live import begun, to_end, wait_for_text

SECTION = "document.querySelector('section.page')"
LONG = 300
"""Turns of a session so long that pages far from the screen are emptied."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("late")
    with serving(folder, home_of_recordings(folder)) as server:
        server.wait_until_ready()
        yield server


def recorded(server: Server) -> str:
    """The address of a session that nobody writes to, so that nothing but the test makes its page fetch anything."""
    rows = [each["row"] for each in server.sessions()]
    return f"/sessions/{next(row['name'] for row in rows if row['messages'] > 4)}"


_RESYNC = "document.dispatchEvent(new CustomEvent('unspool:run', { detail: { kind: 'resync' } }))"
"""Make a page fetch its list, its head and all of the transcript: the head once alone, and once before the rest."""


def answered(page: Page, condition: Any, what: str) -> None:
    """Wait for something that the handlers of requests know."""
    # Evaluating lets Playwright process pending requests.
    wait_until(lambda: page.evaluate("true") and condition(), what)


# --- requests that fail ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("address", "times"), [("**/head?*", 2), ("**/list?*", 2), ("**/agents/needs", 1)])
def test_what_could_not_be_fetched_is_fetched_again(visitor: Visitor, server: Server, address: str, times: int) -> None:
    """Although nothing else happens: as often as an event asks for it, the connection breaks."""
    page = visitor.open(recorded(server))
    settle(page)
    requests: list[str] = []
    after: list[str] = []

    def fail_first(route: Any) -> None:
        requests.append(route.request.url)
        if len(requests) <= times:
            route.abort("connectionreset")
        else:
            after.append(route.request.url)
            route.continue_()

    page.route(address, fail_first)
    page.evaluate(_RESYNC)
    answered(page, lambda: after, f"another request for {address}")


def test_the_transcript_is_fetched_again_although_its_head_could_not_be(visitor: Visitor, server: Server) -> None:
    """An interruption is known only after its message was added, and only with the head all pages are fetched again."""
    page = visitor.open(recorded(server))
    settle(page)
    failed: list[str] = []
    pages: list[str] = []

    def fail_first(route: Any) -> None:
        if len(failed) < 2:
            failed.append(route.request.url)
            route.abort("connectionreset")
        else:
            route.continue_()

    def note_page(route: Any) -> None:
        pages.append(route.request.url)
        route.continue_()

    page.route("**/head?*", fail_first)
    page.route("**/pages/*", note_page)
    page.evaluate(_RESYNC)
    answered(page, lambda: pages, "the transcript to be fetched")


# --- responses in another order --------------------------------------------------------------------------------------

_NOTE_SHOWN = """
window.shown = new Set();
new MutationObserver(() => {
  for (const { dataset } of document.querySelectorAll('[data-response]')) window.shown.add(Number(dataset.response));
}).observe(document.body, { subtree: true, childList: true, attributes: true });
"""
_LAST_SHOWN = "Math.max(-1, ...window.shown)"


class Numbered:
    """Responses that say how many there were before. The first is held back."""

    def __init__(self, page: Page, address: str, beginning: str) -> None:
        self._page = page
        self._beginning = beginning
        self._count = 0
        self._first: Any = None
        page.route(address, self._answer)

    def _answer(self, route: Any) -> None:
        number = self._count
        self._count += 1
        answer = route.fetch()
        mark = rf'\g<0><p data-response="{number}" data-key="response">{number}</p>'
        body, changes = re.subn(self._beginning, mark, answer.text(), count=1)
        assert changes, answer.text()
        if number:
            route.fulfill(response=answer, body=body)
        else:
            self._first = (route, answer, body)

    def wait_for_first(self) -> None:
        answered(self._page, lambda: self._first is not None, "the first response")

    def release_first(self) -> None:
        route, answer, body = self._first
        route.fulfill(response=answer, body=body)


@pytest.mark.parametrize(
    ("address", "beginning"),
    [
        ("**/head?*", '<header class="session-head">'),
        ("**/list?*", '<nav id="sessions"[^>]*>'),
        ("**/rail?*", '<div class="timeline"[^>]*>'),
    ],
)
def test_an_older_response_does_not_replace_a_newer_one(
    visitor: Visitor, server: Server, address: str, beginning: str
) -> None:
    """What was requested first arrives last."""
    work = begun(server, f"overtaken {beginning[:5]}", 3)
    page = visitor.open(work.address)
    settle(page)
    page.evaluate(_NOTE_SHOWN)
    responses = Numbered(page, address, beginning)
    work.say("one")
    responses.wait_for_first()
    work.say("two")
    shown = until(page, f"{_LAST_SHOWN} > 0 && {_LAST_SHOWN}")
    responses.release_first()
    work.say("three")
    until(page, f"(before) => {_LAST_SHOWN} > before", shown)
    assert not page.evaluate("window.shown.has(0)")


# --- everything in one frame -----------------------------------------------------------------------------------------

_FRAMES = """
const request = window.requestAnimationFrame.bind(window);
let waiting = null;
window.requestAnimationFrame = (callback) => (waiting ? waiting.push(callback) : request(callback));
window.holdFrames = () => void (waiting ??= []);
window.drawFrame = async () => {
  for (const callback of waiting.splice(0)) callback(performance.now());
  await new Promise((done) => setTimeout(done));
};
window.releaseFrames = () => {
  const late = waiting;
  waiting = null;
  late.forEach((callback) => request(callback));
};
"""
"""Frames are drawn one by one, when the test wants them. Until `holdFrames` is called, everything is as always."""

_RESPONSES = """
const fetched = window.fetch.bind(window);
window.counts = { head: 0, pages: 0 };
window.fetch = async (url, options) => {
  const kind = /\\/(head|pages)\\b/.exec(String(url))?.[1];
  const response = await fetched(url, options);
  if (!kind || !response.ok) return response;
  const body = await response.text();
  if (kind === 'pages' && window.holdsNext) {
    window.holdsNext = false;
    window.isHeld = true;
    await new Promise((done) => (window.releasePage = done));
    const page = document.createElement('template');
    page.innerHTML = body;
    page.content.querySelector('.entry').remove();
    return { ok: true, text: async () => page.innerHTML };
  }
  window.counts[kind] += 1;
  return { ok: true, text: async () => body };
};
"""
"""One page of the transcript is held back, and then lacks an entry, as if it was older. Others are counted. All are
processed without another delay."""


def test_a_refresh_that_has_just_ended_does_not_swallow_the_next_one(visitor: Visitor, server: Server) -> None:
    """All pages are to be fetched again in the frame in which an older response is drawn."""
    page = visitor.context.new_page()
    page.add_init_script(_FRAMES + _RESPONSES)
    go(page, server, recorded(server))
    settle(page)
    entries = f"{SECTION}.querySelectorAll(':scope > .entry').length"
    before = page.evaluate(entries)
    page.evaluate("window.holdsNext = true")
    page.evaluate(_RESYNC)
    until(page, "window.isHeld && !/changing/.test(document.documentElement.dataset.busy)")
    page.evaluate("holdFrames(); counts.head = 0")
    page.evaluate(_RESYNC)
    until(page, "counts.head === 2")
    # The head is drawn, and the next frame is to begin the refresh.
    page.evaluate("drawFrame()")
    page.evaluate("releasePage(); new Promise((done) => setTimeout(done))")
    page.evaluate("drawFrame()")
    page.evaluate("releaseFrames()")
    until(page, f"{entries} === {before}")
    settle(page)


_LOADS = """
window.loads = { begun: 0, aborted: 0 };
window.AbortController = class extends AbortController {
  constructor() {
    super();
    window.loads.begun += 1;
  }
  abort(reason) {
    if (!this.signal.aborted) window.loads.aborted += 1;
    super.abort(reason);
  }
};
"""


def test_a_page_that_is_given_up_and_loaded_again_has_its_content(visitor: Visitor, server: Server) -> None:
    """Both within one frame, with the elements that were kept."""
    work = begun(server, "given up", LONG)
    page = visitor.context.new_page()
    page.add_init_script(_FRAMES + _LOADS)
    go(page, server, work.address)
    to_end(page)
    until(page, f"!{SECTION}.querySelector('.entry')")
    settle(page)
    page.evaluate("holdFrames(); Object.assign(loads, { begun: 0, aborted: 0 })")
    page.evaluate("scrollTo(0, 0)")
    until(page, "loads.begun > 0")
    page.evaluate("scrollTo(0, document.body.scrollHeight)")
    until(page, "loads.aborted > 0 && (loads.begun = 0, true)")
    page.evaluate("scrollTo(0, 0)")
    until(page, "loads.begun > 0")
    page.evaluate("releaseFrames()")
    wait_for_text(page, "given up: question 0")
    settle(page)
    assert page.evaluate(f"{SECTION}.textContent.includes('given up: question 0')")
