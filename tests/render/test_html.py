"""The HTML export: it runs nothing and loads nothing, whatever the transcript contains."""

from __future__ import annotations

import base64
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from unspool.agents import AGENTS
from unspool.api import load, samples, sessions
from unspool.core.session import Session
from unspool.render.html import code, diff_lines, prose, render_html
from unspool.testing import ClaudeLog, call

HOSTILE = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "<svg/onload=alert(1)>",
    "</style><script>alert(1)</script>",
    "</title></pre></code></div></main><iframe src='javascript:alert(1)'></iframe>",
    '"><a href="javascript:alert(1)" onclick="alert(1)">x</a>',
    "[click](javascript:alert(1)) [click](  JaVaScRiPt:alert(1)) <javascript:alert(1)>",
    "[data](data:text/html;base64,PHNjcmlwdD4=) [vb](vbscript:x) [file](file:///etc/passwd)",
    "![pixel](https://evil.example/pixel.png) ![local](/x.png) ![data](data:image/svg+xml;base64,PHN2Zz4=)",
    '[ref]: https://evil.example/x "onmouseover=alert(1)"\n\n[ref]',
    "<link rel=stylesheet href=//evil.example/x.css><meta http-equiv=refresh content='0;url=//evil.example'>",
    "<form action=//evil.example><input autofocus onfocus=alert(1)></form><base href=//evil.example>",
    "```html onload=alert(1)\n</code></pre><script>alert(1)</script>\n```",
    "| a | b |\n|---|---|\n| <script>alert(1)</script> | ![x](//evil.example/x) |",
    "<!-- <script> --><script>alert(1)</script><![CDATA[<script>]]>",
    "{{ 7 * 7 }} {% raw %} {{ config }}",
]
LOADING = {
    "src",
    "srcset",
    "data",
    "poster",
    "background",
    "action",
    "formaction",
    "style",
    "ping",
    "manifest",
    "xlink:href",
}
FORBIDDEN = {
    "script", "iframe", "object", "embed", "link", "base", "form", "input", "button", "svg", "math", "video", "audio",
    "frame",
}  # fmt: skip
PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"\0" * 20).decode()


class Page(HTMLParser):
    """All tags of a page, its text, and whether every tag is closed in order."""

    VOID = frozenset(("meta", "img", "br", "hr", "wbr", "col"))

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.open: list[str] = []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)

    @property
    def words(self) -> str:
        return "".join(self.text)


def rendered(session: Session) -> str:
    return "".join(render_html(session, AGENTS[session.agent].describe))


def everywhere(text: str, home: Path) -> Session:
    """A session with a text wherever text can be."""
    log = ClaudeLog()
    log.line("custom-title", None, customTitle=text)
    log.user(text, cwd=text, gitBranch=text, version=text)
    log.model({"type": "thinking", "thinking": text, "signature": "s"}, text)
    log.model(call("c1", text, text=text), call("c2", command=text), call("c3", "ExitPlanMode", plan=text))
    log.model(call("c4", "Edit", file_path=text, old_string=text, new_string=f"{text}\n{text}"))
    log.model(call("c5", "AskUserQuestion", questions=[{"question": text, "options": [{"label": text}]}]))
    for number in range(1, 6):
        log.result(f"c{number}", text, error=bool(number % 2))
    log.result("gone", text)
    log.line("attachment", None, attachment={"type": text, "content": text})
    log.user([{"type": "image", "source": {"type": "base64", "media_type": text, "data": text}}])
    log.user([{"type": "image", "source": {"type": "url", "url": "https://evil.example/x.png"}}])
    log.boundary(trigger="manual", preTokens=1)
    log.user(text, isCompactSummary=True)
    log.record({"type": text})
    return log.load(home)


def assert_inert(page: str) -> Page:
    """Nothing runs, and nothing is loaded from anywhere."""
    parsed = Page(page)
    for tag, attributes in parsed.tags:
        assert tag not in FORBIDDEN
        assert not [name for name in attributes if name.startswith("on")]
        for name in LOADING & attributes.keys():
            assert (tag, name) == ("img", "src")
            assert re.match(r"data:image/(png|jpeg|gif|webp);base64,[A-Za-z0-9+/=]+$", attributes[name] or "")
        if "href" in attributes:
            assert tag == "a"
            assert re.match(r"#m\d+$|https?://|mailto:", attributes["href"] or "")
        if "http-equiv" in attributes:
            assert attributes["http-equiv"] == "Content-Security-Policy"
    assert [tag for tag, _ in parsed.tags].count("style") == 1
    style = page[page.index("<style>") : page.index("</style>")]
    assert "url(" not in style
    assert "@import" not in style
    return parsed


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_is_only_text(text: str, tmp_path: Path) -> None:
    """In any field of the log, it is rendered as text."""
    page = rendered(everywhere(text, tmp_path))
    parsed = assert_inert(page)
    assert text.split("\n")[0][:12] in parsed.words


def test_the_samples_are_inert() -> None:
    """The same for real sessions."""
    for ref in sessions(samples()):
        assert_inert(rendered(load(ref)))


