"""A running agent looks the same everywhere, and none of its words is lost, whenever a page is opened."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

import pytest

from ..waiting import wait_until
from .browser import PHONE, Visitor, expect, is_sideways, settle, shot, until
from .test_browser_runs import (  # noqa: F401 - fixtures
    Page,
    Served,
    act,
    begin,
    launch,
    nothing_runs,
    ready,
    run_of,
    said,
    say,
    server,
    state,
)


def listed(page: Page, visitor: Visitor) -> Any:
    """The session of a page in the list beside it."""
    session = page.locator("main").get_attribute("data-session")
    return page.locator(f"#sessions li.session[data-session='{session}']")


def test_a_call_that_waits_is_shown_as_waiting_everywhere(visitor: Visitor) -> None:
    """In the list, the header, the composer and the transcript; after a stop nothing is live."""
    page = begin(visitor, "run make all\nwait")
    ready(page)
    head, item = page.locator(".session-head"), listed(page, visitor)
    call = page.locator("#pages .entry.call")
    for place in (head, item, state(page), call):
        expect(place).to_contain_text("waiting for you")
    expect(page.locator("#sessions li.session").first).to_have_attribute("data-run-state", "waiting-input")
    for place in (head, item, call):
        expect(place).not_to_contain_text("unfinished")
    expect(page.locator(".entry.orphan")).to_have_count(0)
    shot(page, "agents-waiting")
    page.locator("#composer [data-action=stop]").click()
    for place in (head, item):
        expect(place.locator(".state").first).not_to_have_class("run-waiting-input")
        expect(place).not_to_contain_text("waiting for you")
        expect(place).not_to_contain_text("live")
    expect(item).to_have_attribute("data-live", "false")
    page.reload()
    expect(page.locator(".session-head")).not_to_contain_text("live")


def test_a_clear_moves_the_page_to_the_new_session(visitor: Visitor) -> None:
    """The page of the old session, opened later, says where the agent is."""
    page = begin(visitor, "say Begun.")
    expect(said(page, "Begun.")).to_have_count(1)
    old, run = urlsplit(page.url).path, run_of(page)
    say(page, "clear")
    page.wait_for_url("**/runs/*")
    say(page, "say Afresh.")
    expect(said(page, "Afresh.")).to_have_count(1)
    assert run_of(page) == run
    assert urlsplit(page.url).path != old
    left = visitor.open(old)
    expect(state(left)).to_contain_text("continued in another session")
    expect(left.locator(".session-head .state").first).not_to_have_text("killed")
    state(left).locator("a").click()
    expect(said(left, "Afresh.")).to_have_count(1)


POINTS = ("before", "composer asked", "composer answered", "loaded")


def test_a_page_opened_in_mid_stream_has_all_words(visitor: Visitor) -> None:
    """Whether they were written before it loads, while its parts are fetched, or after that."""
    first = begin(visitor, "say Begun.\nwait")
    path, run = first.url.removeprefix(visitor.server.base), run_of(first)
    first.close()

    def texts() -> Any:
        return visitor.context.request.get(f"{visitor.server.base}/api/runs/{run}").json()["texts"]

    def write(word: str) -> None:
        act(visitor, f"/{run}/messages", id=word, text=f"begin {word}", who="the tests")
        wait_until(lambda: texts() and texts()[0]["text"].endswith(word), f"{word} to be written")

    write("[before]")
    page = visitor.context.new_page()
    held: list[Any] = []

    def hold(route: Any) -> None:
        write("[composer asked]")
        held.append((route, route.fetch()))

    page.route("**/composer?*", hold, times=1)
    page.goto(visitor.server.base + path)
    wait_until(lambda: page.evaluate("1") and held, "the composer to be fetched")
    write("[composer answered]")
    for route, response in held:
        route.fulfill(response=response)
    page.locator("#composer form").wait_for()
    write("[loaded]")
    expect(page.locator(".streaming").first).to_have_text("".join(f"[{point}]" for point in POINTS))
    page.reload()
    expect(page.locator(".streaming").first).to_have_text("".join(f"[{point}]" for point in POINTS))


def test_words_of_subagents_are_shown(visitor: Visitor) -> None:
    page = begin(visitor, "say Begun.\nwait")
    say(page, "below Looking into it.")
    expect(page.locator(".streaming.subagent")).to_contain_text("Looking into it.")
    page.reload()
    expect(page.locator(".streaming.subagent")).to_contain_text("scout")
    say(page, "say Done.")
    expect(page.locator(".streaming.subagent")).to_have_count(0)


@pytest.mark.parametrize("end", ["interrupt", "stop", "crash"])
def test_a_reply_that_was_cut_off_is_kept(visitor: Visitor, end: str) -> None:
    """The agent does not log it; the page shows it, also after a reload, until the next turn."""
    page = begin(visitor, "say Begun.\nwait")
    say(page, "begin Half of an ans")
    reply = page.locator(".streaming.cut-off")
    expect(page.locator(".streaming").first).to_contain_text("Half of an ans")
    if end == "crash":
        act(visitor, f"/{run_of(page)}/messages", id="crash", text="fail boom", who="the tests")
    else:
        act(visitor, f"/{run_of(page)}/{end}", who="the tests")
    expect(reply).to_have_text("Half of an ans")
    page.reload()
    expect(reply).to_have_text("Half of an ans")
    if end == "stop":
        page.set_viewport_size(PHONE)
        shot(page, "agents-cut-off")
        assert not is_sideways(page)
    say(page, "say Whole again.")
    expect(said(page, "Whole again.")).to_have_count(1)
    expect(reply).to_have_count(0)


def test_waiting_messages_are_edited_and_held_after_an_interrupt(visitor: Visitor) -> None:
    """What is sent is what the queue showed, in its order."""
    page = visitor.open(launch(visitor, "wait", "gemini"))
    expect(state(page)).to_contain_text("working")
    items, texts = page.locator(".queue li"), page.locator(".queue .text")
    for number in range(3):
        say(page, f"say number {number}")
        expect(items).to_have_count(number + 1)
    items.nth(2).locator("[data-edit=up]").click()
    expect(texts).to_have_text(["say number 0", "say number 2", "say number 1"])
    items.nth(0).locator("[data-edit=remove]").click()
    expect(texts).to_have_text(["say number 2", "say number 1"])
    items.nth(1).locator("summary").click()
    items.nth(1).locator("textarea").fill("say number one")
    shot(page, "agents-queue")
    items.nth(1).locator("[data-edit=save]").click()
    expect(texts).to_have_text(["say number 2", "say number one"])
    page.locator("#composer [data-action=interrupt]").click()
    expect(page.locator(".held")).to_contain_text("2 messages are waiting")
    page.set_viewport_size(PHONE)
    assert not is_sideways(page)
    shot(page, "agents-held-phone")
    page.locator("[data-queue=hold]").click()
    expect(page.locator(".held")).to_contain_text("Messages are held")
    expect(state(page)).to_contain_text("interrupted")
    page.locator("[data-queue=send]").press("Enter")
    expect(items).to_have_count(0)
    run = visitor.context.request.get(f"{visitor.server.base}/api/runs/{run_of(page)}").json()
    assert [one["text"] for one in run["messages"] if one["state"] == "taken_up"][1:] == [
        "say number 2",
        "say number one",
    ]


def test_a_queued_message_is_moved_past_the_one_before_it(visitor: Visitor) -> None:
    """A message that is being sent has no position in the queue."""
    page = visitor.open(launch(visitor, "wait", "gemini"))
    expect(state(page)).to_contain_text("working")
    for number in range(2):
        say(page, f"say number {number}")
        expect(page.locator(".queue li")).to_have_count(number + 1)
    # In one step, so that no update of the page comes between.
    page.evaluate(
        """() => {
            const queue = document.querySelector(".queue");
            const sent = queue.firstElementChild.cloneNode(true);
            sent.querySelectorAll(".edits, details").forEach((each) => each.remove());
            sent.dataset.key = sent.dataset.message = "sent";
            queue.prepend(sent);
            queue.querySelector("li:last-child [data-edit=up]").click();
        }"""
    )
    expect(page.locator(".queue .text")).to_have_text(["say number 1", "say number 0"])


both_ends = pytest.mark.parametrize("end", ["was killed", "ended"])


def restart(page: Page, served: Served, end: str) -> None:
    """End the server by force or by itself, and start it again when the page has noticed."""
    if end == "ended":
        served.stop()
    else:
        served.kill()
    expect(page.locator("#offline")).to_be_visible()
    served.start()


@both_ends
def test_what_was_asked_when_the_server_ended_is_asked_again(visitor: Visitor, server: Served, end: str) -> None:  # noqa: F811
    """The request is shown, and a prompt that names it resumes the session."""
    page = begin(visitor, "say Begun.\nrun make all\nwait")
    ready(page)
    restart(page, server, end)
    before = page.locator(".asked-before")
    how = "stopped" if end == "ended" else "was killed"
    expect(before).to_contain_text(f"It was asking this when the server {how}.")
    expect(before.locator("pre")).to_have_text("make all")
    expect(state(page)).to_contain_text(f"the server {end}")
    for place in (page.locator(".session-head"), listed(page, visitor), page.locator("#pages .entry.call")):
        expect(place).not_to_contain_text("waiting for you")
    shot(page, f"agents-asked-before-{end}")
    before.locator("[data-ask-again]").press("Enter")
    expect(page.locator("#pages .entry.prompt").last).to_contain_text("Bash: make all")
    expect(before).to_have_count(0)


def test_an_agent_that_ends_in_the_middle_of_a_turn(visitor: Visitor) -> None:
    """The page says that nobody stopped it, in its state and in the transcript, and the session can be resumed."""
    page = begin(visitor, "say Begun.\nfail out of memory")
    expect(state(page)).to_contain_text("ended: it ended unexpectedly")
    expect(page.locator("#composer .state-line .failed")).to_have_text("out of memory")
    mark = page.locator("#pages .entry").filter(has_text="the agent ended unexpectedly (exit code 1)")
    expect(mark).to_have_count(1)
    expect(page.locator(".session-head .state.interrupted")).to_be_visible()
    expect(listed(page, visitor).locator(".state.interrupted")).to_be_visible()
    shot(page, "agents-ended-unexpectedly")
    page.set_viewport_size(PHONE)
    shot(page, "agents-ended-unexpectedly-phone")
    assert not is_sideways(page)
    expect(page.locator("[data-send]")).to_have_text("Resume")


def test_the_fork_button_forks_and_shows_progress(visitor: Visitor) -> None:
    page = begin(visitor, "say First words.\nsay Second words.")
    expect(state(page)).to_contain_text("idle")
    page.locator("#m1").click()
    page.locator("[data-fork-here]").press("Enter")
    expect(page.locator(".fork-note")).to_contain_text("after message 1")
    held: list[Any] = []
    page.route("**/api/runs", lambda route: held.append(route))
    say(page, "say On another way.")
    expect(page.locator("[data-send]")).to_have_text("Forking…")
    expect(page.locator("[data-send]")).to_have_attribute("aria-busy", "true")
    held[0].continue_()
    expect(said(page, "On another way.")).to_have_count(1)
    expect(said(page, "Second words.")).to_have_count(0)


def test_a_request_counts_down_and_devices_have_names(visitor: Visitor) -> None:
    """A name given on the page of agents is the one in decisions, and on the device itself it is this computer."""
    board = visitor.open("/agents")
    expect(board.locator("[data-device]")).to_have_value("Chrome on Linux")
    board.locator("[data-device]").fill("Desk")
    with board.expect_navigation():
        board.locator("[data-device]").press("Tab")
    expect(board.locator("[data-device]")).to_have_value("Desk")
    page = begin(visitor, "run make all\nwait")
    ready(page)
    expect(page.locator(".approval .deadline")).to_contain_text("denied in 29:")
    say(page, "wait")
    expect(page.locator(".queue .who")).to_have_text("this computer")
    page.locator("#composer [data-action=stop]").click()
    expect(state(page)).to_contain_text("stopped by Desk")


def test_an_agent_that_is_not_logged_in_says_what_to_do(visitor: Visitor) -> None:
    """Everywhere it is not idle; the next message tries again."""
    page = begin(visitor, "say Begun.")
    say(page, "logout")
    for place in (state(page), page.locator(".session-head"), listed(page, visitor)):
        expect(place).to_contain_text("not logged in")
    expect(page.locator(".login")).to_contain_text("Run `claude` in a terminal and type /login.")
    # The models of the session come first, once they are known.
    expect(page.locator("#models option[value=sonnet]")).to_have_count(1)
    page.set_viewport_size(PHONE)
    shot(page, "agents-login-phone")
    assert not is_sideways(page)
    say(page, "say Back again.")
    expect(said(page, "Back again.")).to_have_count(1)
    expect(page.locator(".login")).to_have_count(0)


def test_a_process_that_outlives_an_interrupt_is_shown_and_can_be_ended(visitor: Visitor) -> None:
    page = begin(visitor, "leave npm run dev\nwait")
    page.locator("#composer [data-action=interrupt]").click()
    expect(state(page)).to_contain_text("interrupted")
    left = page.locator(".processes li")
    expect(left).to_contain_text("still running")
    expect(left.locator("code")).to_have_text("npm run dev")
    shot(page, "agents-processes")
    left.locator("button").press("Enter")
    expect(left).to_have_count(0)
    expect(state(page)).to_contain_text("interrupted")


def test_each_part_is_fetched_once_when_a_page_is_opened(visitor: Visitor) -> None:
    page = begin(visitor, "say Begun.\nwait")
    expect(said(page, "Begun.")).to_have_count(1)
    fetched: list[str] = []
    other = visitor.context.new_page()
    other.on("request", lambda request: fetched.append(urlsplit(request.url).path))
    other.goto(page.url)
    other.locator("#composer form").wait_for()
    until(other, "() => document.documentElement.dataset.stream === 'open'")
    assert [path for path in fetched if path == "/agents/needs"] == ["/agents/needs"]
    assert len([path for path in fetched if path.endswith("/composer")]) == 1


def test_an_answer_that_is_drawn_again_takes_nothing_from_the_stream(visitor: Visitor) -> None:
    page = begin(visitor, "say Begun.\nwait")
    expect(said(page, "Begun.")).to_have_count(1)
    say(page, "begin Half of it")
    stream = page.locator(".streaming").first
    expect(stream).to_have_text("Half of it")
    with page.expect_response("**/composer?*"):
        page.evaluate(
            """() => {
                const entry = document.querySelector("#pages .entry.answer");
                const again = entry.cloneNode(true);
                entry.replaceWith(again);
                document.dispatchEvent(new CustomEvent("unspool:content", { detail: again }));
            }"""
        )
    settle(page)
    expect(stream).to_have_text("Half of it")


@both_ends
def test_a_page_that_reconnects_fetches_what_it_missed(visitor: Visitor, server: Served, end: str) -> None:  # noqa: F811
    """The run has ended with the server; what was written stays, as cut off."""
    path = launch(visitor, "say Begun.\nbegin Half of it")
    wait_until(
        lambda: visitor.context.request.get(server.base + path, max_redirects=0).status == 303,
        "the session in the store",
    )
    page = visitor.open(path)
    expect(page.locator(".streaming").first).to_have_text("Half of it")
    restart(page, server, end)
    expect(state(page)).to_contain_text(f"ended: the server {end}")
    expect(page.locator(".streaming.cut-off")).to_have_text("Half of it")
    expect(page.locator(".session-head")).not_to_contain_text("live")
