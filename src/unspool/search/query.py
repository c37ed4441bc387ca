"""The query language: parses what a user types into a tree of words and a set of filters.

    disk full                 both words
    "disk full"  src/main.py  exact phrase
    read*  "no such fi"*      prefix match of the last word
    red OR (green -dark)      either; without
    tool:bash is:error        filters, for the whole query

The tree is translated for SQLite and for PostgreSQL; `matches` is the reference implementation that both agree with.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from difflib import get_close_matches
from typing import Generic, NamedTuple, NoReturn, TypeAlias, TypeVar

import msgspec

from ..agents import AGENTS
from ..core.errors import UsageError
from ..core.events import find_kind
from ..core.timestamps import parse_time
from .tokenizer import lexeme, words_in

T = TypeVar("T")

DEEPEST = 8
"""The maximum nesting of parentheses. Each level may become three in the translation; SQLite overflows at 33."""
MOST_WORDS = 1000
_SHOWN = 60


class QueryError(UsageError):
    """A query that cannot be parsed. `position` counts from 0; the message counts from 1."""

    def __init__(self, reason: str, query: str, position: int, advice: str = "") -> None:
        self.position = position
        what = f"{reason} at character {position + 1}" + (f"; {advice}" if advice else "")
        super().__init__(f"{what}\n{_pointed_at(query, position)}")


def _pointed_at(query: str, position: int) -> str:
    """Return the query, or the part around the position, with a caret under the position."""
    start = max(0, min(position - _SHOWN // 2, len(query) - _SHOWN))
    shown = "".join(char if char.isprintable() else " " for char in query[start : start + _SHOWN])
    before, after = "…" * (start > 0), "…" * (start + _SHOWN < len(query))
    indent = sum(map(_columns, before + shown[: position - start]))
    return f"  {before}{shown}{after}\n  {' ' * indent}^"


def _columns(char: str) -> int:
    """The width of a character on a terminal."""
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


# --- parsed queries ---


class Words(msgspec.Struct, frozen=True, tag="words"):
    """Consecutive words; the last one may be a prefix."""

    words: tuple[str, ...]
    prefix: bool = False


class All(msgspec.Struct, frozen=True, tag="all"):
    """All of the parts."""

    parts: tuple[Node, ...]


class AnyOf(msgspec.Struct, frozen=True, tag="any"):
    """At least one of the parts."""

    parts: tuple[Node, ...]


class Not(msgspec.Struct, frozen=True, tag="not"):
    """Not the part."""

    part: Node


Node: TypeAlias = Words | All | AnyOf | Not


class Values(msgspec.Struct, Generic[T], frozen=True):
    """The values of a filter: at least one of `wanted`, if there are any, and none of `unwanted`."""

    wanted: tuple[T, ...] = ()
    unwanted: tuple[T, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.wanted or self.unwanted)


class Name(msgspec.Struct, frozen=True):
    """A name, or with `prefix` the beginning of a name."""

    text: str
    prefix: bool = False


class Filters(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Conditions for a hit, in addition to its words. All filters apply together."""

    agent: Values[str] = Values()
    """The name of an agent."""
    project: Values[str] = Values()
    """Part of the project's path; not case-sensitive."""
    tool: Values[Name] = Values()
    """A tool's name; not case-sensitive."""
    role: Values[str] = Values()
    """`human`, `model`, `harness`, `subagent`, `hook`."""
    model: Values[str] = Values()
    """Part of a model's name."""
    file: Values[str] = Values()
    """Part of a file's path."""
    session: Values[str] = Values()
    """A session's id, or its beginning."""
    branch: Values[str | int] = Values()
    """`active`, `dead`, or a branch's number."""
    before: Values[datetime] = Values()
    after: Values[datetime] = Values()
    is_: Values[str] = msgspec.field(default=Values(), name="is")
    """A kind of event, by its name in the table."""
    in_: Values[str] = msgspec.field(default=Values(), name="in")
    """The fields to search: `user`, `answer`, `thinking`, `input`, `output`, `note`."""

    def __bool__(self) -> bool:
        return any(getattr(self, field) for field in self.__struct_fields__)