def test_the_content_security_policy_forbids_everything(tmp_path: Path) -> None:
    """If anything slips through, the browser neither runs nor loads it."""
    parsed = Page(rendered(everywhere("x", tmp_path)))
    (policy,) = [attributes["content"] for _, attributes in parsed.tags if "http-equiv" in attributes]
    assert policy is not None
    assert policy.startswith("default-src 'none'; ")
    assert "script-src" not in policy
    first_text = parsed.tags.index(("title", {}))
    assert [tag for tag, _ in parsed.tags[:first_text]].count("meta") == 4


def test_remote_images_become_links() -> None:
    """It is not loaded, and not lost."""
    assert 'href="https://evil.example/p.png"' in prose("![a pixel](https://evil.example/p.png)")
    assert "a pixel" in prose("![a pixel](https://evil.example/p.png)")


def test_images_in_the_log_are_shown(tmp_path: Path) -> None:
    """Its bytes are embedded; of an unknown image type only the name is shown."""
    log = ClaudeLog()
    log.user([{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}])
    log.user([{"type": "image", "source": {"type": "base64", "media_type": "image/svg+xml", "data": PNG}}])
    log.user([{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": 'x" onerror="y'}}])
    parsed = assert_inert(rendered(log.load(tmp_path)))
    assert [attributes["src"] for tag, attributes in parsed.tags if tag == "img"] == [f"data:image/png;base64,{PNG}"]
    assert "[image/svg+xml]" in parsed.words


def test_rejected_edits_are_shown_as_a_diff(tmp_path: Path) -> None:
    """Open, struck out, with the reason."""
    log = ClaudeLog()
    log.user("go")
    log.model(call("c1", "Edit", file_path="a.txt", old_string="old <b>", new_string="new <i>"))
    refusal = "The user doesn't want to proceed with this tool use. The tool use was rejected (eg. if it was a file edit, the new_string was NOT written to the file). To tell you how to proceed, the user said:\nuse tabs"  # noqa: E501
    log.result("c1", refusal, error=True, toolUseResult="User rejected tool use")
    page = rendered(log.load(tmp_path))
    assert '<details class="call" open>' in page
    assert '<div class="diff rejected-change">' in page
    assert '<div class="del">-old &lt;b&gt;</div>' in page
    assert '<div class="add">+new &lt;i&gt;</div>' in page
    assert "rejected: “use tabs”" in Page(page).words


def test_anchors_are_unique_and_resolve() -> None:
    """Every message has one anchor at most, and every link inside the page has its end."""
    for ref in sessions(samples()):
        parsed = Page(rendered(load(ref)))
        ids = [attributes["id"] for _, attributes in parsed.tags if "id" in attributes]
        assert len(ids) == len(set(ids))
        links = {attributes["href"] for _, attributes in parsed.tags if (attributes.get("href") or "").startswith("#")}
        assert links
        assert links <= {f"#{id}" for id in ids}


def test_huge_lines_are_complete(tmp_path: Path) -> None:
    """A line of a megabyte, brackets without end, and code too long to colour."""
    log = ClaudeLog()
    log.user("u" * 1_000_000)
    log.model("[" * 5_000 + "m" * 1_000_000)
    log.model(call("c", command="c" * 300_000))
    log.result("c", "r" * 1_000_000)
    words = Page(rendered(log.load(tmp_path))).words
    for sign, count in (("u", 1_000_000), ("m", 1_000_000), ("c", 300_000), ("r", 1_000_000)):
        assert sign * count in words


def test_markdown_is_rendered() -> None:
    """Lists keep their numbers, tables are tables, code has colours, links send no referrer."""
    assert '<ol start="3">' in prose("3. three\n4. four")
    assert "<table>" in prose("| a |\n|---|\n| b |")
    assert '<span class="k">def</span>' in prose("```python\ndef f(): pass\n```")
    assert 'rel="noopener noreferrer nofollow"' in prose("[x](https://example.org)")


def test_character_references_are_sanitized() -> None:
    """Markdown can name what it may not contain."""
    assert "\u202e" not in prose("&#x202e;gnp.exe")
    assert "\x1b" not in prose("&#27;[31m")


def test_code_of_an_unknown_language_is_escaped() -> None:
    """As is what is too long to colour."""
    assert code("<b>", "no-such-language") == "&lt;b&gt;"
    assert code("<b>" * 100_000, "python").startswith("&lt;b&gt;")


def test_lines_of_a_diff() -> None:
    """Each with its kind."""
    kinds = [kind for kind, _ in diff_lines("--- a\n+++ b\n@@ -1 +1 @@\n-x\n+y\n z\n")]
    assert kinds == ["file", "file", "hunk", "del", "add", "same"]


def test_changes_that_look_like_file_headers() -> None:
    """A removed SQL comment and an added increment are lines of the file."""
    diff = "--- a\n+++ a\n@@ -1,2 +1,2 @@\n--- a comment\n+++i;\n x\n"
    assert diff_lines(diff)[3:] == [("del", "--- a comment"), ("add", "+++i;"), ("same", " x")]
