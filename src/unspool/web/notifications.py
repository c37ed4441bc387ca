"""Notifications about running agents: the events that cause one, and the browsers that receive it by Web Push.

The text says that an agent needs a person, is done or has failed, and in which session and project, but never what the
agent is about to do. It is encrypted for the browser, so that the push service cannot read it.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable
from http.client import HTTPException
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from ..agents import agent_named
from ..core import typed_json
from ..core.errors import UnspoolError
from ..io.listing import read_file
from ..store.private_files import replace_private

if TYPE_CHECKING:
    from .web_push import PushSubscription

_FILE = "push.json"
MOST_SUBSCRIPTIONS = 20
_GONE = (404, 410)
_HOME = "https://github.com/unspool/unspool"
_log = logging.getLogger("unspool.web")


class AgentNotification(msgspec.Struct, kw_only=True, frozen=True):
    """The content of a notification."""

    title: str
    body: str
    tag: str
    """Notifications with the same tag replace each other, from all tabs and from Web Push."""
    url: str


class _PushFile(msgspec.Struct, kw_only=True):
    """The contents of the file."""

    private: str
    subscriptions: list[dict[str, str]] = []


_Change = Callable[[list[dict[str, str]]], list[dict[str, str]]]
Send = Callable[["PushSubscription", bytes, str, str], int]
TitleOf = Callable[[str, str | None], Awaitable[str | None]]
"""Finds the title of a session, given its agent and id, as lists show it."""


async def _no_title(_agent: str, _session: str | None) -> None:
    return None


def run_name(title: str | None, agent: str, folder: str) -> str:
    """Return the name of a run in notifications: the title of its session as in lists, the agent and the project."""
    agent_and_project = f"{agent_named(agent).info.title} in {Path(folder).name}"
    return f"{title} · {agent_and_project}" if title else agent_and_project


def notification_of(event: dict[str, Any], name: str) -> AgentNotification | None:
    """Return the notification for an event of a run with this name; None if the event needs none."""
    run, kind = event["run"], event["kind"]
    if kind == "asked":
        title, tag = "An agent needs you", f"asked-{event['question'].request.id}"
    elif kind == "turn_ended" and event["outcome"] in _TURN_TITLES:
        title, tag = _TURN_TITLES[event["outcome"]], "turn"
    elif kind == "state" and event["state"] == "ended" and event.get("error"):
        title, tag = "An agent has failed", "turn"
    else:
        return None
    return AgentNotification(title=title, body=name, tag=f"{run}-{tag}", url=f"/runs/{run}")


_TURN_TITLES = {"completed": "An agent is done", "failed": "An agent has failed"}


class PushNotifier:
    """Notifies browsers by Web Push. Pass its `on_event` to `Supervisor.watch`."""

    def __init__(
        self,
        folder: Path,
        contact: str | None,
        run_of: Callable[[str], Any],
        send: Send | None = None,
        title_of: TitleOf = _no_title,
    ) -> None:
        self._path = folder / _FILE
        self._contact = contact or _HOME
        self._run_of = run_of
        self._send = send
        self._title_of = title_of
        self._file: _PushFile | None = None
        self._lock = threading.RLock()
        self._tasks: set[asyncio.Task[None]] = set()

    def public_key(self) -> str:
        """Return the key that browsers need to subscribe. Raises MissingExtraError if packages are missing."""
        from .web_push import public_key

        return public_key(self._loaded().private)

    def subscribe(self, subscription: PushSubscription) -> None:
        """Start to notify a browser."""
        from .web_push import check

        check(subscription)
        added = msgspec.to_builtins(subscription)
        self._change(lambda known: [*_without(known, subscription.endpoint), added][-MOST_SUBSCRIPTIONS:])

    def unsubscribe(self, endpoint: str) -> None:
        """Stop notifying a browser."""
        self._change(lambda known: _without(known, endpoint))

    def on_event(self, event: dict[str, Any]) -> None:
        """Send a notification if an event needs one and any browser has subscribed."""
        if event["kind"] not in ("asked", "turn_ended", "state") or not self._path.exists():
            return
        if notification_of(event, "") is None:
            return
        try:
            run = self._run_of(event["run"])
        except UnspoolError:
            return  # It is a run of an earlier server.
        try:
            subscriptions = self._loaded().subscriptions
        except UnspoolError as error:
            _log.warning("A notification could not be sent: %s", error)
            return
        if subscriptions:
            task = asyncio.get_running_loop().create_task(self._send_all(event, run, list(subscriptions)))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def drain(self) -> None:
        """Wait until everything has been sent."""
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _send_all(self, event: dict[str, Any], run: Any, subscriptions: list[dict[str, str]]) -> None:
        try:
            title = await self._title_of(run.agent, run.session)
        except Exception as error:
            # The store is unavailable. A person must be notified all the same.
            _log.warning("A notification is sent without the title of its session: %s", error)
            title = None
        name = run_name(title, run.agent, run.spec.folder)
        text = msgspec.json.encode(notification_of(event, name))
        await asyncio.gather(*(asyncio.to_thread(self._send_one, one, text) for one in subscriptions))

    def _send_one(self, given: dict[str, str], text: bytes) -> None:
        try:
            from .web_push import PushSubscription, send

            subscription = typed_json.convert(given, PushSubscription)
            status = (self._send or send)(subscription, text, self._loaded().private, self._contact)
        except (OSError, HTTPException, UnspoolError) as error:
            _log.warning("A notification could not be sent to %s: %s", given.get("who"), error)
            return
        if status in _GONE:
            self.unsubscribe(subscription.endpoint)
        elif status >= 400:
            _log.warning("The push service of %s rejected a notification with status %d", subscription.who, status)

    def _loaded(self) -> _PushFile:
        with self._lock:
            if self._file is None:
                self._file = self._read()
            return self._file

    def _read(self) -> _PushFile:
        try:
            return typed_json.decode(read_file(self._path), type=_PushFile)
        except FileNotFoundError:
            from .web_push import new_private_key

            return _PushFile(private=new_private_key())
        except (OSError, ValueError) as error:
            # With a new key, the browsers that have subscribed could not be reached any more.
            raise UnspoolError(f"Cannot read {self._path}: {error}") from error

    def _change(self, change: _Change) -> None:
        """Change the subscriptions in the file. Requests and push services do so in several threads."""
        with self._lock:
            known = self._loaded()
            new = msgspec.structs.replace(known, subscriptions=change(known.subscriptions))
            replace_private(self._path, msgspec.json.encode(new))
            self._file = new


def _without(subscriptions: list[dict[str, str]], endpoint: str) -> list[dict[str, str]]:
    return [one for one in subscriptions if one["endpoint"] != endpoint]


def push_key(notifier: PushNotifier | None) -> tuple[str | None, str | None]:
    """Return the public key for Web Push, or the reason why there is none."""
    if notifier is None:
        return None, "Running agents is disabled on this server."
    try:
        return notifier.public_key(), None
    except UnspoolError as error:
        return None, str(error)