class Query(msgspec.Struct, frozen=True):
    """A parsed query. Without words (`match`), it finds everything that passes the filters."""

    match: Node | None
    filters: Filters


# --- filters ---

_Read: TypeAlias = Callable[[str, datetime | None], object]


def _choice(what: str, *values: str, **others: str) -> _Read:
    """Return a reader of values from a list, or of synonyms of them."""
    known = {**{value: value for value in values}, **others}

    def read(value: str, _now: datetime | None) -> str:
        if value.lower() in known:
            return known[value.lower()]
        raise ValueError(f"unknown {what} {value!r}", f"choose from {', '.join(known)}")

    return read


def _agent(value: str, now: datetime | None) -> object:
    # Agents of installed packages are found on first use, not when this module is imported.
    return _choice("agent", *AGENTS)(value, now)


def _text(value: str, _now: datetime | None) -> str:
    return value


def _name(value: str, _now: datetime | None) -> Name:
    name = Name(value.removesuffix("*"), value.endswith("*"))
    if not name.text:
        raise ValueError("* needs the beginning of a word", "for example tool:read*")
    return name


def _event(value: str, _now: datetime | None) -> str:
    try:
        return find_kind(value).name
    except UsageError as error:
        reason, _, advice = str(error).partition("; ")
        raise ValueError(reason, advice) from None


def _branch(value: str, _now: datetime | None) -> str | int:
    if value.lower() in ("active", "dead"):
        return value.lower()
    if re.fullmatch("[0-9]{1,9}", value):
        return int(value)
    raise ValueError(f"unknown branch {value!r}", "choose active, dead, or a number")


def _time(value: str, now: datetime | None) -> datetime | None:
    try:
        return parse_time(value, now)
    except UsageError:
        raise ValueError(f"{value!r} is not a time", "try 2026-11-01, 2026-11-01T14:30, 7d, 12h, today") from None


_FILTERS: dict[str, _Read] = {
    "agent": _agent,
    "project": _text,
    "tool": _name,
    "role": _choice("role", "human", "model", "harness", "subagent", "hook", user="human", assistant="model"),
    "model": _text,
    "file": _text,
    "session": _text,
    "branch": _branch,
    "before": _time,
    "after": _time,
    "is": _event,
    "in": _choice("field", "user", "answer", "thinking", "input", "output", "note"),
}
_SYNONYMS = {"has": "is"}
"""Other names that filters have."""
_SUGGESTIONS = {"since": "after", "until": "before"}
"""Filters to suggest for words that are not spelled alike."""


def _suggested_filter(name: str) -> str | None:
    """Return the filter that an unknown word before a colon probably means. Short words resemble too many others."""
    if name in _SUGGESTIONS:
        return _SUGGESTIONS[name]
    near = get_close_matches(name, [known for known in _FILTERS if len(known) > 2], n=1, cutoff=0.8)
    return near[0] if near else None


# --- tokens ---

_SPACE = re.compile(r"\s*")
_PLAIN = re.compile(r'[^\s"()]*')
_FILTER = re.compile(r"([A-Za-z]+):(?!:|//)")


class _Token(NamedTuple):
    kind: str
    """`(`, `)`, `OR`, `filter` or `words`."""
    start: int
    """Its position, including a `-` before it."""
    negated: bool = False
    node: Words | None = None
    """The words; None if there are none, as in `&&`."""
    name: str = ""
    value: object = None


