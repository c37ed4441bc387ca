"""JSON-RPC in lines over a program's standard input and output, with requests in both directions.

Nothing here waits without a bound: a call has a time, and a line a largest size.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from typing import Any, Protocol

import msgspec

from ...core.errors import UnspoolError

LONGEST_LINE = 64 * 1024 * 1024
"""Bytes of one message; a longer one is passed over and counted."""
CALL_SECONDS = 60.0
_METHOD_NOT_FOUND = -32601

Params = dict[str, Any]
RequestId = int | str


class CallError(UnspoolError):
    """The other side refused a call, or cannot answer any more."""

    def __init__(self, method: str, message: str, code: int | None = None) -> None:
        super().__init__(f"{method}: {message}")
        self.message = message
        self.code = code


class _Message(msgspec.Struct):
    """All that a line can be: a request, a notice, or an answer."""

    id: RequestId | None = None
    method: str | None = None
    params: Any = None
    result: Any = None
    error: Any = None


class Listener(Protocol):
    """Who hears what the other side says by itself."""

    def notice(self, method: str, params: Params) -> None:
        """Something has happened there."""
        ...

    def request(self, id: RequestId, method: str, params: Params) -> None:
        """It wants an answer, which may be given later with `reply` or `refuse`."""
        ...


class Lines:
    """Bytes as they come, as whole lines; a line that is too long is passed over."""

    def __init__(self, longest: int = LONGEST_LINE) -> None:
        self.longest = longest
        self.passed_over = 0
        self._pieces: list[bytes] = []
        self._size = 0
        self._is_too_long = False

    def feed(self, data: bytes) -> list[bytes]:
        """The lines that are complete with these bytes."""
        *whole, rest = data.split(b"\n")
        found = []
        for piece in whole:
            self._keep(piece)
            if self._is_too_long:
                self.passed_over += 1
            elif self._size:
                found.append(b"".join(self._pieces))
            self._pieces, self._size, self._is_too_long = [], 0, False
        self._keep(rest)
        return found

    def _keep(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._size > self.longest:
            self._is_too_long = True
            self._pieces = []
        elif piece and not self._is_too_long:
            self._pieces.append(piece)


class Connection:
    """One end of a conversation: what it says goes to `write`, and what comes is handed to `take`, line by line."""

    def __init__(self, write: Callable[[bytes], None], listener: Listener) -> None:
        self.is_closed = False
        self._write = write
        self._listener = listener
        self._numbers = itertools.count(1)
        self._open: dict[RequestId, asyncio.Future[Any]] = {}
        self._decoder = msgspec.json.Decoder(_Message)

    async def call(self, method: str, params: Params | None = None, *, seconds: float = CALL_SECONDS) -> Any:
        """Ask for something and wait for the answer. Raises CallError when it is refused, late or impossible."""
        if self.is_closed:
            raise CallError(method, "the program has ended")
        number = next(self._numbers)
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._open[number] = answer
        try:
            async with asyncio.timeout(seconds):
                self._say({"id": number, "method": method, "params": params or {}})
                return await answer
        except TimeoutError as error:
            raise CallError(method, f"no answer within {seconds:g} s") from error
        except _RefusalError as error:
            raise CallError(method, error.message, error.code) from error
        finally:
            self._open.pop(number, None)

    def notify(self, method: str) -> None:
        """Say something that needs no answer."""
        self._say({"method": method})

    def reply(self, id: RequestId, result: Any) -> None:
        """Answer a request."""
        self._say({"id": id, "result": result})

    def refuse(self, id: RequestId, message: str, code: int = _METHOD_NOT_FOUND) -> None:
        """Answer a request with an error."""
        self._say({"id": id, "error": {"code": code, "message": message}})

    def take(self, line: bytes) -> None:
        """Hear a line; an empty one says that there will be no more, and every call that waits is told so."""
        if not line:
            self._close()
            return
        try:
            message = self._decoder.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return  # Something that the program printed between the messages.
        params = message.params if isinstance(message.params, dict) else {}
        if message.method is None:
            self._settle(message)
        elif message.id is None:
            self._listener.notice(message.method, params)
        else:
            self._listener.request(message.id, message.method, params)

    def _say(self, message: Params) -> None:
        self._write(msgspec.json.encode(message))

    def _close(self) -> None:
        self.is_closed = True
        for waiting in self._open.values():
            if not waiting.done():
                waiting.set_exception(_RefusalError({"message": "the program has ended"}))

    def _settle(self, message: _Message) -> None:
        waiting = None if message.id is None else self._open.get(message.id)
        if waiting is None or waiting.done():
            return
        if message.error is None:
            waiting.set_result(message.result)
        else:
            waiting.set_exception(_RefusalError(message.error))


class _RefusalError(Exception):
    """What an answer says where a result should be."""

    def __init__(self, error: object) -> None:
        told = error if isinstance(error, dict) else {}
        self.message = str(told.get("message", error))
        code = told.get("code")
        self.code = code if isinstance(code, int) else None
        super().__init__(self.message)
