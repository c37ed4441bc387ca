"""What surrounds running agents, in a real browser: the review of a run with its reverts, and receipts."""

from __future__ import annotations

import base64
import re
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from unspool.runs.sandbox import is_installed

from ..runs.images import PIXEL
from ..waiting import wait_until
from .browser import DESK, PHONE, Visitor, expect, is_sideways, shot, until
from .test_browser_runs import Served, act, begin, launch, run_of

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
    """The receipt is in the call, the review lists the decisions, and a revert shows what it writes."""
    path = server.project / "greeting.txt"
    path.write_text("good morning\n")
    page = begin(visitor, "write greeting.txt good evening\nrun make test\nsay Done.")
    run = run_of(page)
    answer(visitor, run, "allow")
    answer(visitor, run, "deny", reason="not now, the tests of the other branch still run in this folder")
    expect(page.locator(".entry.answer", has_text="Done.")).to_have_count(1)
    expect(page.locator(".call.ok .receipt .decided")).to_contain_text("allowed by the tests")
    expect(page.locator(".call.rejected .receipt .decided")).to_contain_text("not now")

    page.get_by_role("link", name="Review changes").click()
    expect(page.locator(".review .reviewed-file")).to_contain_text("greeting.txt")
    expect(page.locator(".review .reviewed-file .diff .add")).to_contain_text("good evening")
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
    page.get_by_role("button", name="Revert the file").click()
    expect(page.get_by_role("alert")).to_contain_text("has changed since you saw it")
    assert path.read_text() == "changed in the meantime\n"
    visitor.complaints[:] = [words for words in visitor.complaints if "409" not in words]
    page.reload()
    page.get_by_role("button", name="Revert the file").click()
    expect(page.locator(".review .reviewed-file")).to_contain_text("as before")
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


def bell(page: Page) -> Any:
    return page.locator(".page-head [data-bell]")


GRANTED = """
  Object.defineProperty(Notification, 'permission', { get: () => 'granted' });
  window.notified = [];
  async function show(title, { body, data }) {
    if (this.active) window.notified.push([title, body, data.url]);
  }
  if (window.isSecureContext) ServiceWorkerRegistration.prototype.showNotification = show;
"""
"""A Chromium without a screen never grants the permission, and shows nothing."""


def test_notifications_are_shown_by_the_service_worker(browser: Any, server: Served) -> None:
    """When an agent asks and when it is done, while the page is hidden; the bell says that they are on."""
    visitor = Visitor(browser, server)
    visitor.context.add_init_script(GRANTED)
    page = visitor.open("/agents")
    expect(bell(page)).to_have_attribute("data-bell", "off")
    bell(page).click()
    expect(bell(page)).to_have_attribute("data-bell", "on")
    expect(bell(page)).to_have_attribute("aria-pressed", "true")
    expect(page.locator("#toast")).to_contain_text("Notifications are on")
    shot(page, "bell-on")
    page.evaluate("() => Object.defineProperty(document, 'hidden', { get: () => true })")
    path = launch(visitor, "run make test\nsay Done.")
    shown = "(title) => window.notified.find(([found]) => found === title)"
    # The title as the list shows it, once the session is there.
    name = until(page, shown, "An agent needs you")[1]
    assert name.endswith("Claude Code in demo")
    assert until(page, shown, "An agent needs you") == ["An agent needs you", name, path]
    wait_until(
        lambda: visitor.context.request.get(server.base + path, max_redirects=0).status == 303,
        "the session in the store",
    )
    answer(visitor, path.removeprefix("/runs/"), "allow")
    name = "run make test · Claude Code in demo"
    assert until(page, shown, "An agent is done") == ["An agent is done", name, path]
    bell(page).click()
    expect(bell(page)).to_have_attribute("data-bell", "off")
    # Contexts of tests are incognito windows.
    visitor.complaints[:] = [text for text in visitor.complaints if "does not support the Push API" not in text]
    visitor.leave()


@pytest.mark.parametrize(
    ("script", "state", "words"),
    [
        ("Object.defineProperty(window, 'isSecureContext', { get: () => false })", "insecure", "need https"),
        ("delete window.Notification", "unsupported", "has no notifications"),
        ("Object.defineProperty(Notification, 'permission', { get: () => 'denied' })", "denied", "are blocked"),
    ],
)
def test_the_bell_says_why_there_are_no_notifications(
    browser: Any, server: Served, script: str, state: str, words: str
) -> None:
    visitor = Visitor(browser, server)
    visitor.context.add_init_script(script)
    page = visitor.open("/agents")
    expect(bell(page)).to_have_attribute("data-bell", state)
    expect(bell(page)).to_have_attribute("title", re.compile(words))
    bell(page).click()
    expect(page.locator("#toast")).to_contain_text(words)
    visitor.leave()