class _Lexer:
    """Splits a query into tokens."""

    def __init__(self, text: str, now: datetime | None) -> None:
        self._text = text
        self._now = now
        self._at = 0
        self._count = 0

    def tokens(self) -> Iterator[_Token]:
        """The tokens in order, including filters."""
        while self._skip_space():
            yield self._token()

    def _skip_space(self) -> bool:
        self._at = _end(_SPACE, self._text, self._at)
        return self._at < len(self._text)

    def _token(self) -> _Token:
        start = self._at
        negated = self._takes_minus()
        char = self._text[self._at]
        if char in "()":
            self._at += 1
            return _Token(char, start, negated)
        if char == '"':
            return _Token("words", start, negated, self._phrase())
        if (found := _FILTER.match(self._text, self._at)) and (token := self._filter(found, start, negated)):
            return token
        return self._word(start, negated)

    def _takes_minus(self) -> bool:
        """Skip a `-` that negates what follows; returns whether there is one. Two do not negate: `--force` is text."""
        if self._text[self._at] != "-" or self._text.startswith("--", self._at):
            return False
        following = self._text[self._at + 1 : self._at + 2]
        if not following or following.isspace() or following == ")":
            self._fail("nothing after -", self._at)
        self._at += 1
        return True

    def _phrase(self) -> Words | None:
        start = self._at
        end = self._closing_quote()
        self._at = end + 1
        prefix = self._text.startswith("*", self._at)
        self._at += prefix
        node = self._words(self._text[start + 1 : end], prefix, start)
        if prefix and node is None:
            self._fail("* needs the beginning of a word", end + 1)
        return node

    def _word(self, start: int, negated: bool) -> _Token:
        begin = self._at
        word = self._plain()
        if word == "OR" and not negated:
            return _Token("OR", start)
        if not word.strip("*"):
            self._fail("* needs the beginning of a word", begin)
        stem = word.removesuffix("*")
        # A star after anything but a letter or digit is not a wildcard: `foo.*`, `**bold**`.
        prefix = stem != word and words_in(stem + "x")[-1] != "x"
        return _Token("words", start, negated, self._words(stem, prefix, begin))

    def _plain(self) -> str:
        """Return the text up to the next space or quote. Balanced parentheses are part of it: `main()`."""
        start, depth = self._at, 0
        while True:
            self._at = _end(_PLAIN, self._text, self._at)
            char = self._text[self._at : self._at + 1]
            if char == "(":
                depth += 1
            elif char == ")" and depth:
                depth -= 1
            else:
                return self._text[start : self._at]
            self._at += 1

    def _words(self, text: str, prefix: bool, position: int) -> Words | None:
        words = tuple(words_in(text))
        self._count += len(words)
        if self._count > MOST_WORDS:
            self._fail(f"more than {MOST_WORDS} words", position)
        return Words(words, prefix) if words else None

    def _filter(self, found: re.Match[str], start: int, negated: bool) -> _Token | None:
        """Return a filter; None if the word before the colon is an ordinary word."""
        name = _SYNONYMS.get(found[1].lower(), found[1].lower())
        if name not in _FILTERS:
            follows = self._text[found.end() : found.end() + 1]
            if follows.strip() and (meant := _suggested_filter(name)):
                advice = f'did you mean {meant}: (to find the word, quote it: "{name}:…")'
                self._fail(f"unknown filter {name}:", found.start(), advice)
            return None
        self._at = position = found.end()
        value = self._value()
        if not value.strip():
            self._fail(f"nothing after {found[0]}", position)
        try:
            return _Token("filter", start, negated, name=name, value=_FILTERS[name](value, self._now))
        except ValueError as error:
            reason, advice = error.args
            self._fail(reason, position, advice)

    def _value(self) -> str:
        """Return the value of a filter, in quotes or up to the next space."""
        if not self._text.startswith('"', self._at):
            return self._plain()
        start, self._at = self._at, self._closing_quote() + 1
        star = self._text.startswith("*", self._at)
        self._at += star
        return self._text[start + 1 : self._at - 1 - star] + "*" * star

    def _closing_quote(self) -> int:
        end = self._text.find('"', self._at + 1)
        if end < 0:
            self._fail('unclosed "', self._at)
        return end

    def _fail(self, reason: str, position: int, advice: str = "") -> NoReturn:
        raise QueryError(reason, self._text, position, advice)


def _end(pattern: re.Pattern[str], text: str, position: int) -> int:
    """Return where the match of a pattern ends; the pattern may match nothing."""
    found = pattern.match(text, position)
    return found.end() if found else position


# --- parser ---


class _Side(NamedTuple):
    """One side of an OR."""

    node: Node | None
    terms: int
    """The number of words, phrases and groups, including empty ones."""
    filters: int


