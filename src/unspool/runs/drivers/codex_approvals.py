"""Shows the permission requests of Codex to a person, and sends the answers and the reasons of denials."""

from __future__ import annotations

import asyncio

from ...core.errors import UsageError
from ..protocol import Answer, Emit, PermissionRequest
from ..tasks import BackgroundTasks
from .codex_config import find_script, is_script_open
from .codex_messages import CodexMessages, CodexSender
from .codex_requests import CodexRequest, build_answer, build_request
from .codex_threads import CodexThreads, interrupt_turn
from .jsonrpc import RpcConnection
from .pending_requests import PendingRequests

SCRIPT_SECONDS = 0.3
"""How long to wait for the end of a script after its request was denied, if its call is not known."""
SCRIPT_POLLS = 100
"""How many times the session file is searched for the call of a script."""
SCRIPT_POLL_SECONDS = 0.05


class CodexApprovals:
    """The permission requests of one Codex process."""

    def __init__(
        self,
        connection: RpcConnection,
        threads: CodexThreads,
        messages: CodexMessages,
        sender: CodexSender,
        tasks: BackgroundTasks,
        emit: Emit,
    ) -> None:
        self._connection = connection
        self._threads = threads
        self._messages = messages
        self._sender = sender
        self._tasks = tasks
        self._emit = emit
        self._pending = PendingRequests[CodexRequest]("asked", emit)

    # --- requests ---

    def open(self, request: CodexRequest) -> None:
        """Show a request."""
        id = self._pending.new_id()
        shown = build_request(id, request, self._threads.subagent(request.thread))
        self._pending.add(id, request)
        if request.is_in_script:
            self._tasks.run(self._show_with_call(shown, request))
        else:
            self._pending.show(shown)

    async def _show_with_call(self, shown: PermissionRequest, request: CodexRequest) -> None:
        """Show the request of a script once the session file has the call of the script, which takes a moment."""
        text = shown.action.command or shown.action.path or ""
        for _ in range(SCRIPT_POLLS):
            call = await asyncio.to_thread(find_script, self._threads.paths.get(request.thread, ""), text)
            if call is not None:
                shown.call_id = call
                break
            await asyncio.sleep(SCRIPT_POLL_SECONDS)
        self._pending.show(shown)

    def cancel_thread(self, thread: str) -> None:
        """Cancel the requests of a thread whose turn has ended."""
        self._pending.cancel_where(lambda request: request.thread == thread)

    def resolve(self, id: object) -> None:
        """Cancel a request that Codex has resolved itself."""
        self._pending.cancel_where(lambda request: request.id == id)

    def cancel_all(self) -> None:
        """Cancel all requests, because Codex has exited."""
        self._pending.cancel_where()

    # --- answers ---

    async def answer(self, shown: PermissionRequest, answer: Answer) -> None:
        """Answer a request. The reason of a denial is sent first, so that the model reads both at once."""
        if answer.input is not None:
            raise UsageError("The input of a request cannot be changed in Codex")
        request = self._pending.take(shown.id)
        if request is None:
            return
        reason = answer.reason if answer.verdict == "deny" else None
        if answer.reason and answer.verdict == "deny_stop":
            self._messages.keep_reason(request.thread, shown.id, answer.reason)
        if reason and not request.is_in_script:
            await self._sender.steer_reason(request.thread, request.turn, shown.id, reason)
        self._connection.reply(request.id, build_answer(request, answer))
        if reason and request.is_in_script:
            # A message would make the model abandon the running script; wait until the denial has ended the script.
            self._tasks.run(self._steer_after_script(shown, request, reason))
        if answer.verdict == "deny_stop" and not request.can_be_cancelled and request.turn:
            await interrupt_turn(self._connection, self._threads, self._emit, request.thread, request.turn)

    async def _steer_after_script(self, shown: PermissionRequest, request: CodexRequest, reason: str) -> None:
        await self._wait_for_script(shown.call_id, request)
        await self._sender.steer_reason(request.thread, request.turn, shown.id, reason)

    async def _wait_for_script(self, call: str | None, request: CodexRequest) -> None:
        """Wait until a script has ended, as the session file shows."""
        if call is None:
            await asyncio.sleep(SCRIPT_SECONDS)
            return
        path = self._threads.paths.get(request.thread, "")
        for _ in range(SCRIPT_POLLS):
            if self._threads.has_ended(request.turn) or not await asyncio.to_thread(is_script_open, path, call):
                return
            await asyncio.sleep(SCRIPT_POLL_SECONDS)
