"""Entries as HTML: the content of a session is never active."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from unspool import web
from unspool.agents import AGENTS
from unspool.api import load, samples, sessions
from unspool.core.session import Session
from unspool.render.transcript import Entry, Transcript, folded
from unspool.testing import ClaudeLog, call
from unspool.web.assets import asset_url
from unspool.web.session_list import short_id
from unspool.web.templating import compact, duration, render_entries, render_entry, render_prose, when

from ..render.test_html import HOSTILE, PNG, everywhere
from ..waiting import cpu_limit

KEY = "a-session"
VOID = frozenset(("meta", "img", "br", "hr", "wbr", "col", "input", "link"))
FORBIDDEN = frozenset(("iframe", "object", "embed", "base", "math", "video", "audio", "frame", "style"))
REFUSAL = "The user doesn't want to proceed with this tool use. The tool use was rejected (eg. if it was a file edit, the new_string was NOT written to the file). To tell you how to proceed, the user said:\nuse tabs"  # noqa: E501


class Fragment(HTMLParser):
    """All tags, the text, and whether every tag is closed in order."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.text: list[str] = []
        self._open: list[str] = []
        self.feed(html)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)

    @property
    def words(self) -> str:
        return "".join(self.text)

    def all(self, name: str) -> list[str]:
        """The values of an attribute, wherever it is."""
        return [attributes[name] for _, attributes in self.tags if name in attributes]


def assert_inert(html: str) -> Fragment:
    """Nothing in it runs or loads anything, and the content security policy has nothing to block."""
    parsed = Fragment(html)
    for tag, attributes in parsed.tags:
        assert tag not in FORBIDDEN
        assert not [name for name in attributes if name.startswith("on") or name == "style"]
        if tag == "script":
            assert attributes["src"].startswith("/static/")
        for name in ("src", "action", "data-load"):
            assert name not in attributes or re.match(r"/(?!/)", attributes[name])
        if "href" in attributes:
            assert re.match(r"[#?]|/(?!/)|https?://|mailto:", attributes["href"])
    assert "\u202e" not in html
    assert "\x1b" not in html
    return parsed


def entries_of(session: Session) -> list[Entry]:
    return list(folded(Transcript(session, AGENTS[session.agent].describe).entries()))


def drawn(session: Session) -> Fragment:
    return assert_inert(render_entries(entries_of(session), KEY))


def of_kind(session: Session, kind: str) -> list[str]:
    return [render_entry(entry, KEY) for entry in entries_of(session) if entry.kind == kind]


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_is_only_text(text: str, tmp_path: Path) -> None:
    """In any field of the log."""
    parsed = drawn(everywhere(text, tmp_path))
    assert text.split("\n")[0][:12] in parsed.words


def test_real_sessions() -> None:
    """Keys are unique, every message has at most one anchor, every entry has a kind."""
    for ref in sessions(samples()):
        parsed = drawn(load(ref))
        for name in ("id", "data-key"):
            found = parsed.all(name)
            assert len(found) == len(set(found))
        articles = [attributes for tag, attributes in parsed.tags if tag == "article"]
        for attributes in articles:
            assert attributes["class"].split()[:2] == ["entry", attributes["data-kind"]]
            assert re.fullmatch("[0-9a-f]{12}", attributes["data-hash"])
            assert attributes["tabindex"] == "-1"
            if "id" in attributes:
                assert attributes["id"] == f"m{attributes['data-index']}"


def test_copies_have_no_anchors() -> None:
    """A transcript inside another has no anchors, and other keys."""
    session = load(next(iter(sessions(samples()))))
    parsed = assert_inert(render_entries(entries_of(session), KEY, "s5."))
    assert parsed.all("id") == []
    assert parsed.all("data-index") == []
    assert all(key.startswith("s5.") for key in parsed.all("data-key"))


def test_the_hash_changes_with_the_content(tmp_path: Path) -> None:
    """And only with it."""
    log = ClaudeLog()
    log.user("one")
    log.user("two")
    log.user("two")
    first, second, third = of_kind(log.load(tmp_path), "prompt")
    hashes = [Fragment(html).all("data-hash")[0] for html in (first, second)]
    assert hashes[0] != hashes[1]
    assert of_kind(log.load(tmp_path), "prompt") == [first, second, third]


def test_long_texts_are_cut(tmp_path: Path) -> None:
    """Prompts after twelve lines, outputs after forty, and lines that have no end; the rest can be fetched."""
    log = ClaudeLog()
    log.user("\n".join(f"line {number}" for number in range(100)))
    log.model(call("c", command="x"), call("d", command="y"))
    log.result("c", "\n".join(f"line {number}" for number in range(12_304)))
    log.result("d", "z" * 5_000_000)
    session = log.load(tmp_path)
    (prompt,) = of_kind(session, "prompt")
    assert "line 11" in prompt
    assert "line 12" not in prompt
    assert 'data-load="/sessions/a-session/outputs/0/0">show all 100 lines</button>' in prompt
    lines, endless = of_kind(session, "call")
    assert "line 39" in lines
    assert "line 40" not in lines
    assert "show all 12,304 lines" in lines
    assert re.search(
        r'<div class="output result" data-cut>.*data-load="/sessions/a-session/outputs/2/0"', lines, re.DOTALL
    )
    assert "show all 5,000,000 characters" in endless
    assert len(endless) < 20_000


