"""The graph of how sessions follow from each other: forks, branches, cleared contexts, approved plans, sub-agents.

Sessions are added one by one, as records without their messages. A session that another one names but that was not
added is a node marked as missing. Logs are untrusted and may refer to each other in cycles: every walk here is a loop
that visits a session once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from typing import NamedTuple

import msgspec

from . import model as m
from .session import Session

_END_OF_TIME = datetime.max.replace(tzinfo=UTC)
_LEVELS = 20
"""The maximum number of levels that a row of an outline describes: a chain of sessions may be longer than a line."""


class SessionKey(NamedTuple):
    """Identifies a session: ids are only unique for one agent."""

    agent: str
    id: str


class LineageNode(msgspec.Struct, omit_defaults=True, kw_only=True, rename={"id": "name"}):
    """A session of the graph."""

    agent: str
    """The agent's short name."""
    id: str
    """The session's id."""
    kind: m.Kind = "main"
    """A session of its own, or a sub-agent."""
    title: str | None = None
    """The title of the session."""
    started_at: datetime | None = None
    """The earliest time in its log, which a fork has copied from its origin."""
    ended_at: datetime | None = None
    """The latest time in its log."""
    origin: m.OriginKind = "new"
    """How it started, even if the session it follows from is unknown."""
    usage: m.Usage = m.Usage()
    """Its own tokens, without inherited ones."""
    missing: bool = False
    """True: another session names it, but there is no record of it."""

    @property
    def key(self) -> SessionKey:
        """The agent and the id of the session."""
        return SessionKey(self.agent, self.id)


class LineageEdge(msgspec.Struct, omit_defaults=True, kw_only=True):
    """One session that follows from another session of the same agent."""

    agent: str
    """The agent of both."""
    source: str
    """The id of the earlier session."""
    target: str
    """The id of the session that follows from it."""
    kind: m.OriginKind
    """How the later session follows from the earlier one."""
    evidence: str | None = None
    """The evidence for it in the files."""
    confidence: float = 1.0
    """How certain it is, from 0 to 1."""

    @property
    def ends(self) -> tuple[SessionKey, SessionKey]:
        """Both sessions, the earlier one first."""
        return SessionKey(self.agent, self.source), SessionKey(self.agent, self.target)


class Family(msgspec.Struct, kw_only=True):
    """Sessions that are connected with each other, and with no other session."""

    nodes: list[LineageNode]
    """In the order in which they started; a session comes after the one it was copied from."""
    edges: list[LineageEdge]
    """In the order of the sessions they lead to."""
    usage: m.Usage
    """The tokens of all sessions, each counted once."""


class OutlineRow(NamedTuple):
    """A session in the outline of a family."""

    node: LineageNode
    edge: LineageEdge | None
    """How it follows from the session above it; None at the top."""
    more: list[LineageEdge]
    """How it also follows from sessions elsewhere in the outline."""
    depth: int
    """The number of sessions above it."""
    lasts: tuple[bool, ...]
    """For each level down to this one, whether the session is the last one at it. Only for the lowest levels."""


