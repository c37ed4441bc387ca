"""The language of queries: what is understood, what is not, and that all translations mean the same."""

from __future__ import annotations

import sqlite3
from datetime import UTC, datetime, timedelta
from functools import cache

import msgspec
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from unspool.core.errors import UsageError
from unspool.core.events import EVENT_NAMES
from unspool.search.query import (
    DEEPEST,
    MOST_WORDS,
    All,
    AnyOf,
    Filters,
    Name,
    Node,
    Not,
    Query,
    QueryError,
    Values,
    Words,
    matches,
    parse,
    sought,
    to_fts5,
    to_tsquery,
    without_exclusions,
)
from unspool.search.tokenizer import words_in

NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)


def w(*words: str) -> Words:
    return Words(words)


def begins(*words: str) -> Words:
    return Words(words, prefix=True)


UNDERSTOOD: list[tuple[str, Node]] = [
    ("foo", w("foo")),
    ("  Foo  BAR ", All((w("foo"), w("bar")))),
    ('"no such file"', w("no", "such", "file")),
    ("foo*", begins("foo")),
    ('"no such fi"*', begins("no", "such", "fi")),
    ("foo_bar src/main.py don't", All((w("foo", "bar"), w("src", "main", "py"), w("don", "t")))),
    ("src/ma*", begins("src", "ma")),
    ("foo.* **bold** *.py", All((w("foo"), w("bold"), w("py")))),
    ("a or b", All((w("a"), w("or"), w("b")))),
    ("a b OR c d", AnyOf((All((w("a"), w("b"))), All((w("c"), w("d")))))),
    ("a (b OR c) d", All((w("a"), AnyOf((w("b"), w("c"))), w("d")))),
    ("((a OR (b OR c)))", AnyOf((w("a"), w("b"), w("c")))),
    ("a -b", All((w("a"), Not(w("b"))))),
    ('a -"b c" -d*', All((w("a"), Not(w("b", "c")), Not(begins("d"))))),
    ("a -(b OR c)", All((w("a"), Not(AnyOf((w("b"), w("c"))))))),
    ("a (b OR -c)", All((w("a"), AnyOf((w("b"), Not(w("c"))))))),
    ("-(-a)", Not(Not(w("a")))),
    ("a -OR b", All((w("a"), Not(w("or")), w("b")))),
    ("git push --force", All((w("git"), w("push"), w("force")))),
    ("well-known", w("well", "known")),
    ("a && b -> c", All((w("a"), w("b"), w("c")))),
    ("a OR &&", w("a")),
    ("main() f(x)", All((w("main"), w("f", "x")))),
    ("(f(x) OR y)", AnyOf((w("f", "x"), w("y")))),
    ('say"hi you"', All((w("say"), w("hi", "you")))),
    ("std::vector http://x.org", All((w("std", "vector"), w("http", "x", "org")))),
    ("file:///etc/hosts tool::run", All((w("file", "etc", "hosts"), w("tool", "run")))),
    ("foo:bar 12:30 c:\\temp", All((w("foo", "bar"), w("12", "30"), w("c", "temp")))),
    ('"agent:claude"', w("agent", "claude")),
    ("🤖 e\u0301*", All((w("🤖"), begins("e\u0301")))),
]


@pytest.mark.parametrize(("text", "node"), UNDERSTOOD)
def test_words(text: str, node: Node) -> None:
    assert parse(text) == Query(node, Filters())


@pytest.mark.parametrize(
    ("text", "filters"),
    [
        ("agent:claude agent:Codex", Filters(agent=Values(("claude", "codex")))),
        ("-agent:gemini", Filters(agent=Values((), ("gemini",)))),
        ('project:"my project" -project:old', Filters(project=Values(("my project",), ("old",)))),
        ("tool:Read tool:mcp*", Filters(tool=Values((Name("Read"), Name("mcp", prefix=True))))),
        ('tool:"web s"*', Filters(tool=Values((Name("web s", prefix=True),)))),
        ("role:user role:human", Filters(role=Values(("human", "human")))),
        ("role:assistant -role:hook", Filters(role=Values(("model",), ("hook",)))),
        ("model:opus file:src/a(1).py", Filters(model=Values(("opus",)), file=Values(("src/a(1).py",)))),
        ("session:0af3", Filters(session=Values(("0af3",)))),
        ("branch:active branch:dead branch:12", Filters(branch=Values(("active", "dead", 12)))),
        ("is:error -is:orphan", Filters(is_=Values(("error",), ("orphan",)))),
        ("is:rejected has:rejection -has:refused", Filters(is_=Values(("rejection", "rejection"), ("rejection",)))),
        ("in:user in:answer", Filters(in_=Values(("user", "answer")))),
        ("Before:2026-11-01T00:00Z", Filters(before=Values((datetime(2026, 11, 1, tzinfo=UTC),)))),
        ("after:7d -after:12h", Filters(after=Values((NOW - timedelta(days=7),), (NOW - timedelta(hours=12),)))),
        ("after:30m", Filters(after=Values((NOW - timedelta(minutes=30),)))),
        ("after:2w", Filters(after=Values((NOW - timedelta(weeks=2),)))),
    ],
)
def test_filters(text: str, filters: Filters) -> None:
    """A query may consist of filters; several with the same name are kept side by side."""
    assert parse(text, NOW) == Query(None, filters)


