"""Sharing a session from its page, in a real browser."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ..redact.leaky import PLANTED, leaked, write_leaky_home
from .browser import DESK, Page, Server, Visitor, Visitors, expect, is_sideways, serving, until
from .test_browser_access import SCREENS, assert_accessible

pytestmark = [pytest.mark.browser, pytest.mark.server]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("share")
    with serving(folder, write_leaky_home(folder / "home")) as server:
        server.wait_until_ready()
        yield server


@pytest.fixture(scope="module")
def address(server: Server) -> str:
    (row,) = server.sessions()
    return f"/sessions/{row['row']['name']}"


def opened(page: Page) -> Page:
    """The dialog with its report. The button works once the scripts have started."""
    until(page, "document.documentElement.dataset.busy !== undefined")
    page.get_by_role("button", name="Share…").click()
    dialog = page.get_by_role("dialog", name="Share this session")
    expect(dialog.locator(".share-sum")).to_be_visible()
    return dialog


def downloaded(page: Page) -> bytes:
    with page.expect_download() as download:
        page.get_by_role("button", name="Download").click()
    assert download.value.suggested_filename.endswith(".html")
    return Path(download.value.path()).read_bytes()


def test_what_is_replaced_is_listed_before_the_file_is_downloaded(
    visitor: Visitor, browser: Any, address: str, tmp_path: Path
) -> None:
    """By kind, with the messages, and without the values. The file has none of them, and loads nothing."""
    page = visitor.open(address)
    dialog = opened(page)
    expect(dialog.locator(".share-kinds > li > b", has_text="github-token")).to_have_count(1)
    expect(dialog.locator(".share-sum")).to_contain_text("are replaced")
    assert leaked(dialog.inner_html().encode()) == []
    data = downloaded(page)
    assert leaked(data) == []
    assert "‹github-token:".encode() in data
    shared = tmp_path / "shared.html"
    shared.write_bytes(data)
    requests: list[str] = []
    tab = browser.new_page()
    tab.on("request", lambda request: requests.append(request.url))
    tab.goto(shared.as_uri())
    expect(tab.locator(".notice")).to_contain_text("replaced with placeholders")
    assert requests == [shared.as_uri()]
    policy = tab.locator("meta[http-equiv=Content-Security-Policy]").get_attribute("content")
    assert policy.startswith("default-src 'none'")
    tab.close()


def test_more_or_less_is_replaced_on_request(visitor: Visitor, address: str) -> None:
    """The report follows what is chosen, and says what the file will contain."""
    page = visitor.open(address)
    dialog = opened(page)
    personal = dialog.get_by_label("Also replace personal data")
    personal.check()
    expect(dialog.locator(".share-kinds > li > b", has_text="user")).to_have_count(1)
    dialog.get_by_label("Replace secrets").uncheck()
    expect(dialog.locator(".share-sum")).to_contain_text(f"The file will contain {len(PLANTED)} secrets")
    expect(personal).to_be_disabled()
    assert leaked(dialog.inner_html().encode()) == []
    assert leaked(downloaded(page))


def test_the_dialog_works_with_the_keyboard_and_leads_to_messages(visitor: Visitor, address: str) -> None:
    page = visitor.open(address)
    button = page.get_by_role("button", name="Share…")
    dialog = opened(page)
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    expect(button).to_be_focused()
    page.keyboard.press("Enter")
    link = dialog.get_by_role("link", name="#6", exact=True).first
    link.focus()
    page.keyboard.press("Enter")
    page.wait_for_url(lambda url: "at=6" in url)
    expect(page.get_by_role("dialog", name="Share this session")).to_be_hidden()


def test_a_dialog_that_is_opened_again_shows_no_outdated_report(visitor: Visitor, address: str) -> None:
    page = visitor.open(address)
    dialog = opened(page)
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    held: list[Any] = []
    page.route("**/share?*", lambda route: held.append(route))
    with page.expect_request("**/share?*"):
        page.keyboard.press("Enter")
    expect(dialog).to_be_visible()
    expect(dialog.locator(".share-sum")).to_have_count(0)
    for route in held:
        route.continue_()
    expect(dialog.locator(".share-sum")).to_be_visible()


@pytest.mark.parametrize("name", list(SCREENS))
def test_the_dialog_is_accessible(visitors: Visitors, server: Server, address: str, name: str) -> None:
    """In both lights, and on a phone, which it fits."""
    screen = SCREENS[name]
    with visitors.visit(server, reduced_motion="reduce", **screen) as visitor:
        page = visitor.open(address)
        dialog = opened(page)
        box = dialog.bounding_box()
        width = page.viewport_size["width"]
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= width
        assert box["width"] < DESK["width"] * 0.6
        assert not is_sideways(page)
        assert_accessible(page, "share", screen, "#share")