class Lineage:
    """The graph of all sessions that were added."""

    def __init__(self, heads: Iterable[Session] = ()) -> None:
        self._nodes: dict[SessionKey, LineageNode] = {}
        self._edges: dict[tuple[SessionKey, SessionKey], LineageEdge] = {}
        self._from: dict[SessionKey, dict[SessionKey, None]] = {}
        self._to: dict[SessionKey, dict[SessionKey, None]] = {}
        self._origins: dict[SessionKey, SessionKey] = {}
        """The session that a session names as its origin, which takes precedence over what other sessions say."""
        for head in heads:
            self.add(head)

    def add(self, head: Session) -> list[SessionKey]:
        """Add a session, and return those that it names."""
        info = head.info
        key = SessionKey(info.agent, info.id)
        self._nodes[key] = LineageNode(
            agent=info.agent,
            id=info.id,
            kind=info.kind,
            title=info.title,
            started_at=info.started_at,
            ended_at=info.ended_at,
            origin=info.origin.kind,
            usage=info.usage,
        )
        edges = [edge for edge in edges_of(head) if edge.source != edge.target]
        for edge in edges:
            self._connect(edge, is_own=edge.target == info.id)
        return [end for edge in edges for end in edge.ends if end != key]

    def _connect(self, edge: LineageEdge, *, is_own: bool) -> None:
        ends = source, target = edge.ends
        for key in ends:
            self._nodes.setdefault(key, LineageNode(agent=key.agent, id=key.id, missing=True))
        if is_own and self._origins.setdefault(target, source) == source:
            self._edges.pop(ends, None)
        self._edges.setdefault(ends, edge)
        self._from.setdefault(target, {})[source] = None
        self._to.setdefault(source, {})[target] = None

    # --- one session ---

    def node(self, key: SessionKey) -> LineageNode | None:
        """Return a session of the graph."""
        return self._nodes.get(key)

    def edges_to(self, key: SessionKey) -> list[LineageEdge]:
        """Return the edges that lead to a session."""
        return [self._edges[source, key] for source in self._from.get(key, {})]

    def edges_from(self, key: SessionKey) -> list[LineageEdge]:
        """Return the edges that start at a session."""
        return [self._edges[key, target] for target in self._to.get(key, {})]

    def ancestors(self, key: SessionKey) -> list[LineageNode]:
        """The sessions that a session follows from, directly or not, in the order in which they started."""
        return self._related(key, lambda each: self._from.get(each, {}))

    def descendants(self, key: SessionKey) -> list[LineageNode]:
        """The sessions that follow from a session, directly or not, in the order in which they started."""
        return self._related(key, lambda each: self._to.get(each, {}))

    def _related(self, key: SessionKey, step: Callable[[SessionKey], Iterable[SessionKey]]) -> list[LineageNode]:
        return [self._nodes[each] for each in self._in_order(_reach(key, step)) if each != key]

    # --- families ---

    def family(self, key: SessionKey) -> Family:
        """The session and every session that is connected with it."""
        keys = self._in_order(_reach(key, self._neighbours))
        return Family(
            nodes=[self._nodes[each] for each in keys],
            edges=[edge for each in keys for edge in self.edges_to(each)],
            usage=sum_usage(self._nodes[each].usage for each in keys),
        )

    def families(self) -> Iterator[Family]:
        """All families of more than one session, in the order in which they started."""
        seen: set[SessionKey] = set()
        for key in sorted(self._nodes, key=self._time):
            if key not in seen and next(iter(self._neighbours(key)), None) is not None:
                family = self.family(key)
                seen.update(node.key for node in family.nodes)
                yield family

    def outline(self, family: Family) -> Iterator[OutlineRow]:
        """A family as a tree: each session once, below the session that it most certainly follows from."""
        keys = [node.key for node in family.nodes]
        above = self._parents(keys)
        below: dict[SessionKey | None, list[SessionKey]] = {}
        for key in keys:
            below.setdefault(above[key], []).append(key)
        left: list[tuple[SessionKey, int, tuple[bool, ...]]] = [(key, 0, ()) for key in reversed(below.get(None, []))]
        while left:
            key, depth, lasts = left.pop()
            parent = above[key]
            edge = self._edges[parent, key] if parent is not None else None
            more = [other for other in self.edges_to(key) if other is not edge]
            yield OutlineRow(self._nodes[key], edge, more, depth, lasts)
            children = below.get(key, [])
            left += [(child, depth + 1, (*lasts, child == children[-1])[-_LEVELS:]) for child in reversed(children)]

    def _neighbours(self, key: SessionKey) -> Iterator[SessionKey]:
        yield from self._from.get(key, {})
        yield from self._to.get(key, {})

    def _time(self, key: SessionKey) -> tuple[datetime, str]:
        """Return when a session started. One without a time is as old as the first session that follows from it."""
        nodes = (self._nodes[key], *(self._nodes[each] for each in self._to.get(key, {})))
        if nodes[0].started_at is not None:
            return nodes[0].started_at, key.id
        return min((node.started_at for node in nodes if node.started_at is not None), default=_END_OF_TIME), key.id

    def _in_order(self, keys: Iterable[SessionKey]) -> list[SessionKey]:
        """Sessions by the time when they started. A fork has the time of its origin, and comes after it."""
        found = sorted(keys, key=self._time)
        parents = self._parents(found)
        depths: dict[SessionKey | None, int] = {None: -1}
        for key in found:
            path = []
            each: SessionKey | None = key
            while each is not None and each not in depths:
                path.append(each)
                each = parents[each]
            for each in reversed(path):
                depths[each] = depths[parents[each]] + 1
        return sorted(found, key=lambda key: (self._time(key)[0], depths[key], key.id))

    def _parents(self, keys: Iterable[SessionKey]) -> dict[SessionKey, SessionKey | None]:
        """For each session, the one that it most certainly follows from. Cycles are broken at their oldest session."""
        found = dict.fromkeys(keys)
        parents = {key: self._parent(key, found) for key in found}
        done: set[SessionKey] = set()
        for key in found:
            path: dict[SessionKey, None] = {}
            each: SessionKey | None = key
            while each is not None and each not in done and each not in path:
                path[each] = None
                each = parents[each]
            if each is not None and each in path:
                walked = list(path)
                parents[min(walked[walked.index(each) :], key=self._time)] = None
            done.update(path)
        return parents

    def _parent(self, key: SessionKey, among: Iterable[SessionKey]) -> SessionKey | None:
        sources = [source for source in self._from.get(key, {}) if source in among]
        own = self._origins.get(key)
        if own in sources:
            return own
        return max(sources, key=lambda source: self._edges[source, key].confidence, default=None)


def edges_of(head: Session) -> Iterator[LineageEdge]:
    """Yield the edges that a session records: to itself, and then to the sessions that follow from it."""
    info, origin = head.info, head.info.origin
    if origin.session is not None:
        yield LineageEdge(
            agent=info.agent,
            source=origin.session,
            target=info.id,
            kind=origin.kind,
            evidence=origin.evidence,
            confidence=origin.confidence,
        )
    if info.parent is not None and info.parent != origin.session:
        yield LineageEdge(agent=info.agent, source=info.parent, target=info.id, kind="subagent")
    for clear in head.context_clears:
        if clear.next_session is not None:
            yield LineageEdge(
                agent=info.agent,
                source=info.id,
                target=clear.next_session,
                kind="clear",
                evidence=clear.evidence,
                confidence=clear.confidence,
            )
    for started in head.subagents:
        if started.session is not None:
            yield LineageEdge(
                agent=info.agent, source=info.id, target=started.session, kind="subagent", evidence=started.linked_by
            )


def sum_usage(usages: Iterable[m.Usage]) -> m.Usage:
    """Sum the tokens. A number that no session recorded stays None."""
    totals: dict[str, int] = {}
    for usage in usages:
        for name in m.Usage.__struct_fields__:
            if (value := getattr(usage, name)) is not None:
                totals[name] = totals.get(name, 0) + value
    return m.Usage(**totals)


def _reach(start: SessionKey, step: Callable[[SessionKey], Iterable[SessionKey]]) -> list[SessionKey]:
    """Return everything that can be reached from a session, including itself."""
    found = {start: None}
    left = [start]
    while left:
        for key in step(left.pop()):
            if key not in found:
                found[key] = None
                left.append(key)
    return list(found)
