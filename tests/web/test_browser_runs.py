"""Agents that are run from the pages, in a real browser: started, answered, interrupted, forked, by several tabs."""

from __future__ import annotations

import json
import os
import re
import select
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from unspool.render.exact import original
from unspool.web.access import Access

from ..waiting import PATIENCE, wait_until
from .browser import DESK, PHONE, Server, Visitor, expand, expect, go, is_sideways, rest, shot, until

Page = Any
ROOT = Path(__file__).parents[2]
SHOWN_COMMAND = "[...document.querySelectorAll('.approval .command pre')].map((part) => part.textContent).join('')"
IN_SIGHT = """(selector) => {
  const { left, bottom } = document.querySelector(selector).getBoundingClientRect();
  const found = document.elementFromPoint(left + 60, bottom - 4);
  return Boolean(found?.closest(selector));
}"""


class Served(Server):
    """A server with scripted agents."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, folder / "home")
        self.folder = folder
        self.project = folder / "demo"
        for part in ("home", "data", "demo"):
            (folder / part).mkdir()
        self.start()

    def start(self) -> Server:
        """Start it, or start it again on the port that it had."""
        places = [str(self.folder / part) for part in ("home", "store.db", "data")]
        command = [sys.executable, "-m", "tests.web.scripted_driver", *places, str(self.port)]
        environment = os.environ | {"UNSPOOL_DATA": str(self.folder / "data")}
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment, cwd=ROOT)
        output = self._process.stdout
        assert output is not None
        said = output.readline() if select.select([output], [], [], PATIENCE)[0] else "nothing"
        assert said.startswith("ready "), f"the server says {said}"
        self.port = int(said.split()[1])
        self.base = f"http://127.0.0.1:{self.port}"
        self.token = Access.load_or_create(self.folder / "data").token
        self.link = f"{self.base}/open?token={self.token}"
        return self


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """The server of all tests here."""
    served = Served(tmp_path_factory.mktemp("served"))
    yield served
    served.stop()


@pytest.fixture(autouse=True)
def nothing_runs(visitor: Visitor) -> Iterator[None]:
    """Runs that a test has started end with it."""
    yield
    for run in visitor.context.request.get(f"{visitor.server.base}/api/runs").json()["runs"]:
        if run["state"] != "ended":
            act(visitor, f"/{run['id']}/stop", who="the tests")


def act(visitor: Visitor, path: str, **facts: Any) -> Any:
    """Do something with the API, as another program would."""
    headers = {"authorization": f"Bearer {visitor.server.token}"}
    answer = visitor.context.request.post(f"{visitor.server.base}/api/runs{path}", data=facts, headers=headers)
    assert answer.ok, answer.text()
    return answer.json()


def start(page: Page, server: Served, prompt: str, agent: str = "claude") -> None:
    """Start an agent with the form of the board."""
    page.locator(f"[name=agent][value={agent}]").check()
    page.locator("[name=folder]").fill(str(server.project))
    page.locator("[name=prompt]").fill(prompt)
    page.locator("[data-start] .primary").click()


def launch(visitor: Visitor, prompt: str | None, agent: str = "claude") -> str:
    """Start an agent without the board, and give the address of its page."""
    assert isinstance(visitor.server, Served)
    facts = {"agent": agent, "folder": str(visitor.server.project), "prompt": prompt, "message_id": uuid.uuid4().hex}
    return f"/runs/{act(visitor, '', **facts, who='the tests')['run']['id']}"


def begin(visitor: Visitor, prompt: str) -> Page:
    """The page of a new session with a first prompt."""
    path = launch(visitor, prompt)
    # Before the store knows the session it is another page.
    wait_until(
        lambda: visitor.context.request.get(visitor.server.base + path, max_redirects=0).status == 303,
        "the session in the store",
    )
    page = visitor.open(path)
    page.locator("#composer form").wait_for()
    return page


def run_of(page: Page) -> str:
    """The id of the agent of a page."""
    id: str = until(page, "() => document.querySelector('#composer').dataset.run")
    return id


def state(page: Page) -> Any:
    """What the composer says about the agent."""
    return page.locator(".state-line [role=status]")


def say(page: Page, text: str) -> None:
    """Send a message."""
    if page.locator(".compose:not([open])").count():
        page.locator(".compose > summary").click()
    page.locator("#message").fill(text)
    page.locator("#message").press("Control+Enter")


def said(page: Page, text: str) -> Any:
    """An answer that is in the log."""
    return page.locator("#pages .entry.answer", has_text=text)


def ready(page: Page) -> None:
    """Wait until the request accepts keys: earlier ones are not meant for it."""
    page.locator(".approval[data-keys]").wait_for()


def listen(page: Page) -> None:
    """Remember the notes of a page: they are shown for a few seconds only."""
    page.evaluate(
        """() => {
          window.noted = '';
          const hear = (changes) => changes.forEach(({ addedNodes }) =>
            addedNodes.forEach((node) => (window.noted += `${node.textContent}\\n`)));
          new MutationObserver(hear).observe(document.querySelector('[data-notices]'), { childList: true });
        }"""
    )


def note(page: Page, words: str) -> str:
    """A notice with this text, which may have disappeared again."""
    line: str = until(page, "(words) => window.noted.split('\\n').find((line) => line.includes(words))", words)
    return line


# --- starting --------------------------------------------------------------------------------------------------------


def test_an_agent_is_started_from_the_board_and_answered_there(visitor: Visitor, server: Served) -> None:
    """It appears with its text and its request, and the bar counts the request until it is answered."""
    page = visitor.open("/agents")
    expect(page.locator(".kind.missing")).to_contain_text("npm install -g @openai/codex")
    start(page, server, "say Looking around first, as one does.\nedit\nwait")
    run = page.locator("#board .run[data-run-state=waiting-input]")
    expect(run.locator(".latest-text")).to_contain_text("Looking around first")
    expect(page.locator(".bar .needs")).to_contain_text("1")
    expect(page.locator(".approval .diff .add")).to_have_count(3)
    assert page.title().startswith("(1) ")
    shot(page, "agents-board")
    page.locator("[data-verdict=allow_session]").click()
    expect(page.locator(".approval")).to_have_count(0)
    expect(page.locator(".bar .needs")).to_be_hidden()
    expect(page.locator("#board .run[data-run-state=in-turn] .latest-text")).to_contain_text("allow_session")
    # Of a session that ends before the store knows it, there is nothing to open.
    expect(page.locator("#board .run[data-run-state=in-turn] h3 a")).to_have_attribute(
        "href", re.compile("^/sessions/")
    )
    page.locator("[data-action=stop]").first.click()
    expect(page.locator(".runs.ended .run").first).to_contain_text("stopped by Chrome on")
    page.locator(".runs.ended .run h3 a").first.click()
    expect(said(page, "Looking around first")).to_have_count(1)


def test_streamed_text_is_shown_until_the_log_has_it(visitor: Visitor) -> None:
    """Dimmed at the end of the transcript; then the entry replaces it, and no text is shown twice."""
    page = begin(visitor, "say Begun.\nwait")
    say(page, "hold One **two** three " + "and so on " * 12)
    expect(page.locator(".streaming")).to_contain_text("and so on")
    expect(said(page, "One two three")).to_have_count(0)
    shot(page, "agents-streaming")
    say(page, "wait")
    expect(said(page, "One two three")).to_have_count(1)
    expect(page.locator(".streaming")).to_be_hidden()
    expect(state(page)).to_contain_text("working")


def test_a_session_is_resumed_after_its_agent_has_ended(visitor: Visitor) -> None:
    """The button says what it does; one click does not take a session from another program."""
    page = begin(visitor, "say Begun and done.")
    expect(state(page)).to_contain_text("idle")
    page.locator("#composer [data-action=stop]").click()
    expect(state(page)).to_contain_text("ended: stopped by Chrome on")
    expect(page.locator("[data-send]")).to_have_text("Resume")
    say(page, "say Gone on.")
    expect(said(page, "Gone on.")).to_have_count(1)
    expect(page.locator("[data-send]")).to_have_text("Send")


# --- answering -------------------------------------------------------------------------------------------------------


def test_a_change_is_allowed_and_a_command_denied_by_key(visitor: Visitor) -> None:
    """The request has the focus; a denial has a reason; an input can be changed before it is allowed."""
    page = begin(visitor, "edit\nrun make all\nrun make some\nsay Done with it.")
    ready(page)
    shot(page, "agents-approval")
    expect(page.locator(".approval")).to_be_focused()
    page.keyboard.press("a")
    expect(page.locator(".approval .approval-title")).to_have_text("make all")
    ready(page)
    page.keyboard.press("r")
    page.keyboard.type("use ninja instead")
    page.keyboard.press("Control+Enter")
    expect(said(page, "Denied because use ninja instead.")).to_have_count(1)
    expect(page.locator(".approval .approval-title")).to_have_text("make some")
    ready(page)
    page.keyboard.press("e")
    page.locator("[name=input]").fill("{not json")
    page.keyboard.press("Control+Enter")
    expect(page.locator(".approval [role=alert]")).to_contain_text("JSON")
    page.locator("[name=input]").fill('{"command": "make nothing"}')
    page.keyboard.press("Control+Enter")
    expect(said(page, "Allowed (allow): Bash make nothing")).to_have_count(1)
    expect(page.locator(".approval")).to_have_count(0)


def test_a_key_pressed_before_the_approval_appears_is_ignored(visitor: Visitor) -> None:
    """However late the page is notified."""
    page = begin(visitor, "say Begun.\nwait")
    page.evaluate("window.pressed = new KeyboardEvent('keydown', { key: 'a', bubbles: true })")
    say(page, "run make all")
    ready(page)
    page.evaluate("document.querySelector('.approval').dispatchEvent(window.pressed)")
    page.keyboard.press("d")
    expect(said(page, "Denied because of nothing")).to_have_count(1)
    expect(said(page, "Allowed")).to_have_count(0)


def test_questions_are_answered_with_options_and_text(visitor: Visitor) -> None:
    """All of them; what was chosen reaches the model."""
    page = begin(visitor, "ask\nwait")
    ready(page)
    page.locator("[data-verdict=allow]").click()
    expect(page.locator(".approval [role=alert]")).to_contain_text("Answer every question")
    page.get_by_label("Green").check()
    page.get_by_label("Large").check()
    page.locator("fieldset").nth(1).get_by_label("Your own answer").fill("Huge")
    page.locator("fieldset").nth(1).get_by_label("A note").fill("soon")
    shot(page, "agents-question")
    page.locator("[data-verdict=allow]").click()
    expect(said(page, '["Green"]')).to_contain_text('["Large", "Huge"]')
    expect(said(page, '["Green"]')).to_contain_text('{"Which sizes are needed?": "soon"}')


def test_the_card_shows_what_runs(browser: Any, visitor: Visitor, server: Served) -> None:
    """In the browser, too, the shown text is the command, whatever it is; its end is in sight, also on a phone."""
    command = "ls .\x1bP ; touch\r\n\ta\x00 \u202e" + "echo \u0430b \n" * 90 + "rm -rf ~"
    page = begin(visitor, "call Bash " + json.dumps({"command": command, "dangerouslyDisableSandbox": True}))
    phone = Visitor(browser, server, viewport=PHONE, has_touch=True, is_mobile=True)
    small = phone.open(page.url.removeprefix(server.base))
    for each in (page, small):
        ready(each)
        assert original(each.evaluate(SHOWN_COMMAND)) == command
        assert (
            each.evaluate("JSON.parse(document.querySelector('.approval .command .copy').dataset.copyJson)") == command
        )
        expect(each.locator(".request-details")).to_contain_text("dangerouslyDisableSandbox")
        expect(each.locator(".not-shown")).to_contain_text("lines not shown here: show all")
        # The last line is in sight before anything is scrolled or opened.
        assert each.evaluate(IN_SIGHT, ".approval .command .end .row:last-child")
        assert not is_sideways(each)
    shot(page, "agents-exact")
    shot(small, "agents-exact-phone")
    phone.leave()


def test_a_change_is_reviewed_again_if_its_file_has_changed(visitor: Visitor, server: Served) -> None:
    """The answer to the old preview does not count."""
    file = server.project / "changing.py"
    file.write_text("first = 1\n")
    edit = {"file_path": str(file), "old_string": "first", "new_string": "second"}
    page = begin(visitor, "call Edit " + json.dumps(edit))
    ready(page)
    listen(page)
    expect(page.locator(".approval .diff .add")).to_have_text(re.compile("second = 1"))
    file.write_text("other = 1\n")
    page.locator(".verdicts .primary").click()
    note(page, "The file has changed since you saw it")
    expect(page.locator(".approval-warnings")).to_contain_text("is not in the file")
    page.locator(".verdicts .primary").click()
    expect(page.locator(".approval")).to_have_count(0)
    visitor.complaints[:] = [words for words in visitor.complaints if "409" not in words]


def test_an_answer_in_one_tab_appears_in_the_other(visitor: Visitor) -> None:
    """Both press at the same time: one counts, the other shows whose answer it was."""
    one = begin(visitor, "edit\nwait")
    two = visitor.open(one.url.removeprefix(visitor.server.base))
    for page in (one, two):
        ready(page)
        listen(page)
    with one.expect_response("**/answers/*") as first, two.expect_response("**/answers/*") as second:
        one.evaluate("document.querySelector('[data-verdict=allow]').click()")
        two.evaluate("document.querySelector('[data-verdict=deny]').click()")
    assert sorted([first.value.status, second.value.status]) == [200, 409]
    late = one if first.value.status == 409 else two
    assert re.search("by this computer|from this device", note(late, "this "))
    for page in (one, two):
        expect(page.locator(".approval")).to_have_count(0)
    visitor.complaints[:] = [words for words in visitor.complaints if "409" not in words]


def test_a_typed_answer_survives_updates(visitor: Visitor) -> None:
    """The request is not rendered again during typing, and a new one does not take the focus from a text field."""
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
    """With two presses of Escape, or with the button."""
    page = begin(visitor, "say Begun.\nwait")
    expect(state(page)).to_contain_text("working")
    sent: list[str] = []
    page.on("request", lambda request: sent.append(request.url) if request.url.endswith("/interrupt") else None)
    # Once when the page has loaded, then three times: one press does nothing, and a third one counts alone.
    page.evaluate(
        """() => [1, 5000, 5100, 5200].forEach((value) => {
          const press = new KeyboardEvent('keydown', { key: 'Escape', bubbles: true });
          Object.defineProperty(press, 'timeStamp', { value });
          document.activeElement.dispatchEvent(press);
        })"""
    )
    expect(state(page)).to_contain_text("interrupted")
    assert len(sent) == 1
    expect(page.locator("#pages .entry.interruption")).to_have_count(1)
    say(page, "wait")
    page.locator("#composer [data-action=interrupt]").click()
    expect(state(page)).to_contain_text("interrupted")


def test_messages_wait_in_one_order_for_all_tabs(visitor: Visitor, server: Served) -> None:
    """Of an agent that cannot be steered they are queued; both tabs, and a reload, show the same."""
    path = launch(visitor, "wait", "gemini")
    one, two = visitor.open(path), visitor.open(path)
    expect(state(one)).to_contain_text("working")
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
    """The request, the streamed text, the typed text, and the mode."""
    page = begin(visitor, "say Begun.\nwait")
    with page.expect_response("**/change"):
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
    expect(page.locator(".approval")).to_have_count(1)


def test_text_typed_while_a_message_is_sent_is_kept(visitor: Visitor) -> None:
    """It is not cleared away when the server has the first one, and what was sent too soon goes next."""
    page = begin(visitor, "say Begun.\nwait")
    held: list[Any] = []
    page.route("**/messages", lambda route: held.append(route))
    for number in (1, 2):
        say(page, f"say Number {number}.")
        # Playwright calls routes only while it processes another request to the page.
        wait_until(lambda: page.evaluate("1") and held, "a message on its way")
    held.pop(0).continue_()
    wait_until(lambda: page.evaluate("1") and held, "the second message on its way")
    page.locator("#message").fill("And a draft")
    held.pop(0).continue_()
    for number in (1, 2):
        expect(said(page, f"Number {number}.")).to_have_count(1)
    expect(page.locator("#message")).to_have_value("And a draft")
    page.reload()
    expect(page.locator("#message")).to_have_value("And a draft")


def test_the_page_does_not_navigate_while_text_is_typed(visitor: Visitor) -> None:
    """The page of a new session becomes that of the conversation as soon as its text field is empty."""
    path = launch(visitor, None)
    page = visitor.open(path)
    page.locator("#message").fill("say Written")
    act(visitor, f"/{path.split('/')[2]}/messages", id="other", text="say Begun.", who="the tests")
    expect(page.locator("#composer[data-home]")).to_have_count(1)
    with page.expect_response("**/composer?*"):
        pass  # By then, a page that navigates would have done so.
    assert page.url.endswith(path)
    page.locator("#message").press_sequentially(" at leisure.")
    page.locator("#message").press("Control+Enter")
    expect(said(page, "Written at leisure.")).to_have_count(1)
    assert "/runs/" not in page.url


def test_an_outdated_response_is_not_shown(visitor: Visitor) -> None:
    """Neither what the composer says, nor how many wait for an answer."""
    page = begin(visitor, "say Begun.\nwait")
    held: list[Any] = []

    def hold(route: Any) -> None:
        if any(route.request.url == other.request.url for other, _ in held):
            route.continue_()
        else:
            held.append((route, route.fetch()))

    page.route("**/composer?*", hold)
    page.route("**/agents/needs", hold)
    say(page, "run make all")
    wait_until(lambda: page.evaluate("1") and len(held) == 2, "two answers of the server", detail=lambda: held)
    act(visitor, f"/{run_of(page)}/interrupt", who="the tests")
    expect(state(page)).to_contain_text("interrupted")
    for route, response in held:
        with page.expect_event("requestfinished", lambda request, url=route.request.url: request.url == url):
            route.fulfill(response=response)
    rest(page)
    expect(state(page)).to_contain_text("interrupted")
    expect(page.locator(".approval")).to_have_count(0)
    expect(page.locator(".bar .needs")).to_be_hidden()


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


# --- failures --------------------------------------------------------------------------------------------------------


def test_a_server_that_exits_stops_its_agents(visitor: Visitor, server: Served) -> None:
    """The page says so when it is back, and the session can be resumed at once: no other program has written to it."""
    page = begin(visitor, "say Begun.\nwait")
    board = visitor.open("/agents")
    expect(board.locator("[data-start] .primary")).to_be_enabled()
    server.stop()
    expect(page.locator("#offline")).to_be_visible()
    say(page, "say Sent in vain.")
    expect(page.locator("#composer [role=alert]")).to_contain_text("cannot be reached")
    server.start()
    expect(state(page)).to_contain_text("ended: the server ended")
    expect(board.locator(".runs.ended .run").first).to_contain_text("the server ended")
    expect(page.locator("#message")).to_have_value("say Sent in vain.")
    page.locator("#message").press("Control+Enter")
    expect(said(page, "Sent in vain.")).to_have_count(1)


def test_a_session_in_use_is_taken_over_only_after_confirmation(visitor: Visitor, server: Served) -> None:
    """Somebody writes to it after our agent has ended: what is sent waits for a second yes."""
    page = begin(visitor, "say Begun.\nwait")
    expect(said(page, "Begun.")).to_have_count(1)
    run = visitor.context.request.get(f"{server.base}/api/runs/{run_of(page)}").json()
    page.locator("#composer [data-action=stop]").click()
    expect(state(page)).to_contain_text("ended")
    (path,) = (server.home / ".claude").rglob(f"{run['session']}.jsonl")
    # A time in the future counts as now, however long this takes.
    later = time.time() + 3600
    os.utime(path, (later, later))
    say(page, "say Sent in vain.")
    expect(page.locator("#composer [role=alert]")).to_contain_text("take it over")
    expand(page.locator(".take-over summary"))
    page.locator("[data-action=take-over]").click()
    expect(said(page, "Sent in vain.")).to_have_count(1)
    visitor.complaints[:] = [words for words in visitor.complaints if "409" not in words]


def test_on_a_phone_the_approval_is_a_sheet(browser: Any, visitor: Visitor, server: Served) -> None:
    """At the bottom, above everything; collapsed it is one line; nothing is wider than the screen."""
    page = begin(visitor, "edit\nwait")
    path = page.url.removeprefix(server.base)
    phone = Visitor(browser, server, viewport=PHONE, has_touch=True, is_mobile=True)
    small = phone.open(path)
    ready(small)
    listen(page)
    sheet = "const { bottom, height, width } = document.querySelector('.questions').getBoundingClientRect();"
    until(small, f"() => {{ {sheet} return Math.round(bottom) === innerHeight && width === innerWidth; }}")
    assert small.evaluate("[innerWidth, innerHeight]") == [PHONE["width"], PHONE["height"]]
    assert not is_sideways(small)
    shot(small, "agents-phone-sheet")
    small.locator(".approval > summary").tap()
    until(small, f"() => {{ {sheet} return height < 120; }}")
    small.locator(".approval > summary").tap()
    small.locator(".approval .primary").tap()
    expect(small.locator(".approval")).to_have_count(0)
    note(page, "Allowed by ")
    phone.leave()


def test_a_notice_stays_until_the_page_is_visible(browser: Any, visitor: Visitor) -> None:
    """It disappears some time after it became visible."""
    path = urlsplit(begin(visitor, "edit\nwait").url)
    # All pages of a context share its clock.
    timed = Visitor(browser, visitor.server)
    page = timed.tab()
    page.clock.install()
    go(page, visitor.server, f"{path.path}?{path.query}")
    ready(page)
    look = """(hidden) => {
      Object.defineProperty(document, 'hidden', { get: () => hidden, configurable: true });
      document.dispatchEvent(new Event('visibilitychange'));
    }"""
    page.evaluate(look, True)
    card = page.locator(".approval")
    facts = {"digest": card.get_attribute("data-digest"), "verdict": "allow", "who": "the tests"}
    act(visitor, f"/{run_of(page)}/answers/{card.get_attribute('data-request')}", **facts)
    line = page.locator("[data-notices] li")
    expect(line).to_contain_text("Allowed by the tests")
    page.clock.run_for(60_000)
    expect(line).to_have_count(1)
    page.evaluate(look, False)
    page.clock.run_for(60_000)
    expect(line).to_have_count(0)
    timed.leave()


def test_the_board_fits_the_screen(visitor: Visitor, server: Served) -> None:
    """Long lines of a request scroll inside it."""
    page = begin(visitor, "run echo " + "x" * 600)
    ready(page)
    assert not is_sideways(page)
    assert page.viewport_size == DESK
