"""Every recording of a real agent: the truth holds, nothing is lost, and nothing changed unnoticed."""

from __future__ import annotations

from functools import lru_cache
from itertools import groupby

import jsonschema
import msgspec
import pytest

from unspool.agents import SessionRef
from unspool.core.json_schema import json_schema
from unspool.core.session import Session
from unspool.core.stream import StreamLine, collect
from unspool.library import Library
from unspool.testing import Recording, wrong_contexts, wrong_counts, wrong_facts

from .recordings import recordings
from .regen import golden, golden_path
from .validation import check_line, check_session

ALL = recordings()
SESSION = msgspec.json.Decoder(Session)
STREAM_LINE = msgspec.json.Decoder(StreamLine)
encode = msgspec.json.Encoder().encode
VERSIONS = {key: list(found) for key, found in groupby(ALL, key=lambda recording: recording[:2])}


@lru_cache(maxsize=1)
def found_in(recording: Recording) -> tuple[Library, list[SessionRef]]:
    """The sessions that are found in a recording."""
    library = Library(recording.home)
    return library, list(library.refs())


@lru_cache(maxsize=1)
def sessions_of(recording: Recording) -> list[Session]:
    """The sessions of a recording; not to be changed."""
    library, refs = found_in(recording)
    return [session for ref in refs for session in library.load_all(ref)]


@lru_cache(maxsize=1)
def texts_of(recording: Recording) -> list[bytes]:
    """Their records."""
    return [encode(session) for session in sessions_of(recording)]


def test_all_recordings_share_one_schema() -> None:
    """A JSON Schema of the draft it names."""
    jsonschema.Draft202012Validator.check_schema(json_schema())


def test_there_are_recordings_of_every_agent() -> None:
    """An empty corpus would let every other test here pass."""
    assert {recording.agent for recording in ALL} == {"claude", "codex", "gemini"}
    assert len(ALL) > 900
    assert sum(len(recording.contexts) for recording in ALL) > 3_000


def check_events_match_the_truth_file(recording: Recording) -> None:
    """The events equal those of the truth file, as far as the logs can show them; each once."""
    assert wrong_counts(recording.truth, sessions_of(recording)) == []


def check_facts_match_the_truth_file(recording: Recording) -> None:
    """Tokens, origins, attached texts and first prompts, where the recording states them."""
    assert wrong_facts(recording.truth, sessions_of(recording)) == []


def check_contexts_match_the_recorded_requests(recording: Recording) -> None:
    """The context before each reply is what the agent really sent."""
    assert wrong_contexts(recording.contexts, sessions_of(recording)) == []


def check_lists_have_the_titles_of_the_sessions(recording: Recording) -> None:
    """Though a list reads only as much of a file as it needs."""
    library, refs = found_in(recording)
    titles = {session.id: session.title for session in sessions_of(recording)}
    assert {ref.id: library.peek(ref).title for ref in refs} == {ref.id: titles[ref.id] for ref in refs}


def check_records_are_valid(recording: Recording) -> None:
    """Whole and in pieces a session is what the published schema says, and says the same."""
    library, refs = found_in(recording)
    for text in texts_of(recording):
        check_session(text)
    collected: list[bytes] = []
    for ref in refs:
        lines = [encode(line) for line in library.stream(ref)]
        for text in lines:
            check_line(text)
        collected += [encode(session) for session in collect(map(STREAM_LINE.decode, lines))]
    assert collected == texts_of(recording)


def check_records_survive_a_round_trip(recording: Recording) -> None:
    """Decoding an exported record gives the same record."""
    for text in texts_of(recording):
        assert encode(SESSION.decode(text)) == text


def check_every_line_is_accounted_for(recording: Recording) -> None:
    """Each line of a log is a record of some kind or a damaged line; and each log is part of some session."""
    read = set()
    for session in sessions_of(recording):
        salvaged = sum(problem.reason == "salvaged" for problem in session.problems)
        for file in session.info.files:
            read.add(file.path)
            if file.role == "log" and not file.path.endswith(".json"):
                # A damaged line that was partly salvaged yields one record or more.
                assert sum(file.records.values()) - (file.lines - file.damaged) == salvaged, file.path
    _, refs = found_in(recording)
    assert {str(path) for ref in refs for path in (ref.path, *ref.more)} <= read


def check_no_problems_in_the_agents_files(recording: Recording) -> None:
    """Nothing the agents write is unknown to us. Damage is what a crash or a careless rewrite left."""
    problems = {problem.reason for session in sessions_of(recording) for problem in session.problems}
    assert problems <= {"torn", "salvaged", "leftover", "missing-parent", "duplicate-id"}


CHECKS = (
    check_events_match_the_truth_file,
    check_facts_match_the_truth_file,
    check_contexts_match_the_recorded_requests,
    check_lists_have_the_titles_of_the_sessions,
    check_records_are_valid,
    check_records_survive_a_round_trip,
    check_every_line_is_accounted_for,
    check_no_problems_in_the_agents_files,
)


@pytest.mark.parametrize("recording", ALL, ids=lambda recording: recording.name)
def test_recording(recording: Recording) -> None:
    """Everything that has to be true of a recording, in one test: thousands of tests cost more than what they check."""
    failures = []
    for check in CHECKS:
        try:
            check(recording)
        except AssertionError as failure:
            failures.append(failure)
    if failures:
        raise ExceptionGroup(recording.name, failures)


@pytest.mark.parametrize(("agent", "version"), VERSIONS)
def test_golden_outlines(agent: str, version: str) -> None:
    """The record of a recording changes only on purpose: `make regen` writes the outlines again."""
    assert golden_path(agent, version).read_text(encoding="utf-8") == golden(VERSIONS[agent, version])
