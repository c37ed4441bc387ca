"""The published schemas of the tables."""

from __future__ import annotations

from tools.docs import tables_reference

from tests.regen import TABLES as PUBLISHED
from tests.regen import tables_text
from unspool.data.schema import TABLES


def test_the_published_schemas_are_current() -> None:
    """A change of a column is a change of what was published: think of the version. `make regen` writes them."""
    assert PUBLISHED.read_bytes() == tables_text()


def test_every_column_is_explained() -> None:
    columns = [(table.name, column) for table in TABLES.values() for column in table.columns]
    assert [f"{name}.{column.name}" for name, column in columns if not tables_reference.meaning(column)] == []
    assert all(f"\n## {name}\n" in tables_reference.page() for name in TABLES)


def test_every_row_has_a_key() -> None:
    assert {tuple(table.names[:3]) for table in TABLES.values()} == {("agent", "session", "day")}