def test_a_server_for_this_computer_has_no_link_for_a_phone(visitor: Visitor) -> None:
    page = visitor.open("/agents")
    page.locator(".phone > summary").click()
    page.locator("[data-phone]").click()
    expect(page.locator("[data-phone-link]")).to_contain_text("Only this computer can reach the server")
    shot(page, "phone-menu")
    visitor.complaints[:] = [text for text in visitor.complaints if "400" not in text]


def test_an_image_is_attached_to_a_message(visitor: Visitor) -> None:
    """The composer shows what is attached; the agent gets it, or the page says why not."""
    image = {"name": "shot.png", "mimeType": "image/png", "buffer": base64.b64decode(PIXEL)}
    page = begin(visitor, "say Begun.")
    expect(page.locator(".entry.answer", has_text="Begun.")).to_have_count(1)
    page.locator("[data-attach]").set_input_files([image, image])
    expect(page.locator(".attachments li")).to_have_text([re.compile(r"shot\.png \(image/png, 70 bytes\)")] * 2)
    page.locator(".attachments [data-remove]").first.click()
    expect(page.locator(".attachments li")).to_have_count(1)
    shot(page, "attachment")
    page.locator("#message").fill("say Look.")
    page.locator("#message").press("Control+Enter")
    expect(page.locator(".entry.answer", has_text="Saw an image of type image/png.")).to_have_count(1)
    expect(page.locator(".attachments li")).to_have_count(0)

    page = visitor.open(launch(visitor, None, "gemini"))
    page.locator("[data-attach]").set_input_files([image])
    page.locator("#message").fill("Look.")
    page.locator("#message").press("Control+Enter")
    expect(page.get_by_role("alert")).to_contain_text("cannot receive images here, so shot.png was not sent")
    expect(page.locator(".attachments li")).to_have_count(1)
    visitor.complaints[:] = [text for text in visitor.complaints if "400" not in text]


def test_commands_and_files_are_completed(visitor: Visitor, server: Served) -> None:
    """With the keyboard, from what the agent and the project offer."""
    (server.project / "notes.txt").write_text("")
    page = begin(visitor, "say Begun.")
    run_of(page)
    message = page.locator("#message")
    message.press_sequentially("/co")
    expect(page.locator(".completions li")).to_have_text(["/compact Summarise the conversation"])
    message.press("Tab")
    expect(message).to_have_value("/compact ")
    message.fill("")
    message.press_sequentially("look at @not")
    expect(page.locator(".completions li")).to_have_text(["@notes.txt"])
    shot(page, "completions")
    message.press("Enter")
    expect(message).to_have_value("look at @notes.txt ")
    expect(page.locator(".completions")).to_be_hidden()


def test_two_agents_in_one_folder_are_warned_about(visitor: Visitor, server: Served) -> None:
    """Nothing starts before the reader has decided; a worktree is a folder of its own."""
    shared = server.folder / "shared"
    shared.mkdir()
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.org")
    for command in (("init", "-q"), (*identity, "commit", "-qm", "first", "--allow-empty")):
        subprocess.run(("git", "-C", str(shared), *command), check=True, capture_output=True)
    act(visitor, "", agent="gemini", folder=str(shared), who="the tests")
    page = visitor.open("/agents")
    page.locator("[name=folder]").fill(str(shared))
    page.locator("[data-start-button]").click()
    expect(page.get_by_text("Another agent is working in this folder")).to_be_visible()
    runs = page.locator("#board .run:not([data-run-state=ended])", has_text="shared")
    expect(runs).to_have_count(1)
    shot(page, "shared-folder")
    page.set_viewport_size(PHONE)
    assert not is_sideways(page)
    shot(page, "shared-folder-phone")
    page.get_by_role("button", name="Start in a new git worktree").click()
    expect(runs).to_have_count(2)
    expect(page.locator("#board .run", has_text="shared-unspool-")).to_have_count(1)
    expect(page.locator("[data-shared]")).to_be_hidden()


def test_an_agent_is_started_in_a_sandbox_with_a_model_that_it_does_not_list(visitor: Visitor, server: Served) -> None:
    """The card of the run says both; without bubblewrap the form says what is missing."""
    alone = server.folder / "alone"
    alone.mkdir()
    page = visitor.open("/agents")
    page.locator("[name=agent][value=claude]").check()
    page.locator("[name=folder]").fill(str(alone))
    page.locator("[name=model]").fill("gpt-9")
    sandbox = page.locator("[name=sandbox]")
    if is_installed():
        sandbox.check()
    else:
        expect(sandbox).to_be_disabled()
        expect(page.locator("label.check")).to_contain_text("needs bubblewrap")
    shot(page, "start-sandbox")
    page.locator("[data-start-button]").click()
    run = page.locator("#board .run:not([data-run-state=ended])", has_text="alone")
    expect(run.locator(".run-warning")).to_contain_text("Claude Code does not list the model 'gpt-9'")
    expect(run.locator(".tag", has_text="sandbox")).to_have_count(1 if is_installed() else 0)
    shot(page, "started-sandbox")
    page.set_viewport_size(PHONE)
    assert not is_sideways(page)
    shot(page, "started-sandbox-phone")
