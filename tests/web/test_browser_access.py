"""Everybody can use the pages: with a keyboard, a phone, a screen reader, without motion and without script."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args

import pytest

from unspool.testing import ClaudeLog, call
from unspool.web.api.schemas import ItemKind

from .browser import (
    PHONE,
    Page,
    Server,
    Visitor,
    Visitors,
    current,
    expect,
    go,
    home_of_recordings,
    is_sideways,
    serving,
    settle,
    shot,
    unfolded,
    until,
)

TOLD = frozenset(get_args(ItemKind))
TURNS = 60
LONG = ClaudeLog("paged").session
REFUSED = (
    "The user doesn't want to proceed with this tool use. The tool use was rejected (eg. if it was a file edit, "
    "the new_string was NOT written to the file). To tell you how to proceed, the user said:\nnot {}"
)


def paged() -> ClaudeLog:
    """A session of several pages with two rejections, whose results follow other messages, and an interruption."""
    log = ClaudeLog("paged")
    for turn in range(TURNS):
        log.user(f"question {turn}", name=f"question {turn}")
        log.model(f"answer {turn} with `code`")
        if turn in (5, 9):
            log.model(call(f"a{turn}", command=f"rm {turn}"), call(f"b{turn}", command="ls"), reply=f"both {turn}")
            log.result(f"b{turn}", "file\n" * 60)
            said = REFUSED.format(turn)
            log.result(f"a{turn}", said, error=True, toolUseResult=f"Error: {said}")
        if turn == 12:
            log.user([{"type": "text", "text": "[Request interrupted by user]"}])
    log.user("taken back", parent="question 40")
    log.model("an answer nobody wanted")
    log.user("the end", parent=f"question {TURNS - 1}")
    return log


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("access")
    home = home_of_recordings(folder)
    paged().write(home)
    with serving(folder, home) as server:
        server.wait_until_ready()
        yield server


@pytest.fixture(scope="module")
def addresses(server: Server) -> dict[str, str]:
    """An address for each kind of page, with as much on it as there is."""
    refused, branched = server.with_count("rejection", "claude")[-1], server.with_count("branch", "codex")[0]
    compacted, parent = server.with_count("compaction", "claude")[0], server.with_count("subagent", "claude")[0]
    boundary = server.api(f"/sessions/{compacted['id']}")["compaction"]["boundaries"][0]["message_index"]
    return {
        "list": "/",
        "list-filtered": "/?agent=codex&has=rejection",
        "session": f"/sessions/{refused['id']}",
        "session-parent": f"/sessions/{parent['id']}",
        "session-compacted": f"/sessions/{compacted['id']}?at={boundary}",
        "branch": f"/sessions/{branched['id']}?branch=1",
        "compare": f"/sessions/{branched['id']}/compare?a=0&b=1",
        "rejections": "/events/rejections",
        "errors": "/events/errors",
        "failures": "/events/errors?view=groups",
        "find": f"/sessions/{refused['id']}/find?q=e",
        "files": "/files",
        "search": "/search?q=hello",
        "search-empty": "/search",
        "stats": "/stats",
        "usage": f"/sessions/{parent['id']}/usage",
        "agents": "/agents",
        "error": "/sessions/there-is-none",
    }


def opened(page: Page, server: Server, path: str) -> None:
    """A page with what can be unfolded on it unfolded."""
    page.goto(server.base + path)
    page.evaluate("for (const details of document.querySelectorAll('main details:not(.menu)')) details.open = true")
    unfolded(page)
    settle(page)


# --- automatic audit -------------------------------------------------------------------------------------------------

DESKTOP: dict[str, Any] = {"color_scheme": "light"}
TOUCHED: dict[str, Any] = {"viewport": PHONE, "has_touch": True, "is_mobile": True}
SCREENS = {"desktop": DESKTOP, "phone": TOUCHED}
KINDS = (
    "list", "list-filtered", "session", "session-parent", "session-compacted", "branch", "compare", "rejections",
    "errors", "failures", "find", "files", "search", "search-empty", "stats", "usage", "agents", "error",
)  # fmt: skip
SIMILAR = ("list-filtered", "session-parent", "branch", "errors", "search-empty")
"""Pages made of the same parts as others: only their width on a phone is checked."""
COLOURFUL = ("list", "session", "compare", "rejections", "stats", "agents", "palette", "share")
"""Pages that have all colours between them."""
PHONE_OWN = ("list", "session")
"""Pages with parts that only a phone has, in colours of their own: the bar of tabs, the sheet."""
AUDIT = """
async ([part, rules]) => {
  // Colours change gradually, for example to those of the dark: look when they have.
  const isEnding = ({ effect }) => effect.getComputedTiming().endTime !== Infinity;
  await Promise.allSettled(document.getAnimations().filter(isEnding).map(({ finished }) => finished));
  // Only what is found is described: a description of every element that is as it should be takes most of the time.
  const options = { resultTypes: ['violations'], ...rules };
  const { violations } = await axe.run(part ?? document, options);
  return violations.filter(({ impact }) => ['serious', 'critical'].includes(impact)).map(({ id, help, nodes }) =>
    `${id} (${help}): ${nodes.slice(0, 2).map(({ html }) => html.slice(0, 200))}`);
}
"""


def assert_accessible(page: Page, name: str, screen: dict[str, Any], part: str | None = None) -> None:
    """Nothing serious is found, on a large screen in both lights where a page has its own colours."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not installed").Axe()
    page.evaluate(axe.axe_script)
    # Contrast takes most of the time, and is the same on a phone.
    without = {"rules": {"color-contrast": {"enabled": False}}} if screen is TOUCHED and name not in PHONE_OWN else {}
    found = page.evaluate(AUDIT, [part, without])
    shot(page, f"{name}-{'phone' if screen is TOUCHED else 'light'}")
    if screen is DESKTOP and name in COLOURFUL:
        page.emulate_media(color_scheme="dark")
        # All that the dark can spoil.
        found += page.evaluate(AUDIT, [part, {"runOnly": ["color-contrast"]}])
        shot(page, f"{name}-dark")
    assert found == []


