"""A session of a hundred thousand messages is read like a short one: only content near the screen is in the page."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

import pytest

from unspool.testing import ClaudeLog

from ..waiting import wait_until
from .browser import Page, Server, Visitor, go, serving, settle, shot, until, wait_at

TURNS = 50_000
MESSAGES = 2 * TURNS
KEY = ClaudeLog("large").session
INTERRUPTED = range(499, TURNS, 500)
MOST_ELEMENTS = 10_000
"""Of a whole page, in which two thousand hold the places of all pages."""


def large() -> Iterator[bytes]:
    """Lines of questions and answers, and an interruption after some. Written by hand: there are very many."""
    fixed = (
        f'"isSidechain":false,"timestamp":"2026-03-01T00:00:00.000Z","sessionId":"{KEY}","version":"2.1.325",'
        '"cwd":"/home/dev/demo","userType":"external"'
    )
    parent = "null"
    for number in range(MESSAGES):
        turn, is_answer = divmod(number, 2)
        kind, content = "user", f'"question {turn}"'
        if is_answer and turn in INTERRUPTED:
            content = '[{"type":"text","text":"[Request interrupted by user]"}]'
        elif is_answer:
            words = "some *words* of it, and `code` " * (turn % 7)
            kind, content = "assistant", f'[{{"type":"text","text":"answer {turn}: {words}"}}]'
        own = f'"{UUID(int=number + 1)}"'
        said = f'"id":"msg_{number}","model":"claude-sonnet-4-5",' if kind == "assistant" else ""
        message = f'{{{said}"role":"{kind}","content":{content}}}'
        yield f'{{"parentUuid":{parent},"type":"{kind}","uuid":{own},{fixed},"message":{message}}}\n'.encode()
        parent = own


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("large")
    path = ClaudeLog("large").write(folder / "home")
    path.write_bytes(b"".join(large()))
    with serving(folder, folder / "home") as server:
        server.wait_for(lambda: server.api("/health")["sessions"] == 1, "reading the session")
        yield server


def shown(page: Page) -> list[int]:
    """The messages on the screen; waits until there are some and the page is at rest."""
    found: list[int] = until(
        page,
        """() => {
          if (document.querySelector('#pages [aria-busy=true]')) return null;
          const seen = [...document.querySelectorAll('section.page > .entry')].filter((entry) => {
            const { top, bottom } = entry.getBoundingClientRect();
            return bottom > 60 && top < innerHeight;
          });
          return seen.length > 2 && seen.map((entry) => Number(entry.dataset.index));
        }""",
    )
    return found


def dragged(page: Page, share: float) -> list[int]:
    """The messages on the screen after the scroll bar was dragged to a position.

    Scrolling by script is not an action of the user: while content is inserted, the page keeps the view in place.
    """

    def is_there() -> bool:
        page.evaluate("(share) => scrollTo(0, share * document.scrollingElement.scrollHeight)", share)
        settle(page)
        place: float = page.evaluate("scrollY / document.scrollingElement.scrollHeight")
        return abs(place - share) < 0.03

    wait_until(is_there, f"being at {share:.0%} of the session")
    return shown(page)


def assert_small(page: Page) -> None:
    elements = page.evaluate("document.querySelectorAll('*').length")
    assert elements < MOST_ELEMENTS


def test_every_message_is_reachable_with_few_in_the_page(visitor: Visitor, server: Server) -> None:
    """By its address, by the scroll bar and by the wheel."""
    page = visitor.open(f"/sessions/{KEY}")
    assert page.locator("section.page").count() == MESSAGES // 50
    assert_small(page)
    for index in (0, MESSAGES // 2, MESSAGES - 1):
        go(page, server, f"/sessions/{KEY}?at={index}")
        wait_at(page, index)
        assert index in shown(page)
        assert_small(page)
    shot(page, "large-end")
    for share in (0.75, 0.5, 0.25):
        seen = dragged(page, share)
        assert seen == sorted(seen)
        assert abs(seen[0] / MESSAGES - share) < 0.05
        assert_small(page)
    before = shown(page)[0]
    page.mouse.move(700, 500)

    def is_far() -> bool:
        for _ in range(10):
            page.mouse.wheel(0, 1500)
        settle(page)
        return shown(page)[0] > before + 100

    wait_until(is_far, "a hundred messages being passed by the wheel")
    assert_small(page)


def test_keyboard_steps_through_the_events_of_a_long_session(visitor: Visitor) -> None:
    """The timeline has a mark for all hundred of them, and keys lead from one to the next."""
    page = visitor.open(f"/sessions/{KEY}?at={2 * INTERRUPTED[40]}")
    wait_at(page, 2 * INTERRUPTED[40])
    for turn in (INTERRUPTED[40], INTERRUPTED[41], INTERRUPTED[42]):
        page.keyboard.press("]")
        wait_at(page, 2 * turn + 1)
    marked = "[...document.querySelectorAll('#rail .mark.interruption')].flatMap((m) => m.dataset.indices.split(' '))"
    assert len(page.evaluate(marked)) == len(INTERRUPTED)
    assert_small(page)


def test_the_context_view_of_a_late_message(visitor: Visitor) -> None:
    """Nothing was summarised away, so all of it was there; the page stays small."""
    page = visitor.open(f"/sessions/{KEY}?at={MESSAGES - 2}")
    wait_at(page, MESSAGES - 2)
    page.keyboard.press("c")
    until(page, "document.querySelector('#inspector .context')")
    shot(page, "large-context")
    assert_small(page)
