"""The pages show what the API returns, for sessions of all three agents."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, get_args
from urllib.parse import quote

import pytest

from unspool.core.events import BADGE_KINDS
from unspool.testing import ClaudeLog, call
from unspool.web.api.schemas import ItemKind

from .browser import (
    Server,
    Visitor,
    entries,
    expand,
    expect,
    go,
    home_of_recordings,
    serving,
    shot,
    transcript,
    until,
    wait_at,
    words,
)

AGENTS = ("claude", "codex", "gemini")
TOLD = frozenset(get_args(ItemKind))
COLOURED = "plain \x1b[31mred words\x1b[0m and \x1b[1;32mstrong green\x1b[0m\n" + "a line of many\n" * 300


def built() -> ClaudeLog:
    """A session with a change, a long coloured output and a thought."""
    log = ClaudeLog("built")
    log.user("Please make the port a setting")
    thought = {"type": "thinking", "thinking": "First I look\nwhere the port is.", "signature": "s"}
    log.model(thought, "I change it **now**.")
    log.model(call("edit", "Edit", file_path="/home/dev/demo/app.py", old_string="PORT = 1\n", new_string="PORT = 2\n"))
    patch = {
        "oldStart": 7,
        "oldLines": 2,
        "newStart": 7,
        "newLines": 2,
        "lines": [" import os", "-PORT = 1", "+PORT = 2"],
    }
    given = {
        "filePath": "/home/dev/demo/app.py",
        "structuredPatch": [patch],
        "oldString": "PORT = 1",
        "newString": "PORT = 2",
    }
    log.result("edit", "The file has been updated.", toolUseResult=given)
    log.model(call("test", command="make test"))
    log.result("test", COLOURED)
    log.model("All is `green`.")
    return log


def working() -> ClaudeLog:
    """A session with recent changes, however long the tests before it take."""
    log = ClaudeLog("working")
    later = datetime.now(UTC) + timedelta(hours=1)
    now = later.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    log.user("What is going on at the moment?", timestamp=now)
    log.model(call("slow", command="sleep 1000"))
    return log


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Recordings, and two sessions of our own."""
    folder = tmp_path_factory.mktemp("reading")
    home = home_of_recordings(folder)
    for log in (built(), working()):
        log.write(home)
    with serving(folder, home) as server:
        server.wait_until_ready()
        yield server


def address(row: dict[str, Any]) -> str:
    return f"/sessions/{quote(row['name'].replace('/', '~'), safe='')}"


# --- the list --------------------------------------------------------------------------------------------------------


def test_the_session_list_equals_the_api(visitor: Visitor, server: Server) -> None:
    """Live sessions on top, then project by project; each with its agent, its badges and the sub-agents below it."""
    page = visitor.open("/")
    groups = page.evaluate(
        """() => [...document.querySelectorAll('section.project')].map((group) => ({
          name: group.querySelector('h2').firstChild.textContent || group.querySelector('h2').textContent,
          project: group.dataset.project,
          sessions: [...group.querySelectorAll('li.session')].map((item) => ({
            key: item.dataset.key, agent: item.dataset.agent, live: item.dataset.live === 'true',
            badges: [...item.querySelectorAll(':scope > a .badge .hidden')].map((badge) => badge.textContent).sort(),
            below: [...item.querySelectorAll(':scope > .subagents a')].map((link) => Number(link.dataset.session)),
          })),
        }))"""
    )
    listed = server.sessions()
    assert listed[0]["row"]["title"] == "What is going on at the moment?"
    assert groups[0]["sessions"][0]["live"]
    assert not any(shown["live"] for group in groups[1:] for shown in group["sessions"])
    said = {kind.name: kind.look.badge for kind in BADGE_KINDS}
    assert said["rejection"] == "rejected"
    expected: dict[str, list[Any]] = {}
    for each in listed[:200]:
        row = each["row"]
        badges = sorted(f"{row['counts'][kind]} {word}" for kind, word in said.items() if row["counts"].get(kind))
        expected.setdefault("" if each["live"] else row["project"], []).append(
            {
                "key": row["name"],
                "agent": row["agent"],
                "live": each["live"],
                "badges": badges,
                "below": [below["id"] for below in each["subagents"]][:12],
            }
        )
    assert {group["project"]: group["sessions"] for group in groups} == expected
    expect(page.locator(".bar .live")).to_have_text("1 live")
    shot(page, "list")


