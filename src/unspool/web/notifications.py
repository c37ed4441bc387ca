"""Notifications about running agents: which events are worth one, and who gets it by Web Push.

The text says that an agent needs a person, is done or has failed, in which session and project; never what it wants to
do. It is encrypted for the browser, so that the push service cannot read it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from ..agents import agent_named
from ..core.errors import MissingExtraError, UnspoolError
from ..store.private_files import replace_private

if TYPE_CHECKING:
    from .web_push import PushSubscription

_FILE = "push.json"
MOST_SUBSCRIPTIONS = 20
_GONE = (404, 410)
_HOME = "https://github.com/unspool/unspool"
_log = logging.getLogger("unspool.web")


class AgentNotification(msgspec.Struct, kw_only=True, frozen=True):
    """What a notification says."""

    title: str
    body: str
    tag: str
    """Notifications with the same tag replace each other, in all tabs and on all paths."""
    url: str


class _Kept(msgspec.Struct, kw_only=True):
    """The contents of the file."""

    private: str
    subscriptions: list[dict[str, str]] = []


Send = Callable[["PushSubscription", bytes, str, str], int]
TitleOf = Callable[[str, str | None], Awaitable[str | None]]
"""Finds the title of a session, given its agent and id, as lists show it."""


async def _no_title(_agent: str, _session: str | None) -> None:
    return None


def run_name(title: str | None, agent: str, folder: str) -> str:
    """What a notification calls a run: the title of its session as lists show it, the agent and the project."""
    place = f"{agent_named(agent).info.title} in {Path(folder).name}"
    return f"{title} · {place}" if title else place


def notification_of(event: dict[str, Any], name: str) -> AgentNotification | None:
    """The notification for an event of a run with this name; None if nobody waits for it."""
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
    """The browsers that are notified by Web Push. Its `on_event` watches a supervisor."""

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
        self._kept: _Kept | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    def public_key(self) -> str:
        """The key that browsers need to subscribe. Raises MissingExtraError without the packages for it."""
        from .web_push import public_key

        return public_key(self._loaded().private)

    def subscribe(self, subscription: PushSubscription) -> None:
        """Notify a browser from now on."""
        from .web_push import check

        check(subscription)
        kept = self._loaded()
        others = [one for one in kept.subscriptions if one["endpoint"] != subscription.endpoint]
        kept.subscriptions = [*others, msgspec.to_builtins(subscription)][-MOST_SUBSCRIPTIONS:]
        self._save(kept)

    def unsubscribe(self, endpoint: str) -> None:
        """Notify a browser no longer."""
        kept = self._loaded()
        kept.subscriptions = [one for one in kept.subscriptions if one["endpoint"] != endpoint]
        self._save(kept)

    def on_event(self, event: dict[str, Any]) -> None:
        """Send a notification, if an event is worth one and a device has subscribed."""
        if event["kind"] not in ("asked", "turn_ended", "state") or not self._path.exists():
            return
        try:
            run = self._run_of(event["run"])
            is_worth_it = notification_of(event, "") is not None
            subscriptions = self._loaded().subscriptions
        except UnspoolError:
            return  # The run of an earlier server, or the packages are no longer installed.
        if is_worth_it and subscriptions:
            task = asyncio.get_running_loop().create_task(self._send_all(event, run, list(subscriptions)))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def settle(self) -> None:
        """Wait until everything has been sent."""
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _send_all(self, event: dict[str, Any], run: Any, subscriptions: list[dict[str, str]]) -> None:
        name = run_name(await self._title_of(run.agent, run.session), run.agent, run.spec.folder)
        text = msgspec.json.encode(notification_of(event, name))
        await asyncio.gather(*(asyncio.to_thread(self._send_one, one, text) for one in subscriptions))

    def _send_one(self, given: dict[str, str], text: bytes) -> None:
        from .web_push import PushSubscription, send

        subscription = msgspec.convert(given, PushSubscription)
        try:
            status = (self._send or send)(subscription, text, self._loaded().private, self._contact)
        except (OSError, UnspoolError) as error:
            _log.warning("A notification could not be sent to %s: %s", subscription.who, error)
            return
        if status in _GONE:
            self.unsubscribe(subscription.endpoint)
        elif status >= 400:
            _log.warning("The push service of %s rejected a notification with status %d", subscription.who, status)

    def _loaded(self) -> _Kept:
        if self._kept is None:
            try:
                self._kept = msgspec.json.decode(self._path.read_bytes(), type=_Kept)
            except (OSError, msgspec.DecodeError):
                from .web_push import new_private_key

                self._kept = _Kept(private=new_private_key())
        return self._kept

    def _save(self, kept: _Kept) -> None:
        replace_private(self._path, msgspec.json.encode(kept))


def push_key(notifier: PushNotifier | None) -> tuple[str | None, str | None]:
    """The public key for Web Push, or why there is none."""
    if notifier is None:
        return None, "This server runs no agents."
    try:
        return notifier.public_key(), None
    except MissingExtraError as error:
        return None, str(error)
