"""Agents that are run from the pages, in a real browser: started, answered, interrupted, forked, by several tabs."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from .browser import DESK, PHONE, Server, Visitor, expect, is_sideways, shot, until

Page = Any
ROOT = Path(__file__).parents[2]
TOKEN = "the-token-of-the-tests"


class Served(Server):
    """A server whose agents do what they are told."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, folder / "home")
        self.folder = folder
        self.project = folder / "demo"
        for part in ("home", "data", "demo"):
            (folder / part).mkdir()
        with socket.create_server(("127.0.0.1", 0)) as listening:
            self.port = int(listening.getsockname()[1])
        self.base = f"http://127.0.0.1:{self.port}"
        self.link = f"{self.base}/open?token={TOKEN}"
        self.start()

    def start(self) -> Server:
        """Start it, or start it again."""
        places = [str(self.folder / part) for part in ("home", "store.db", "data")]
        command = [sys.executable, "-m", "tests.web.acting", *places, str(self.port), TOKEN]
        environment = os.environ | {"UNSPOOL_DATA": str(self.folder / "data")}
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment, cwd=ROOT)
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "ready\n"
        return self


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """The server of all tests here."""
    served = Served(tmp_path_factory.mktemp("served"))
    yield served
    served.stop()


@pytest.fixture(autouse=True)
def nothing_runs(visitor: Visitor) -> Iterator[None]:
    """Whatever a test has started ends with it."""
    yield
    for run in visitor.context.request.get(f"{visitor.server.base}/api/runs").json()["runs"]:
        if run["state"] != "ended":
            headers = {"origin": visitor.server.base}
            visitor.context.request.post(
                f"{visitor.server.base}/api/runs/{run['id']}/stop", data={"who": "the tests"}, headers=headers
            )


def start(page: Page, server: Served, prompt: str, agent: str = "claude") -> None:
    """Start an agent with the form of the board."""
    page.locator(f"[name=agent][value={agent}]").check()
    page.locator("[name=folder]").fill(str(server.project))
    page.locator("[name=prompt]").fill(prompt)
    page.locator("[data-start] .primary").click()


def begin(visitor: Visitor, prompt: str) -> Page:
    """The page of a new session that has just been told something."""
    assert isinstance(visitor.server, Served)
    page = visitor.open("/agents")
    start(page, visitor.server, prompt)
    link = page.locator("#board .runs:not(.ended) .run h3 a", has_text=prompt.splitlines()[0][:20])
    link.first.click()
    page.locator("#composer form").wait_for()
    return page


def state(page: Page) -> Any:
    """What the composer says about the agent."""
    return page.locator(".state-line [role=status]")


def say(page: Page, text: str) -> None:
    """Send a message."""
    page.locator("#message").fill(text)
    page.locator("#message").press("Control+Enter")


def said(page: Page, text: str) -> Any:
    """An answer that is in the log."""
    return page.locator("#pages .entry.answer", has_text=text)


def ready(page: Page) -> None:
    """Keys that come too soon after a card are not meant for it."""
    page.locator(".asked").wait_for()
    page.wait_for_timeout(550)


# --- starting --------------------------------------------------------------------------------------------------------


def test_an_agent_is_started_from_the_board_and_answered_there(visitor: Visitor, server: Served) -> None:
    """It appears, says what it says, asks in place, and the bar counts until somebody answers."""
    page = visitor.open("/agents")
    expect(page.locator(".kind.missing")).to_contain_text("npm install -g @openai/codex")
    start(page, server, "say Looking around first, as one does.\nedit\nwait")
    run = page.locator("#board .run[data-doing=waiting-input]")
    expect(run.locator(".last-words")).to_contain_text("Looking around first")
    expect(page.locator(".bar .needs")).to_contain_text("1")
    expect(page.locator(".asked .diff .add")).to_have_count(3)
    assert page.title().startswith("(1) ")
    shot(page, "agents-board")
    page.locator("[data-verdict=allow_session]").click()
    expect(page.locator(".asked")).to_have_count(0)
    expect(page.locator(".bar .needs")).to_be_hidden()
    expect(page.locator("#board .run[data-doing=in-turn] .last-words")).to_contain_text("allow_session")
    page.locator("[data-act=stop]").first.click()
    expect(page.locator(".runs.ended .run").first).to_contain_text("stopped by tab")