def test_the_session_list_is_filtered_by_chips_and_text(visitor: Visitor, server: Server) -> None:
    """Each filter leaves those that fit, and the address keeps it."""
    page = visitor.open("/")

    def shown() -> set[str]:
        found: list[str] = page.evaluate("[...document.querySelectorAll('li.session')].map((item) => item.dataset.key)")
        return set(found)

    page.get_by_role("link", name="Only Codex CLI").click()
    page.wait_for_url("**/?agent=codex")
    assert shown() == {each["row"]["name"] for each in server.sessions("&agent=codex")}
    page.get_by_role("link", name="With rejected").click()
    page.wait_for_url("**/?agent=codex&has=rejection")
    refused = {each["row"]["name"] for each in server.sessions("&agent=codex&has=rejection")}
    assert shown() == refused
    assert refused
    page.locator("#filter").press_sequentially("no session has this", delay=5)
    expect(page.locator(".list .nothing")).to_contain_text("No sessions match")
    page.locator("#filter").fill(next(iter(refused))[:13])
    until(page, "document.querySelectorAll('li.session').length > 0")
    assert shown() <= refused
    page.reload()
    assert shown() <= refused
    page.get_by_role("link", name="Show all").click()
    until(page, "document.querySelectorAll('li.session').length > 20")


# --- the transcript --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("agent", AGENTS)
def test_the_transcript_equals_the_api(visitor: Visitor, server: Server, agent: str) -> None:
    """For the largest sessions: the same entries in the same order, with the same text."""
    rows = [each["row"] for each in server.sessions(f"&agent={agent}")]
    rows.sort(key=lambda row: -sum(bool(count) for count in row["counts"].values()))
    page = visitor.open("/")
    for row in rows[:4]:
        go(page, server, address(row))
        shown = [entry for entry in transcript(page) if entry["kind"] in TOLD and entry["index"] is not None]
        told = server.history(row["name"])
        assert [entry["key"] for entry in shown] == [item["key"] for item in told], row["name"]
        for entry, item in zip(shown, told, strict=True):
            assert entry["kind"] == item["kind"]
            seen = words(entry["text"])
            beginning = "\n".join(item.get("text", "").split("\n")[:12])
            # The summary of a compaction is fetched when it is expanded.
            assert item["kind"] == "compaction" or words(beginning)[:400] in seen, (row["name"], item["key"])
            if made := item.get("call"):
                assert words(made["name"]) in seen
                assert words((made.get("rejection") or {}).get("reason"))[:200] in seen


def test_tool_calls_are_collapsed_and_expand(visitor: Visitor, server: Server) -> None:
    """Thoughts and calls are one line; opened they show a change as a change and colours as colours."""
    log = built()
    page = visitor.open(f"/sessions/{log.session}")
    assert page.locator("#pages details[open]").count() == 0
    thought = page.locator(".entry.thinking")
    expect(thought.locator("summary")).to_contain_text("First I look where the port is.")
    expect(page.locator(".entry.answer strong")).to_have_text("now")
    change, run = page.locator(".entry.call").nth(0), page.locator(".entry.call").nth(1)
    expect(change.locator("summary")).to_contain_text("+1")
    expect(change.locator(".diff")).to_be_hidden()
    expand(change.locator("summary"))
    expect(change.locator("tr.add td").last).to_have_text("PORT = 2")
    expect(change.locator("tr.del td").last).to_have_text("PORT = 1")
    expand(run.locator("summary"))
    red = run.locator("pre span", has_text="red words")
    plain, colour = (
        run.locator(".result pre").evaluate(f"(e) => getComputedStyle({what}).color")
        for what in ("e", "[...e.querySelectorAll('span')].find((s) => s.textContent.includes('red words'))")
    )
    expect(red).to_be_visible()
    assert plain != colour
    assert "\x1b" not in run.inner_text()
    assert run.inner_text().count("a line of many") < 60
    run.get_by_role("button", name=re.compile("show all 301 lines")).click()
    expect(run.locator(".output.whole")).to_be_visible()
    assert run.inner_text().count("a line of many") == 300
    shot(page, "session")


