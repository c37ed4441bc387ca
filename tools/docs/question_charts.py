"""Draws charts of all predefined queries on the sample sessions: `python -m tools.docs.question_charts`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from xml.sax.saxutils import escape

import unspool
from unspool.data.sql import Question, questions
from unspool.data.tables import tables

PICTURE = Path(__file__).parents[2] / "docs" / "assets" / "questions.svg"
_WIDTH, _HEIGHT, _COLUMNS = 420, 170, 2
_ROWS = 6


def draw() -> str:
    """Return one chart per query as SVG, without scripts and embedded fonts."""
    pieces = list(_charts())
    height = _HEIGHT * -(-len(pieces) // _COLUMNS)
    width = _WIDTH * _COLUMNS
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif">',
            f'<rect width="{width}" height="{height}" fill="#fff"/>',
            *pieces,
            "</svg>\n",
        )
    )


def _charts() -> Iterator[str]:
    with tables(unspool.samples()).duckdb() as connection:
        for position, question in enumerate(questions()):
            found = connection.execute(f"SELECT {question.plot.x}::VARCHAR, {question.plot.y} FROM ({question.sql})")
            rows = [(x or "(none)", y) for x, y in found.fetchall() if y is not None][:_ROWS]
            x, y = position % _COLUMNS * _WIDTH, position // _COLUMNS * _HEIGHT
            yield f'<g transform="translate({x} {y})">{"".join(_chart(question, rows))}</g>'


def _chart(question: Question, rows: Sequence[tuple[str, float]]) -> Iterator[str]:
    yield f"<desc>{question.name}</desc>"
    yield f'<text x="12" y="22" font-size="13" font-weight="bold" fill="#1d2733">{escape(question.text[:58])}</text>'
    most = max((y for _, y in rows), default=0) or 1
    if not rows:
        yield '<text x="12" y="46" font-size="12" fill="#66727f">nothing in the samples</text>'
    for number, (label, value) in enumerate(rows):
        y = 34 + number * 21
        length = max(1, round(190 * value / most))
        yield f'<text x="150" y="{y + 12}" font-size="11" text-anchor="end" fill="#44505c">{escape(label[-24:])}</text>'
        yield f'<rect x="156" y="{y}" width="{length}" height="15" fill="#0d6b52"/>'
        yield f'<text x="{length + 162}" y="{y + 12}" font-size="11" fill="#1d2733">{value:,g}</text>'


if __name__ == "__main__":
    PICTURE.write_text(draw(), encoding="utf-8")
