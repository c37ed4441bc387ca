"""Colours of programs: they become classes, nothing else gets through, and no text takes long."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unspool.render.ansi import coloured
from unspool.render.sanitize import harmless

from ..waiting import cpu_limit


def words(html: str) -> str:
    return re.sub(r"<[^<>]*>", "", html)


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("plain <b>", "plain &lt;b&gt;"),
        ("\x1b[31mred\x1b[0m plain", '<span class="ink-1">red</span> plain'),
        (
            "\x1b[1;4;32mall\x1b[22;24m some\x1b[39m none",
            '<span class="ink-2 bold underlined">all</span><span class="ink-2"> some</span> none',
        ),
        ("\x1b[3mslanted\x1b[23m", '<span class="italic">slanted</span>'),
        ("\x1b[93;104mbright\x1b[m", '<span class="ink-11 ground-12">bright</span>'),
        ("\x1b[38;5;196mpalette\x1b[0m", '<span class="ink-9">palette</span>'),
        ("\x1b[48;5;16mpalette\x1b[49m", '<span class="ground-0">palette</span>'),
        ("\x1b[38;5;244mgrey\x1b[0m", '<span class="ink-8">grey</span>'),
        ("\x1b[38;2;250;5;5mexact\x1b[0m", '<span class="ink-9">exact</span>'),
        ("\x1b[38:2::0:205:0mcolons\x1b[0m", '<span class="ink-2">colons</span>'),
        ("\x1b[38;5mcut\x1b[0m", "cut"),
        ("\x1b[38;2;1;2mcut\x1b[0m", "cut"),
        ("\x1b[999999999999999999999mlarge", "large"),
        ("\x1b[31m\x1b[31mtwice\x1b[0m\x1b[0m", '<span class="ink-1">twice</span>'),
        ("\x1b[2K\x1b[1;5Hmoved\x1b]0;title\x07", "moved"),
        ("10%\r50%\r100%\r\ndone", "10%\n50%\n100%\ndone"),
        ("a\x00b\x1b", "a\ufffdb\ufffd"),
    ],
)
def test_colours(text: str, html: str) -> None:
    """What each sequence becomes."""
    assert coloured(text) == html


HOSTILE = [
    "\x1b[31m<script>alert(1)</script>",
    '\x1b[31m" onload="alert(1)',
    "\x1b[</span>m",
    "\x1b[31\u202em\u202e",
    "\x1b]8;;javascript:alert(1)\x07link\x1b]8;;\x07",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_only_our_own_tags_come_out(text: str) -> None:
    """Spans with classes, and nothing else."""
    html = coloured(text)
    assert set(re.findall(r"<[^<>]*>", html)) <= {'<span class="ink-1">', "</span>"}
    assert "\x1b" not in html
    assert "\u202e" not in html


@given(st.text(alphabet='\x1b[]0123456789;:mKab<&"\r\n\x07', max_size=200))
def test_text_is_unchanged(text: str) -> None:
    """Without its tags it is the text that a terminal without colours would show."""
    html = coloured(text)
    assert html.count("<span ") == html.count("</span>")
    unescaped = words(html).replace("&lt;", "<").replace("&#34;", '"').replace("&amp;", "&")
    plain = text.replace("\r\n", "\n").replace("\r", "\n")
    expected = "".join(harmless(part) for part in re.split(r"\x1b\[[0-9;:]*m", plain))
    assert unescaped == expected


@pytest.mark.parametrize(
    "text",
    [
        "\x1b[" * 300_000,
        "\x1b[1;" * 200_000,
        "\x1b[31mx" * 200_000,
        "\x1b[" + "1;" * 500_000 + "m",
        "\x1b]" * 300_000,
        "\x1b[" + "9" * 1_000_000 + "mx",
    ],
)
def test_time_and_size_are_bounded(text: str) -> None:
    """Whatever a program prints."""
    with cpu_limit(30):
        html = coloured(text)
    assert len(html) < len(text) + 20_000 * 60