def test_what_the_model_says_is_shown_until_the_log_has_it(visitor: Visitor) -> None:
    """Dimmed at the end of the transcript; then the entry takes its place, and nothing is said twice."""
    page = begin(visitor, "say Begun.\nwait")
    say(page, "say One **two** three " + "and so on " * 12 + "\nwait")
    expect(page.locator(".streaming")).to_contain_text("and so on")
    shot(page, "agents-streaming")
    expect(said(page, "One two three")).to_have_count(1)
    expect(page.locator(".streaming")).to_be_hidden()
    expect(state(page)).to_contain_text("in turn")


def test_a_session_goes_on_after_its_agent_has_ended(visitor: Visitor) -> None:
    """The button says what it does; somebody who owns the session is not overrun by one click."""
    page = begin(visitor, "say Begun and done.")
    expect(state(page)).to_contain_text("idle")
    page.locator("#composer [data-act=stop]").click()
    expect(state(page)).to_contain_text("ended: stopped by tab")
    expect(page.locator("[data-send]")).to_have_text("Resume")
    say(page, "say Gone on.")
    expect(said(page, "Gone on.")).to_have_count(1)
    expect(page.locator("[data-send]")).to_have_text("Send")


# --- answering -------------------------------------------------------------------------------------------------------


def test_a_change_is_allowed_and_a_command_denied_by_key(visitor: Visitor) -> None:
    """The card has the focus; a refusal has a reason; an input can be changed before it is allowed."""
    page = begin(visitor, "edit\nrun make all\nrun make some\nsay Done with it.")
    ready(page)
    shot(page, "agents-approval")
    expect(page.locator(".asked")).to_be_focused()
    page.keyboard.press("a")
    expect(page.locator(".asked .what")).to_have_text("make all")
    ready(page)
    page.keyboard.press("r")
    page.keyboard.type("use ninja instead")
    page.keyboard.press("Control+Enter")
    expect(said(page, "Denied because use ninja instead.")).to_have_count(1)
    expect(page.locator(".asked .what")).to_have_text("make some")
    ready(page)
    page.keyboard.press("e")
    page.locator("[name=input]").fill("{not json")
    page.keyboard.press("Control+Enter")
    expect(page.locator(".asked [role=alert]")).to_contain_text("JSON")
    page.locator("[name=input]").fill('{"command": "make nothing"}')
    page.keyboard.press("Control+Enter")
    expect(said(page, "Allowed (allow): Bash make nothing")).to_have_count(1)
    expect(page.locator(".asked")).to_have_count(0)


def test_questions_are_answered_with_options_and_own_words(visitor: Visitor) -> None:
    """All of them; what was chosen reaches the model."""
    page = begin(visitor, "ask\nwait")
    ready(page)
    page.locator("[data-verdict=allow]").click()
    expect(page.locator(".asked [role=alert]")).to_contain_text("Choose an answer")
    page.get_by_label("Green").check()
    page.get_by_label("Large").check()
    page.locator("fieldset").nth(1).locator("[type=text]").fill("Huge")
    shot(page, "agents-question")
    page.locator("[data-verdict=allow]").click()
    expect(said(page, '["Green"]')).to_contain_text('["Large", "Huge"]')


def test_of_two_tabs_one_answers_and_the_other_is_told(visitor: Visitor) -> None:
    """Both press at once: one counts, the other hears whose answer it was."""
    one = begin(visitor, "edit\nwait")
    two = visitor.open(one.url.removeprefix(visitor.server.base))
    for page in (one, two):
        ready(page)
    with one.expect_response("**/answers/*") as first, two.expect_response("**/answers/*") as second:
        one.evaluate("document.querySelector('[data-verdict=allow]').click()")
        two.evaluate("document.querySelector('[data-verdict=deny]').click()")
    assert sorted([first.value.status, second.value.status]) == [200, 409]
    late = one if first.value.status == 409 else two
    expect(late.locator("[data-notes]")).to_contain_text(re.compile("by tab [0-9a-f]{4}"))
    for page in (one, two):
        expect(page.locator(".asked")).to_have_count(0)
    visitor.complaints[:] = [words for words in visitor.complaints if "409" not in words]


