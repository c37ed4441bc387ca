"""A transcript that wants to do harm, in every field there is, and pages that everybody can use."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ..builders import ClaudeLog, call
from .browser import CHROMIUM, PHONE, Server, Visitor, chromium, serving

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed")

HARM = (
    '<script>window.__pwned=1</script><img src=x onerror="window.__pwned=1"><svg onload="window.__pwned=1">'
    '<a href="javascript:window.__pwned=1">x</a><iframe srcdoc="<script>parent.__pwned=1</script>"></iframe>'
    "[link](javascript:window.__pwned=1) [data](data:text/html,<script>window.__pwned=1</script>) "
    "![picture](http://evil.example/a.png) <style>body{display:none}</style> <base href=http://evil.example/> "
    "\x1b[2J\x1b]8;;http://evil.example\x1b\\link\x1b]8;;\x1b\\\x1b[31mred\x1b[0m \u202egnp.exe\u202c \x00 "
    "</pre></details></article><h1>out</h1> {{ 7 * 7 }} {% raw %} &lt;script&gt;"
)
PATH = '/home/dev/"><img src=x onerror=window.__pwned=1>'


def _session() -> ClaudeLog:
    log = ClaudeLog("hostile")
    log.user(HARM, "first", cwd=PATH, gitBranch=HARM)
    log.model(
        {"type": "thinking", "thinking": HARM},
        {"type": "text", "text": HARM},
        call("c1", "Bash", command=HARM, description=HARM),
        call("c2", "Edit", file_path=PATH, old_string=HARM, new_string=HARM + "\nmore"),
        call("c3", HARM, **{HARM: HARM}),
        call("c4", "Write", file_path=PATH, content="x" * 5_000_000),
        name="calls",
    )
    log.result("c1", HARM, "r1", error=True)
    refusal = f"The user doesn't want to proceed with this tool use. To tell you how to proceed, the user said:\n{HARM}"
    log.result("c2", refusal, "r2", error=True)
    log.result("c3", "\n".join(f"line {number} {HARM}" for number in range(10_000)), "r3")
    log.result("c4", "y" * 5_000_000, "r4")
    log.line("attachment", None, attachment={"type": HARM, "content": HARM})
    log.line("summary", None, summary=HARM, leafUuid=HARM)
    log.user("[Request interrupted by user]", "stop")
    log.user(f"<command-name>{HARM}</command-name>", "command")
    log.model(
        {"type": "text", "text": "> " * 400 + "deep"}, {"type": "text", "text": "| a |\n|---|\n" * 200}, name="deep"
    )
    return log


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("hostile")
    home = folder / "home"
    _session().write(home)
    with serving(folder, home) as server:
        server.wait_for(lambda: server.sessions(), "reading the session")
        yield server


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as browser:
        yield browser


def _pages(server: Server) -> list[str]:
    key = server.sessions()[0]["row"]["id"]
    return [
        "/", f"/sessions/{key}", f"/sessions/{key}?at=3", f"/sessions/{key}/context/2", f"/sessions/{key}/rail",
        "/events/rejections", "/events/interruptions", "/events/errors", "/search?q=script", "/search?q=red", "/stats",
        "/agents", "/list", "/results?q=script",
    ]  # fmt: skip


def test_nothing_in_a_transcript_does_anything(server: Server, browser: Any) -> None:
    visitor = Visitor(browser, server)
    asked: list[str] = []
    visitor.context.on("request", lambda request: asked.append(request.url))
    page = visitor.context.new_page()
    page.on("dialog", lambda dialog: asked.append(f"dialog {dialog.message}"))
    page.goto(server.link)
    for path in _pages(server):
        page.goto(server.base + path)
        page.wait_for_load_state("load")
        for summary in page.locator("details:not([open]) > summary").all()[:30]:
            if summary.is_visible():
                summary.click()
        for button in page.locator("button[data-load]").all()[:4]:
            if button.is_visible():
                button.click()
        page.wait_for_timeout(150)
        assert page.evaluate("() => window.__pwned") is None, path
        assert page.locator("a[href^='javascript:'], a[href^='data:'], iframe, article script").count() == 0, path
        assert page.evaluate("() => getComputedStyle(document.body).display") != "none", path
    assert [url for url in asked if not url.startswith((server.base, "data:image/"))] == []
    # Only the visitor's own observer may have complained: of nothing.
    assert visitor.complaints == []
    visitor.context.close()


def test_a_giant_line_does_not_hold_up_the_page(server: Server, browser: Any) -> None:
    visitor = Visitor(browser, server)
    page = visitor.context.new_page()
    page.goto(server.link)
    key = server.sessions()[0]["row"]["id"]
    page.goto(f"{server.base}/sessions/{key}")
    size = page.evaluate("() => document.documentElement.outerHTML.length")
    assert size < 2_000_000
    visitor.context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", ["desk", "phone"])
def test_axe_finds_nothing_serious(browser: Any, scheme: str, size: str, samples_server: Server) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not installed")
    options: dict[str, Any] = {"color_scheme": scheme}
    if size == "phone":
        options["viewport"] = PHONE
    visitor = Visitor(browser, samples_server, **options)
    page = visitor.context.new_page()
    page.goto(samples_server.link)
    key = samples_server.with_count("rejection", "claude")[0]["name"]
    found = []
    for path in ("/", f"/sessions/{key}", "/events/rejections", "/search?q=tide", "/stats", "/agents"):
        page.goto(samples_server.base + path)
        page.wait_for_timeout(300)
        for violation in axe.Axe().run(page).response["violations"]:
            if violation["impact"] in ("serious", "critical"):
                where = [node["html"][:160] for node in violation["nodes"][:3]]
                found.append(f"{path}: {violation['id']} {where}")
        assert page.evaluate("() => document.documentElement.scrollWidth <= window.innerWidth + 1"), path
    assert found == []
    visitor.context.close()


@pytest.fixture(scope="module")
def samples_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    import unspool

    folder = tmp_path_factory.mktemp("samples")
    with serving(folder, Path(unspool.samples())) as server:
        server.wait_until_ready()
        yield server