@pytest.fixture(params=list(SCREENS.values()), ids=list(SCREENS))
def screen(request: pytest.FixtureRequest) -> dict[str, Any]:
    """A way to look at a page."""
    found: dict[str, Any] = request.param
    return found


@pytest.fixture
def looking(visitors: Visitors, server: Server, screen: dict[str, Any]) -> Iterator[Page]:
    """A page on that screen. Nothing may go wrong in it but that a page is not there."""
    with visitors.visit(server, reduced_motion="reduce", **screen) as visitor:
        yield visitor.tab()
        visitor.complaints[:] = [words for words in visitor.complaints if "status of 404" not in words]


@pytest.mark.parametrize(
    ("screen", "kind"),
    [
        pytest.param(screen, kind, id=f"{name}-{kind}")
        for name, screen in SCREENS.items()
        for kind in KINDS
        if screen is TOUCHED or kind not in SIMILAR
    ],
    indirect=["screen"],
)
def test_pages_have_no_axe_violations(
    looking: Page, server: Server, addresses: dict[str, str], screen: dict[str, Any], kind: str
) -> None:
    """On each kind of page, unfolded, in both lights and on a phone; which is never wider than its screen."""
    opened(looking, server, addresses[kind])
    assert not is_sideways(looking)
    if kind not in SIMILAR:
        assert_accessible(looking, kind, screen)


def test_every_kind_of_page_is_checked(addresses: dict[str, str]) -> None:
    assert set(addresses) == set(KINDS)


def test_the_context_view_has_no_axe_violations(looking: Page, server: Server, screen: dict[str, Any]) -> None:
    """Messages that are not in context are dimmed on purpose, so only the panel beside them is checked."""
    opened(looking, server, f"/sessions/{LONG}?at=4&context=4")
    until(looking, "document.querySelector('#inspector .context')")
    assert_accessible(looking, "context", screen, "#rail")


def test_dialogs_have_no_axe_violations(looking: Page, server: Server, screen: dict[str, Any]) -> None:
    """Neither about the help nor about the palette."""
    go(looking, server, "/")
    looking.keyboard.press("?")
    expect(looking.locator("#help")).to_be_visible()
    assert_accessible(looking, "help", screen)
    looking.keyboard.press("Escape")
    looking.keyboard.press("Control+k")
    until(looking, "document.querySelectorAll('#palette-list li').length > 3")
    assert_accessible(looking, "palette", screen)


# --- a phone ---------------------------------------------------------------------------------------------------------