def test_pictures_are_shown(visitor: Visitor, server: Server) -> None:
    """Those that a session holds, of every agent that keeps them."""
    page = visitor.open("/")
    seen = 0
    for row in (each["row"] for each in server.sessions()):
        if all(item["kind"] != "image" for item in server.history(row["name"])):
            continue
        go(page, server, address(row))
        if page.locator(".picture img").count():
            page.locator(".picture img").first.scroll_into_view_if_needed()
            until(page, "document.querySelector('.picture img').naturalWidth > 0")
            seen += 1
        if seen == 2:
            return
    assert seen


@pytest.mark.parametrize("agent", AGENTS)
def test_a_subagent_is_expanded_in_its_call(visitor: Visitor, server: Server, agent: str) -> None:
    """Its transcript appears inside the call that started it, and has a page of its own."""
    row = next(row for row in server.with_count("subagent", agent))
    page = visitor.open(address(row))
    opener = page.locator("details[data-load$='/embedded']").first
    expand(opener.locator("summary").first)
    expect(opener.locator(".embedded")).to_be_visible()
    number = opener.locator(".embedded").get_attribute("data-session")
    told = server.history(number)
    shown = [entry for entry in entries(page, f".embedded[data-session='{number}']") if entry["kind"] in TOLD]
    assert [entry["key"] for entry in shown] == [f"s{number}.{item['key']}" for item in told][: len(shown)]
    assert len(shown) == len(told)
    opener.get_by_role("link", name="Open session").click()
    expect(page.locator(".session-head .breadcrumb")).to_contain_text("Sub-agent of")
    assert page.locator("#transcript").get_attribute("data-session") == number
    page.locator(".session-head .breadcrumb a").click()
    until(page, "(id) => document.querySelector('#transcript')?.dataset.session === id", str(row["id"]))


# --- branches --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("agent", AGENTS)
def test_a_branch_is_offered_where_it_was_left(visitor: Visitor, server: Server, agent: str) -> None:
    """It is opened in place, compared, taken as the view, and drawn in the tree."""
    row, branch, fork = next(
        (row, line["id"], line["parent_index"])
        for row in server.with_count("branch", agent)
        for line in server.api(f"/sessions/{row['id']}/tree")["lines"]
        if line["id"] and line["length"] > 1 and line.get("parent") == 0
    )
    messages = server.api(f"/sessions/{row['id']}/messages")["messages"]
    own = [message["index"] for message in messages if (message.get("branch") or 0) == branch]
    page = visitor.open(address(row))
    chip = page.locator(f"[data-key=fork{branch}]")
    before = chip.evaluate("(chip) => Number(chip.previousElementSibling?.dataset.index ?? -1)")
    assert before <= fork < min(own)
    expand(chip.locator("summary").first)
    expect(chip.locator(".old-branch")).to_be_visible()
    found = entries(page, f"[data-key=fork{branch}] .old-branch")
    shown = {int(entry["index"]) for entry in found if entry.get("index")}
    assert shown
    assert shown <= set(own)
    chip.get_by_role("link", name="Open this branch").click()
    page.wait_for_url(f"**?branch={branch}*")
    keys = [entry["key"] for entry in transcript(page) if entry["kind"] in TOLD and entry["index"] is not None]
    assert keys == [item["key"] for item in server.history(row["name"], branch)]
    expect(page.locator(".session-head .banner")).to_contain_text(f"You are reading branch {branch}")
    page.locator(".session-head").get_by_role("link", name="Compare").click()
    page.wait_for_url(f"**/compare?a=0&b={branch}")
    sides = page.locator(".compare > .side")
    expect(sides).to_have_count(2)
    assert sides.nth(0).locator(".entry").count() + sides.nth(1).locator(".entry").count() > 1
    shot(page, f"compare-{agent}")


