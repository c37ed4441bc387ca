"""Statistics and usage in a real browser: bars open their sessions, numbers are those of the API."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

import unspool

from .browser import DESK, PHONE, Page, Server, Visitors, expand, expect, go, serving, shot

SIZES = {"desktop": DESK, "phone": PHONE}
MAIN = "3cbae489-56bf-4f31-8857-94b1dda1a48f"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("stats")
    shutil.copytree(unspool.samples(), folder / "home")
    with serving(folder, folder / "home") as server:
        server.wait_until_ready()
        yield server


@pytest.fixture(params=[(size, light) for size in SIZES for light in ("light", "dark")], ids="-".join)
def page(request: pytest.FixtureRequest, visitors: Visitors, server: Server) -> Iterator[Page]:
    size, light = request.param
    with visitors.visit(server, viewport=SIZES[size], color_scheme=light) as visitor:
        found = visitor.tab()
        found.shot_name = f"{size}-{light}"
        yield found


def usage(server: Server, **filter: str) -> Any:
    """What the API says."""
    query = "&".join(f"{name}={value}" for name, value in filter.items())
    return server.api(f"/usage?{query}")


def test_bars_open_their_sessions(page: Page, server: Server) -> None:
    """A day of the cost, and the same day of the calendar, lead to the sessions of that day."""
    (day,) = [entry["day"] for entry in usage(server, by="day")["entries"]]
    sessions = usage(server, by="session", after=day)["entries"]
    for chart in ("heat", "cost", "tokens", "activity"):
        go(page, server, "/stats")
        if chart == "heat":
            shot(page, f"stats-{page.shot_name}")
        link = page.locator(f".plot-{chart} a").last
        link.scroll_into_view_if_needed()
        link.click()
        page.wait_for_url(re.compile(rf"after={day}&before=.*#top-sessions"))
        expect(page.locator("#top-sessions tbody tr")).to_have_count(len(sessions))
    costs = page.locator("#top-sessions td.cost").all_inner_texts()
    assert costs == sorted(costs, reverse=True)


def test_numbers_are_those_of_the_api(page: Page, server: Server) -> None:
    """In the totals, by model, and in the table that is loaded when it is opened."""
    total = usage(server)["total"]
    models = {entry["model"]: entry for entry in usage(server, by="model")["entries"]}
    go(page, server, "/stats")
    expect(page.locator(".numbers")).to_contain_text(f"${total['cost']['usd']:,.2f}")
    for model, entry in models.items():
        row = page.get_by_role("row").filter(has=page.get_by_role("link", name=model, exact=True))
        expect(row.locator(".cost").first).to_have_text(f"${entry['cost']['usd']:,.2f}")
    tokens = page.locator("section.plot").filter(has=page.get_by_role("heading", name="Tokens"))
    expand(tokens.locator("summary"))
    expect(tokens.locator("tbody tr")).to_have_count(len(models))
    page.get_by_role("link", name="gpt-5.5", exact=True).first.click()
    page.wait_for_url("**/stats?model=gpt-5.5")
    expect(page.locator(".numbers")).to_contain_text(f"${models['gpt-5.5']['cost']['usd']:,.2f}")


def test_a_session_leads_to_its_usage(page: Page, server: Server) -> None:
    """Its head has the cost; the page behind it has every turn and sub-agent."""
    go(page, server, f"/sessions/{MAIN}")
    head = page.locator(".session-head")
    head.get_by_role("link", name=re.compile(r"^\$\d")).click()
    page.wait_for_url(f"**/sessions/{MAIN}/usage")
    shot(page, f"usage-{page.shot_name}")
    expect(page.get_by_role("heading", name="Sub-agents")).to_be_visible()
    turns = page.locator("section.plot").filter(has=page.get_by_role("heading", name="Turns"))
    turns.get_by_role("link", name="#21", exact=True).click()
    page.wait_for_url("**?at=21#m21")


def test_everything_works_without_script(visitors: Visitors, server: Server) -> None:
    """Tables are pages of their own then."""
    with visitors.visit(server, java_script_enabled=False) as visitor:
        page = visitor.open("/stats")
        assert page.locator(".plot svg").count() == 6
        page.locator("details.table summary").first.click()
        page.get_by_role("link", name="Open the table").first.click()
        assert page.locator("tbody tr").count() == len(usage(server, by="day,model")["entries"])
