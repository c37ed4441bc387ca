"""JSON-RPC over a process's standard input and output, one message per line, with requests in both directions.

Every call has a timeout.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from typing import Any, Protocol

import msgspec

from ...core import typed_json
from ...core.errors import UnspoolError
from ...io.decode import repair_line

CALL_SECONDS = 60.0
_METHOD_NOT_FOUND = -32601
_EXITED = "the process has exited"

Params = dict[str, Any]
RequestId = int | str


class CallError(UnspoolError):
    """A call failed: the other side returned an error, did not respond in time, or has exited."""

    def __init__(self, method: str, message: str, code: int | None = None) -> None:
        super().__init__(f"{method}: {message}")
        self.message = message
        self.code = code


class _RpcMessage(msgspec.Struct):
    """A request, a notification or a response."""

    id: RequestId | None = None
    method: str | None = None
    params: Any = None
    result: Any = None
    error: Any = None


class RpcHandler(Protocol):
    """Handles notifications and requests of the other side."""

    def handle_notification(self, method: str, params: Params) -> None:
        """Handle a notification."""
        ...

    def handle_request(self, id: RequestId, method: str, params: Params) -> None:
        """Handle a request. The response may be sent later, with `reply` or `reject`."""
        ...


class RpcConnection:
    """One end of a JSON-RPC connection: outgoing lines go to `write`, incoming ones are passed to `receive`."""

    def __init__(self, write: Callable[[bytes], None], handler: RpcHandler) -> None:
        self.is_closed = False
        self._write = write
        self._handler = handler
        self._numbers = itertools.count(1)
        self._pending: dict[RequestId, asyncio.Future[Any]] = {}
        self._decoder = typed_json.decoder(_RpcMessage)

    async def call(self, method: str, params: Params | None = None, *, seconds: float = CALL_SECONDS) -> Any:
        """Call a method and wait for its result. Raises CallError on an error, a timeout or a closed connection."""
        if self.is_closed:
            raise CallError(method, _EXITED)
        number = next(self._numbers)
        response: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._pending[number] = response
        try:
            async with asyncio.timeout(seconds):
                self._send({"id": number, "method": method, "params": params or {}})
                return await response
        except TimeoutError as error:
            raise CallError(method, f"no response within {seconds:g} s") from error
        except _ResponseError as error:
            raise CallError(method, error.message, error.code) from error
        finally:
            self._pending.pop(number, None)

    def notify(self, method: str) -> None:
        """Send a notification, which gets no response."""
        self._send({"method": method})

    def reply(self, id: RequestId, result: Any) -> None:
        """Respond to a request."""
        self._send({"id": id, "result": result})

    def reject(self, id: RequestId, message: str, code: int = _METHOD_NOT_FOUND) -> None:
        """Respond to a request with an error."""
        self._send({"id": id, "error": {"code": code, "message": message}})

    def receive(self, line: bytes) -> None:
        """Handle a line. An empty line marks the end of the output; all pending calls then fail."""
        if not line:
            self._close()
            return
        try:
            message = self._decoder.decode(repair_line(line)[0])
        except (msgspec.DecodeError, RecursionError):
            return  # The program printed something between the messages.
        params = message.params if isinstance(message.params, dict) else {}
        if message.method is None:
            self._resolve(message)
        elif message.id is None:
            self._handler.handle_notification(message.method, params)
        else:
            self._handler.handle_request(message.id, message.method, params)

    def _send(self, message: Params) -> None:
        self._write(msgspec.json.encode(message))

    def _close(self) -> None:
        self.is_closed = True
        for pending in self._pending.values():
            if not pending.done():
                pending.set_exception(_ResponseError({"message": _EXITED}))

    def _resolve(self, message: _RpcMessage) -> None:
        pending = None if message.id is None else self._pending.get(message.id)
        if pending is None or pending.done():
            return
        if message.error is None:
            pending.set_result(message.result)
        else:
            pending.set_exception(_ResponseError(message.error))


class _ResponseError(Exception):
    """The error in a response."""

    def __init__(self, error: object) -> None:
        fields = error if isinstance(error, dict) else {}
        self.message = str(fields.get("message", error))
        code = fields.get("code")
        self.code = code if isinstance(code, int) else None
        super().__init__(self.message)