def test_the_tree_leads_to_every_branch(visitor: Visitor, server: Server) -> None:
    """`b` opens it; it draws a line for each branch, and a link leads there. So does a link to a message of one."""
    row = server.with_count("branch")[0]
    lines = server.api(f"/sessions/{row['id']}/tree")["lines"]
    page = visitor.open(address(row))
    page.keyboard.press("b")
    tree = page.locator(".branches .tree")
    expect(tree.get_by_role("link", name=re.compile("^branch "))).to_have_count(len(lines) - 1)
    assert tree.locator("svg .line-old").count() == len(lines) - 1
    shot(page, "tree")
    tree.get_by_role("link", name=f"branch {lines[-1]['id']}", exact=True).click()
    page.wait_for_url(f"**?branch={lines[-1]['id']}*")
    go(page, server, f"{address(row)}?at={lines[-1]['tip_index']}")
    until(page, "(id) => document.querySelector('#transcript')?.dataset.branch === id", str(lines[-1]["id"]))
    wait_at(page, lines[-1]["tip_index"])


# --- context ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("agent", "kind"),
    [(agent, kind) for agent in AGENTS for kind in ("compaction", "branch")] + [("claude", "clear")],
)
def test_the_context_view_equals_the_api(visitor: Visitor, server: Server, agent: str, kind: str) -> None:
    """Where a context was cut: each entry is lit or dark as its message was in it or not."""
    row = server.with_count(kind, agent)[0]
    page = visitor.open(address(row))
    places = [entry["index"] for entry in transcript(page) if entry["kind"] in ("prompt", "answer")]
    for place in sorted({places[len(places) // 2], places[-1]} if kind == "compaction" else {places[-1]}):
        view = server.api(f"/sessions/{row['id']}/context/{place}")
        states = {
            index: part["state"] for part in view["stretches"] for index in range(part["first"], part["last"] + 1)
        }
        go(page, server, f"{address(row)}?at={place}&context={place}#m{place}")
        until(page, "(place) => document.querySelector('#inspector .context')?.dataset.index == place", place)
        for entry in transcript(page):
            if entry["index"] is not None:
                assert entry["contextState"] == states[entry["index"]], (row["name"], place, entry)
        stretches = page.evaluate(
            """[...document.querySelectorAll('.context-ranges li')].map(({ dataset }) =>
              [Number(dataset.first), Number(dataset.last), dataset.state])"""
        )
        assert stretches == [[part["first"], part["last"], part["state"]] for part in view["stretches"]]
        dark = page.locator(
            "section.page > .entry[data-context-state]:not([data-context-state=in], [data-context-state=reply])"
            ":not(.current)"
        )
        if dark.count():
            until(
                page,
                """() => [...document.querySelectorAll('.page > .entry[data-context-state]:not(.current)')].every(
              (entry) => (getComputedStyle(entry).opacity < 0.5) ===
                !/^(in|reply)$/.test(entry.dataset.contextState))""",
            )
    shot(page, f"context-{agent}-{kind}")


@pytest.mark.parametrize("agent", AGENTS)
def test_a_summary_is_shown_beside_the_replaced_messages(visitor: Visitor, server: Server, agent: str) -> None:
    """The band says how much; opened, the summary is on one side and the messages on the other."""
    row = server.with_count("compaction", agent)[0]
    boundary = server.api(f"/sessions/{row['id']}")["compaction"]["boundaries"][0]
    page = visitor.open(f"{address(row)}?at={boundary['message_index']}")
    band = page.locator(f".entry.compaction[data-index='{boundary['message_index']}']")
    expand(band.locator("summary").first)
    expect(band.locator(".replaced .side")).to_have_count(2)
    if boundary.get("summary"):
        assert words(boundary["summary"])[:80] in words(band.locator(".side").nth(0).text_content())
    count = len(boundary["replaced_message_indices"])
    expect(band.locator(".side").nth(1)).to_contain_text(f"{count} messages")
    shown = entries(page, ".replaced .side:last-child")
    assert {int(entry["key"].split(".")[1]) for entry in shown} <= set(boundary["replaced_message_indices"])
    if count:
        assert shown
    shot(page, f"compaction-{agent}")


# --- search, events, statistics -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "query", ["hello", "agent:codex text", "tool:bash is:error", 'role:user "do text"', "file:a.txt"]
)
def test_a_search_result_opens_its_message(visitor: Visitor, server: Server, query: str) -> None:
    """While one types, the hits are those of the API; each leads to the message in which it was found."""
    page = visitor.open("/search")
    page.locator("#query").fill(query)
    until(page, "document.querySelectorAll('#results section.result').length > 0")
    found = server.api(f"/search?q={quote(query)}&limit=30&hits=5")["found"]
    shown = page.evaluate(
        """[...document.querySelectorAll('#results section.result')].map((section) =>
          [Number(section.dataset.session),
           [...section.querySelectorAll('.where')].map((at) => parseInt(at.textContent.slice(1)))])"""
    )
    assert shown == [[one["session"]["id"], [hit["message_index"] for hit in one["hits"]]] for one in found]
    number = min(1, len(found) - 1)
    page.locator("#results section.result").nth(number).locator("li a").first.click()
    wait_at(page, found[number]["hits"][0]["message_index"])
    assert page.locator("#transcript").get_attribute("data-session") == str(found[number]["session"]["id"])
    page.go_back()
    expect(page.locator("#query")).to_have_value(query)


@pytest.mark.parametrize("kind", ["rejections", "interruptions", "compactions", "clears", "errors", "orphans"])
def test_event_lists_link_to_messages(visitor: Visitor, server: Server, kind: str) -> None:
    """It has what the API has, filtered as one asks, and each line of it leads to where that happened."""
    page = visitor.open(f"/events/{kind}")
    told = server.api(f"/events/{kind}?limit=100")
    rows = page.locator(".events > li")
    expect(rows).to_have_count(len(told["entries"]))
    places = page.evaluate(
        """[...document.querySelectorAll('.events a.event-title')].map((link) =>
          Number(new URL(link.href).searchParams.get('at') ?? NaN))"""
    )
    assert places == [entry["message_index"] for entry in told["entries"]]
    shot(page, f"ledger-{kind}")
    for number in (0, len(places) - 1):
        page.locator(".events a.event-title").nth(number).click()
        wait_at(page, places[number])
        page.go_back()
        until(page, "document.body.dataset.pageKind === 'events'")
    page.locator("select[name=agent]").select_option("gemini")
    page.get_by_role("button", name="Filter").click()
    page.wait_for_url("**agent=gemini**")
    expect(page.locator(".events > li:not(.nothing)")).to_have_count(
        len(server.api(f"/events/{kind}?limit=100&agent=gemini")["entries"])
    )


def test_rejected_changes_are_marked(visitor: Visitor, server: Server) -> None:
    """With who rejected it and the reason, in the list of events and in the transcript."""
    told = server.api("/events/rejections?limit=100")["entries"]
    number, entry = next(
        (number, entry)
        for number, entry in enumerate(told)
        if (entry["event"].get("action") or {}).get("diff") and entry["event"].get("reason")
    )
    page = visitor.open("/events/rejections")
    row = page.locator(".events > li").nth(number)
    expand(row.locator("details summary"))
    expect(row.locator(".diff.rejected-action tr.add").first).to_be_visible()
    row.locator("a.event-title").click()
    wait_at(page, entry["message_index"])
    card = page.locator(".entry.rejected").filter(has_text=entry["event"]["reason"].split("\n")[0]).first
    expect(card.locator(".verdict")).to_contain_text("Rejected by")
    assert card.locator(".rejected-action").count()


def test_statistics_equal_the_api(visitor: Visitor, server: Server) -> None:
    """Every plot is drawn, and has its numbers as a table."""
    page = visitor.open("/stats")
    told = server.api("/stats")
    numbers = page.evaluate(
        """Object.fromEntries([...document.querySelectorAll('.numbers > div')].map((box) =>
          [box.querySelector('dt').textContent, box.querySelector('dd').title]))"""
    )
    assert numbers["sessions"] == f"{sum(told['sessions'].values()):,}"
    assert numbers["rejected"] == f"{told['events']['rejection']:,}"
    assert numbers["tool calls"] == f"{sum(tool['calls'] for tool in told['tools']):,}"
    assert page.locator(".plot svg").count() == 6
    for table in page.locator(".plot details.table").all():
        expand(table.locator("summary"))
    rows = page.locator(".plot").filter(has=page.get_by_role("heading", name="Tools")).locator("tbody tr")
    expect(rows).to_have_count(len(told["tools"]))
    shot(page, "stats")
    go(page, server, "/stats?agent=gemini")
    assert page.locator(".numbers dd").first.get_attribute("title") == str(
        sum(server.api("/stats?agent=gemini")["sessions"].values())
    )


# --- taking something along ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("agent", AGENTS)
def test_a_session_is_exported_as_a_file(visitor: Visitor, server: Server, agent: str) -> None:
    """In three formats, each with the whole text; the HTML is self-contained."""
    row = server.with_count("rejection", agent)[0]
    page = visitor.open(address(row))
    expand(page.locator(".actions summary", has_text="Export"))
    prompts = [item["text"] for item in server.history(row["name"]) if item["kind"] == "prompt"]
    for label, suffix in (("Markdown", "md"), ("HTML", "html"), ("NDJSON", "ndjson")):
        with page.expect_download() as download:
            page.get_by_role("link", name=label).click()
        file = download.value
        assert file.suggested_filename == f"{agent}-{row['name']}.{suffix}"
        text = Path(file.path()).read_text(encoding="utf-8")
        if suffix == "ndjson":
            assert json.loads(text)["session"]["id"] == row["name"]
            continue
        assert all(words(prompt)[:60] in words(text) for prompt in prompts if prompt.isalnum())
        if suffix == "html":
            kept = visitor.context.new_page()
            kept.set_content(text)
            assert kept.locator("body").inner_text().count(prompts[0].split("\n")[0])
            kept.close()


def test_the_resume_command_is_copied(visitor: Visitor, server: Server) -> None:
    """Word for word, and a word at the edge says so."""
    visitor.context.grant_permissions(["clipboard-read", "clipboard-write"])
    for agent in AGENTS:
        row = server.with_count("rejection", agent)[0]
        page = visitor.open(address(row))
        page.get_by_role("button", name="Copy the command to resume this session").click()
        expect(page.locator("#toast")).to_have_text("Copied")
        copied = page.evaluate("navigator.clipboard.readText()")
        assert copied == page.locator(".actions .command code").inner_text()
        assert row["name"] in copied
        page.close()


def test_unfinished_calls_are_marked_hidden_or_synthesized(visitor: Visitor, server: Server) -> None:
    """Marked, hidden, or with a result that is made up; the choice stays while one reads, and holds for exports."""
    row = server.with_count("orphan")[0]
    orphan = server.api(f"/sessions/{row['id']}")["orphans"][0]
    page = visitor.open(f"/sessions/{row['id']}?at={orphan['message_index']}")
    call, made_up = page.locator(".entry.orphan").first, page.locator(".entry.orphan .synthetic").first
    expect(call).to_be_visible()

    def choose(name: str) -> None:
        expand(page.locator("summary", has_text="unfinished call").first)
        page.get_by_role("link", name=name).click()

    choose("Hide them")
    page.wait_for_url("**orphans=hide**")
    expect(page.locator("#pages .entry").first).to_be_visible()
    expect(call).to_be_hidden()
    expect(page.locator("#rail .mark.orphan").first).to_be_hidden()
    page.keyboard.press("j")
    until(page, "location.search.includes('at=') && location.search.includes('orphans=hide')")
    choose("Add a synthetic result")
    page.wait_for_url("**orphans=synthesize**")
    expand(call.locator("summary").first)
    expect(made_up).to_contain_text("synthetic result")
    assert page.locator("a[download]").first.get_attribute("href").endswith("?orphans=synthesize")
