"""What surrounds running agents, in a real browser: the review of a run with its reverts, and receipts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ..waiting import wait_until
from .browser import DESK, PHONE, Visitor, expect, is_sideways, shot
from .test_browser_runs import Served, act, begin, run_of

Page = Any
pytestmark = [pytest.mark.browser, pytest.mark.server]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """The server of all tests here."""
    served = Served(tmp_path_factory.mktemp("served"))
    yield served
    served.stop()


def answer(visitor: Visitor, run: str, verdict: str, **facts: Any) -> None:
    """Answer the next request of a run, as another program would."""
    address = f"{visitor.server.base}/api/runs/{run}"
    asked = wait_until(lambda: visitor.context.request.get(address).json()["questions"], "a request")[0]
    path = f"/{run}/answers/{asked['asked']['id']}"
    act(visitor, path, digest=asked["digest"], verdict=verdict, who="the tests", **facts)


def test_a_run_is_reviewed_and_a_file_reverted(visitor: Visitor, server: Served) -> None:
    """The receipt is in the call, the review lists the change by approval, and a revert shows what it writes."""
    path = server.project / "greeting.txt"
    path.write_text("good morning\n")
    page = begin(visitor, "write greeting.txt good evening\nrun make test\nsay Done.")
    run = run_of(page)
    answer(visitor, run, "allow")
    answer(visitor, run, "deny", reason="not now")
    expect(page.locator(".entry.answer", has_text="Done.")).to_have_count(1)
    expect(page.locator(".call.ok .receipt .decided")).to_contain_text("allowed by the tests")
    expect(page.locator(".call.rejected .receipt .decided")).to_contain_text("not now")

    page.get_by_role("link", name="Review changes").click()
    expect(page.locator(".review .file")).to_contain_text("greeting.txt")
    expect(page.locator(".review .file .diff .add")).to_contain_text("good evening")
    expect(page.locator("#approved-title + ol .reviewed")).to_have_count(2)
    shot(page, "review")
    page.set_viewport_size(PHONE)
    assert not is_sideways(page)
    shot(page, "review-phone")
    page.set_viewport_size(DESK)

    page.get_by_role("link", name="Revert to this…").click()
    expect(page.locator(".diff .add")).to_contain_text("good morning")
    shot(page, "revert")
    path.write_text("changed in the meantime\n")
    page.get_by_role("button", name="Write this").click()
    expect(page.get_by_role("alert")).to_contain_text("has changed since you saw it")
    assert path.read_text() == "changed in the meantime\n"
    visitor.complaints[:] = [words for words in visitor.complaints if "409" not in words]
    page.reload()
    page.get_by_role("button", name="Write this").click()
    expect(page.locator(".review .file")).to_contain_text("as before")
    assert path.read_text() == "good morning\n"


def test_rules_are_suggested_from_decisions_as_text_to_copy(visitor: Visitor) -> None:
    """The page shows the rule and the decisions; nothing is applied."""
    page = begin(visitor, "run pytest -q\n" * 5 + "run pip install x\n" * 3 + "say Done.")
    run = run_of(page)
    for _ in range(5):
        answer(visitor, run, "allow")
    for _ in range(3):
        answer(visitor, run, "deny", reason="Use uv")
    page = visitor.open("/agents")
    page.get_by_role("link", name="Rules from your decisions").click()
    allow = page.locator(".suggestion.allow")
    expect(allow.locator("h2")).to_contain_text("You allowed `pytest` 5 times")
    expect(allow.locator("pre")).to_contain_text("Bash(pytest:*)")
    expect(allow.locator("li")).to_have_count(5)
    expect(page.locator(".suggestion.instruct pre")).to_have_text("- Use uv")
    shot(page, "rules")
    page.set_viewport_size(PHONE)
    assert not is_sideways(page)
    shot(page, "rules-phone")
