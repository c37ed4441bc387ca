"""Titles without the marks of Markdown: what is a mark goes, what only looks like one stays."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unspool.render.plain_text import plain_line
from unspool.render.sanitize import harmless


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("## Task 2: Extract the helper", "Task 2: Extract the helper"),
        ("### Closed ##", "Closed"),
        ("## Context\n\nSome **bold** words", "Context Some bold words"),
        ("Title\n=====\n\ntext\n---\nmore", "Title text more"),
        ("> quoted\n> twice", "quoted twice"),
        ("> # a quoted heading", "a quoted heading"),
        ("- first\n- second", "first - second"),
        ("- [ ] to do", "to do"),
        ("* starred", "starred"),
        ("what does `make test` do?", "what does make test do?"),
        ("``a ` inside``", "a ` inside"),
        ("use `**kwargs` and `__init__`", "use **kwargs and __init__"),
        ("**Use `*.py` here**", "Use *.py here"),
        ("**bold**, *emphasis* and ***both***", "bold, emphasis and both"),
        ("这是**重点**内容", "这是重点内容"),
        ("__very important__ and _rather so_", "very important and rather so"),
        ("~~gone~~ and kept", "gone and kept"),
        ("see [the guide](docs/guide.md) and ![a picture](https://x.invalid/p.png)", "see the guide and a picture"),
        ("[a](x/`b`) and `c` and [d](x/y)", "[a](x/b) and c and d"),
        ("```python\nx = a**b\n```\ntext", "x = a**b text"),
    ],
)
def test_marks_are_removed(text: str, plain: str) -> None:
    assert plain_line(text) == plain


@pytest.mark.parametrize(
    "text",
    [
        "Review issue #70 and PR#60",
        "#hashtag",
        "C# and F#",
        "a snake_case_name and another_one",
        "__init__ and __main__",
        "_private_ and _x",
        "__init__.py is empty, so is __main__.py",
        "delete *.py and *.js",
        "**/*.py and src/**/*.ts",
        "src/**/x and lib/**/y",
        "2 ** 3 ** 4 and 5 * 6 * 7",
        "2**3 and 4**5",
        "a*b*c",
        "f(*args, **kwargs)",
        "SELECT * FROM a WHERE b * c",
        "/* a comment */ int x; /* another */",
        "MAX_TOKENS_A = MAX_TOKENS_B",
        "an **unbalanced mark",
        "an unbalanced `mark",
        "``two` one",
        "~/.config and ~/x",
        "cells[i](x) and [Image #1]",
        "x -> y <- z, a => b",
        "--flag -x --- y",
        r"C:\_a\b_ and \*not emphasis\*",
        "***",
        "\ue000 in a font of icons with a `mark",
        "#",
    ],
)
def test_what_is_no_mark_stays(text: str) -> None:
    assert plain_line(text) == text


def test_a_long_text_is_cut_like_any_other() -> None:
    assert plain_line("**word** " * 100, 21) == "word word word word …"
    assert len(plain_line("x" * 500, 160)) == 160


def test_terminals_and_readers_stay_safe() -> None:
    assert plain_line("**\x1b[31mred\x1b[0m\u202e**") == "red"


_TEXTS = st.text(st.sampled_from("ab *_`~#>-[]()./\n\\\0"), max_size=60)


@given(_TEXTS)
def test_only_marks_are_removed(text: str) -> None:
    """What remains is in the text in this order, and something remains of what is not empty."""
    plain, rest = plain_line(text), iter(harmless(text))
    assert all(letter in rest for letter in plain if not letter.isspace())
    assert bool(plain) == bool(text.strip())
    if not any(mark in text for mark in ("](", "```", "~~~", "#")):
        assert [letter for letter in plain if letter in "ab"] == [letter for letter in text if letter in "ab"]