def test_a_phone_has_three_screens(browser: Any, server: Server) -> None:
    """List, transcript and timeline are a tap away from each other, and events from their messages."""
    visitor = Visitor(browser, server, **TOUCHED)
    page = visitor.open(f"/sessions/{LONG}")
    tabs = page.locator("nav.tabs")
    expect(page.locator("#pages .entry").first).to_be_visible()
    expect(page.locator("#sessions")).to_be_hidden()
    expect(page.locator("#rail")).to_be_hidden()
    tabs.get_by_role("link", name="Timeline").tap()
    expect(page.locator("#rail")).to_be_visible()
    shot(page, "phone-rail")
    page.locator("#rail .mark.rejection").first.tap()
    expect(page.locator("#rail")).to_be_hidden()
    until(page, "document.querySelector('.entry.current')?.classList.contains('rejected')")
    tabs.get_by_role("link", name="Sessions").tap()
    expect(page.locator("#sessions li.session").first).to_be_visible()
    shot(page, "phone-list")
    tabs.get_by_role("link", name="Transcript").tap()
    expect(page.locator("#sessions")).to_be_hidden()
    tabs.get_by_role("link", name="Sessions").tap()
    page.locator("#sessions li.session > a").nth(2).tap()
    until(page, "(old) => (document.querySelector('#transcript')?.dataset.key ?? old) !== old", LONG)
    assert not is_sideways(page)
    visitor.leave()


def test_touch_targets_are_large_enough(browser: Any, server: Server, addresses: dict[str, str]) -> None:
    """Touch targets are large enough, or have space around them; links in running text are exempt."""
    visitor = Visitor(browser, server, **TOUCHED)
    page = visitor.context.new_page()
    small = []
    for name, path in addresses.items():
        page.goto(server.base + path)
        found = page.evaluate(
            """() => {
              const targets = [...document.querySelectorAll('a[href], button, summary, input, select')].filter(
                (target) => target.checkVisibility({ opacityProperty: true }) &&
                  !target.closest('.prose, .facts, .anchor, p, pre, .skip'));
              const boxes = targets.map((target) => target.getBoundingClientRect());
              // A smaller target is fine where a circle of the size around it touches no other.
              const near = (a, b) => Math.abs((a.left + a.right) / 2 - (b.left + b.right) / 2) < 24 &&
                Math.abs((a.top + a.bottom) / 2 - (b.top + b.bottom) / 2) < 24;
              return targets.filter((target, at) => {
                const box = boxes[at];
                if (!box.width || (box.width >= 24 && box.height >= 24)) return false;
                // What scrolls below a bar that stays moves away from it.
                const bar = target.closest('.tabs');
                return boxes.some((other, number) => number !== at && other.width && near(box, other) &&
                  targets[number].closest('.tabs') === bar &&
                  !targets[number].contains(target) && !target.contains(targets[number]));
              }).map((target) => target.outerHTML.slice(0, 160));
            }"""
        )
        small += [f"{name}: {html}" for html in found[:3]]
    assert small == []
    tabs = page.evaluate("[...document.querySelectorAll('.tabs a')].map((link) => link.getBoundingClientRect().height)")
    assert all(height >= 44 for height in tabs)
    visitor.complaints[:] = [words for words in visitor.complaints if "status of 404" not in words]
    visitor.leave()


# --- a keyboard ------------------------------------------------------------------------------------------------------


def test_every_control_is_reachable_by_keyboard(visitor: Visitor, server: Server) -> None:
    """From the list to a session, along its prompts and events, into a call and its context, to the search and back."""
    page = visitor.open("/")
    press = page.keyboard.press
    focused = "document.activeElement.closest('li.session')?.dataset.key"
    press("/")
    assert page.evaluate("document.activeElement.id") == "search"
    press("Escape")
    press("j")
    for _ in range(200):
        if page.evaluate(focused) == LONG:
            break
        press("j")
    assert page.evaluate(focused) == LONG
    press("Enter")
    page.wait_for_url(f"**/sessions/{LONG}*")
    page.wait_for_load_state()
    press("n")
    press("n")
    until(page, "document.querySelector('.entry.current')?.textContent.includes('question 2')")
    seen = []
    for _ in range(4):
        before = current(page)
        press("]")
        until(page, "(before) => Number(document.querySelector('.entry.current').dataset.index) !== before", before)
        seen.append(page.evaluate("document.querySelector('.entry.current').textContent"))
    assert "not 5" in seen[0]
    assert "not 9" in seen[1]
    assert "Interrupted" in seen[2]
    assert "question 40" in seen[3]
    for _ in range(2):
        before = current(page)
        press("[")
        until(page, "(before) => Number(document.querySelector('.entry.current').dataset.index) !== before", before)
    assert "not 9" in page.evaluate("document.querySelector('.entry.current').textContent")
    assert page.evaluate("document.activeElement === document.querySelector('.entry.current')")
    was_open = page.evaluate("document.querySelector('.entry.current details').open")
    press("o")
    assert page.evaluate("document.querySelector('.entry.current details').open") != was_open
    press("c")
    until(page, "document.querySelector('[data-context-state=after]') && document.querySelector('#inspector .context')")
    press("Escape")
    expect(page.locator("[data-context-state]")).to_have_count(0)
    press("/")
    page.keyboard.type("question 7")
    press("Enter")
    page.wait_for_url("**/search?q=question+7")
    until(page, "document.querySelector('#results li a')")
    press("j")
    press("Enter")
    page.wait_for_url(f"**/sessions/{LONG}?at=*")
    press("g")
    press("s")
    page.wait_for_url(f"{server.base}/")