def test_rejections_stand_out(tmp_path: Path) -> None:
    """By whom, why, and the rejected change, tinted."""
    log = ClaudeLog()
    log.user("go")
    log.model(call("c1", "Edit", file_path="a.py", old_string="old <b>", new_string="new <i>"))
    log.result("c1", REFUSAL, error=True, toolUseResult="User rejected tool use")
    (html,) = of_kind(log.load(tmp_path), "call")
    assert 'class="entry call rejected"' in html
    assert "Rejected by you</b> — <q" in html
    assert "use tabs" in html
    assert '<details class="call rejected" open>' in html
    assert '<div class="diff rejected-action">' in html
    words = Fragment(html).words
    assert "old <b>" in words
    assert "new <i>" in words
    assert '<span class="added">+1</span><span class="removed">−1</span>' in html


def test_outcomes_are_described_in_text(tmp_path: Path) -> None:
    """Not by colour alone."""
    log = ClaudeLog()
    log.user("go")
    log.model(call("c1", command="true"), call("c2", command="false"), call("c3", command="sleep 99"))
    log.result("c1", "fine")
    log.result("c2", "Exit code 1\nbad", error=True)
    ok, bad, orphan = of_kind(log.load(tmp_path), "call")
    assert '<span class="hidden">ok</span>' in ok
    assert "<span>exit 1</span>" in bad
    assert '<span class="unfinished">unfinished' in orphan


def test_output_keeps_its_colours(tmp_path: Path) -> None:
    """As classes."""
    log = ClaudeLog()
    log.user("go")
    log.model(call("c1", command="ls"))
    log.result("c1", "\x1b[1;34mdir\x1b[0m file")
    (html,) = of_kind(log.load(tmp_path), "call")
    assert '<span class="ink-4 bold">dir</span> file' in html


def test_pictures_have_addresses(tmp_path: Path) -> None:
    """Only those of a kind that is shown."""
    log = ClaudeLog()
    for media_type in ("image/png", "image/svg+xml"):
        log.user([{"type": "image", "source": {"type": "base64", "media_type": media_type, "data": PNG}}])
    shown, named = of_kind(log.load(tmp_path), "image")
    assert 'src="/sessions/a-session/images/0/0"' in shown
    assert "<img" not in named
    assert "image/svg+xml" in named


def test_events_of_the_samples_are_drawn() -> None:
    """Each in its own way."""
    everything = [entry for ref in sessions(samples()) for entry in entries_of(load(ref))]
    html = render_entries(everything, KEY)
    for piece in (
        '<details class="band" data-load="/sessions/a-session/replaced/',
        '<details class="fork-chip" data-load="/sessions/a-session/branches/1"',
        'href="/sessions/a-session?branch=1">Open this branch</a>',
        '<p class="rule"><span><b aria-hidden="true">✕</b> Interrupted',
        "/embedded",
        "Context cleared",
        '<span class="unfinished">unfinished (killed)</span>',
    ):
        assert piece in html


def test_headings_in_prose_are_demoted() -> None:
    """Its headings begin where those of the page end, and what scrolls can be reached with the keyboard."""
    html = render_prose("# one\n\n###### six\n\n```\ncode\n```\n\n| a |\n|---|\n| b |")
    assert "<h3>one</h3>" in html
    assert "<h6>six</h6>" in html
    assert '<pre tabindex="0">' in html
    assert '<div class="wide" tabindex="0"><table>' in html


@pytest.mark.parametrize("text", ["[" * 50_000, "*a " * 60_000, "`" * 190_000, "> " * 90_000, "x" * 5_000_000])
def test_rendering_prose_takes_bounded_time(text: str) -> None:
    """What is too long is shown as it is."""
    # Each takes well under a second; what is not bounded takes minutes.
    with cpu_limit(20):
        assert "<script" not in render_prose(text)


def test_numbers_are_formatted() -> None:
    """Short, and what is not known is nothing."""
    assert [duration(seconds) for seconds in (None, 0.21, 14.2, 60, 125, 7260)] == [
        "",
        "0.2 s",
        "14 s",
        "1 min",
        "2 min 5 s",
        "2 h 1 min",
    ]
    assert [compact(value) for value in (0, 9_999, 12_345, 1_234_567, 5_000_000_000)] == [
        "0",
        "9,999",
        "12k",
        "1.2M",
        "5.0B",
    ]
    assert when(None) == ""
    assert short_id("parent/abcdefghijk") == "abcdefgh"


def test_static_files_have_a_version() -> None:
    """So that a browser may keep them."""
    assert re.fullmatch(r"/static/[0-9a-f]{10}/base\.css", asset_url("base.css"))


def test_only_the_list_of_sessions_has_its_id() -> None:
    """Live updates replace the element with this id."""
    templates = (Path(web.__file__).parent / "templates").rglob("*.html")
    assert [path.name for path in templates if 'id="sessions"' in path.read_text()] == ["sessions_pane.html"]
