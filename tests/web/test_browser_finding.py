"""Finding sessions and messages in a real browser: the list, search, the palette, find in session, failures, files."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ..waiting import wait_until
from .browser import PHONE, Page, Server, Visitor, expect, is_sideways, serving, settle, shot, until
from .finding_home import LONG, REPOSITORY, WORKTREE, write_home

pytestmark = [pytest.mark.browser, pytest.mark.server]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("finding")
    with serving(folder, write_home(folder / "home")) as server:
        server.wait_until_ready()
        yield server


def pictures(page: Page, name: str) -> None:
    """How a page looks on both screens and in both lights; it is never wider than a phone."""
    size = page.viewport_size
    for light in ("light", "dark"):
        page.emulate_media(color_scheme=light)
        shot(page, f"{name}-{light}")
    page.set_viewport_size(PHONE)
    shot(page, f"{name}-phone-dark")
    page.emulate_media(color_scheme="light")
    shot(page, f"{name}-phone")
    assert not is_sideways(page)
    page.set_viewport_size(size)


# --- the list --------------------------------------------------------------------------------------------------------


def shown(page: Page) -> list[str]:
    """The titles of the listed sessions."""
    found: list[str] = page.locator("li.session > a .title").all_text_contents()
    return found


def test_worktrees_are_listed_under_their_repository(visitor: Visitor) -> None:
    """In the list and in the menu of projects, which counts them; a row says which worktree it is from."""
    page = visitor.open("/")
    group = page.locator(f'section.project[data-project="{REPOSITORY}"]')
    expect(group.locator("li.session")).to_have_count(3)
    expect(group.locator(".project-name")).to_have_text(["pier"])
    page.locator(".choose summary", has_text="All projects").click()
    menu = page.locator(".choose[open] .choices")
    expect(menu.locator("a", has_text="harbour").first).to_contain_text("3")
    expect(menu.locator(".worktree a")).to_contain_text(["pier"])
    pictures(page, "list-menu")
    menu.locator(".worktree a").click()
    page.wait_for_url("**project=**")
    assert shown(page) == ["Make the tests pass (pier)"]
    assert f"project={WORKTREE.replace('/', '%2F')}" in page.url


def test_rows_are_distinguished(visitor: Visitor) -> None:
    """By the last prompt, the time they took, turns, tokens, cost and model; badges are aligned."""
    page = visitor.open("/")
    row = page.locator("li.session", has_text="Make the tests pass (quay)")
    expect(row.locator(".last")).to_have_text("Last prompt: Now look at tower.py (quay)")
    expect(row.locator(".numbers-line")).to_contain_text("claude-sonnet-4-5")
    expect(row.locator(".numbers-line")).to_contain_text("2 turns")
    expect(row.locator(".numbers-line")).to_contain_text("tokens")
    expect(row.locator(".numbers-line")).to_contain_text("$")
    lefts = page.evaluate(
        "[...document.querySelectorAll('li.session .badge.error')].map((badge) => badge.getBoundingClientRect().right)"
    )
    assert len(lefts) >= 2
    assert len(set(lefts)) == 1
    pictures(page, "list-rows")


def test_filters_live_in_the_address(visitor: Visitor) -> None:
    """Period, model, agent, layout and order are links; a reload and the way back keep them."""
    page = visitor.open("/")
    everything = shown(page)
    page.get_by_role("link", name="Today").click()
    page.wait_for_url("**/?after=today")
    assert shown(page) == []
    page.get_by_role("link", name="Any time").click()
    page.wait_for_url(lambda url: "after" not in url)
    page.locator(".choose summary", has_text="All models").click()
    page.locator(".choices a", has_text="claude-sonnet-4-5").click()
    page.wait_for_url("**/?model=claude-sonnet-4-5")
    assert len(shown(page)) == 3
    page.get_by_role("link", name="as one list").click()
    page.wait_for_url("**view=flat**")
    expect(page.locator("section.project")).to_have_count(1)
    page.reload()
    assert "model=claude-sonnet-4-5" in page.url
    assert len(shown(page)) == 3
    page.locator("#filter").press_sequentially("quay", delay=5)
    page.wait_for_url("**q=quay**")
    until(page, "document.querySelectorAll('li.session').length === 1")
    # The links of the filters keep what was typed.
    assert "q=quay" in page.get_by_role("link", name="7 days").get_attribute("href")
    page.get_by_role("link", name="Show all").click()
    until(page, "(count) => document.querySelectorAll('li.session').length === count", len(everything))


def test_a_range_of_dates_is_chosen(visitor: Visitor) -> None:
    """Builders write logs of the first of March."""
    page = visitor.open("/")
    for after, before, count in (("2026-03-01", "2026-03-02", 4), ("2026-03-02", "2026-03-03", 0)):
        page.locator(".periods summary").click()
        page.locator("input[type=date][name=after]").fill(after)
        page.locator("input[type=date][name=before]").fill(before)
        page.get_by_role("button", name="Apply").click()
        page.wait_for_url(f"**after={after}&before={before}")
        assert len(shown(page)) == count
        expect(page.locator(".periods summary")).to_have_text(f"{after} – {before}")


def test_the_open_session_is_marked_and_in_view(visitor: Visitor) -> None:
    """Beside the transcript, also after the list was filtered and fetched again."""
    page = visitor.open(f"/sessions/{LONG}")
    marked = page.locator("#sessions [aria-current=page]")
    expect(marked).to_have_count(1)
    expect(marked).to_be_in_viewport()
    page.locator("#filter").fill("quay")
    until(page, "document.querySelectorAll('#sessions li.session').length === 2")
    expect(marked).to_have_count(1)


def test_dates_are_absolute_on_hover(visitor: Visitor) -> None:
    page = visitor.open("/")
    time = page.locator("li.session time").first
    expect(time).to_contain_text("ago")
    assert "2026-03-01" in (time.get_attribute("title") or "")


def test_the_list_works_without_script(browser: Any, server: Server) -> None:
    """Menus are details with links, and the range is a form."""
    visitor = Visitor(browser, server, java_script_enabled=False)
    page = visitor.open("/?view=flat&sort=title")
    assert len(shown(page)) == 4
    page.locator(".choose summary", has_text="All projects").click()
    page.locator(".choices a", has_text="harbour").first.click()
    page.wait_for_url("**project=**")
    assert len(shown(page)) == 3
    assert "view=flat" in page.url
    visitor.leave()


# --- find in session -------------------------------------------------------------------------------------------------


def count_of(page: Page) -> Any:
    return page.locator(".find-count")


MARKED = """(name) => [...(CSS.highlights.get(name) ?? [])].map((range) => range.toString())"""
IN_VIEW = """() => {
  const [range] = CSS.highlights.get('found-here') ?? [];
  const rect = range?.getBoundingClientRect();
  return Boolean(rect && rect.height && rect.top > 48 && rect.bottom < innerHeight);
}"""


def test_going_elsewhere_ends_a_step(visitor: Visitor) -> None:
    """A step that still waits for an output does not take the reader back when it arrives."""
    page = visitor.open(f"/sessions/{LONG}")
    page.keyboard.press("Control+f")
    page.keyboard.type("lighthouse")
    expect(count_of(page)).to_have_text("1/5")
    until(page, IN_VIEW)
    held: list[Any] = []
    page.route(
        "**/*",
        lambda route: route.continue_() if held or route.request.resource_type != "fetch" else held.append(route),
    )
    for number in (2, 3):
        page.keyboard.press("Enter")
        expect(count_of(page)).to_have_text(f"{number}/5")
    wait_until(lambda: page.evaluate("true") and held, "the output of the third match to be requested")
    page.locator("#rail .tick").first.click()
    until(page, "document.querySelector('.entry.current')?.dataset.index < 20")
    held[0].continue_()
    until(page, "document.body.textContent.includes('LIGHTHOUSE')")
    settle(page)
    seen = "(({ top, bottom }) => bottom > 0 && top < innerHeight)"
    assert page.evaluate(f"{seen}(document.querySelector('.entry.current').getBoundingClientRect())")
    assert page.evaluate("document.querySelector('.entry.current').dataset.index < 20")


def test_ctrl_f_finds_in_the_session(visitor: Visitor) -> None:
    """Count, steps in both directions, ticks in the rail; calls are unfolded, and long outputs loaded."""
    page = visitor.open(f"/sessions/{LONG}")
    page.keyboard.press("Control+f")
    expect(page.locator("#find-input")).to_be_focused()
    page.keyboard.type("lighthouse")
    expect(count_of(page)).to_have_text("1/5")
    expect(page.locator("#rail .tick")).to_have_count(3)
    until(page, IN_VIEW)
    page.keyboard.press("Enter")
    expect(count_of(page)).to_have_text("2/5")
    page.keyboard.press("Enter")
    expect(count_of(page)).to_have_text("3/5")
    # The match is beyond the lines that are shown of the output of a folded call.
    until(page, IN_VIEW)
    assert page.evaluate(MARKED, "found-here") == ["LIGHTHOUSE"]
    expect(page.locator(".entry.current details.call")).to_have_attribute("open", "")
    expect(page.locator("#find-input")).to_be_focused()
    pictures(page, "find")
    page.keyboard.press("Enter")
    page.keyboard.press("Enter")
    expect(count_of(page)).to_have_text("5/5")
    until(page, IN_VIEW)
    page.keyboard.press("Shift+Enter")
    expect(count_of(page)).to_have_text("4/5")
    assert "find=lighthouse" in page.url
    page.locator("#rail .tick").first.click()
    until(page, "document.querySelector('.entry.current')?.dataset.index < 20")
    page.locator("#pages .entry.current").click()
    page.keyboard.press("n")
    page.keyboard.press("N")
    expect(page.locator("#find")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("#find")).to_be_hidden()
    assert page.evaluate(MARKED, "found") == []
    assert "find=" not in page.url


def test_ctrl_f_again_is_left_to_the_browser(visitor: Visitor) -> None:
    page = visitor.open(f"/sessions/{LONG}")
    page.evaluate("window.left = []; addEventListener('keydown', (event) => left.push(event.defaultPrevented))")
    page.keyboard.press("Control+f")
    page.keyboard.press("Control+f")
    # Each press also sends the control key itself.
    assert page.evaluate("left") == [False, True, False, False]


def test_an_address_with_a_search_restores_it(visitor: Visitor) -> None:
    page = visitor.open(f"/sessions/{LONG}?find=question+69")
    expect(page.locator("#find-input")).to_have_value("question 69")
    expect(count_of(page)).to_have_text("1/1")
    until(page, IN_VIEW)


def test_finding_on_a_phone_and_without_script(browser: Any, server: Server) -> None:
    """A button opens the bar; without script, a form leads to a page with the matches."""
    phone = Visitor(browser, server, viewport=PHONE, has_touch=True, is_mobile=True)
    page = phone.open(f"/sessions/{LONG}")
    page.locator("[data-find-open]").tap()
    page.locator("#find-input").fill("nothing like it")
    expect(count_of(page)).to_have_text("No matches")
    page.locator("#find-input").fill("lighthouse")
    expect(count_of(page)).to_have_text("1/5")
    page.get_by_role("button", name="Next match").tap()
    expect(count_of(page)).to_have_text("2/5")
    assert not is_sideways(page)
    shot(page, "find-phone-touch")
    phone.leave()
    plain = Visitor(browser, server, java_script_enabled=False)
    page = plain.open(f"/sessions/{LONG}")
    page.locator("#find-input").fill("lighthouse")
    page.get_by_role("button", name="Find").click()
    page.wait_for_url("**/find?q=lighthouse")
    expect(page.locator(".found li")).to_have_count(5)
    shot(page, "find-page")
    page.locator(".found a").nth(4).click()
    expect(page.locator("#pages")).to_contain_text("Lighthouse 50")
    plain.leave()


# --- search and the palette ------------------------------------------------------------------------------------------


def test_facets_narrow_a_search(visitor: Visitor) -> None:
    """They are links with counts, and stay while the query is typed."""
    page = visitor.open("/search?q=lighthouse")
    expect(page.locator("section.result")).to_have_count(4)
    facet = page.locator(".facet", has_text="Agent")
    expect(facet.locator(".chip")).to_have_text(["Claude Code 3", "Codex CLI 1"])
    pictures(page, "search-facets")
    facet.get_by_text("Codex CLI").click()
    page.wait_for_url("**agent=codex")
    expect(page.locator("section.result")).to_have_count(1)
    page.locator("#query").fill("deep")
    page.wait_for_url("**q=deep&agent=codex")
    expect(page.locator("section.result")).to_have_count(1)
    page.locator(".facet .chip[aria-current]").click()
    page.wait_for_url("**/search?q=deep")
    page.get_by_role("link", name="time").click()
    page.wait_for_url("**sort=time")


def test_a_long_title_fits_on_a_phone(browser: Any, server: Server) -> None:
    """Also one without a place to break it, such as a URL."""
    phone = Visitor(browser, server, viewport=PHONE, has_touch=True, is_mobile=True)
    page = phone.open("/search?q=lighthouse")
    page.locator("section.result h2 a").first.evaluate("(link) => (link.textContent = 'x'.repeat(200))")
    assert not is_sideways(page)
    phone.leave()


def test_hits_are_marked_where_they_lead(visitor: Visitor) -> None:
    """Also in a call, which is unfolded."""
    page = visitor.open("/search?q=lamp+tool:bash")
    page.locator("section.result li a", has_text="grep").click()
    page.wait_for_url("**mark=lamp**")
    until(page, "() => [...(CSS.highlights.get('found') ?? [])].length")
    assert set(page.evaluate(MARKED, "found")) == {"lamp"}
    expect(page.locator(".entry.current details.call")).to_have_attribute("open", "")
    shot(page, "hit-marked")


def test_the_palette_shows_titles_before_the_full_text_is_searched(visitor: Visitor) -> None:
    """With project and date; hits follow, and do not move what was chosen."""
    page = visitor.open("/")
    held: list[Any] = []
    is_held = [True]
    page.route("**/results?**", lambda route: held.append(route) if is_held else route.continue_())
    page.keyboard.press("Control+k")
    # The palette asks a moment after the last key, and then begins with the first choice again.
    with page.expect_request("**/results?q=quay&brief=1"):
        page.keyboard.type("quay")
    option = page.locator("#palette-list [role=option]", has_text="Make the tests pass (quay)")
    expect(option.first).to_be_visible()
    expect(option.first).to_contain_text("harbour")
    expect(option.first.locator("time")).to_contain_text("ago")
    page.keyboard.press("ArrowDown")
    chosen = page.locator("#palette-list [aria-selected=true]")
    expect(chosen).to_contain_text("quay")
    before = chosen.get_attribute("href")
    is_held.clear()
    for route in held:
        route.continue_()
    expect(page.locator("#palette-list .where").first).to_be_visible()
    assert chosen.get_attribute("href") == before
    pictures(page, "palette")


def test_the_palette_lists_every_view_once(visitor: Visitor) -> None:
    """Although the menu repeats some of them for narrow screens."""
    page = visitor.open("/")
    page.keyboard.press("Control+k")
    views = page.locator("#palette-list [role=option]", has=page.locator(".kind", has_text="view"))
    expect(views.locator(".label", has_text="Rejections")).to_have_count(1)
    names = views.locator(".label").all_text_contents()
    assert {"Sessions", "Files", "Stats", "Agents"} <= set(names)
    assert len(names) == len(set(names))


def test_enter_follows_what_was_typed(visitor: Visitor) -> None:
    """Also if it is pressed before the titles are there: not what was listed for fewer letters."""
    page = visitor.open("/")
    page.keyboard.press("Control+k")
    expect(page.locator("#palette-list [role=option]").first).to_be_visible()
    page.keyboard.type("(pier)")
    page.keyboard.press("Enter")
    expect(page.locator(".session-head h1")).to_have_text("Make the tests pass (pier)")


# --- failures and files ----------------------------------------------------------------------------------------------


def test_failures_are_grouped(visitor: Visitor) -> None:
    """By command and message, with how often and in which sessions; each leads to its latest failure."""
    page = visitor.open("/events/errors")
    page.get_by_role("link", name="grouped").click()
    page.wait_for_url("**view=groups")
    group = page.locator(".failures > li")
    expect(group).to_have_count(1)
    expect(group).to_contain_text("×5")
    expect(group.locator("code")).to_have_text("pytest -q …")
    expect(group).to_contain_text("No module named 'tide'")
    group.locator("summary").click()
    expect(group.locator("ul a")).to_have_count(2)
    pictures(page, "failures")
    group.locator("ul a").first.click()
    page.wait_for_url("**/sessions/**at=**")
    expect(page.locator(".entry.current")).to_contain_text("pytest")


def test_files_lead_to_the_sessions_that_touched_them(visitor: Visitor) -> None:
    """From the list of files, and from a call in a transcript."""
    page = visitor.open("/files?q=tower")
    pictures(page, "files")
    page.get_by_role("link", name=f"{REPOSITORY}/tower.py").click()
    page.wait_for_url("**/files?path=**")
    expect(page.locator(".files > li")).to_have_count(3)
    pictures(page, "file")
    page.locator(".files > li", has_text="question 0").locator(".facts a").first.click()
    page.wait_for_url("**/sessions/**at=**")
    call = page.locator(".entry.current details.call")
    call.locator("summary").click()
    call.get_by_role("link", name="sessions").click()
    page.wait_for_url("**/files?path=**")
    expect(page.locator(".files > li")).to_have_count(3)
