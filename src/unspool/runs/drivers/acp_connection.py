"""A connection to a process over the Agent Client Protocol."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ...core.errors import MissingExtraError, UnspoolError
from ...io.decode import decode_object, repair_line
from ...io.pip import install_command
from .line_process import LineProcess

if TYPE_CHECKING:
    from acp.connection import Connection

CALL_SECONDS = 60.0
METHOD_NOT_FOUND = -32601

Params = dict[str, Any]
Handler = Callable[[str, Any, bool], Awaitable[Any]]
"""Handles a method of the agent: its name, its parameters, and whether it is a notification."""


def load_connection_class(extra: str) -> type[Connection]:
    """Import the connection class of the protocol's own package."""
    try:
        from acp.connection import Connection
    except ImportError as error:
        raise MissingExtraError(
            f"Running this agent needs another package; install it with: {install_command(extra)}"
        ) from error
    return Connection


class AgentGoneError(UnspoolError):
    """The agent exited before it responded to a call."""


class AcpConnection:
    """One process of an agent and the connection to it."""

    def __init__(self, title: str, connection_class: type[Connection], handler: Handler) -> None:
        self.title = title
        self._messages: asyncio.Queue[Params | None] = asyncio.Queue()
        self.process = LineProcess(self._receive)
        self._connection_class = connection_class
        self._handler = handler
        self._connection: Connection | None = None

    async def open(self, command: Sequence[str], folder: str, environment: Mapping[str, str], mark: str | None) -> None:
        """Start the process."""
        await self.process.start(command, folder, environment, mark)
        self._connection = self._connection_class(self._handler, _Transport(self.process, self._messages))

    async def close(self) -> None:
        """Close the connection; all pending calls fail."""
        if self._connection is not None:
            await self._connection.close()

    async def call(self, method: str, params: Params, seconds: float | None = CALL_SECONDS) -> Params:
        """Call a method and return its result. `seconds` is None for a turn, which has no time limit."""
        from acp import RequestError

        assert self._connection is not None
        try:
            async with asyncio.timeout(seconds):
                result = await self._connection.send_request(method, params)
        except RequestError as error:
            raise UnspoolError(_describe_error(self.title, method, error)) from error
        except TimeoutError as error:
            raise UnspoolError(f"{self.title} did not respond within {seconds:g} s ({method})") from error
        except ConnectionError as error:
            raise AgentGoneError(f"{self.title} has exited") from error
        return result if isinstance(result, dict) else {}

    def notify(self, method: str, params: Params) -> None:
        """Send a notification at once, ahead of calls that are waiting to be written."""
        self.process.write(_encode({"jsonrpc": "2.0", "method": method, "params": params}))

    def _receive(self, line: bytes) -> None:
        if not line:
            self._messages.put_nowait(None)
        elif message := decode_object(repair_line(line)[0]):  # Anything else was printed between the messages.
            self._messages.put_nowait(message)


class _Transport:
    """Connects the protocol's own package to the process."""

    def __init__(self, process: LineProcess, messages: asyncio.Queue[Params | None]) -> None:
        self._process = process
        self._messages = messages

    async def send(self, message: Params) -> None:
        """Write a message."""
        self._process.write(_encode(message))

    async def receive(self) -> Params | None:
        """Return the next message; None if there are no more."""
        return await self._messages.get()

    async def close(self) -> None:
        """Nothing to close: the driver stops the process."""


def _encode(message: Params) -> bytes:
    # Escaped to ASCII, because a text may contain unpaired surrogates, which cannot be encoded.
    return json.dumps(message, separators=(",", ":")).encode()


def _describe_error(title: str, method: str, error: Any) -> str:
    data = error.data if isinstance(error.data, dict) else {}
    details = text_or_none(data.get("details")) or text_or_none(data.get("message"))
    if error.code == METHOD_NOT_FOUND:
        return f"This version of {title} does not support {method}"
    return f"{title}: {error}" + (f" ({details})" if details and details != str(error) else "")


def text_or_none(value: object) -> str | None:
    """Return a value if it is text."""
    return value if isinstance(value, str) else None


def object_at(params: Params, key: str) -> Params:
    """Return a field if it is an object, otherwise an empty one."""
    value = params.get(key)
    return value if isinstance(value, dict) else {}


def objects_at(params: Params, key: str) -> list[Params]:
    """Return the objects in a field if it is a list."""
    value = params.get(key)
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
