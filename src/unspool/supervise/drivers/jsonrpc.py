"""JSON-RPC in lines over a program's standard input and output, with requests in both directions.

Nothing here waits without a bound: a call has a time, a line a largest size, and a program that reads nothing is told
apart from one that is slow.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from typing import Any, Protocol

import msgspec

from ...errors import UnspoolError

LONGEST_LINE = 64 * 1024 * 1024
"""Bytes of one message; a longer one is passed over and counted."""
CALL_SECONDS = 30.0
_CHUNK = 256 * 1024
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
    """One end of a conversation. `listen` must run for anything to be heard."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, listener: Listener) -> None:
        self.lines = Lines()
        self.is_closed = False
        self._reader = reader
        self._writer = writer
        self._listener = listener
        self._numbers = itertools.count(1)
        self._open: dict[RequestId, asyncio.Future[Any]] = {}
        self._decoder = msgspec.json.Decoder(_Message)

    async def listen(self) -> None:
        """Hear what comes until the other side closes; then every call that waits is told so."""
        try:
            while data := await self._reader.read(_CHUNK):
                for line in self.lines.feed(data):
                    self._take(line)
        except OSError:
            pass
        finally:
            self.is_closed = True
            for waiting in self._open.values():
                if not waiting.done():
                    waiting.set_exception(ConnectionResetError("the program has ended"))
                    waiting.exception()  # Whoever called may have given up; that is no error of its own.
            self._open.clear()

    async def call(self, method: str, params: Params | None = None, *, seconds: float = CALL_SECONDS) -> Any:
        """Ask for something and wait for the answer. Raises CallError when it is refused, late or impossible."""
        number = next(self._numbers)
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._open[number] = answer
        try:
            async with asyncio.timeout(seconds):
                await self._write({"id": number, "method": method, "params": params or {}})
                return await answer
        except TimeoutError as error:
            raise CallError(method, f"no answer within {seconds:g} s") from error
        except OSError as error:
            raise CallError(method, "the program has ended") from error
        except _Refused as error:
            raise CallError(method, error.message, error.code) from error
        finally:
            self._open.pop(number, None)

    async def notify(self, method: str, params: Params | None = None) -> None:
        """Say something that needs no answer."""
        await self._tell({"method": method} if params is None else {"method": method, "params": params})

    async def reply(self, id: RequestId, result: Any) -> None:
        """Answer a request."""
        await self._tell({"id": id, "result": result})

    async def refuse(self, id: RequestId, message: str, code: int = _METHOD_NOT_FOUND) -> None:
        """Answer a request with an error."""
        await self._tell({"id": id, "error": {"code": code, "message": message}})

    def close(self) -> None:
        """Nothing more will be said; what was said before is still delivered."""
        self._writer.close()

    async def _tell(self, message: Params) -> None:
        try:
            async with asyncio.timeout(CALL_SECONDS):
                await self._write(message)
        except (OSError, TimeoutError) as error:
            raise CallError(str(message.get("method", "answer")), "the program does not listen any more") from error

    async def _write(self, message: Params) -> None:
        if self.is_closed or self._writer.is_closing():
            raise ConnectionResetError("the program has ended")
        self._writer.write(msgspec.json.encode(message) + b"\n")
        await self._writer.drain()

    def _take(self, line: bytes) -> None:
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

    def _settle(self, message: _Message) -> None:
        waiting = None if message.id is None else self._open.get(message.id)
        if waiting is None or waiting.done():
            return
        if message.error is None:
            waiting.set_result(message.result)
        else:
            waiting.set_exception(_Refused(message.error))


class _Refused(Exception):
    """What an answer says where a result should be."""

    def __init__(self, error: object) -> None:
        told = error if isinstance(error, dict) else {}
        self.message = str(told.get("message", error))
        code = told.get("code")
        self.code = code if isinstance(code, int) else None
        super().__init__(self.message)
