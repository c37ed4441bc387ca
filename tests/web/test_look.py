"""The style sheets: enough contrast, the same dark theme by system and by choice, no remote resources."""

from __future__ import annotations

import re
from itertools import product

import pytest

from unspool.core.events import EVENT_KINDS
from unspool.web.templating import HERE, TOOL_ICONS

STATIC = HERE / "static"
SHEETS = sorted(STATIC.glob("*.css"))
TEXT = ("ink", "soft", "faint", "accent", "good", "bad", "warn", "live", "add-strong", "del-strong")
GROUNDS = ("ground", "paper", "sunk", "accent-soft", "band", "warn-soft", "bad-soft", "add", "del")
CODE_GROUNDS = ("ground", "paper", "sunk", "add", "del")
LEAST = 4.5


def blocks(selector: str) -> dict[str, str]:
    """The colours that a selector defines, in all sheets."""
    text = "\n".join(sheet.read_text() for sheet in SHEETS)
    found = re.findall(re.escape(selector) + r" \{(.*?)\}", text, re.DOTALL)
    return {name: value for body in found for name, value in re.findall(r"--([\w-]+): (#[0-9a-f]{6})", body)}


def luminance(colour: str) -> float:
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    red, green, blue = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


LIGHT = blocks(":root")
DARK = LIGHT | blocks(':root[data-theme="dark"]')


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
def test_text_has_enough_contrast(theme: dict[str, str]) -> None:
    """On every background it may have, as WCAG AA requires."""
    code = [name for name in theme if name.startswith(("c-", "t-"))]
    pairs = [*product(TEXT, GROUNDS), *product(code, CODE_GROUNDS), ("ink", "mark")]
    weak = {pair: round(contrast(theme[pair[0]], theme[pair[1]]), 2) for pair in pairs}
    assert {pair: value for pair, value in weak.items() if value < LEAST} == {}


def test_both_dark_themes_are_the_same() -> None:
    """The system's and the switch's."""
    chosen, by_system = blocks(':root[data-theme="dark"]'), blocks(':root:not([data-theme="light"])')
    assert chosen == by_system
    assert len(chosen) > 30


def test_style_sheets_load_nothing() -> None:
    """No sheet loads anything."""
    for sheet in SHEETS:
        assert "url(" not in sheet.read_text()
        assert "@import" not in sheet.read_text()


def test_every_icon_is_in_the_sprite() -> None:
    """Those that templates and code name."""
    sprite = (STATIC / "sprite.svg").read_text()
    there = set(re.findall(r'<symbol id="(\w+)"', sprite))
    templates = "\n".join(path.read_text() for path in (HERE / "templates").glob("*.html"))
    named = set(re.findall(r'icon\("(\w+)"\)', templates))
    named |= {icon for _, icon in TOOL_ICONS} | {kind.look.icon for kind in EVENT_KINDS if kind.look.icon}
    assert named - there == set()
    assert not re.search(r"<script|style=|href=", sprite)
