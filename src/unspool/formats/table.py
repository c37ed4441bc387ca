"""The table of formats. The command line, the pages and the documentation derive from it."""

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
    """What can be chosen about an export."""

    at: int | None = None
    """Requests: the message before which the context is taken; None: now."""
    prompt: str | None = None
    """Requests: a prompt to add."""
    model: str | None = None
    """Requests: another model."""
    root_of: Callable[[Session], str] = lambda session: session.info.parent or session.id
    """Traces: the session that a sub-agent belongs to."""
    left_out: Callable[[LeftOut], None] = lambda _: None
    """Requests: called with what could not be kept."""


class Writer(Protocol):
    """Writes one file, with one session or several."""

    def begin(self, first: Session | None) -> bytes:
        """What comes before the first session."""
        ...

    def session(self, session: Session) -> Iterator[bytes]:
        """A session."""
        ...

    def end(self) -> bytes:
        """What comes after the last session."""
        ...


class Format(msgspec.Struct, kw_only=True, frozen=True):
    """A format."""

    name: str
    """Its name on the command line."""
    title: str
    """What it is called."""
    version: str
    """The version of the format that is written."""
    about: str
    """What it is for, in a few words."""
    suffix: str
    media_type: str
    open: Callable[[Options], Writer]
    """Starts a file."""
    is_request: bool = False
    """It has the context at one point, not the whole session."""
    is_binary: bool = False
    """It is not text."""


class _Lines:
    """A file with one document per line, so that several sessions can be in it."""

    def __init__(self, lines: Callable[[Session], Iterator[bytes]]) -> None:
        self.session = lines

    def begin(self, first: Session | None) -> bytes:  # noqa: ARG002
        """Nothing."""
        return b""

    def end(self) -> bytes:
        """Nothing."""
        return b""


# The modules are loaded when they are used: most commands write none of these formats.


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
    """The format with a name."""
    for each in FORMATS:
        if each.name == name:
            return each
    names = [each.name for each in FORMATS]
    near = get_close_matches(name, names, n=1)
    raise UsageError(
        f"Unknown format {name!r}; " + (f"did you mean {near[0]}?" if near else f"choose from {', '.join(names)}")
    )
