"""An open page keeps up with what agents write, even if the server is restarted: nothing is missing or doubled."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import zip_longest
from pathlib import Path
from typing import Any, get_args

import pytest

from unspool.testing import ClaudeLog, CodexLog, GeminiLog, call
from unspool.web.api.schemas import ItemKind
from unspool.web.session_query import PAGE_SIZE

from ..limits import limited
from ..waiting import wait_until
from .browser import (
    Page,
    Server,
    Visitor,
    entries,
    expand,
    expect,
    go,
    home_of_recordings,
    serving,
    settle,
    shot,
    transcript,
    until,
)

TOLD = frozenset(get_args(ItemKind))
TURNS = 45


class Work:
    """An agent at work: what it says is appended to its log."""

    def __init__(self, home: Path, name: str, turns: int = 0) -> None:
        self.log = ClaudeLog(name)
        for turn in range(turns):
            self.log.user(f"{name}: question {turn}", name=f"{name} prompt {turn}")
            self.log.model(f"{name}: answer {turn}", name=f"{name} answer {turn}")
        self.session = self.log.session
        self.path = self.log.write(home)
        self._written = len(self.log.lines)

    @property
    def address(self) -> str:
        return f"/sessions/{self.session}"

    def flush(self) -> None:
        """Write what was added to the log."""
        fresh = self.log.lines[self._written :]
        self._written += len(fresh)
        with self.path.open("ab") as file:
            file.write(b"".join(line + b"\n" for line in fresh))

    def say(self, *texts: str) -> None:
        for text in texts:
            self.log.user(text, timestamp=now())
        self.flush()


def now() -> str:
    """A time that is recent for as long as the test takes."""
    later = datetime.now(UTC) + timedelta(hours=1)
    return later.isoformat(timespec="milliseconds").replace("+00:00", "Z")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("live")
    with serving(folder, home_of_recordings(folder)) as server:
        server.wait_until_ready()
        yield server


def begun(server: Server, name: str, turns: int) -> Work:
    """A session that is already in the store."""
    work = Work(server.home, name, turns)
    server.wait_for(lambda: messages_of(server, work) == 2 * turns, f"reading {name}")
    return work


def messages_of(server: Server, work: Work) -> int:
    rows = [each["row"] for each in server.sessions() if each["row"]["name"] == work.session]
    return int(rows[0]["messages"]) if rows else 0


AT_END = "document.querySelector('#pages').getBoundingClientRect().bottom <= innerHeight + 80"
"""The end of the transcript is seen, as near as a page has to be to follow it."""


LAST = "[...document.querySelectorAll('section.page > .entry')].at(-1)"


def to_end(page: Page) -> None:
    page.keyboard.press("End")
    until(page, AT_END)
    settle(page)


def assert_in_step(page: Page, server: Server, work: Work, branch: int = 0) -> None:
    """Before long, the page shows what the API returns, entry by entry."""
    told = server.history(work.session, branch)
    shown: list[dict[str, Any]] = []

    def is_in_step() -> bool:
        shown[:] = [entry for entry in transcript(page) if entry["kind"] in TOLD]
        return [entry["key"] for entry in shown] == [item["key"] for item in told] and all(
            item.get("text", "") in entry["text"] for entry, item in zip(shown, told, strict=True)
        )

    wait_until(is_in_step, "showing what the API tells", detail=lambda: first_difference(shown, told))


def first_difference(shown: list[dict[str, Any]], told: list[dict[str, Any]]) -> str:
    for place, (entry, item) in enumerate(zip_longest(shown, told)):
        if entry is None or item is None or entry["key"] != item["key"] or item.get("text", "") not in entry["text"]:
            return f"At {place} of {len(told)} the page shows {entry}, the API tells {item}"
    return ""


def wait_for_text(page: Page, text: str) -> None:
    until(page, "(text) => document.querySelector('#pages').textContent.includes(text)", text)


# --- one page --------------------------------------------------------------------------------------------------------


def test_a_result_is_added_to_its_call(visitor: Visitor, server: Server) -> None:
    """The entry stays the same element, opened as the reader left it, and what is read does not move."""
    work = begun(server, "calling", 3)
    page = visitor.open(work.address)
    to_end(page)
    work.log.model(call("slow", command="make everything"), name="the call")
    work.flush()
    entry = page.locator(".entry.call")
    expect(entry).to_have_count(1)
    expect(entry.locator(".unfinished")).to_be_visible()
    expand(entry.locator("summary"))
    page.evaluate("document.querySelector('.entry.call').isTheSame = true")
    work.log.result("slow", "everything is made")
    work.log.model("It is done.")
    work.flush()
    expect(entry.locator(".output.result")).to_contain_text("everything is made")
    expect(page.locator(".entry.answer").last).to_contain_text("It is done.")
    assert entry.evaluate("(entry) => entry.isTheSame && entry.querySelector('details').open")
    expect(entry.locator(".unfinished")).to_have_count(0)
    assert_in_step(page, server, work)


@pytest.mark.parametrize("agent", ["codex", "gemini"])
def test_other_agents_are_followed_too(visitor: Visitor, server: Server, agent: str) -> None:
    """A turn that is written while the page is open appears in it."""
    log: Any = CodexLog("followed") if agent == "codex" else GeminiLog("followed")

    def turn(number: int) -> None:
        if agent == "codex":
            log.turn(f"question {number}", f"answer {number}")
        else:
            log.user(f"u{number}", f"question {number}")
            log.model(f"m{number}", f"answer {number}")

    turn(0)
    path = log.write(server.home)
    name = log.thread if agent == "codex" else log.session
    server.wait_for(lambda: [each for each in server.sessions() if each["row"]["name"] == name], "reading it")
    page = visitor.open(f"/sessions/{name}")
    turn(1)
    path.write_bytes(log.data)
    wait_for_text(page, "answer 1")
    keys = [entry["key"] for entry in transcript(page) if entry["kind"] in TOLD]
    assert keys == [item["key"] for item in server.history(name)]


def test_a_new_session_appears_in_every_list(visitor: Visitor, server: Server) -> None:
    """On top, among those at work: on the page of all sessions and beside a transcript."""
    old = begun(server, "old", 2)
    home, beside = visitor.open("/"), visitor.open(old.address)
    work = Work(server.home, "fresh")
    work.say("This has just begun")
    for page in (home, beside):
        page.bring_to_front()
        item = page.locator(f"li.session[data-key='{work.session}']")
        expect(item).to_have_attribute("data-live", "true")
        expect(item.locator(".title")).to_have_text("This has just begun")
        assert page.locator("section.project h2").first.inner_text().startswith("Live")
    count = int(home.locator(".bar .live [data-count]").inner_text())
    assert count == home.locator("li.session[data-live=true]").count()


def test_a_rejection_appears_in_the_event_list(visitor: Visitor, server: Server) -> None:
    """And in the timeline, the badges and the transcript of its session."""
    work = begun(server, "refusing", 1)
    ledger, page = visitor.open("/events/rejections"), visitor.open(work.address)
    work.log.model(call("no", command="rm -r everything"))
    said = (
        "The user doesn't want to proceed with this tool use. The tool use was rejected (eg. if it was a file edit, "
        "the new_string was NOT written to the file). To tell you how to proceed, the user said:\nleave it alone"
    )
    work.log.result("no", said, error=True, toolUseResult=f"Error: {said}")
    work.flush()
    expect(page.locator(".entry.rejected .verdict")).to_contain_text("leave it alone")
    expect(page.locator("#rail .mark.rejection")).to_have_count(1)
    expect(page.locator(".session-head .badge.rejection")).to_have_count(1)
    ledger.bring_to_front()
    expect(ledger.locator(".events > li").filter(has_text="leave it alone")).to_have_count(1)


# --- two pages -------------------------------------------------------------------------------------------------------


def test_tabs_on_different_branches_stay_in_step(visitor: Visitor, server: Server) -> None:
    """One shows the active branch, the other an abandoned one; then the first is abandoned as well."""
    work = begun(server, "branching", 6)
    work.log.user("taken back", parent="branching answer 2")
    work.log.model("an answer nobody wanted")
    work.log.last = work.log.id("branching answer 5")
    work.log.user("on the line that goes on")
    work.flush()
    server.wait_for(lambda: len(server.api(f"/sessions/{work.session}/tree")["lines"]) == 2, "the branch")
    alive, dead = visitor.open(work.address), visitor.open(f"{work.address}?branch=1")
    assert_in_step(alive, server, work)
    assert_in_step(dead, server, work, 1)
    alive.bring_to_front()
    to_end(alive)
    work.say("one more on the line that goes on")
    wait_for_text(alive, "one more on the line that goes on")
    assert_in_step(alive, server, work)
    dead.bring_to_front()
    assert_in_step(dead, server, work, 1)
    assert not any("goes on" in entry["text"] for entry in entries(dead))
    alive.bring_to_front()
    work.log.user("all over again", parent="branching answer 1")
    work.log.model("as you wish")
    work.flush()
    wait_for_text(alive, "as you wish")
    server.wait_for(lambda: len(server.api(f"/sessions/{work.session}/tree")["lines"]) > 2, "the other branch")
    until(alive, "!document.querySelector('#pages').textContent.includes('one more on the line')")
    expect(alive.locator(".entry.fork")).to_have_count(1)
    assert_in_step(alive, server, work)
    dead.bring_to_front()
    expect(dead.locator(".branches summary")).to_contain_text("3 branches")
    number = dead.locator("#transcript").get_attribute("data-branch")
    assert_in_step(dead, server, work, int(number))
    assert any("an answer nobody wanted" in entry["text"] for entry in entries(dead))


# --- many pages ------------------------------------------------------------------------------------------------------

TABS = 8
"""More than the six connections that a browser opens to a server."""
_HIDDEN = """
let isHidden = true;
Object.defineProperty(document, 'hidden', { get: () => isHidden });
window.reveal = () => {
  isHidden = false;
  document.dispatchEvent(new Event('visibilitychange'));
};
"""
"""Without a screen, every tab counts as visible."""


def test_many_tabs_leave_connections_for_requests(visitor: Visitor, server: Server) -> None:
    """All of them show what an agent writes, and another page still opens."""
    work = begun(server, "shared", 1)
    pages = [visitor.open(work.address) for _ in range(TABS)]
    work.say("told to everybody")
    for page in pages:
        wait_for_text(page, "told to everybody")
    go(pages[0], server, "/stats")


def test_hidden_tabs_that_cannot_share_a_stream_close_theirs(visitor: Visitor, server: Server) -> None:
    """Browsers on phones have no shared workers; four tabs with two streams each would take all connections."""
    work = begun(server, "alone", 1)
    hidden = [visitor.context.new_page() for _ in range(4)]
    for page in hidden:
        page.add_init_script(f"delete window.SharedWorker;{_HIDDEN}")
        go(page, server, work.address)
    shown = visitor.context.new_page()
    shown.add_init_script("delete window.SharedWorker")
    go(shown, server, work.address)
    work.say("told to the one that is looked at")
    wait_for_text(shown, "told to the one that is looked at")
    hidden[0].evaluate("reveal()")
    wait_for_text(hidden[0], "told to the one that is looked at")
    assert_in_step(hidden[0], server, work)


# --- a server that dies ----------------------------------------------------------------------------------------------


class Chatter:
    """An agent that talks by itself, as much as it is asked to."""

    def __init__(self, work: Work) -> None:
        self.work = work
        self.said = 0
        self._wanted = 0
        self._asked = threading.Semaphore(0)
        self._is_over = False
        self._thread = threading.Thread(target=self._talk)
        self._thread.start()

    def _talk(self) -> None:
        while self._asked.acquire() and not self._is_over:
            self.work.log.user(f"word {self.said}", timestamp=now())
            self.work.log.model(call(f"step{self.said}", command=f"step {self.said}"))
            self.work.log.result(f"step{self.said}", f"outcome {self.said}")
            self.work.flush()
            self.said += 1

    def go_on(self, count: int) -> None:
        """Say so much more, while others do something else."""
        self._wanted += count
        self._asked.release(count)

    def finish(self) -> None:
        """Wait until everything has been written."""
        wait_until(lambda: self.said == self._wanted, "everything being said")

    def stop(self) -> None:
        self._is_over = True
        self._asked.release()
        self._thread.join()


def hear(page: Page, word: int) -> None:
    """Wait until a page has followed up to a message, or farther: content outside the screen is not fetched."""
    until(
        page,
        """(word) => Number([...document.querySelectorAll('#pages .entry.prompt .prompt-text')].at(-1)
          ?.textContent.trim().split(" ").at(-1)) >= word""",
        word,
    )


def test_pages_catch_up_with_a_restarted_server(visitor: Visitor, server: Server) -> None:
    """Killed in the middle of a stream, twice, while the agent continues: each page recovers by itself."""
    work = begun(server, "killed", TURNS)
    following, reading = visitor.open(work.address), visitor.open(f"{work.address}?at=10")
    following.bring_to_front()
    to_end(following)
    wait_for_text(following, f"killed: answer {TURNS - 1}")
    chatter = Chatter(work)
    try:
        for _ in range(2):
            before = chatter.said
            chatter.go_on(20)
            hear(following, before + 3)
            server.kill()
            chatter.go_on(15)
            chatter.finish()
            server.start()
            chatter.go_on(10)
            chatter.finish()
            hear(following, chatter.said - 1)
    finally:
        chatter.stop()
    last = f"outcome {chatter.said - 1}"
    wait_for_text(following, last)
    server.wait_for(lambda: messages_of(server, work) == 2 * TURNS + 3 * chatter.said, "reading everything")
    expect(following.locator("#offline")).to_be_hidden()
    assert_in_step(following, server, work)
    reading.bring_to_front()
    expect(reading.locator("#new-messages")).to_be_visible()
    shot(reading, "new-messages")
    reading.locator("#new-messages").click()
    wait_for_text(reading, last)
    assert_in_step(reading, server, work)
    for page in (following, reading):
        keys = [entry["key"] for entry in entries(page)]
        assert len(keys) == len(set(keys))


# --- files whose changes are not reported ----------------------------------------------------------------------------


def test_the_page_says_that_updates_are_slow(visitors: Any, tmp_path: Path) -> None:
    """As soon as it is known, also on a page that is open, and with the reason; changes appear nevertheless."""
    within = limited("max_inotify_watches", 2)
    with serving(tmp_path, tmp_path / "home", within=within) as server, visitors.visit(server) as visitor:
        page = visitor.open("/")
        notice = page.locator("[data-delay]")
        expect(notice).to_be_hidden()
        work = Work(server.home, "slow", 2)
        expect(notice).to_be_visible()
        expect(notice).to_contain_text("Updates are slow: new messages appear a few seconds late")
        expect(notice).to_contain_text("raise fs.inotify.max_user_watches.")
        server.wait_for(lambda: messages_of(server, work) == 4, "reading the session")
        page = visitor.open(work.address)
        expect(page.locator("[data-delay]")).to_be_visible()
        work.say("a new message")
        expect(page.locator(".entry", has_text="a new message")).to_have_count(1)
        shot(page, "slow-updates")


# --- what is in a page ---------------------------------------------------------------------------------------------


def test_words_in_tables_are_whole(visitor: Visitor, server: Server) -> None:
    """However little room a long cell leaves for the others."""
    work = begun(server, "table", 1)
    work.say("| Advisory | text |\n|---|---|\n| Advisory | " + "many-a-word " * 80 + "|")
    page = visitor.open(work.address)
    cell = page.locator(".prose td").first
    expect(cell).to_have_text("Advisory")
    lines = """cell => {
        const range = document.createRange();
        range.selectNodeContents(cell);
        return range.getClientRects().length;
    }"""
    assert cell.evaluate(lines) == 1


# --- a page that is slow ---------------------------------------------------------------------------------------------


class Held:
    """Responses to a page that are held back until they are released."""

    def __init__(
        self, page: Page, address: str, answer: Callable[[Any], None] = lambda route: route.continue_()
    ) -> None:
        self._routes: list[Any] = []
        self._is_open = False
        self._answer = answer
        page.route(address, self._hold)

    def _hold(self, route: Any) -> None:
        if self._is_open:
            self._answer(route)
        else:
            self._routes.append(route)

    def wait(self, page: Page) -> None:
        """Until something has been asked for."""
        # Evaluating lets Playwright process pending requests.
        wait_until(lambda: page.evaluate("1") and self._routes, "a request that is held")

    def let_go(self) -> None:
        self._is_open = True
        for route in self._routes:
            self._answer(route)


def test_following_reaches_the_end_of_late_and_long_messages(visitor: Visitor, server: Server) -> None:
    """The last page is much longer than those before it, which is unknown until it has been fetched."""
    work = begun(server, "ending", TURNS)
    work.say(*(f"a long one {number}\n" + "line\n" * 60 for number in range(60)))
    wait_until(lambda: messages_of(server, work) == 2 * TURNS + 60, "reading the messages")
    page = visitor.tab()
    # Before the page is opened: it fetches what is near the screen by itself, which can be everything.
    held = Held(page, f"**{work.address}/pages/{(2 * TURNS + 60 - 1) // PAGE_SIZE}?*")
    go(page, server, work.address)
    page.keyboard.press("End")
    held.wait(page)
    held.let_go()
    wait_for_text(page, "a long one 59")
    until(page, AT_END)


def test_scrolling_away_from_the_end_stops_following(visitor: Visitor, server: Server) -> None:
    """Also where the end was about to be followed, and only its messages were still on their way."""
    work = begun(server, "leaving", TURNS)
    page = visitor.open(work.address)
    to_end(page)
    held = Held(page, f"**{work.address}/pages/*")
    # More than one event brings along, so that they have to be fetched.
    work.say(*(f"one of many {number}" for number in range(150)))
    held.wait(page)
    # As a user does it: scrolling by script does not count as an action of the user.
    page.mouse.move(700, 400)
    page.mouse.wheel(0, -100_000)
    until(page, "scrollY === 0")
    held.let_go()
    wait_until(lambda: messages_of(server, work) == 2 * TURNS + 150, "reading the messages")
    settle(page)
    assert page.evaluate("scrollY") < 200
    to_end(page)
    wait_for_text(page, "one of many 149")
    assert_in_step(page, server, work)


def test_following_includes_content_that_is_fetched(visitor: Visitor, server: Server) -> None:
    """However long it takes."""
    work = begun(server, "staying", TURNS)
    page = visitor.open(work.address)
    to_end(page)
    held = Held(page, f"**{work.address}/pages/*")
    work.say(*(f"one of many {number}" for number in range(150)))
    held.wait(page)
    held.let_go()
    wait_for_text(page, "one of many 149")
    until(page, AT_END)


def test_late_layout_does_not_stop_following(visitor: Visitor, server: Server) -> None:
    """An image, or an entry that is laid out only when there is time for it."""
    work = begun(server, "growing", TURNS)
    page = visitor.open(work.address)
    to_end(page)
    work.say("the last words")
    wait_for_text(page, "the last words")
    settle(page)
    page.evaluate(f"{LAST}.style.paddingTop = '700px'")
    until(page, AT_END)
    # Who has left the end is not brought back.
    page.mouse.move(700, 400)
    page.mouse.wheel(0, -100_000)
    until(page, "scrollY === 0")
    page.evaluate(f"{LAST}.style.paddingTop = '900px'")
    settle(page)
    assert page.evaluate("scrollY") == 0


class LateHead:
    """Answers to requests for the head of a session: held back, and then taller than the page has it."""

    def __init__(self, page: Page, work: Work) -> None:
        self._page = page
        self._lines = 0
        self._held = Held(page, f"**{work.address}/head?branch=*", self._answer)

    def _answer(self, route: Any) -> None:
        answer = route.fetch()
        head = '<header class="session-head">'
        assert head in answer.text()
        late = '<p class="late">late</p>' * self._lines
        route.fulfill(response=answer, body=answer.text().replace(head, head + late))

    def arrive(self, lines: int) -> None:
        """Let the page have a head with some more lines."""
        self._lines = lines
        self._held.wait(self._page)
        self._held.let_go()
        expect(self._page.locator(".session-head .late")).to_have_count(lines)
        settle(self._page)


def test_a_late_head_does_not_move_what_is_read(visitor: Visitor, server: Server) -> None:
    """A message that a link leads to stays in its place until the reader moves, however late the page above changes."""
    work = begun(server, "heading", TURNS)
    page = visitor.open(f"{work.address}?at=40")
    # Not every browser moves along with content that grows above the screen.
    page.evaluate("document.documentElement.style.overflowAnchor = 'none'")
    settle(page)
    place = "document.querySelector('.entry.current').getBoundingClientRect().top"
    before = page.evaluate(place)
    head = LateHead(page, work)
    work.say("one more")
    head.arrive(lines=12)
    assert abs(page.evaluate(place) - before) < 2
    # Something that is laid out late, without any change that the page's own scripts make.
    page.evaluate("document.querySelector('.session-head').style.paddingTop = '300px'")
    settle(page)
    assert abs(page.evaluate(place) - before) < 2
    # Nobody is brought back who has moved, be it with the scroll bar.
    page.evaluate("scrollBy(0, 300)")
    settle(page)
    moved = page.evaluate("scrollY")
    page.evaluate("document.querySelector('.session-head').style.paddingTop = '0'")
    settle(page)
    assert page.evaluate("scrollY") == moved


_COUNT_LOSSES = """
window.losses = 0;
new MutationObserver((records) => records.forEach(({ removedNodes }) => (window.losses += removedNodes.length)))
  .observe(document.querySelector('#pages'), { childList: true });
