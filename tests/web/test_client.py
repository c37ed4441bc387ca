"""The pages in a real browser: paging through long transcripts, keys, live events, and failures."""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from unspool.testing import ClaudeLog, call
from unspool.web.assets import asset_url

from .browser import Page, Server, Visitor, expand, home_of_recordings, scrolled, settle, until

STATIC = Path(__file__).parents[2] / "src/unspool/web/static"
TURNS = 310
"""More than the timeline has marks for; what the tests add to the session fits on its last page."""


def long_log() -> ClaudeLog:
    """A session of many pages, with an edge: one turn was rewound."""
    log = ClaudeLog("long")
    for turn in range(TURNS):
        log.user(f"Question {turn}: " + "why is it so " * (turn % 9), name=f"prompt {turn}")
        log.model(f"Answer {turn}.\n\n" + "Because of this and that. " * (turn * 7 % 40), name=f"answer {turn}")
        log.model(call(f"call{turn}", command=f"make part-{turn}"))
        log.result(f"call{turn}", "line of output\n" * (turn % 70), name=f"result {turn}")
        if turn == 20:
            log.user("A question that was taken back", parent="result 20")
            log.model("An answer that nobody wanted")
            log.last = log.id("result 20")
    return log


class Served(Server):
    """A server that looks at the files again and again, on a home directory with a long session."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, home_of_recordings(folder), "--poll")
        self.log = long_log()
        self.path = self.log.write(self.home)
        self.written = len(self.log.lines)

    @property
    def address(self) -> str:
        return f"{self.base}/sessions/{self.log.session}"

    def say(self, *texts: str) -> None:
        """The agent continues the long session."""
        for text in texts:
            self.log.user(text)
        with self.path.open("ab") as file:
            file.write(b"".join(line + b"\n" for line in self.log.lines[self.written :]))
        self.written = len(self.log.lines)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    served = Served(tmp_path_factory.mktemp("served"))
    try:
        served.start()
        served.wait_until_ready()
        yield served
    finally:
        served.stop()


@pytest.fixture
def server(served: Served) -> Served:
    """The server that a visitor looks at."""
    return served


@pytest.fixture
def context(visitor: Visitor) -> Any:
    """A browser of its own for each test; nothing may go wrong in it unseen."""
    return visitor.context


@pytest.fixture
def page(visitor: Visitor) -> Page:
    return visitor.tab()


def wait_for(page: Page, condition: str) -> None:
    """Until something is true in a page."""
    until(page, f"Boolean({condition})")


def open_at(page: Page, address: str, index: int | None = None) -> None:
    page.goto(address if index is None else f"{address}?at={index}")
    wait_for(page, "document.querySelectorAll('section.page').length > 10")
    if index is not None:
        wait_for(page, "document.querySelector('.entry.current')")
    settle(page)


def current(page: Page) -> str | None:
    found: str | None = page.evaluate("document.querySelector('.entry.current')?.dataset.key ?? null")
    return found


def top_of(page: Page, selector: str) -> float:
    found: float = page.evaluate(f"document.querySelector({selector!r}).getBoundingClientRect().top")
    return found


def prompt(turn: int) -> int:
    """The index of a prompt: two messages were taken back after turn 20."""
    return turn * 4 + (2 if turn > 20 else 0)


# --- windows ---------------------------------------------------------------------------------------------------------


def test_only_pages_near_the_screen_have_content(page: Page, served: Served) -> None:
    """All pages have their place, few have elements, also after a long way."""
    open_at(page, served.address)
    assert page.locator("section.page").count() == -(-TURNS * 4 // 50)
    page.mouse.move(700, 500)
    for _ in range(10):
        scrolled(page, 7500)
    assert page.evaluate("document.querySelectorAll('section.page > .entry').length") > 50
    assert page.evaluate("document.querySelectorAll('section.page:not(:empty)').length") < 14


FRAMES = """
const [draw, Observer] = [requestAnimationFrame, IntersectionObserver];
window.requestAnimationFrame = (listener) => (window.held ? window.held.push(listener) : draw(listener));
window.IntersectionObserver = class extends Observer {
  constructor(seen, options) {
    super((...news) => [seen(...news), dispatchEvent(new Event('seen'))], options);
  }
};
"""
SCROLL_WITHOUT_FRAMES = """
async (shares) => {
  window.held = [];
  for (const share of shares) {
    // What the page does about it waits for 40 ms, so it has been done when a later timer rings.
    const done = new Promise((done) => addEventListener('seen', () => setTimeout(done, 60), { once: true }));
    scrollTo(0, share * document.documentElement.scrollHeight);
    await done;
  }
  const held = window.held;
  delete window.held;
  for (const listener of held) requestAnimationFrame(listener);
}
"""


@pytest.mark.parametrize("shares", [(0.9, 0.5, 0.9), (0.9, 0)], ids=["on", "back"])
def test_pages_are_removed_once_however_long_a_frame_takes(context: Any, served: Served, shares: list[float]) -> None:
    """The user scrolls far away, and farther or back, before the page is rendered again: removed content returns."""
    page = context.new_page()
    page.add_init_script(FRAMES)
    open_at(page, served.address)
    first = "document.querySelector('section.page').textContent"
    before = page.evaluate(first)
    page.evaluate(SCROLL_WITHOUT_FRAMES, shares)
    settle(page)
    page.evaluate("scrollTo(0, 0)")
    settle(page)
    assert page.evaluate("document.querySelector('section.page > .entry') !== null")
    assert page.evaluate(first) == before


def test_a_failed_update_does_not_block_the_next(page: Page, served: Served) -> None:
    """They are made in one frame, and each gets its own result."""
    open_at(page, served.address)
    assert page.evaluate(
        """async (script) => {
          const { Viewport } = await import(script);
          const viewport = new Viewport(document.createElement('div'));
          const changes = [() => 'made', () => { throw new Error('failed'); }, () => 'made too'];
          const ends = changes.map((change) => viewport.change(change).catch(({ message }) => message));
          await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
          return Promise.all(ends.map((end) => Promise.race([end, new Promise((done) => setTimeout(done))])));
        }""",
        asset_url("viewport.js"),
    ) == ["made", "failed", "made too"]


@pytest.mark.parametrize(
    ("status", "body", "shown"),
    [
        (409, '{"error": {"message": "Already answered", "code": "conflict"}}', ["Already answered", "conflict"]),
        (502, "<html>Bad Gateway</html>", ["The request failed (502).", None]),
        (403, '{"message": "Blocked by the proxy"}', ["The request failed (403).", None]),
        (200, "<html>Log in to the network</html>", ["The response could not be read.", None]),
    ],
)
def test_errors_are_explained_whoever_responds(
    page: Page, served: Served, status: int, body: str, shown: list[str | None]
) -> None:
    """A proxy may respond instead of the server, with anything."""
    open_at(page, served.address)
    error = page.evaluate(
        """async ([script, status, body]) => {
          const { postJson } = await import(script);
          window.fetch = async () => new Response(body, { status });
          return postJson("/api/runs", {}).then(String, ({ message, cause }) => [message, cause ?? null]);
        }""",
        [asset_url("dom.js"), status, body],
    )
    assert error == shown


def test_a_change_without_a_response_may_have_been_made(page: Page, served: Served) -> None:
    """The connection can break after the server has received it."""
    open_at(page, served.address)
    message = page.evaluate(
        """async (script) => {
          const { postJson } = await import(script);
          window.fetch = async () => { throw new TypeError("Failed to fetch"); };
          return postJson("/api/runs", {}).then(String, ({ message }) => message);
        }""",
        asset_url("dom.js"),
    )
    assert message == "The server cannot be reached. The change may not have been made."


@pytest.mark.parametrize(
    ("response", "shown"),
    [
        ("new Response('<html>Bad Gateway</html>', { status: 502 })", "The request failed (502)."),
        ("Promise.reject(new TypeError('Failed to fetch'))", "The server cannot be reached."),
    ],
)
def test_a_login_that_fails_is_explained(context: Any, served: Served, response: str, shown: str) -> None:
    """Also if a proxy responds instead of the server, or nobody does."""
    page = context.new_page()
    page.add_init_script(f"window.fetch = async (url) => url === '/open' ? {response} : Promise.reject(new Error());")
    page.goto(served.link)
    until(page, "document.querySelector('[role=status]').textContent !== 'Opening…'")
    assert page.locator("[role=status]").text_content() == shown


def test_a_page_that_arrives_too_late_is_dropped(page: Page, served: Served) -> None:
    """The line has become shorter while one of its last pages was on its way."""
    open_at(page, served.address)
    assert page.evaluate(
        """async (script) => {
          const { Pages } = await import(script);
          const pages = new Pages(document.querySelector('#transcript'));
          const last = pages.last;
          pages.loaded.clear();
          const loads = [pages.load(last, true), pages.load(last - 1, true)];
          pages.resize(pages.size * last);
          const ends = await Promise.allSettled(loads);
          // One that is far from the screen is put away again at the next look.
          const has = (number) => pages.loaded.has(number) || pages.cached.has(number);
          return [...ends.map(({ status }) => status), has(last), has(last - 1)];
        }""",
        asset_url("pages.js"),
    ) == ["fulfilled", "fulfilled", False, True]


def test_a_message_can_be_opened_from_its_address(page: Page, served: Served) -> None:
    """Whether the server rendered its page or not."""
    open_at(page, served.address, prompt(150))
    assert current(page) == f"{prompt(150)}.0"
    assert 0 < top_of(page, ".entry.current") < 200
    page.goto(f"{served.address}#m{prompt(250)}")
    wait_for(page, f"document.querySelector('.entry.current')?.dataset.index == {prompt(250)}")
    assert 0 < top_of(page, ".entry.current") < 200


def test_reading_upwards_does_not_jump(page: Page, served: Served) -> None:
    """The view moves by as much as the user scrolls, whatever is inserted above it."""
    open_at(page, served.address, prompt(200))
    worst = page.evaluate(
        """async () => {
          const frame = () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
          let worst = 0;
          for (let i = 0; i < 120; i++) {
            const entry = [...document.querySelectorAll('section.page > .entry')].find((entry) => {
              const { top, bottom } = entry.getBoundingClientRect();
              return bottom > 300 && top < innerHeight - 130;
            });
            if (!entry) { await frame(); continue; }
            const before = entry.getBoundingClientRect().top;
            document.scrollingElement.scrollTop -= 130;
            await frame();
            worst = Math.max(worst, Math.abs(entry.getBoundingClientRect().top - before - 130));
          }
          return worst;
        }"""
    )
    assert worst < 3


def test_the_address_restores_the_view(page: Page, served: Served) -> None:
    """After scrolling, loading the address again shows the same at the same height."""
    open_at(page, served.address, prompt(100))
    page.mouse.move(700, 500)
    scrolled(page, 1700)
    where = "[...document.querySelectorAll('section.page > .entry')].find(e => e.getBoundingClientRect().bottom > 100)"
    before = page.evaluate(f"(() => {{ const e = {where}; return [e.dataset.key, e.getBoundingClientRect().top] }})()")
    assert "at=" in page.url
    page.goto(page.url)
    wait_for(page, "document.querySelector('.entry.current')")
    settle(page)
    after = page.evaluate(f"(() => {{ const e = {where}; return [e.dataset.key, e.getBoundingClientRect().top] }})()")
    assert after[0] == before[0]
    assert after[1] == pytest.approx(before[1], abs=3)


def test_back_restores_the_position(page: Page, served: Served) -> None:
    """Jumps on the timeline are entries of the browser history."""
    open_at(page, served.address, prompt(10))
    page.locator("#rail .mark.rewind").first.click()
    wait_for(page, f"document.querySelector('.entry.current')?.dataset.index == {prompt(20) + 3 - 1}")
    page.go_back()
    wait_for(page, f"document.querySelector('.entry.current')?.dataset.index == {prompt(10)}")


def test_the_timeline_frame_follows_the_scroll_position(page: Page, served: Served) -> None:
    """The timeline shows the position in the session, and a click on it goes there."""
    open_at(page, served.address, prompt(150))
    assert 45 < page.evaluate("parseFloat(document.querySelector('#rail .frame').style.top)") < 55
    line = page.locator("#rail .scale").bounding_box()
    page.mouse.click(line["x"] + line["width"] / 2, line["y"] + line["height"] * 0.8)
    wait_for(page, "parseFloat(document.querySelector('#rail .frame').style.top) > 75")
    wait_for(page, "document.querySelector('section.page[data-page=\"19\"] > .entry')")


# --- keys ------------------------------------------------------------------------------------------------------------


def test_keyboard_navigation_of_the_transcript(page: Page, served: Served) -> None:
    """Message by message, prompt by prompt, event by event; over the edges of pages too."""
    open_at(page, served.address, prompt(12))
    page.keyboard.press("j")
    assert current(page) == f"{prompt(12) + 1}.0"
    page.keyboard.press("k")
    assert current(page) == f"{prompt(12)}.0"
    for turn in (13, 14, 15):
        page.keyboard.press("n")
        wait_for(page, f"document.querySelector('.entry.current').dataset.index == {prompt(turn)}")
    page.keyboard.press("p")
    wait_for(page, f"document.querySelector('.entry.current').dataset.index == {prompt(14)}")
    page.keyboard.press("]")
    wait_for(page, f"document.querySelector('.entry.current').dataset.index > {prompt(20)}")
    for _ in range(80):
        before = current(page)
        page.keyboard.press("j")
        wait_for(page, f"document.querySelector('.entry.current')?.dataset.key !== '{before}'")
    wait_for(page, f"document.querySelector('.entry.current').dataset.index > {prompt(38)}")
    assert page.evaluate("document.activeElement.matches('.entry.current')")


def test_a_step_starts_at_the_current_entry_though_it_was_pushed_off_the_screen(page: Page, served: Served) -> None:
    """Entries above it may get their real heights at any time."""
    open_at(page, served.address, prompt(12))
    page.keyboard.press("n")
    wait_for(page, f"document.querySelector('.entry.current').dataset.index == {prompt(13)}")
    settle(page)
    before = page.evaluate("document.querySelector('.entry.current').previousElementSibling.dataset.key")
    page.evaluate(
        "scrollBy(0, document.querySelector('.entry.current').getBoundingClientRect().top - innerHeight - 50)"
    )
    page.keyboard.press("k")
    wait_for(page, f"document.querySelector('.entry.current').dataset.key === '{before}'")


def test_an_entry_is_opened_by_keyboard(page: Page, served: Served) -> None:
    """`o` expands the current call."""
    open_at(page, served.address, prompt(40) + 2)
    page.keyboard.press("o")
    assert page.evaluate("document.querySelector('.entry.current details').open")
    page.keyboard.press("o")
    assert not page.evaluate("document.querySelector('.entry.current details').open")


def test_shortcuts_are_off_while_typing(page: Page, served: Served) -> None:
    """Letters go into the field, and Escape leaves it."""
    open_at(page, served.address, prompt(3))
    page.keyboard.press("/")
    page.keyboard.type("jjj")
    assert page.input_value("#search") == "jjj"
    assert current(page) == f"{prompt(3)}.0"
    page.keyboard.press("Escape")
    page.keyboard.press("j")
    assert current(page) == f"{prompt(3) + 1}.0"


def test_keyboard_navigation_of_the_list(page: Page, served: Served) -> None:
    """j, k and Enter open a session."""
    page.goto(served.base)
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("k")
    first = page.locator("#sessions li.session > a").first.get_attribute("href")
    assert page.evaluate("document.activeElement.getAttribute('href')") == first
    page.keyboard.press("Enter")
    page.wait_for_url(f"**{first}")


def test_help_and_palette_open_and_close(page: Page, served: Served) -> None:
    """By key; the palette finds views, sessions and text."""
    open_at(page, served.address)
    page.keyboard.press("?")
    assert page.evaluate("document.querySelector('#help').open")
    page.keyboard.press("Escape")
    assert not page.evaluate("document.querySelector('#help').open")
    page.keyboard.press("Control+k")
    page.keyboard.type("Question 77")
    page.locator("#palette-list li", has_text="77").nth(1).wait_for()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(r"at=\d+"))


# --- context ---------------------------------------------------------------------------------------------------------


def test_the_context_view_highlights_messages_in_context(page: Page, served: Served) -> None:
    """Rewound and later messages are dimmed; the view follows the current message, and Escape ends it."""
    open_at(page, served.address, prompt(22))
    page.keyboard.press("c")
    wait_for(page, "document.querySelector('[data-context-state]')")
    states = "document.querySelector('#m{}')?.dataset.contextState"
    assert page.evaluate(states.format(prompt(19))) == "in"
    assert page.evaluate(states.format(prompt(24))) == "after"
    assert f"context={prompt(22)}" in page.url
    for _ in range(3):
        page.keyboard.press("j")
    wait_for(page, f"document.querySelector('#inspector').textContent.includes('#{prompt(23)}')")
    assert page.evaluate(states.format(prompt(22))) == "in"
    page.goto(page.url)
    wait_for(page, "document.querySelector('[data-context-state]')")
    page.keyboard.press("Escape")
    assert page.locator("[data-context-state]").count() == 0
    assert "context=" not in page.url


def test_going_back_ends_a_comparison_of_contexts(page: Page, served: Served) -> None:
    """The context of the same message is shown, without the other one."""
    open_at(page, f"{served.address}?at={prompt(22)}&context={prompt(22)}&since={prompt(5)}")
    page.locator("#inspector .difference").wait_for()
    page.evaluate(
        """() => {
          const url = new URL(location.href);
          url.searchParams.delete("since");
          const compared = location.href;
          history.replaceState(null, "", url);
          history.pushState(null, "", compared);
          history.back();
        }""",
    )
    wait_for(page, "document.querySelector('#inspector .context') && !document.querySelector('#inspector .difference')")
    assert f"context={prompt(22)}" in page.url
    assert "since=" not in page.url


# --- what is fetched when asked for ----------------------------------------------------------------------------------


def test_an_abandoned_branch_is_expanded_in_place(page: Page, served: Served) -> None:
    """And when that fails, it says so and can be tried again."""
    open_at(page, served.address, prompt(20))
    page.route("**/branches/*", lambda route: route.abort())
    expand(page.locator("article.fork summary").first)
    page.locator("article.fork .failed").wait_for()
    page.unroute("**/branches/*")
    page.locator("article.fork .retry").click()
    page.locator("article.fork .loaded", has_text="An answer that nobody wanted").wait_for()


def test_a_long_output_is_shown_whole(page: Page, served: Served) -> None:
    """The button is replaced by all lines."""
    open_at(page, served.address, prompt(69) + 2)
    page.keyboard.press("o")
    entry = page.locator(".entry.current")
    entry.locator("button.more").click()
    wait_for(page, "document.querySelector('.entry.current').textContent.match(/line of output/g).length >= 69")


def test_times_are_relative_and_exact_on_hover(page: Page, served: Served) -> None:
    open_at(page, served.address)
    time_element = page.locator("section.page time").first
    assert "ago" in time_element.inner_text()
    assert "2026" in (time_element.get_attribute("title") or "")


# --- search ----------------------------------------------------------------------------------------------------------


def test_search_results_update_while_typing(page: Page, served: Served) -> None:
    """And the address keeps the question; hits are walked by arrows."""
    page.goto(f"{served.base}/search")
    page.locator("#query").press_sequentially("Question 123", delay=20)
    page.locator("#results li", has_text="123").first.wait_for()
    page.wait_for_url("**/search?q=Question+123")
    page.keyboard.press("ArrowDown")
    assert page.evaluate("document.activeElement.closest('#results li') !== null")


# --- live ------------------------------------------------------------------------------------------------------------


def grown(page: Page, text: str) -> None:
    wait_for(page, f"document.querySelector('#pages').textContent.includes({text!r})")


def test_new_messages_do_not_move_the_view(context: Any, served: Served) -> None:
    """At the end the view follows; elsewhere a pill counts. Tabs stay in step, also when one of them closes."""
    reading, following = context.new_page(), context.new_page()
    open_at(reading, served.address, prompt(100))
    open_at(following, served.address)
    following.keyboard.press("End")
    grown(following, f"Question {TURNS - 1}")
    settle(following)
    following.evaluate("document.scrollingElement.scrollTop = 1e9")
    settle(following)
    reading.bring_to_front()
    settle(reading)
    before = top_of(reading, ".entry.current")
    served.say("First news", "Second news")
    wait_for(reading, "document.querySelector('#new-messages').textContent === '2 new ↓'")
    assert top_of(reading, ".entry.current") == before
    following.bring_to_front()
    grown(following, "Second news")
    # What is below the transcript may still change its height.
    wait_for(following, "document.querySelector('#pages').getBoundingClientRect().bottom <= innerHeight + 80")
    assert following.locator("#new-messages").is_hidden()
    following.close()
    served.say("Third news")
    wait_for(reading, "document.querySelector('#new-messages').textContent === '3 new ↓'")
    reading.locator("#new-messages").click()
    grown(reading, "Third news")
    wait_for(reading, "document.querySelector('#new-messages').hidden")


def test_tabs_watch_different_sessions_over_one_stream(context: Any, served: Served) -> None:
    """Each gets the messages of the session it shows."""
    other = ClaudeLog("other")
    other.user("Something else")
    path = other.write(served.home)
    first, second = context.new_page(), context.new_page()
    open_at(first, served.address)
    first.evaluate("document.scrollingElement.scrollTop = 1e9")
    second.goto(served.base)
    wait_for(second, f"document.querySelector('[data-key=\"{other.session}\"]')")
    second.goto(f"{served.base}/sessions/{other.session}")
    other.user("Words in the other session")
    path.write_bytes(other.data)
    grown(second, "Words in the other session")
    served.say("Words in the long session")
    first.bring_to_front()
    first.evaluate("document.scrollingElement.scrollTop = 1e9")
    grown(first, "Words in the long session")


def test_pages_reconnect_to_a_restarted_server(page: Page, served: Served) -> None:
    """A banner says so and disappears by itself, and missed changes are shown."""
    open_at(page, served.address)
    wait_for(page, "document.documentElement.dataset.stream === 'open'")
    served.stop()
    page.locator("#offline").wait_for(state="visible")
    served.say("Said while nobody served")
    served.start()
    page.locator("#offline").wait_for(state="hidden")
    wait_for(page, "!document.querySelector('#new-messages').hidden")
    page.locator("#new-messages").click()
    grown(page, "Said while nobody served")


# --- without ---------------------------------------------------------------------------------------------------------


def test_scripts_are_small_and_local() -> None:
    """No build step, nothing from elsewhere, no HTML made of strings."""
    scripts = {path.name: path.read_text(encoding="utf-8") for path in STATIC.glob("*.js")}
    # What goes over the wire is compressed.
    assert sum(len(gzip.compress(text.encode(), 3)) for text in scripts.values()) <= 60 * 1024
    assert sum(len(text.encode()) for text in scripts.values()) <= 144 * 1024
    for name, text in scripts.items():
        assert text.startswith("/**"), f"{name} does not say what it is for"
        assert text.count("\n") <= 350, name
        assert not re.search(r"https?://|\beval\(|new Function|insertAdjacentHTML|outerHTML|document\.write", text), (
            name
        )
        assert text.count(".innerHTML") == (1 if name == "dom.js" else 0), name
