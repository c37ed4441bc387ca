"""Sessions that want to do harm, in every field there is: nothing runs, nothing is asked of others, no page waits."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from unspool.testing import ClaudeLog, call

from .browser import Page, Server, Visitor, entries, expand, go, serving, shot, unfolded, until
from .conftest import home_of_recordings

PAYLOADS = (
    "<script>window.__pwned=1</script>",
    '"><img src=x onerror="window.__pwned=2">',
    "'><svg onload='window.__pwned=3'><script>window.__pwned=3</script></svg>",
    '[a](javascript:window.__pwned=4) <a href=" java\tscript:window.__pwned=4" onclick=window.__pwned=4>b</a>',
    "[c](data:text/html,<script>parent.__pwned=5</script>) [d](vbscript:x) <javascript:window.__pwned=5>",
    "![e](http://evil.example/e.png) ![f](//evil.example/f.png) <img srcset='http://evil.example/g 2x'>",
    "<style>body{display:none}</style><p style='position:fixed;inset:0;background:url(http://evil.example/h)'>h</p>",
    "\x1b[2J\x1b]8;;http://evil.example\x07i\x1b]8;;\x07\x1b[31mred\x1b[38;5;999m\x1b]0;title\x07",
    "\u202egnp.exe\u202c \u2066\u200f\x00\x07\x7f",
    "</textarea></pre></details></summary></article></main></body><h1>outside</h1>",
    "{{ 7 * 7 }}{% raw %}${7*7}&lt;script&gt;window.__pwned=6&lt;/script&gt;",
    "<iframe srcdoc='<script>parent.__pwned=7</script>'></iframe><object data=http://evil.example/j></object>",
    "<base href=http://evil.example/><meta http-equiv=refresh content='0;url=http://evil.example'>"
    "<link rel=stylesheet href=http://evil.example/k.css><form action=http://evil.example><input name=q></form>",
    "<details open ontoggle=window.__pwned=8>l</details><input autofocus onfocus=window.__pwned=8>",
    "<math><mtext><table><mglyph><style><!--</style><img title='--&gt;&lt;img src=1 onerror=window.__pwned=9&gt;'>",
    "```html\n</code></pre><script>window.__pwned=10</script>\n```\n| a |\n|--|\n| <b onclick=window.__pwned=10>m |",
)
FORMS = frozenset(
    {"type", "role", "subtype", "kind", "timestamp", "startTime", "lastUpdated", "cli_version", "version"}
)
"""What these say decides how a record is read; everything else may hold anything."""
SVG = b'<svg xmlns="http://www.w3.org/2000/svg" onload="window.__pwned=11"><script>window.__pwned=11</script></svg>'
HARMLESS = """() => ({
  pwned: window.__pwned ?? null,
  handlers: [...document.querySelectorAll('*')].flatMap((element) => element.getAttributeNames()
    .filter((name) => name.startsWith('on') || name === 'srcdoc' || name === 'formaction')),
  links: [...document.querySelectorAll('a[href], area[href], form[action]')]
    .map((element) => new URL(element.getAttribute('href') ?? element.getAttribute('action'), location).protocol)
    .filter((protocol) => !['http:', 'https:', 'mailto:', 'file:'].includes(protocol)),
  foreign: [...document.querySelectorAll(
      'iframe, object, embed, base, meta[http-equiv=refresh], math, body style, body script')]
    .map((element) => element.outerHTML.slice(0, 200)),
  outside: [...document.querySelectorAll('h1')].some((heading) => heading.textContent === 'outside'),
  marks: /[\\u202a-\\u202e\\u2066-\\u2069\\x1b\\x07\\x00]/.test(document.documentElement.innerHTML),
  seen: getComputedStyle(document.body).display !== 'none',
})"""
OURS = ClaudeLog("hostile").session
NOTHING: dict[str, object] = {
    "pwned": None,
    "handlers": [],
    "links": [],
    "foreign": [],
    "outside": False,
    "marks": False,
    "seen": True,
}


def poisoned(value: Any, payloads: Iterator[str], key: str = "") -> Any:
    """A record with something bad at the end of every text in it, and in the names of what tools are given."""
    if isinstance(value, dict):
        return {name: poisoned(inner, payloads, name) for name, inner in value.items()}
    if isinstance(value, list):
        return [poisoned(inner, payloads, key) for inner in value]
    if isinstance(value, str) and key not in FORMS and not key.lower().endswith(("id", "uuid")):
        return value + next(payloads)
    return value


def poison(home: Path, payloads: Iterator[str]) -> None:
    """Put something bad into every field of every log."""
    for path in sorted(home.rglob("*.jsonl")):
        lines = [json.loads(line) for line in path.read_bytes().split(b"\n") if line.strip()]
        path.write_bytes(b"".join(json.dumps(poisoned(line, payloads)).encode() + b"\n" for line in lines))


def ours(name: str | None = None) -> ClaudeLog:
    """What no recording has: bad ids, names, models, attachments, pictures and reasons."""
    everything = "".join(PAYLOADS)
    log = ClaudeLog("hostile")
    log.session = name or log.session
    log.user(everything, everything, cwd=f"/home/{everything}", gitBranch=everything, version="2.1.325")
    log.model({"type": "thinking", "thinking": everything}, everything, name=PAYLOADS[1])
    for number, payload in enumerate(PAYLOADS):
        log.model(call(f"{number}{payload}", payload, **{payload: everything, "file_path": everything}))
        log.result(f"{number}{payload}", everything, error=bool(number % 2))
    said = (
        f"The user doesn't want to proceed with this tool use. To tell you how to proceed, the user said:\n{everything}"
    )
    for tool, given in (
        ("Edit", {"file_path": everything, "old_string": everything, "new_string": everything[::-1]}),
        ("Bash", {"command": everything}),
        ("ExitPlanMode", {"plan": everything}),
        ("AskUserQuestion", {"questions": [{"question": everything, "options": [{"label": everything}]}]}),
    ):
        log.model(call(tool, tool, **given))
        log.result(tool, said, error=True, toolUseResult=f"Error: {said}")
    for kind in ("image/svg+xml", "image/png", PAYLOADS[1]):
        source = {"type": "base64", "media_type": kind, "data": base64.b64encode(SVG).decode()}
        log.user([{"type": "image", "source": source}, {"type": everything, "text": everything}])
    log.line("attachment", None, attachment={"type": everything, "content": everything})
    log.line(PAYLOADS[1], None, content=everything)
    log.line("system", None, subtype=everything, content=everything)
    log.user("again", parent=everything)
    log.model("another line")
    log.boundary(trigger=everything, preTokens=100)
    log.user(everything, isCompactSummary=True)
    failed = {"id": "e", "role": "assistant", "model": everything, "content": [{"type": "text", "text": everything}]}
    log.line("assistant", None, isApiErrorMessage=True, error=everything, message=failed)
    log.user("[Request interrupted by user]")
    log.record({"type": "custom-title", "customTitle": everything, "sessionId": log.session})
    log.record({"type": "ai-title", "aiTitle": everything, "sessionId": log.session})
    log.raw(b"{" + json.dumps(everything).encode())
    return log


def giant() -> ClaudeLog:
    """Things that are far too long, too many or too deep."""
    log = ClaudeLog("giant")
    log.user("a" * 5_000_000)
    log.model("b" * 5_000_000)
    log.model({"type": "thinking", "thinking": "c " * 2_500_000})
    log.model(call("line", command="d" * 1_000_000))
    log.result("line", "e" * 5_000_000)
    log.model(call("lines", command="print many lines"))
    log.result("lines", "".join(f"\x1b[3{number % 8}mline {number}\x1b[0m\n" for number in range(10_000)))
    log.model(call("write", "Write", file_path="/home/dev/demo/f.py", content="x = 1\n" * 10_000))
    log.result("write", "ok")
    log.model(call("deep", "Tool", value=json.loads("[" * 400 + "]" * 400)))
    log.result("deep", "ok")
    return log


def tangled() -> ClaudeLog:
    """Markdown that is hard to set."""
    log = ClaudeLog("tangled")
    log.user("tangled")
    log.model("> " * 2_000 + "deep", "- " * 2_000 + "deep", "*" * 5_000 + "a" + "*" * 5_000, "[" * 5_000)
    log.model("\n".join(f"{' ' * number}- {number}" for number in range(300)), "`" * 10_001, "<div>" * 5_000)
    log.model("|a" * 500 + "\n" + "|-" * 500 + "\n|b" * 500, "[x](http://a.example) " * 500, "&" * 5_000)
    return log


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("hostile")
    home = home_of_recordings(folder)
    poison(home, cycle(PAYLOADS))
    # A session may have any name that a file can have.
    for log in (ours(), ours(PAYLOADS[1]), giant(), tangled()):
        log.write(home)
    with serving(folder, home) as server:
        server.wait_until_ready()
        yield server


def unfold(page: Page) -> None:
    """Open everything that can be opened, and wait for what is fetched then."""
    page.evaluate("for (const details of document.querySelectorAll('details')) details.open = true")
    page.evaluate(
        "for (const button of [...document.querySelectorAll('#pages button[data-load]')].slice(0, 3)) button.click()"
    )
    unfolded(page)


def assert_harmless(page: Page, what: str) -> None:
    found = page.evaluate(HARMLESS)
    assert found == NOTHING, what


# --- nothing happens -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("agent", ["claude", "codex", "gemini"])
def test_no_field_of_a_session_runs_script(visitor: Visitor, server: Server, agent: str) -> None:
    """In sessions of each agent, with everything unfolded that they hold."""
    big = {ClaudeLog("giant").session, ClaudeLog("tangled").session}
    rows = [each["row"] for each in server.sessions(f"&agent={agent}") if each["row"]["name"] not in big]
    rows.sort(key=lambda row: -sum(bool(count) for count in row["counts"].values()))
    page = visitor.open("/search")
    for number, row in enumerate(rows[:4]):
        go(page, server, f"/sessions/{row['id']}")
        unfold(page)
        assert_harmless(page, row["name"])
        assert entries(page)
        if number > 1:  # The inspector shows the same fields of every session.
            continue
        index = next(item["index"] for item in reversed(server.history(str(row["id"]))))
        go(page, server, f"/sessions/{row['id']}?at={index}&context={index}")
        until(page, "document.querySelector('#inspector .context')")
        unfold(page)
        assert_harmless(page, f"{row['name']} at {index}")


def test_no_view_runs_script(visitor: Visitor, server: Server) -> None:
    """Lists, events, search results, statistics, comparisons, the palette, and hostile queries."""
    key = OURS
    branch = next(row for row in server.with_count("branch") if row["agent"] == "codex")["id"]
    bad = quote("".join(PAYLOADS[:4]))
    page = visitor.open("/")
    for path in (
        "/",
        f"/?q={bad}",
        f"/?project={bad}",
        "/events/rejections",
        f"/events/rejections?tool={bad}&project={bad}",
        "/events/interruptions",
        "/events/compactions",
        "/events/clears",
        "/events/errors",
        "/events/orphans",
        "/search?q=script",
        "/search?q=red",
        f"/search?q={bad}",
        f"/search?q={bad}&regex=1",
        "/stats",
        f"/stats?project={bad}",
        f"/sessions/{key}/compare?a=0&b=1",
        f"/sessions/{branch}/compare?a=0&b=1",
    ):
        go(page, server, path)
        unfold(page)
        assert_harmless(page, path)
        if not path.endswith(bad):
            shot(page, f"hostile-{quote(path.strip('/').split('?')[0] or 'list', safe='')[:24]}")
    go(page, server, "/")
    page.locator("li.session a[href*='onerror%3D']").first.click()
    until(page, "document.querySelector('#pages .entry') && location.pathname.includes('onerror%3D')")
    page.wait_for_load_state()
    assert_harmless(page, "a session with a bad name")
    page.keyboard.press("Control+k")
    page.locator("#palette-input").fill("script")
    until(page, "document.querySelectorAll('#palette-list li').length > 2")
    assert_harmless(page, "palette")


def test_fragments_opened_alone_run_no_script(visitor: Visitor, server: Server) -> None:
    """Fragments, records, pictures and pages of errors, each as the document in a tab."""
    key = OURS
    answered = server.history(key)
    page = visitor.context.new_page()
    paths = [
        "list", "results?q=script", f"sessions/{key}/rail", f"sessions/{key}/tree", f"sessions/{key}/context/5",
        f"sessions/{key}/branches/1", f"api/sessions/{key}/raw/0", f"api/sessions/{key}/history", "api/sessions",
        f"sessions/{key}/outputs/0/0", *(f"{place}/{quote(PAYLOADS[2], safe='')}" for place in ("sessions", "events")),
        f"api/sessions/{quote(PAYLOADS[2], safe='')}", f"open?token={quote(PAYLOADS[1])}&next=/{quote(PAYLOADS[1])}",
        *(f"sessions/{key}/images/{item['index']}/0" for item in answered if item["kind"] == "image"),
    ]  # fmt: skip
    for path in paths:
        page.goto(f"{server.base}/{path}")
        assert page.evaluate("window.__pwned ?? null") is None, path
    visitor.complaints[:] = [words for words in visitor.complaints if "status of 4" not in words]


def test_exports_run_no_script(visitor: Visitor, server: Server, tmp_path: Path) -> None:
    """A saved file is as harmless as the page."""
    longest = max((listed["row"] for listed in server.sessions("&agent=codex")), key=lambda row: row["messages"])
    for key in (OURS, str(longest["id"])):
        page = visitor.open(f"/sessions/{key}")
        for format in ("html", "md", "ndjson"):
            with page.expect_download() as download:
                page.evaluate("(format) => document.querySelector(`a[href$='/export/${format}']`).click()", format)
            name = download.value.suggested_filename
            assert not set(name) & set("/\\<>\"'")
            kept = tmp_path / (name if format == "html" else f"{name}.txt")
            download.value.save_as(kept)
            saved = visitor.context.new_page()
            saved.goto(kept.as_uri())
            saved.evaluate("for (const details of document.querySelectorAll('details')) details.open = true")
            assert saved.evaluate("window.__pwned ?? null") is None
            if format == "html":
                found = saved.evaluate(HARMLESS)
                assert {name: found[name] for name in ("handlers", "links", "outside", "seen")} == {
                    "handlers": [],
                    "links": [],
                    "outside": False,
                    "seen": True,
                }
            saved.close()
        page.close()


# --- nothing waits ---------------------------------------------------------------------------------------------------


def test_huge_texts_render_quickly(visitor: Visitor, server: Server) -> None:
    """Of lines of five megabytes a page holds the beginning, also unfolded, and all of one when it is asked for."""
    key = ClaudeLog("giant").session
    page = visitor.open("/search")
    tangle = f"/sessions/{ClaudeLog('tangled').session}"
    for path in ("/", tangle, "/events/errors", "/search?q=line", "/stats", f"/sessions/{key}"):
        go(page, server, path)
        page.evaluate("for (const details of document.querySelectorAll('#pages details')) details.open = true")
        unfolded(page)
        assert page.evaluate("document.documentElement.outerHTML.length") < 1_500_000, path
    assert_harmless(page, "giant")
    go(page, server, f"/sessions/{key}")
    entry = page.locator(".entry.call").nth(1)
    expand(entry.locator("summary"))
    entry.locator("button.more").last.click()
    until(page, "document.querySelectorAll('.entry.call')[1].textContent.includes('line 9999')")
    shot(page, "hostile-giant")