def test_days_are_those_of_the_user() -> None:
    """A date without a zone begins at the user's midnight, and so does today."""
    today = NOW.astimezone().date()
    found = parse(f"after:today after:{today} before:yesterday", NOW).filters
    assert found.after.wanted[0] == found.after.wanted[1]
    assert found.after.wanted[0].astimezone().date() == today
    assert found.before.wanted[0].astimezone().date() == today - timedelta(days=1)
    assert all(time.tzinfo is not None for time in found.after.wanted + found.before.wanted)


def test_words_and_filters_mix() -> None:
    """Filters apply to the whole query, wherever they are at its top level."""
    query = parse("agent:claude foo OR bar is:error")
    assert query.match == AnyOf((w("foo"), w("bar")))
    assert query.filters == Filters(agent=Values(("claude",)), is_=Values(("error",)))
    assert query.filters
    assert not parse("foo").filters


def test_queries_can_be_written_down() -> None:
    query = parse("a OR (b -c*) agent:claude after:7d tool:x* branch:2", NOW)
    assert msgspec.json.decode(msgspec.json.encode(query), type=Query) == query


@pytest.mark.parametrize(
    ("text", "position", "message"),
    [
        ("", 0, "nothing to search for: the query is empty at character 1"),
        ("  ", 0, "nothing to search for: the query is empty at character 1"),
        ('foo x "ba', 6, 'unclosed " at character 7'),
        ('file:"a b', 5, 'unclosed " at character 6'),
        ("a (b", 2, "unclosed ( at character 3"),
        ("a -(b", 3, "unclosed ( at character 4"),
        ("a) b", 1, "unmatched ) at character 2"),
        ("a ()", 2, "nothing between ( and ) at character 3"),
        ("OR a", 0, "nothing before OR at character 1"),
        ("a OR", 2, "nothing after OR at character 3"),
        ("a OR OR b", 2, "nothing after OR at character 3"),
        ("(a OR )", 3, "nothing after OR at character 4"),
        ("a -", 2, "nothing after - at character 3"),
        ("a - b", 2, "nothing after - at character 3"),
        ("(a -)", 3, "nothing after - at character 4"),
        ("a *", 2, "* needs the beginning of a word at character 3"),
        ('a "."*', 5, "* needs the beginning of a word at character 6"),
        ("tool:*", 5, "* needs the beginning of a word at character 6; for example tool:read*"),
        ("a file:", 7, "nothing after file: at character 8"),
        ('file:" "', 5, "nothing after file: at character 6"),
        ("x is:eror", 5, f"Unknown event type 'eror' at character 6; choose from {', '.join(EVENT_NAMES)}"),
        ("has:fun", 4, f"Unknown event type 'fun' at character 5; choose from {', '.join(EVENT_NAMES)}"),
        ("in:text", 3, "unknown field 'text' at character 4; choose from user, answer, thinking, input, output, note"),
        ("-agent:claud", 7, "unknown agent 'claud' at character 8; choose from claude, codex, gemini"),
        (
            "role:me",
            5,
            "unknown role 'me' at character 6; choose from human, model, harness, subagent, hook, user, assistant",
        ),
        ("branch:-1", 7, "unknown branch '-1' at character 8; choose active, dead, or a number"),
        ("before:soon", 7, "'soon' is not a time at character 8; try 2026-11-01, 2026-11-01T14:30, 7d, 12h, today"),
        (
            "after:99999999w",
            6,
            "'99999999w' is not a time at character 7; try 2026-11-01, 2026-11-01T14:30, 7d, 12h, today",
        ),
        (
            "a projct:x",
            2,
            'unknown filter projct: at character 3; did you mean project: (to find the word, quote it: "projct:…")',
        ),
        (
            "-agnet:x",
            1,
            'unknown filter agnet: at character 2; did you mean agent: (to find the word, quote it: "agnet:…")',
        ),
        (
            "since:7d",
            0,
            'unknown filter since: at character 1; did you mean after: (to find the word, quote it: "since:…")',
        ),
        ("-foo", 0, "nothing to search for: all words are excluded at character 1"),
        ("agent:claude -(a b)", 13, "nothing to search for: all words are excluded at character 14"),
        ("-a OR -b", 0, "nothing to search for: all words are excluded at character 1"),
        (
            "foo OR -bar",
            7,
            "only excluded words on one side of OR at character 8; this would match nearly everything",
        ),
        ("agent:claude &&", 13, "nothing to search for: no letters or digits at character 14"),
        (
            "a OR agent:claude",
            2,
            "only a filter after OR at character 3; filters apply to the whole query, "
            "and several of the same name match any of them",
        ),
        (
            "(a agent:claude)",
            3,
            "a filter in parentheses at character 4; filters apply to the whole query and go outside",
        ),
        ("(" * 10_000, DEEPEST, "more than 8 levels of parentheses at character 9"),
        ("-(" * 10_000, 2 * DEEPEST + 1, "more than 8 levels of parentheses at character 18"),
        ("a " * 1001, 2 * MOST_WORDS, "more than 1000 words at character 2001"),
    ],
)
def test_errors(text: str, position: int, message: str) -> None:
    """They say what is wrong, where, and what may have been meant."""
    with pytest.raises(QueryError) as caught:
        parse(text, NOW)
    assert isinstance(caught.value, UsageError)
    assert caught.value.position == position
    assert str(caught.value).split("\n")[0] == message


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ('foo x "ba', ['  foo x "ba', "        ^"]),
        ('日本 "ba', ['  日本 "ba', "       ^"]),
        ('a\n\t"b', ['  a  "b', "     ^"]),
        ("x" * 90 + ' "' + "y" * 90, ["  …" + "x" * 29 + ' "' + "y" * 29 + "…", "   " + " " * 30 + "^"]),
    ],
)
def test_errors_point_at_the_position(text: str, lines: list[str]) -> None:
    """With the query, or what is around the place, and a caret under it."""
    with pytest.raises(QueryError) as caught:
        parse(text)
    assert str(caught.value).split("\n")[1:] == lines


