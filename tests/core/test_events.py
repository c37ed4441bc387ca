"""The table of event kinds, and that what is derived from it agrees with it."""

from __future__ import annotations

import ast
import inspect
from collections import Counter

import msgspec
import pytest

import unspool
from unspool.core import builder, session
from unspool.core.errors import UsageError
from unspool.core.events import (
    BADGE_KINDS,
    EVENT_KINDS,
    EVENT_NAMES,
    LISTED_KINDS,
    EventKind,
    Marked,
    count_events,
    find_kind,
    find_listed_kind,
    iter_events,
)
from unspool.core.stream import EVENT_LINES, iter_stream
from unspool.library import Library
from unspool.render.event_text import describe_event, timeline_label
from unspool.search.query import parse

SYNONYMS = {
    "compaction": "compaction compactions compacted",
    "clear": "clear clears cleared context_clear context_clears context-clear",
    "interruption": "interruption interruptions interrupted",
    "rejection": "rejection rejections rejected refused refusal denied",
    "input_change": "input_change input_changes input-change changed_input edited_input",
    "rollback": "rollback rollbacks rewound",
    "error": "error errors failed failure failures",
    "orphan": "orphan orphans orphaned unfinished",
    "subagent": "subagent subagents sub-agent sub-agents",
    "resume": "resume resumes resumed",
    "branch": "branch branches branched",
    "problem": "problem problems damaged",
}
by_name = pytest.mark.parametrize("kind", EVENT_KINDS, ids=EVENT_NAMES)


def declared(module: object, name: str) -> dict[str, str]:
    """The fields that a class declares, with their types, wherever in its body."""
    (found,) = (
        node
        for node in ast.walk(ast.parse(inspect.getsource(module)))  # type: ignore[arg-type]
        if isinstance(node, ast.ClassDef) and node.name == name
    )
    return {
        node.target.id: ast.unparse(node.annotation)
        for statement in found.body
        for node in (statement.body if isinstance(statement, ast.If) else [statement])
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    }


def test_each_word_names_one_kind() -> None:
    """Names, plurals, names in the record and synonyms never overlap between kinds."""
    words = Counter(word for kind in EVENT_KINDS for word in kind.words)
    assert [word for word, count in words.items() if count > 1] == []


@pytest.mark.parametrize(("name", "words"), SYNONYMS.items())
def test_synonyms(name: str, words: str) -> None:
    """A filter accepts the usual synonyms of a kind, in any case, here and in a query."""
    for word in words.split():
        assert find_kind(word).name == find_kind(word.upper()).name == name
        for prefix in ("is", "has"):
            assert parse(f"{prefix}:{word}").filters.is_.wanted == (name,)


def test_every_kind_has_synonyms_here() -> None:
    """The list above is complete."""
    assert tuple(SYNONYMS) == EVENT_NAMES


def test_unknown_words() -> None:
    """The message lists what there is."""
    with pytest.raises(UsageError, match=r"^Unknown event type 'fun'; choose from compaction, clear, .*, problem$"):
        find_kind("fun")
    with pytest.raises(UsageError, match=r"^Unknown event type 'rollback'; choose from rejections, interruptions, "):
        find_listed_kind("rollback")


def test_the_record_has_a_field_for_each_kind() -> None:
    """As it is declared for type checkers, in the order of the table, and nothing else is."""
    expected = {
        kind.field: f"list[m.{kind.struct.__name__}]" if kind.recorded.group is None else "m.Compaction"
        for kind in EVENT_KINDS
    }
    assert declared(session, "Session") == {**expected, "annotations": "list[Annotation]"}
    fields = unspool.Session.__struct_fields__
    assert fields == ("schema", "info", "messages", *expected, "annotations")


def test_the_builder_has_a_list_for_each_kind() -> None:
    """As it is declared for type checkers."""
    expected = {kind.collected: f"list[m.{kind.struct.__name__}]" for kind in EVENT_KINDS}
    assert declared(builder, "EventLists") == expected
    empty = builder.SessionBuilder("agent", "id")
    assert all(getattr(empty.events, kind.collected) == [] for kind in EVENT_KINDS)


@by_name
def test_fields_that_the_table_names_exist(kind: EventKind) -> None:
    """In the Struct of the event."""
    named = {kind.recorded.index, kind.mark.index if kind.mark else None} - {None, ""}
    if isinstance(kind.search, Marked):
        named |= set(kind.search.fields)
    assert named <= set(kind.struct.__struct_fields__)


@by_name
def test_each_kind_has_a_stream_line(kind: EventKind) -> None:
    """With the tag, and the event in a field of the same name."""
    line = EVENT_LINES[kind.name]
    assert line.__struct_config__.tag == kind.tag
    assert msgspec.structs.fields(line)[0].name == kind.tag
    assert msgspec.structs.fields(line)[0].type is kind.struct


def test_lists_and_badges_come_in_order_of_importance() -> None:
    """The same order for both."""
    listed = [kind.name for kind in LISTED_KINDS]
    badges = [kind.name for kind in BADGE_KINDS]
    assert listed == ["rejection", "interruption", "compaction", "clear", "error", "orphan"]
    assert badges == [name for name in listed if name != "clear"]


def test_events_of_the_samples_are_counted_and_described() -> None:
    """Every event is iterated once, in the table's order, and has texts."""
    seen: Counter[str] = Counter()
    library = Library(unspool.samples())
    for ref in library.refs():
        record = library.load(ref)
        found = list(iter_events(record))
        counts = count_events(record)
        assert tuple(counts) == EVENT_NAMES
        assert Counter(kind.name for kind, _ in found) == Counter(counts)
        assert [kind.name for kind, _ in found] == sorted((k.name for k, _ in found), key=EVENT_NAMES.index)
        for kind, event in found:
            assert isinstance(event, kind.struct)
            assert describe_event(event).strip()
            assert timeline_label(event).strip()
        end = list(iter_stream(record))[-1]
        expected = {"messages": len(record.messages)} | {kind.count_name: counts[kind.name] for kind in EVENT_KINDS}
        assert end.end.counts == expected  # type: ignore[union-attr]
        seen.update(counts)
    assert len([name for name, count in seen.items() if count]) > 6