"""
"""Count the pages of the transcript that are taken away from now on."""


def test_an_outdated_head_takes_nothing_away(visitor: Visitor, server: Server) -> None:
    """Messages that were added while the head of the session was fetched stay, although it does not know them."""
    work = begun(server, "outdated", TURNS)
    page = visitor.open(work.address)
    to_end(page)
    held: list[tuple[Any, Any]] = []
    is_over: list[bool] = []

    def hold(route: Any) -> None:
        answer = route.fetch()
        # Others may go on while this waits for the server, and release what has been held so far.
        if is_over:
            route.fulfill(response=answer)
        else:
            held.append((route, answer))

    page.route("**/head?branch=*", hold)
    # Something for which everything is fetched again.
    work.log.user([{"type": "text", "text": "[Request interrupted by user]"}], timestamp=now())
    work.flush()
    wait_until(lambda: page.evaluate("true") and held, "the head to be fetched")
    work.say(*(f"later {number}" for number in range(TURNS)))
    wait_for_text(page, f"later {TURNS - 1}")
    page.evaluate(_COUNT_LOSSES)
    is_over.append(True)
    for route, answer in held:
        route.fulfill(response=answer)
    until(page, "document.querySelector('.session-head').textContent.includes('interrupt')")
    assert_in_step(page, server, work)
    assert page.evaluate("losses") == 0


def test_dragging_the_scroll_bar_stops_following(visitor: Visitor, server: Server) -> None:
    """There is no wheel, key or pointer event for it."""
    work = begun(server, "dragging", TURNS)
    page = visitor.open(work.address)
    to_end(page)
    # A drag scrolls in every frame. One step alone can coincide with entries above that get their height.
    for _ in range(8):
        page.evaluate("scrollBy(0, -innerHeight / 4)")
        settle(page)
    before = page.evaluate("scrollY")
    work.say("the last words")
    until(page, f"Number(document.querySelector('main').dataset.count) === {2 * TURNS + 1}")
    settle(page)
    assert abs(page.evaluate("scrollY") - before) < 200
    assert not page.evaluate(AT_END)
