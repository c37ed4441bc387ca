"""Reading a session in a real browser: the outline, what calls show, the inspector, annotations, two sessions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from .browser import (
    DESK,
    PHONE,
    Page,
    Server,
    Visitors,
    expand,
    expect,
    go,
    is_sideways,
    serving,
    settle,
    shot,
    until,
    wait_at,
)
from .reading_home import FAILURES, full, other, write_home
from .test_browser_access import AUDIT

pytestmark = [pytest.mark.browser, pytest.mark.server]
SCREENS: dict[str, dict[str, Any]] = {
    "desktop": {"viewport": DESK, "color_scheme": "light"},
    "phone": {"viewport": PHONE, "color_scheme": "dark", "has_touch": True, "is_mobile": True},
}
FULL, OTHER = f"/sessions/{full().session}", f"/sessions/{other().session}"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("view")
    with serving(folder, write_home(folder / "home")) as server:
        server.wait_until_ready()
        yield server


@pytest.fixture(params=list(SCREENS))
def page(request: pytest.FixtureRequest, visitors: Visitors, server: Server) -> Iterator[Page]:
    with visitors.visit(server, **SCREENS[request.param]) as visitor:
        found = visitor.tab()
        found.screen = request.param
        yield found


def assert_looks_right(page: Page, name: str, part: str = "main") -> None:
    """In both lights: nothing that axe finds serious, and not wider than the screen."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not installed").Axe()
    settle(page)
    assert not is_sideways(page)
    page.evaluate(axe.axe_script)
    found = page.evaluate(AUDIT, [part, {}])
    shot(page, f"{name}-{page.screen}")
    page.emulate_media(color_scheme="dark" if page.screen == "desktop" else "light")
    found += page.evaluate(AUDIT, [part, {"runOnly": ["color-contrast"]}])
    shot(page, f"{name}-{page.screen}-other")
    page.emulate_media(color_scheme=SCREENS[page.screen]["color_scheme"])
    assert found == []


def show_timeline(page: Page) -> Any:
    """The outline; a phone has a tab for it."""
    if page.screen == "phone":
        page.locator(".tabs a", has_text="Timeline").click()
    outline = page.locator("#rail .outline")
    expect(outline).to_be_visible()
    return outline


def opened(page: Page, name: str) -> Any:
    """A call, unfolded."""
    entry = page.locator(".entry.call", has=page.locator(".name", has_text=re.compile(f"^{name}$"))).first
    expand(entry.locator("summary").first)
    return entry


def test_the_timeline_is_an_outline(page: Page, server: Server) -> None:
    """Prompts by their first words, events beneath, those of a kind as one mark, and everything leads somewhere."""
    go(page, server, FULL)
    outline = show_timeline(page)
    expect(outline.locator("a.turn")).to_have_count(3)
    expect(outline.locator("a.turn").nth(1)).to_contain_text("Look at this")
    cluster = outline.locator("li").nth(1).locator(".mark.error")
    expect(cluster.locator(".sign")).to_have_text(f"!×{FAILURES}")
    marks = outline.locator(".mark")
    assert marks.count() == outline.locator("a.mark[href]").count() > 3
    assert_looks_right(page, "outline", "#rail")
    for index in cluster.get_attribute("data-indices").split(" ")[:2]:
        show_timeline(page)
        cluster.click()
        wait_at(page, int(index))


def test_content_is_shown_as_what_it_is(page: Page, server: Server) -> None:
    """Prompts, tasks, plans, notebooks, web searches, colours and pictures."""
    go(page, server, FULL)
    prompt = page.locator(".entry.prompt").first
    expect(prompt.locator("strong")).to_have_text("read")
    expect(prompt.locator("li")).to_have_text(["first this", "then that"])
    expect(page.locator(".entry.harness").first).to_be_hidden()
    tasks = opened(page, "TodoWrite").locator(".tasks li")
    expect(tasks).to_have_text([re.compile("completed: Read"), re.compile("in progress: Count"), re.compile("pending")])
    expect(opened(page, "ExitPlanMode").locator(".prose ol li").first).to_have_text("Count the tides")
    read = opened(page, "Read")
    expect(read.locator(".target .folder")).to_have_text("very/deep/folder/")
    expect(read.locator(".cell.markdown em")).to_have_text("week")
    expect(read.locator(".cell.code .output").nth(0)).to_have_text("print(6 * 7)")
    expect(read.locator(".cell.code .output.result")).to_have_text("42")
    assert read.locator(".cell.code pre span").count() > 1
    edit = opened(page, "NotebookEdit")
    expect(edit.locator(".cell.replace .kind")).to_have_text("Replace code cell sum")
    expect(edit.locator(".cell.replace pre")).to_have_text("print(7 * 7)")
    link = opened(page, "WebSearch").locator(".result-prose a")
    expect(link).to_have_text("All about tides")
    assert link.get_attribute("href") == "https://example.org/tides"
    run = opened(page, "Bash")
    assert "\x1b" not in run.inner_text()
    red = run.locator(".result pre span", has_text="red words")
    assert red.evaluate("(e) => getComputedStyle(e).color !== getComputedStyle(e.parentElement).color")
    page.locator(".picture img").scroll_into_view_if_needed()
    until(page, "document.querySelector('.picture img').naturalWidth > 0")
    assert_looks_right(page, "content")
    page.locator("[data-toggle-notes=show]").click()
    expect(page.locator(".entry.harness").first).to_be_visible()