def test_an_answer_that_is_being_typed_survives_what_happens_meanwhile(visitor: Visitor) -> None:
    """The card is not drawn anew below somebody's hands, and a new one takes no focus from who types."""
    page = begin(visitor, "run make all\nwait")
    ready(page)
    page.keyboard.press("r")
    page.keyboard.type("because ")
    say_from_elsewhere = visitor.open(page.url.removeprefix(visitor.server.base))
    say(say_from_elsewhere, "say something else")
    expect(page.locator(".queue li")).to_have_count(1)
    page.keyboard.type("of that")
    expect(page.locator("[name=reason]")).to_have_value("because of that")


# --- talking ---------------------------------------------------------------------------------------------------------


def test_a_turn_is_interrupted(visitor: Visitor) -> None:
    """By pressing Escape twice, or by the button."""
    page = begin(visitor, "say Begun.\nwait")
    expect(state(page)).to_contain_text("in turn")
    page.keyboard.press("Escape")
    page.keyboard.press("Escape")
    expect(state(page)).to_contain_text("interrupted")
    expect(page.locator("#pages .entry.interruption")).to_have_count(1)
    say(page, "wait")
    page.locator("#composer [data-act=interrupt]").click()
    expect(state(page)).to_contain_text("interrupted")


def test_messages_wait_in_one_order_for_all_tabs(visitor: Visitor, server: Served) -> None:
    """Of an agent that cannot be steered they are queued; both tabs, and a reload, show the same."""
    one = visitor.open("/agents")
    start(one, server, "wait", agent="gemini")
    one.locator("#board .run h3 a", has_text=re.compile("Session|New")).first.click()
    one.locator("#composer form").wait_for()
    two = visitor.open(one.url.removeprefix(server.base))
    two.locator("#composer form").wait_for()
    for number, page in enumerate([one, two, one, two]):
        say(page, f"say {number}")
        expect(page.locator(".queue li")).to_have_count(number + 1)
    expect(one.locator(".queue li")).to_have_count(4)
    orders = [page.locator(".queue .text").all_inner_texts() for page in (one, two)]
    assert orders == [[f"say {number}" for number in range(4)]] * 2
    expect(one.locator(".queue .tag").first).to_have_text("queued")
    one.locator("#message").fill("A draft")
    one.reload()
    expect(one.locator(".queue li")).to_have_count(4)
    expect(one.locator("#message")).to_have_value("A draft")


def test_a_reload_in_the_middle_keeps_everything(visitor: Visitor) -> None:
    """What is asked, what was being said, what was being written, and the mode."""
    page = begin(visitor, "say Begun.\nwait")
    page.locator("[name=mode]").select_option("plan")
    page.locator("#message").fill("Half a thought")
    other = visitor.open(page.url.removeprefix(visitor.server.base))
    say(other, "begin " + "many words " * 30)
    expect(page.locator(".streaming")).to_contain_text("many words")
    page.reload()
    expect(page.locator(".streaming")).to_contain_text("many words")
    expect(page.locator("#message")).to_have_value("Half a thought")
    expect(page.locator("[name=mode]")).to_have_value("plan")
    say(other, "edit")
    ready(page)
    page.reload()
    expect(page.locator(".asked")).to_have_count(1)


def test_a_session_is_forked_from_a_message(visitor: Visitor) -> None:
    """The page says where; what is sent opens the new session."""
    page = begin(visitor, "say First words.\nsay Second words.")
    expect(said(page, "Second words.")).to_have_count(1)
    expect(state(page)).to_contain_text("idle")
    old = page.url
    page.locator("#m1").click()
    page.keyboard.press("f")
    expect(page.locator(".fork-note")).to_contain_text("after message 1")
    expect(page.locator("#message")).to_be_focused()
    say(page, "say On another way.")
    expect(said(page, "On another way.")).to_have_count(1)
    assert page.url.split("?")[0] != old.split("?")[0]
    expect(said(page, "First words.")).to_have_count(1)
    expect(said(page, "Second words.")).to_have_count(0)