PIECES = st.sampled_from([*'ab "()-*:&', " OR ", "is:", "error", "after:", "7d", "tool:", "ä", "🤖"])


def understood(text: str) -> Query | QueryError:
    try:
        return parse(text, NOW)
    except QueryError as error:
        return error


@given(st.text() | st.lists(PIECES, max_size=40).map("".join))
@example("after:0001-01-01")
@example("before:9999-12-31T23:59:59")
@example("\ud800 is:\udfff")
@example('a OR ((((b"*')
def test_any_text_is_parsed_or_rejected(text: str) -> None:
    """Nothing but a `QueryError`, and that points into the text. What is understood can be translated."""
    found = understood(text)
    if isinstance(found, QueryError):
        assert 0 <= found.position <= len(text)
        assert str(found).count("\n") == 2
    elif found.match is not None:
        assert to_fts5(found.match)
        assert to_tsquery(found.match)
        assert list(sought(found.match))


@pytest.mark.parametrize(
    ("text", "fts5", "tsquery"),
    [
        ("foo", '"foo"', "'foo'"),
        ('"a b"* c', '("a b"* AND "c")', "(('a' <-> 'b':*) & 'c')"),
        ("a -b -c", '("a" NOT ("b" OR "c"))', "('a' & !('b') & !('c'))"),
        ("a b -c", '(("a" AND "b") NOT "c")', "('a' & 'b' & !('c'))"),
        ("a OR b -c", '("a" OR ("b" NOT "c"))', "('a' | ('b' & !('c')))"),
        ("a (b OR -c)", '("a" NOT ("c" NOT "b"))', "('a' & ('b' | !('c')))"),
        ("-(-a OR b)", '("a" NOT "b")', "!((!('a') | 'b'))"),
        ("AND NOT near", '("and" AND "not" AND "near")', "('and' & 'not' & 'near')"),
    ],
)
def test_translations(text: str, fts5: str, tsquery: str) -> None:
    """FTS5 has only a binary NOT; negated parts are rearranged accordingly."""
    node = parse(text).match
    assert node is not None
    assert to_fts5(node) == fts5
    assert to_tsquery(node) == tsquery


def test_long_words_are_cut_for_postgresql() -> None:
    """As they are in what is stored."""
    assert len(to_tsquery(w("x" * 5000))) == 2048


def test_queries_that_fts5_cannot_express() -> None:
    """A tree made by hand may be such; a parsed one is not."""
    with pytest.raises(ValueError, match="only excludes words"):
        to_fts5(Not(w("a")))


WORD = st.sampled_from(["a", "ab", "abc", "b", "ä", "x1", "🤖"])
DOCUMENT = st.lists(WORD | st.sampled_from(["AB", "a-b", "b_a", "a🤖", "🎉", "Ä", "."]), max_size=8).map(" ".join)