def test_the_inspector_says_what_a_context_is_made_of(page: Page, server: Server) -> None:
    """Tokens by kind, the largest items, files that left, the cost of the turn, and the difference to another place."""
    last = server.api(f"{FULL}/tree")["lines"][0]["tip_index"]
    go(page, server, f"{FULL}?at={last}&context={last}#m{last}")
    inspector = page.locator("#inspector .context")
    expect(inspector.locator("h3", has_text="Tokens by kind")).to_be_visible()
    expect(inspector.locator(".turn-cost")).to_contain_text("1 reply")
    expect(inspector.locator(".gone-files")).to_contain_text("tides.ipynb")
    assert inspector.locator(".largest li").count() > 0
    if page.screen == "phone":
        sheet = page.locator("#rail").bounding_box()
        assert sheet["y"] > PHONE["height"] / 4
        assert sheet["width"] == PHONE["width"]
    assert_looks_right(page, "inspector", "#rail")
    inspector.get_by_role("button", name="Compare with another message").click()
    page.locator("#m0 .anchor", has_text="context").click()
    expect(page.locator("#inspector .difference")).to_contain_text("added")


def test_pins_notes_and_tags_are_kept(page: Page, server: Server) -> None:
    """They are added, marked, there after a reload, and removed. Past sessions have a button instead of a composer."""
    go(page, server, OTHER)
    expect(page.locator("#composer summary", has_text="Continue this session")).to_be_visible()
    expect(page.locator("#message")).to_be_hidden()
    page.locator(".own [data-add-own=tag]").click()
    page.locator(".own-form input").fill("tides")
    page.locator(".own-form button").click()
    expect(page.locator(".own-tags .tag")).to_contain_text("tides")
    page.locator("#m0 [data-note]").click()
    page.locator(".own-form input").fill("see the chart")
    page.locator(".own-form button").click()
    expect(page.locator(".own-notes")).to_contain_text("see the chart")
    page.locator("#m0 [data-pin]").click()
    expect(page.locator("#m0 [data-pin]")).to_have_attribute("aria-pressed", "true")
    page.reload()
    expect(page.locator("#m0 [data-pin]")).to_have_attribute("aria-pressed", "true")
    assert_looks_right(page, "own")
    for count in (2, 1, 0):
        page.locator("[data-remove-own]").first.click()
        expect(page.locator("[data-remove-own]")).to_have_count(count)


def test_a_note_can_be_begun_while_another_is_saved(page: Page, server: Server) -> None:
    """What is being written stays, and so does the cursor."""
    go(page, server, OTHER)
    held: list[Any] = []
    page.route("**/own", lambda route: held.append(route))
    page.locator(".own [data-add-own=tag]").click()
    page.locator(".own-form input").fill("harbour")
    with page.expect_request("**/own"):
        page.locator(".own-form button").click()
    page.locator("#m0 [data-note]").click()
    page.locator(".own-form input").fill("half a ")
    held[0].continue_()
    expect(page.locator(".own-tags .tag")).to_contain_text("harbour")
    page.unroute("**/own")
    page.keyboard.type("note")
    page.keyboard.press("Enter")
    expect(page.locator(".own-notes")).to_contain_text("half a note")
    expect(page.locator(".own-form")).to_be_hidden()
    for count in (1, 0):
        page.locator("[data-remove-own]").first.click()
        expect(page.locator("[data-remove-own]")).to_have_count(count)


def test_two_sessions_side_by_side(page: Page, server: Server) -> None:
    """Each with its own entries; below each other on a phone."""
    go(page, server, f"/compare?a={full().session}&b={other().session}")
    sides = page.locator(".compare > .side")
    expect(sides.nth(0)).to_contain_text("Look at this")
    expect(sides.nth(1)).to_contain_text("Four metres.")
    boxes = [sides.nth(number).bounding_box() for number in (0, 1)]
    assert (boxes[0]["x"] == boxes[1]["x"]) == (page.screen == "phone")
    assert_looks_right(page, "side-by-side")


_HIDE = """
(hidden) => {
  Object.defineProperty(document, 'hidden', { get: () => hidden, configurable: true });
  document.dispatchEvent(new Event('visibilitychange'));
}
"""


def test_a_hidden_page_is_updated_when_it_is_shown(visitors: Visitors, server: Server) -> None:
    """And the new messages are marked when the session is opened again."""
    log = other()
    path = next(server.home.rglob(f"{log.session}.jsonl"))
    with visitors.visit(server, **SCREENS["desktop"]) as visitor:
        hidden, shown = visitor.open(OTHER), visitor.open(OTHER)
        for page in (hidden, shown):
            until(page, "document.documentElement.dataset.stream === 'open'")
        hidden.evaluate(_HIDE, True)
        log.user("And at night?")
        with path.open("ab") as file:
            file.write(log.lines[-1] + b"\n")
        expect(shown.locator(".entry.prompt", has_text="And at night?")).to_have_count(1)
        expect(hidden.locator(".entry.prompt", has_text="And at night?")).to_have_count(0)
        hidden.evaluate(_HIDE, False)
        expect(hidden.locator(".entry.prompt", has_text="And at night?")).to_have_count(1)
        again = visitor.open(OTHER)
        expect(again.locator(".session-head .since")).to_contain_text("1 new message since you last looked")
        expect(again.locator(".entry.first-new")).to_contain_text("And at night?")