# --- when things go wrong --------------------------------------------------------------------------------------------


def test_a_server_that_ends_takes_its_agents_along(visitor: Visitor, server: Served) -> None:
    """The page says so when it is back, and the session can go on at once: nobody else has written to it."""
    page = begin(visitor, "say Begun.\nwait")
    board = visitor.open("/agents")
    expect(board.locator("[data-start] .primary")).to_be_enabled()
    server.stop()
    expect(page.locator("#offline")).to_be_visible()
    say(page, "say Sent in vain.")
    expect(page.locator("#composer [role=alert]")).to_contain_text("not reachable")
    server.start()
    expect(state(page)).to_contain_text("ended: the server ended")
    expect(board.locator(".runs.ended .run").first).to_contain_text("the server ended")
    expect(page.locator("#message")).to_have_value("say Sent in vain.")
    page.locator("#message").press("Control+Enter")
    expect(said(page, "Sent in vain.")).to_have_count(1)


def test_a_session_of_another_program_is_taken_over_on_purpose_only(visitor: Visitor, server: Served) -> None:
    """Somebody writes to it after our agent has ended: what is sent waits for a second yes."""
    page = begin(visitor, "say Begun.\nwait")
    expect(said(page, "Begun.")).to_have_count(1)
    page.locator("#composer [data-act=stop]").click()
    expect(state(page)).to_contain_text("ended")
    path = max((server.home / ".claude").rglob("*.jsonl"), key=lambda path: path.stat().st_mtime)
    later = time.time() + 5
    os.utime(path, (later, later))
    say(page, "say Sent in vain.")
    expect(page.locator("#composer [role=alert]")).to_contain_text("take it over")
    page.locator(".take-over summary").click()
    page.locator("[data-act=take-over]").click()
    expect(said(page, "Sent in vain.")).to_have_count(1)
    visitor.complaints[:] = [words for words in visitor.complaints if "409" not in words]


def test_on_a_phone_it_comes_as_a_sheet(browser: Any, visitor: Visitor, server: Served) -> None:
    """From below, over everything; folded it is a line; nothing is wider than the screen."""
    page = begin(visitor, "edit\nwait")
    path = page.url.removeprefix(server.base)
    phone = Visitor(browser, server, viewport=PHONE, has_touch=True, is_mobile=True)
    small = phone.open(path)
    ready(small)
    small.wait_for_timeout(200)
    box = small.locator(".questions").bounding_box()
    assert box is not None
    assert round(box["y"] + box["height"]) == PHONE["height"]
    assert box["width"] == PHONE["width"]
    assert not is_sideways(small)
    shot(small, "agents-phone-sheet")
    small.locator(".asked > summary").tap()
    folded = small.locator(".questions").bounding_box()
    assert folded is not None
    assert folded["height"] < 120
    small.locator(".asked > summary").tap()
    small.locator(".asked .primary").tap()
    expect(small.locator(".asked")).to_have_count(0)
    expect(page.locator("[data-notes]")).to_contain_text("allowed by tab")
    phone.leave()


def test_a_hidden_page_calls_whoever_allowed_it(browser: Any, visitor: Visitor, server: Served) -> None:
    """Only after a click on the bell, and only while nobody looks."""
    page = begin(visitor, "wait")
    visitor.context.grant_permissions(["notifications"])
    page.evaluate(
        """() => {
          window.calls = [];
          window.Notification = class { static permission = 'granted'; constructor(...told) { calls.push(told); } };
          Object.defineProperty(document, 'hidden', { get: () => true, configurable: true });
        }"""
    )
    say(page, "run make all")
    assert until(page, "() => window.calls.length && window.calls[0][1].body") == "make all"


def test_the_desk_is_not_wider_than_it_is(visitor: Visitor, server: Served) -> None:
    """Long lines in what is asked scroll in their place."""
    page = begin(visitor, "run echo " + "x" * 600)
    ready(page)
    assert not is_sideways(page)
    assert page.viewport_size == DESK