class _Parser:
    """Builds the tree and collects the filters."""

    def __init__(self, text: str, now: datetime | None) -> None:
        self._text = text
        self._tokens = list(_Lexer(text, now).tokens())
        self._next = 0
        self._depth = 0
        self._filters: dict[str, Values[object]] = {}

    def query(self) -> Query:
        """Parse the whole query."""
        match = self._any_of().node
        if (token := self._peek()) is not None:
            self._fail("unmatched )", token.start)
        self._check(match)
        fields = {{"is": "is_", "in": "in_"}.get(name, name): values for name, values in self._filters.items()}
        return Query(match, Filters(**fields))  # type: ignore[arg-type]  # each reader returns the type of its field

    def _peek(self) -> _Token | None:
        return self._tokens[self._next] if self._next < len(self._tokens) else None

    def _any_of(self) -> _Side:
        """Parse alternatives separated by OR, up to a `)` or the end."""
        sides, signs = [self._all_of()], []
        while (token := self._peek()) is not None and token.kind == "OR":
            signs.append(token)
            self._next += 1
            sides.append(self._all_of())
        for sign, before, after in zip(signs, sides, sides[1:], strict=False):
            self._check_side(sign, "before", before)
            self._check_side(sign, "after", after)
        node = _joined(AnyOf, [side.node for side in sides if side.node is not None])
        return _Side(node, sum(side.terms for side in sides), sum(side.filters for side in sides))

    def _check_side(self, sign: _Token, where: str, side: _Side) -> None:
        """Check that a side of an OR is not empty, and not just a filter: filters apply to the whole query."""
        if side.terms:
            return
        if side.filters:
            advice = "filters apply to the whole query, and several of the same name match any of them"
            self._fail(f"only a filter {where} OR", sign.start, advice)
        self._fail(f"nothing {where} OR", sign.start)

    def _all_of(self) -> _Side:
        """Parse consecutive terms, up to an OR, a `)` or the end."""
        nodes: list[Node] = []
        terms = filters = 0
        while (token := self._peek()) is not None and token.kind not in ("OR", ")"):
            self._next += 1
            if token.kind == "filter":
                self._keep(token)
                filters += 1
                continue
            node = self._group(token) if token.kind == "(" else token.node
            terms += 1
            if node is not None:
                nodes.append(Not(node) if token.negated else node)
        return _Side(_joined(All, nodes), terms, filters)

    def _group(self, opening: _Token) -> Node | None:
        position = opening.start + opening.negated
        self._depth += 1
        if self._depth > DEEPEST:
            self._fail(f"more than {DEEPEST} levels of parentheses", position)
        side = self._any_of()
        if self._peek() is None:
            self._fail("unclosed (", position)
        if not side.terms:
            self._fail("nothing between ( and )", position)
        self._next += 1
        self._depth -= 1
        return side.node

    def _keep(self, token: _Token) -> None:
        if self._depth:
            self._fail("a filter in parentheses", token.start, "filters apply to the whole query and go outside")
        known = self._filters.get(token.name, Values())
        if token.negated:
            self._filters[token.name] = Values(known.wanted, (*known.unwanted, token.value))
        else:
            self._filters[token.name] = Values((*known.wanted, token.value), known.unwanted)

    def _check(self, match: Node | None) -> None:
        """Check that there is something to search for."""
        if match is None:
            words = next((token for token in self._tokens if token.kind == "words"), None)
            if words is not None:
                self._fail("nothing to search for: no letters or digits", words.start)
            if not self._filters:
                self._fail("nothing to search for: the query is empty", 0)
        elif not _is_positive(match):
            position = next(token.start for token in self._tokens if token.negated and token.kind != "filter")
            if next(sought(match), None) is None:
                self._fail("nothing to search for: all words are excluded", position)
            self._fail("only excluded words on one side of OR", position, "this would match nearly everything")

    def _fail(self, reason: str, position: int, advice: str = "") -> NoReturn:
        raise QueryError(reason, self._text, position, advice)


def _joined(kind: type[All | AnyOf], nodes: list[Node]) -> Node | None:
    """Combine several nodes into one; nodes of the same kind are merged."""
    if len(nodes) < 2:
        return nodes[0] if nodes else None
    parts: list[Node] = []
    for node in nodes:
        parts.extend(node.parts if isinstance(node, kind) else (node,))
    return kind(tuple(parts))


def parse(text: str, now: datetime | None = None) -> Query:
    """Parse a query, or raise a `QueryError` with the position of the mistake.

    Relative times such as `7d` and `today` are counted from `now`.
    """
    return _Parser(text, now).query()


