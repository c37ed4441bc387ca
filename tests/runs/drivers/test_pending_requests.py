"""Pending requests: cancelled once, and only if they were shown."""

from __future__ import annotations

import msgspec

from unspool.core import model as m
from unspool.runs.drivers.pending_requests import PendingRequests
from unspool.runs.drivers.settings import ReportedSettings
from unspool.runs.protocol import DriverEvent, PermissionRequest, RequestCancelled, SettingsChanged


def request(id: str) -> PermissionRequest:
    """A request with this id."""
    return PermissionRequest(id=id, kind="tool", tool="t", title="t", action=m.Action(raw_input=msgspec.Raw(b"{}")))


def test_a_request_that_was_shown_is_cancelled_once() -> None:
    """One that was answered is not cancelled any more."""
    events: list[DriverEvent] = []
    pending = PendingRequests[str]("ask", events.append)
    first, second = request(pending.new_id()), request(pending.new_id())
    assert (first.id, second.id) == ("ask-1", "ask-2")
    for one in (first, second):
        pending.add(one.id, one.id.upper())
        pending.show(one)
    assert pending.take("ask-1") == "ASK-1"
    assert pending.take("ask-1") is None
    assert pending.cancel_where() == ["ASK-2"]
    assert pending.cancel("ask-2") is None
    assert events == [first, second, RequestCancelled("ask-2")]


def test_a_request_that_was_never_shown_disappears_silently() -> None:
    """It is not shown later either."""
    events: list[DriverEvent] = []
    pending = PendingRequests[str]("ask", events.append)
    pending.add("ask-1", "main")
    pending.add("ask-2", "other")
    assert pending.cancel_where(lambda value: value == "main") == ["main"]
    pending.show(request("ask-1"))
    assert events == []
    assert "ask-1" not in pending
    assert "ask-2" in pending
    assert pending.get("ask-2") == "other"


def test_settings_are_reported_when_they_change() -> None:
    """Not during the start, and only what is different."""
    events: list[DriverEvent] = []
    settings = ReportedSettings(events.append)
    settings.update("default", "large")
    settings.is_reporting = True
    settings.update("plan", "large")
    settings.update("plan")
    settings.update(model="small")
    settings.update()
    assert events == [SettingsChanged(mode="plan"), SettingsChanged(model="small")]
    assert (settings.mode, settings.model) == ("plan", "small")
