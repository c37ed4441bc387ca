"""Head and tail of long texts."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from unspool.render.excerpt import excerpt


@given(st.text("ab\n", max_size=200), st.integers(2, 8), st.integers(2, 40))
def test_the_parts_are_the_text(text: str, lines: int, characters: int) -> None:
    """Nothing is lost or repeated, the end is in sight, and little enough is shown."""
    parts = excerpt(text, lines, characters)
    assert parts.head + parts.middle + parts.tail == text
    assert not parts.middle or (parts.head and parts.tail)
    assert len(parts.head + parts.tail) <= characters
    assert bool(parts.hidden) == bool(parts.middle)


def test_a_long_command_shows_its_end() -> None:
    """What is hidden is counted, and what comes last is not hidden."""
    one_line = excerpt("echo " + "x" * 9000 + "; rm -rf ~")
    assert one_line.tail.endswith("; rm -rf ~")
    assert one_line.hidden == "6,615 characters"
    many_lines = excerpt("".join(f"echo {n}\n" for n in range(100)) + "rm -rf ~")
    assert many_lines.tail.endswith("rm -rf ~")
    assert (many_lines.tail_line, many_lines.hidden) == (90, "616 characters in 78 lines")