# --- evaluation ---


def sought(node: Node) -> Iterator[Words]:
    """Yield the words that may occur in a hit: all that are not negated."""
    yield from _leaves(node, True)


def _leaves(node: Node, wanted: bool) -> Iterator[Words]:
    if isinstance(node, Words):
        if wanted:
            yield node
    elif isinstance(node, Not):
        yield from _leaves(node.part, not wanted)
    else:
        for part in node.parts:
            yield from _leaves(part, wanted)


def matches(node: Node, words: Sequence[str]) -> bool:
    """Whether a text with these words (see `words_in`) matches."""
    if isinstance(node, Words):
        return _occurs(node, words)
    if isinstance(node, Not):
        return not matches(node.part, words)
    found = (matches(part, words) for part in node.parts)
    return all(found) if isinstance(node, All) else any(found)


def _occurs(node: Words, words: Sequence[str]) -> bool:
    *before, last = node.words
    for position in range(len(before), len(words)):
        word = words[position]
        is_match = word.startswith(last) if node.prefix else word == last
        if is_match and list(words[position - len(before) : position]) == before:
            return True
    return False


def without_exclusions(node: Node, *, negated: bool = False) -> Node | None:
    """Return a tree without excluded words, which matches at least what this one matches; None if it has no others."""
    if isinstance(node, Words):
        return None if negated else node
    if isinstance(node, Not):
        return without_exclusions(node.part, negated=not negated)
    parts = [without_exclusions(part, negated=negated) for part in node.parts]
    kept = tuple(part for part in parts if part is not None)
    # By De Morgan, the opposite of all parts is any of their opposites.
    if isinstance(node, All) != negated:
        return All(kept) if kept else None
    return AnyOf(kept) if len(kept) == len(parts) else None


# --- translations ---


def to_fts5(node: Node) -> str:
    """Translate the tree to a MATCH expression of SQLite's FTS5.

    In FTS5, NOT is a binary operator: it cannot express everything without a word. So every part becomes an
    expression with a sign, and signs are combined on the way up. The whole of a parsed query is always positive.
    """
    is_positive, text = _signed(node)
    if not is_positive:
        raise ValueError("a query that only excludes words")
    return text


def _is_positive(node: Node) -> bool:
    return _signed(node)[0]


def _signed(node: Node) -> tuple[bool, str]:
    """The sign of a node (True: positive) and its expression."""
    if isinstance(node, Words):
        return True, _quoted(" ".join(node.words)) + "*" * node.prefix
    if isinstance(node, Not):
        is_positive, text = _signed(node.part)
        return not is_positive, text
    signed = [_signed(part) for part in node.parts]
    found = [text for is_positive, text in signed if is_positive]
    absent = [text for is_positive, text in signed if not is_positive]
    if isinstance(node, All):
        # All positive parts and none of the negative ones; or, without positive parts, the opposite of any of them.
        return (True, _without(found, absent)) if found else (False, _grouped("OR", absent))
    # Any of the positive parts; or, by De Morgan, the opposite of: all negative parts and none of the positive ones.
    return (False, _without(absent, found)) if absent else (True, _grouped("OR", found))


def _without(found: list[str], absent: list[str]) -> str:
    """Return an expression for all of the first and none of the second."""
    both = [_grouped("AND", found), *([_grouped("OR", absent)] if absent else [])]
    return _grouped("NOT", both)


def _grouped(operator: str, parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else f"({f' {operator} '.join(parts)})"


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


def to_tsquery(node: Node) -> str:
    """Translate the tree to a `tsquery` of PostgreSQL."""
    if isinstance(node, Words):
        lexemes = [_lexeme(word) for word in node.words]
        lexemes[-1] += ":*" * node.prefix
        return _grouped("<->", lexemes)
    if isinstance(node, Not):
        return f"!({to_tsquery(node.part)})"
    return _grouped("&" if isinstance(node, All) else "|", [to_tsquery(part) for part in node.parts])


def _lexeme(word: str) -> str:
    return "'" + lexeme(word).replace("\\", "\\\\").replace("'", "''") + "'"
