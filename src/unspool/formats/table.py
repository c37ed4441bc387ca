"""The table of formats, from which the command line, the pages and the documentation are derived."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from ..core.errors import UsageError
from ..core.session import Session

if TYPE_CHECKING:
    from .conversation import LeftOut


class Options(msgspec.Struct, kw_only=True, frozen=True):
    """The options of an export."""

    at: int | None = None
    """Requests: export the context before this message; None for the current one."""
    prompt: str | None = None
    """Requests: a prompt to add."""
    model: str | None = None
    """Requests: replaces the model."""
    root_of: Callable[[Session], str] = lambda session: session.info.parent or session.id
    """Traces: returns the session that a sub-agent belongs to."""
    left_out: Callable[[LeftOut], None] = lambda _: None
    """Requests: called for content that had to be left out."""


class Writer(Protocol):
    """Writes a file with one or more sessions."""

    def begin(self, first: Session | None) -> bytes:
        """Return the data before the first session."""
        ...

    def session(self, session: Session) -> Iterator[bytes]:
        """Yield the data of a session."""
        ...

    def end(self) -> bytes:
        """Return the data after the last session."""
        ...


class Format(msgspec.Struct, kw_only=True, frozen=True):
    """A file format for export."""

    name: str
    """The name on the command line."""
    title: str
    """The name for people."""
    version: str
    """The version of the format that is written."""
    about: str
    """The purpose in a few words."""
    suffix: str
    media_type: str
    open: Callable[[Options], Writer]
    """Starts a file."""
    is_request: bool = False
    """Whether it contains the context at one point, not the whole session."""
    is_binary: bool = False
    """Whether it is a binary format."""


class _Lines:
    """Writes one document per line, so that a file can contain several sessions."""

    def __init__(self, lines: Callable[[Session], Iterator[bytes]]) -> None:
        self.session = lines

    def begin(self, first: Session | None) -> bytes:  # noqa: ARG002
        """Return nothing."""
        return b""

    def end(self) -> bytes:
        """Return nothing."""
        return b""


# The modules are imported on demand: most commands write none of these formats.


def _atif(_: Options) -> Writer:
    from .atif import trajectory

    return _Lines(trajectory)


def _otel(options: Options) -> Writer:
    from .otel import trace_lines

    return _Lines(lambda session: trace_lines(session, options.root_of(session)))


def _inspect(_: Options) -> Writer:
    from .inspect_log import InspectLog

    return InspectLog()


def _openai(options: Options) -> Writer:
    from .openai_request import openai_request

    return _Lines(lambda session: _request(session, options, openai_request))


def _anthropic(options: Options) -> Writer:
    from .anthropic_request import anthropic_request

    return _Lines(lambda session: _request(session, options, anthropic_request))


def _request(session: Session, options: Options, make: Callable[..., dict[str, Any]]) -> Iterator[bytes]:
    from .conversation import conversation_at
    from .values import encode

    conversation = conversation_at(session, options.at, options.prompt)
    for each in conversation.left_out:
        options.left_out(each)
    yield encode(make(conversation, options.model)) + b"\n"


FORMATS = (
    Format(
        name="atif", title="ATIF trajectory", version="ATIF-v1.8", about="trajectories for training and evaluation",
        suffix=".json", media_type="application/json", open=_atif,
    ),
    Format(
        name="otel", title="OpenTelemetry trace", version="OTLP/JSON, semantic conventions 1.41.0",
        about="GenAI spans for tracing tools", suffix=".jsonl", media_type="application/x-ndjson", open=_otel,
    ),
    Format(
        name="inspect", title="Inspect log", version="log format 2", about="logs for `inspect view`",
        suffix=".eval", media_type="application/zip", open=_inspect, is_binary=True,
    ),
    Format(
        name="openai", title="OpenAI request", version="Chat Completions API", about="the context as a request",
        suffix=".json", media_type="application/json", open=_openai, is_request=True,
    ),
    Format(
        name="anthropic", title="Anthropic request", version="Messages API 2023-06-01",
        about="the context as a request",
        suffix=".json", media_type="application/json", open=_anthropic, is_request=True,
    ),
)  # fmt: skip
"""All formats, in the order in which they are listed."""


def find_format(name: str) -> Format:
    """Return the format with this name; raises UsageError."""
    for each in FORMATS:
        if each.name == name:
            return each
    names = [each.name for each in FORMATS]
    near = get_close_matches(name, names, n=1)
    raise UsageError(
        f"Unknown format {name!r}; " + (f"did you mean {near[0]}?" if near else f"choose from {', '.join(names)}")
    )
