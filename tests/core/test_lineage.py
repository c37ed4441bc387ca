"""The graph of sessions: what follows from what, also where logs name each other in circles."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

from unspool.core import model as m
from unspool.core.lineage import Lineage, LineageNode, SessionKey, sum_usage
from unspool.core.session import Session
from unspool.library import Library
from unspool.testing import ClaudeLog
from unspool.testing.builders import START

from ..forks import family, raw_output_tokens


def head(id: str, minute: int | None = None, origin: m.Origin | None = None, **fields: Any) -> Session:
    """A session without messages."""
    at = START + timedelta(minutes=minute) if minute is not None else None
    info = m.SessionInfo(
        id=id,
        agent="some",
        kind="main",
        versions=[],
        project=None,
        title=id,
        started_at=at,
        ended_at=at,
        models=[],
        origin=origin or m.Origin(kind="new"),
        status="complete",
        tip=None,
        tip_rule="agent",
        usage=m.Usage(output=1),
        files=[],
    )
    lists: dict[str, Any] = {field: [] for field in Session.__struct_fields__ if field not in ("schema", "info")}
    return Session(info=info, **(lists | {"compaction": m.Compaction([])} | fields))


def fork(of: str, confidence: float = 1.0) -> m.Origin:
    """How a fork started."""
    return m.Origin(kind="fork", session=of, evidence="copied lines", confidence=confidence)


def key(id: str) -> SessionKey:
    """A session of the agent of `head`."""
    return SessionKey("some", id)


def ids(nodes: list[LineageNode]) -> list[str]:
    """The ids of some sessions."""
    return [node.id for node in nodes]


def drawn(lineage: Lineage, id: str) -> list[str]:
    """The outline of a family, with a dash for each level."""
    return [f"{'-' * row.depth}{row.node.id}" for row in lineage.outline(lineage.family(key(id)))]


def test_a_fork_of_a_fork() -> None:
    """With the way up and the way down from each session, in the order of time."""
    sessions = [head("c", 2, fork("b")), head("a", 0), head("twin", 3, fork("a")), head("b", 1, fork("a")), head("x")]
    lineage = Lineage(sessions)
    assert ids(lineage.ancestors(key("c"))) == ["a", "b"]
    assert ids(lineage.descendants(key("a"))) == ["b", "c", "twin"]
    assert drawn(lineage, "twin") == ["a", "-b", "--c", "-twin"]
    assert [ids(family.nodes) for family in lineage.families()] == [["a", "b", "c", "twin"]]
    assert ids(lineage.family(key("x")).nodes) == ["x"]


def test_a_fork_comes_after_its_origin() -> None:
    """Though it has copied the time of the first message, too."""
    lineage = Lineage([head("a", 0, fork("b")), head("b", 0, fork("c")), head("c", 0)])
    assert ids(lineage.family(key("a")).nodes) == ["c", "b", "a"]


def test_both_sides_of_a_clear_are_one_edge() -> None:
    """What the new session says about itself outranks what the old one says, in any order."""
    clear = m.ContextClear(after_message_index=None, evidence="history", confidence=0.7, next_session="new")
    plan = m.Origin(kind="clear", session="old", evidence="approved plan", confidence=0.9)
    sessions = [head("old", 0, context_clears=[clear]), head("new", 1, plan), head("fork", 2, fork("new"))]
    for order in (sessions, sessions[::-1]):
        lineage = Lineage(order)
        (edge,) = lineage.edges_to(key("new"))
        assert (edge.source, edge.evidence, edge.confidence) == ("old", "approved plan", 0.9)
        assert drawn(lineage, "new") == ["old", "-new", "--fork"]
    (edge,) = Lineage(sessions[:1]).edges_from(key("old"))
    assert (edge.target, edge.kind, edge.evidence, edge.confidence) == ("new", "clear", "history", 0.7)


def test_subagents() -> None:
    """Whether the session that started them says so, or they themselves."""
    started = m.Subagent(message_index=0, tool_use_id=None, agent_id=None, session="inner", linked_by="folder")
    inner = head("inner", 1)
    other = head("other", 2)
    other.info.parent = "outer"
    lineage = Lineage([head("outer", 0, subagents=[started]), inner, other])
    assert [(edge.target, edge.kind) for edge in lineage.edges_from(key("outer"))] == [
        ("inner", "subagent"),
        ("other", "subagent"),
    ]


def test_a_session_that_is_not_there() -> None:
    """It is a node, as old as what follows from it, and replaced when it is added."""
    lineage = Lineage([head("b", 1, fork("a")), head("c", 2, fork("a"))])
    assert [(node.id, node.missing) for node in lineage.family(key("b")).nodes] == [
        ("a", True),
        ("b", False),
        ("c", False),
    ]
    lineage.add(head("a", 0))
    node = lineage.node(key("a"))
    assert node is not None
    assert not node.missing


def test_agents_are_apart() -> None:
    """Two of them may use the same id."""
    other = head("a", 1)
    other.info.agent = "other"
    lineage = Lineage([head("a", 0), head("b", 1, fork("a")), other])
    assert ids(lineage.family(SessionKey("other", "a")).nodes) == ["a"]


def test_several_origins() -> None:
    """A session is drawn once, below the origin that it names itself; the other one is not lost."""
    clear = m.ContextClear(after_message_index=None, evidence="logs", confidence=1.0, next_session="c")
    lineage = Lineage([head("a", 0, context_clears=[clear]), head("b", 1), head("c", 2, fork("b", 0.5))])
    rows = list(lineage.outline(lineage.family(key("a"))))
    assert [(row.node.id, row.depth) for row in rows] == [("a", 0), ("b", 0), ("c", 1)]
    assert rows[2].edge is not None
    assert rows[2].edge.source == "b"
    assert [edge.source for edge in rows[2].more] == ["a"]


def test_circles() -> None:
    """Every session is drawn once, and every edge is kept."""
    lineage = Lineage(
        [head("a", 0, fork("c")), head("b", 1, fork("a")), head("c", 2, fork("b")), head("d", 3, fork("d"))]
    )
    assert drawn(lineage, "c") == ["a", "-b", "--c"]
    assert ids(lineage.ancestors(key("a"))) == ["b", "c"]
    assert ids(lineage.descendants(key("a"))) == ["b", "c"]
    assert len(lineage.family(key("a")).edges) == 3
    assert ids(lineage.family(key("d")).nodes) == ["d"]


def test_long_chains() -> None:
    """Nothing is recursive, and a row describes only the levels next to it."""
    lineage = Lineage([head("0", 0), *(head(str(n), n, fork(str(n - 1))) for n in range(1, 3_000))])
    rows = list(lineage.outline(lineage.family(key("1500"))))
    assert [row.depth for row in rows] == list(range(3_000))
    assert max(len(row.lasts) for row in rows) == 20


def test_tokens_of_a_family_count_once(tmp_path: Path) -> None:
    """Forks repeat the usage of what they copied; the sum equals a raw count of all replies."""
    logs = family()
    for log in logs:
        log.write(tmp_path)
    library = Library(tmp_path)
    lineage = Lineage(library.load(ref) for ref in library.refs())
    (found,) = lineage.families()
    assert {node.id for node in found.nodes} == {log.session for log in logs}
    assert found.usage.output == raw_output_tokens(*logs)


def test_unknown_usage_stays_unknown() -> None:
    """It is not zero."""
    total = sum_usage([m.Usage(input=1), m.Usage(input=2, output=0), m.Usage()])
    assert (total.input, total.output, total.cache_read) == (3, 0, None)


def test_a_session_alone(tmp_path: Path) -> None:
    """It is no family."""
    log = ClaudeLog()
    log.user("hello")
    assert list(Lineage([log.load(tmp_path)]).families()) == []