def _nodes() -> st.SearchStrategy[Node]:
    words = st.builds(Words, st.lists(WORD, min_size=1, max_size=3).map(tuple), st.booleans())
    return st.recursive(
        words,
        lambda inner: st.one_of(
            st.builds(Not, inner),
            st.builds(All, st.lists(inner, min_size=2, max_size=3).map(tuple)),
            st.builds(AnyOf, st.lists(inner, min_size=2, max_size=3).map(tuple)),
        ),
        max_leaves=8,
    )


def as_query(node: Node) -> str:
    """A tree as a user would write it."""
    if isinstance(node, Words):
        return '"' + " ".join(node.words) + '"' + "*" * node.prefix
    if isinstance(node, Not):
        return f"-({as_query(node.part)})"
    return (" " if isinstance(node, All) else " OR ").join(f"({as_query(part)})" for part in node.parts)


@cache
def fts5_table() -> sqlite3.Connection:
    """A table for all examples: to make one takes longer than to search it."""
    db = sqlite3.connect(":memory:", isolation_level=None)
    db.execute("create virtual table t using fts5(text, tokenize='unicode61 remove_diacritics 0')")
    return db


def found_by_fts5(documents: list[str], expression: str) -> list[str]:
    """The documents that SQLite finds."""
    db = fts5_table()
    db.execute("begin")
    try:
        db.executemany("insert into t values (?)", [(document,) for document in documents])
        return [text for (text,) in db.execute("select text from t where t match ? order by rowid", (expression,))]
    finally:
        db.execute("rollback")


@settings(max_examples=400, deadline=None)
@given(st.lists(DOCUMENT, max_size=12), _nodes())
def test_sqlite_finds_the_expected_rows(documents: list[str], node: Node) -> None:
    """Exactly the documents that match according to `matches`, for the tree and for the same query as text."""
    try:
        expression = to_fts5(node)
    except ValueError:
        assume(False)
    meant = [document for document in documents if matches(node, words_in(document))]
    assert found_by_fts5(documents, expression) == meant
    parsed = parse(as_query(node)).match
    assert parsed is not None
    assert [document for document in documents if matches(parsed, words_in(document))] == meant
    assert found_by_fts5(documents, to_fts5(parsed)) == meant


@given(_nodes(), st.lists(WORD, max_size=6))
def test_only_purely_negative_queries_are_rejected(node: Node, words: list[str]) -> None:
    """A rejected query would find a text without any words; other queries never do."""
    try:
        to_fts5(node)
    except ValueError:
        assert matches(node, [])
    else:
        assert not matches(node, [])


@pytest.mark.parametrize(
    "text",
    [
        " ".join(f"w{number}" for number in range(MOST_WORDS)),
        " OR ".join(f"w{number}" for number in range(MOST_WORDS)),
        " OR ".join(f"(w{number} x -y)" for number in range(MOST_WORDS // 3)),
        "a " + " ".join(f"-w{number}" for number in range(MOST_WORDS - 1)),
        '"' + " ".join(f"w{number}" for number in range(MOST_WORDS)) + '"',
        "a OR b c -d -" + "(a OR b c -d -" * DEEPEST + "e" + ")" * DEEPEST,
        "(a b OR " * DEEPEST + "e" + ")" * DEEPEST,
        "(a b OR c d -e -" * DEEPEST + "e" + ")" * DEEPEST,
        "((a OR b) -e -(c OR d) -" * (DEEPEST - 1) + "(e OR f)" + ")" * (DEEPEST - 1),
        "(a (b OR -" * (DEEPEST // 2) + "e" + "))" * (DEEPEST // 2),
    ],
)
def test_the_largest_queries_fit_into_sqlite(text: str) -> None:
    """Neither many words nor many parentheses are too much for its parser, also within an expression for columns."""
    node = parse(text).match
    assert node is not None
    assert found_by_fts5(["nothing of it"], f"({{text}} : ({to_fts5(node)})) AND absent") == []


@pytest.mark.parametrize(
    ("query", "included"),
    [
        ("a -b", "a"),
        ("a (b OR -c)", "a"),
        ("a OR b", "a OR b"),
        ("a -(b -c)", "a"),
        ('a -"b c" d*', "a d*"),
        ("-(-a OR -b)", "a b"),
    ],
)
def test_a_query_without_its_exclusions_matches_at_least_as_much(query: str, included: str) -> None:
    found, expected = parse(query).match, parse(included).match
    assert found is not None
    assert expected is not None
    kept = without_exclusions(found)
    assert kept is not None
    for words in map(list, ("a", "b", "ab", "abc", "ac", "abcd", "d", "ad", "")):
        assert matches(kept, words) == matches(expected, words)
        assert matches(kept, words) or not matches(found, words)