def test_focus_is_visible_and_not_trapped(visitor: Visitor, server: Server) -> None:
    """Tab reaches the skip link first, then everything in order; a dialog gives the focus back."""
    page = visitor.open(f"/sessions/{LONG}")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    outlines = []
    for _ in range(12):
        page.keyboard.press("Tab")
        outlines.append(page.evaluate("getComputedStyle(document.activeElement).outlineStyle"))
    assert set(outlines) <= {"solid", "auto"}
    page.locator("[data-open=help]").focus()
    page.keyboard.press("Enter")
    expect(page.locator("#help")).to_be_visible()
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement.dataset.open") == "help"


def test_reduced_motion_is_respected(browser: Any, server: Server) -> None:
    """With reduced motion no element has a transition or an animation, and jumps are jumps."""
    visitor = Visitor(browser, server, reduced_motion="reduce")
    page = visitor.open(f"/sessions/{LONG}")
    page.keyboard.press("]")
    until(page, "document.querySelector('.entry.current')")
    moving = page.evaluate(
        """[...document.querySelectorAll('*')].filter((element) => {
          const { transitionDuration, animationName, scrollBehavior } = getComputedStyle(element);
          return parseFloat(transitionDuration) > 0 || animationName !== 'none' || scrollBehavior === 'smooth';
        }).length + document.getAnimations().length"""
    )
    assert moving == 0
    visitor.leave()


# --- no script -------------------------------------------------------------------------------------------------------


def test_without_script_everything_is_read_page_by_page(browser: Any, server: Server) -> None:
    """Each message once, in order, forwards by the links and back again; and long outputs by a link of their own."""
    visitor = Visitor(browser, server, java_script_enabled=False)
    page = visitor.open(f"/sessions/{LONG}")
    keys: list[str] = []
    pages = 0
    while True:
        entries = page.locator("section.page > .entry").all()
        keys += [entry.get_attribute("data-key") for entry in entries if entry.get_attribute("data-kind") in TOLD]
        pages += 1
        later = page.locator("nav.paging a[rel=next]")
        if not later.count():
            break
        with page.expect_navigation():
            later.click()
    assert keys == [item["key"] for item in server.history(LONG)]
    assert pages > 1
    page.locator("nav.paging a[rel=prev]").click()
    page.wait_for_url("**page=*")
    expect(page.locator("section.page > .entry").first).to_be_visible()
    visitor.leave()


def test_without_script_every_view_renders(browser: Any, server: Server) -> None:
    """Filters and search are forms, folds open, a branch and a long output are links, an address opens a place."""
    visitor = Visitor(browser, server, java_script_enabled=False)
    page = visitor.open("/")
    page.locator("#filter").fill(LONG[:8])
    page.locator("#filter").press("Enter")
    expect(page.locator("li.session")).to_have_count(1)
    page.locator("li.session a").first.click()
    page.locator(".branches > summary").click()
    page.get_by_role("link", name="Show branches").click()
    page.get_by_role("link", name="branch 1", exact=True).click()
    expect(page.locator(".session-head .banner")).to_contain_text("You are reading branch 1")
    index = next(item["index"] for item in server.history(LONG) if item["kind"] == "call" and "ls" in str(item))
    go(page, server, f"/sessions/{LONG}?at={index}#m{index}")
    entry = page.locator(f"[data-index='{index}']", has_text="ls").last
    entry.locator("summary").click()
    entry.get_by_role("link", name="show all").click()
    page.wait_for_url("**/outputs/**")
    assert page.locator("pre").inner_text().count("file") == 60
    go(page, server, "/search")
    page.locator("#query").fill("question 30")
    page.get_by_role("button", name="Search", exact=True).click()
    page.locator("#results li a").first.click()
    expect(page.locator(".entry", has_text="question 30").first).to_be_visible()
    go(page, server, "/events/rejections")
    page.locator("input[name=tool]").fill("Edit")
    page.get_by_role("button", name="Filter").click()
    page.wait_for_url("**tool=Edit**")
    visitor.leave()
