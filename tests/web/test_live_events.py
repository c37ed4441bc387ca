"""Live events: every client gets every event once, in order, also after a break; a slow client costs no memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from unspool.core.errors import DamagedError, UnspoolError
from unspool.ingest.sync import Syncer
from unspool.runs.supervisor import Supervisor
from unspool.store.backends.sqlite import SqliteDatabase
from unspool.store.run_log import RunLog
from unspool.store.store import Store
from unspool.web import live_events as live_events_module
from unspool.web.live_events import LiveEvents, RenderEntries
from unspool.web.run_events import RunEvents
from unspool.web.session_query import SessionQuery
from unspool.web.store_pool import StorePool
from unspool.web.transcript_pages import TranscriptPages
from unspool.web.views import LiveEntry

from ..store.homes import log_of
from ..waiting import finished, wait_until_async

MACHINE = ("tests", "tests")
Event = dict[str, Any]


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[Store]:
    store = Store(SqliteDatabase(tmp_path / "sessions.db", machine=MACHINE))
    yield store
    store.close()


def _render(query: SessionQuery, first: int, last: int) -> list[LiveEntry]:
    return [
        LiveEntry(entry.key, entry.index or 0, f"<i>{entry.kind}</i>")
        for entry in TranscriptPages(query).new_entries(first, last)
    ]


@asynccontextmanager
async def _running(path: Path, render: RenderEntries = _render) -> AsyncIterator[LiveEvents]:
    pool = StorePool(lambda: Store(SqliteDatabase(path, machine=MACHINE, read_only=True)), threads=2)
    events = LiveEvents(pool, render)
    task = asyncio.create_task(events.run())
    await asyncio.sleep(0)
    try:
        yield events
    finally:
        events.close()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        pool.close()


def _run(work: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        await finished(work(), "the end of the test")

    asyncio.run(bounded())


async def _next(frames: AsyncIterator[bytes]) -> Event:
    """The next event; other frames are skipped."""
    async for frame in frames:
        lines = frame.decode().strip().split("\n")
        fields = dict(line.split(": ", 1) for line in lines if not line.startswith(":"))
        if "data" in fields:
            event: Event = msgspec.json.decode(fields["data"])
            assert fields["event"] == event["kind"]
            assert fields.get("id", str(event["seq"])) == str(event["seq"])
            return event
    raise AssertionError("the stream has ended")


def _note(store: Store, count: int, start: int = 0) -> None:
    with store.transaction():
        for number in range(start, start + count):
            store.changes.append("session.forgotten", None, name=f"session {number}", agent="claude")


def test_every_client_gets_events_in_order(writer: Store) -> None:
    async def work() -> None:
        async with _running(Path(writer.location)) as events:
            first, second = events.watch(None, []), events.watch(None, [])
            for frames in (first, second):
                assert (await anext(frames)).startswith(b"retry")
            _note(writer, 3)
            events.wake()
            for frames in (first, second):
                assert [(await _next(frames))["name"] for _ in range(3)] == ["session 0", "session 1", "session 2"]

    _run(work)


def test_a_late_client_gets_exactly_what_it_missed(writer: Store) -> None:
    _note(writer, 5)

    async def work() -> None:
        async with _running(Path(writer.location)) as events:
            frames = events.watch(2, [])
            assert [(await _next(frames))["seq"] for _ in range(3)] == [3, 4, 5]
            _note(writer, 1, start=5)
            events.wake()
            assert (await _next(frames))["seq"] == 6

    _run(work)


def test_events_during_a_replay_arrive_once(writer: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_events_module, "_BATCH", 2)
    _note(writer, 6)

    async def work() -> None:
        async with _running(Path(writer.location)) as events:
            frames = events.watch(0, [])
            seen = [(await _next(frames))["seq"] for _ in range(2)]
            _note(writer, 4, start=6)
            events.wake()
            await wait_until_async(lambda: events._sent == 10, "the news being passed on")
            seen += [(await _next(frames))["seq"] for _ in range(8)]
            assert seen == list(range(1, 11))

    _run(work)


def test_a_client_that_connects_while_a_change_is_published_gets_it(writer: Store) -> None:
    """Every new tab opens the stream again, so that this happens whenever an agent works."""
    _note(writer, 1)

    async def work() -> None:
        async with _running(Path(writer.location)) as events:
            early = events.watch(1, [])
            assert (await anext(early)).startswith(b"retry")
            being_made, may_continue = asyncio.Event(), asyncio.Event()
            run = events._pool.run

            async def run_late(work: Any, *args: Any) -> Any:
                if work is live_events_module._frame_of:
                    being_made.set()
                    await may_continue.wait()
                return await run(work, *args)

            events._pool.run = run_late  # type: ignore[method-assign, assignment]
            _note(writer, 1, start=1)
            events.wake()
            await being_made.wait()
            late = events.watch(1, [])
            assert (await anext(late)).startswith(b"retry")
            may_continue.set()
            _note(writer, 1, start=2)
            assert [(await _next(frames))["seq"] for frames in (early, late)] == [2, 2]

    _run(work)


def test_numbers_continue_after_a_restart(writer: Store) -> None:
    async def once(since: int | None, start: int) -> int:
        async with _running(Path(writer.location)) as events:
            frames = events.watch(since, [])
            assert (await anext(frames)).startswith(b"retry")
            _note(writer, 2, start=start)
            events.wake()
            return int([(await _next(frames))["seq"] for _ in range(2)][-1])

    last = asyncio.run(once(None, 0))
    assert asyncio.run(once(last, 2)) == last + 2


@pytest.mark.parametrize("since", [10_000, 1])
def test_a_client_too_far_behind_has_to_reload(writer: Store, since: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_events_module, "_REPLAY_LIMIT", 3)
    _note(writer, 9)

    async def work() -> None:
        async with _running(Path(writer.location)) as events:
            event = await _next(events.watch(since, []))
            assert (event["kind"], event["seq"]) == ("resync", 9)

    _run(work)


def test_a_client_that_does_not_read_falls_behind(writer: Store) -> None:
    async def work() -> None:
        async with _running(Path(writer.location)) as events:
            frames = events.watch(None, [])
            assert (await anext(frames)).startswith(b"retry")
            _note(writer, 2000)
            events.wake()
            await wait_until_async(lambda: events._sent == 2000, "everything being passed on")
            (client,) = events._clients
            assert len(client) <= live_events_module._QUEUE_SIZE
            seen: list[Event] = []
            while not seen or seen[-1]["seq"] < 2000:
                seen.append(await _next(frames))
            assert "resync" in {event["kind"] for event in seen}
            # After the last of them nothing is missing.
            after = max(number for number, event in enumerate(seen) if event["kind"] == "resync")
            numbers = [event["seq"] for event in seen[after:]]
            assert numbers == list(range(numbers[0], 2001))

    _run(work)


def test_messages_arrive_with_text_and_entries(writer: Store, tmp_path: Path) -> None:
    home = tmp_path / "home"
    log_of("claude", 2).write(home)
    Syncer(writer, home).run()
    (row,) = writer.sessions.select()

    async def work() -> None:
        async with _running(Path(writer.location)) as events:
            watching, other = events.watch(None, [row.name]), events.watch(None, [])
            for frames in (watching, other):
                await anext(frames)
            log_of("claude", 3).write(home)
            Syncer(writer, home).run()
            events.wake()
            event = await _next(watching)
            assert event["kind"] == "messages.appended"
            assert (event["first"], event["count"]) == (8, 4)
            assert event["session"]["id"] == row.id
            assert [message["index"] for message in event["messages"]] == [8, 9, 10, 11]
            assert {entry["index"] for entry in event["entries"]} == {8, 9, 11}
            assert event["trail_length"] == 12
            assert "entries" not in await _next(other)

    _run(work)


@pytest.mark.parametrize("error", [DamagedError("a damaged block"), IndexError("a fault of ours")])
def test_a_session_that_cannot_be_shown_holds_up_no_other(writer: Store, tmp_path: Path, error: Exception) -> None:
    """Not even for a client that connects later. Pages that would have shown it fetch everything again."""

    def fail(query: SessionQuery, first: int, last: int) -> list[LiveEntry]:
        raise error

    home = tmp_path / "home"
    log_of("claude", 2).write(home)
    Syncer(writer, home).run()
    (row,) = writer.sessions.select()
    before = writer.changes.last_seq()

    async def work() -> None:
        async with _running(Path(writer.location), fail) as events:
            watching, other = events.watch(None, [row.name]), events.watch(None, [])
            for frames in (watching, other):
                await anext(frames)
            log_of("claude", 3).write(home)
            Syncer(writer, home).run()
            _note(writer, 1)
            events.wake()
            late = events.watch(before, [row.name])
            for frames in (watching, late):
                seen = [await _next(frames)]
                while seen[-1]["kind"] != "session.forgotten":
                    seen.append(await _next(frames))
                assert (seen[0]["kind"], seen[0]["seq"]) == ("resync", before + 1)
                assert [event["seq"] for event in seen] == list(range(before + 1, before + 1 + len(seen)))
            assert (await _next(other))["kind"] == "messages.appended"

    _run(work)


def test_a_store_that_is_unavailable_at_first_is_streamed_later(
    writer: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A database server may start after this one."""
    monkeypatch.setattr(live_events_module, "_POLL_SECONDS", 0)
    faults: list[Exception] = [UnspoolError("the database is starting"), OSError(24, "Too many open files")]

    def open_later() -> Store:
        if faults:
            raise faults.pop(0)
        return Store(SqliteDatabase(Path(writer.location), machine=MACHINE, read_only=True))

    _note(writer, 2)

    async def work() -> None:
        pool = StorePool(open_later, threads=1)
        events = LiveEvents(pool, _render)
        running = asyncio.create_task(events.run())
        opening = asyncio.create_task(anext(events.watch(None, []), b"ended"))
        try:
            await asyncio.wait([running, opening], return_when=asyncio.FIRST_COMPLETED)
            assert not running.done(), "it no longer looks for changes"
            assert (await opening).startswith(b"retry")
            assert events._sent == 2, "changes from before the start are not sent"
        finally:
            events.close()
            running.cancel()
            await asyncio.gather(running, opening, return_exceptions=True)
            pool.close()

    _run(work)
    assert "the database is starting" in caplog.text


def test_disconnected_clients_are_removed(writer: Store) -> None:
    async def work() -> None:
        async with _running(Path(writer.location)) as events:
            frames = events.watch(None, [])
            await anext(frames)
            assert events.clients == 1
            await frames.aclose()  # type: ignore[attr-defined]
            assert events.clients == 0

    _run(work)


def test_a_stream_opened_during_shutdown_ends(writer: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would keep the server from ending, until everything that is still being answered is cut off."""

    async def work() -> None:
        async with _running(Path(writer.location)) as events:
            run, started, answer = events._pool.run, asyncio.Event(), asyncio.Event()

            async def slow(*arguments: Any) -> Any:
                started.set()
                await answer.wait()
                return await run(*arguments)

            monkeypatch.setattr(events._pool, "run", slow)
            opening = asyncio.create_task(anext(events.watch(None, ["some session"]), b"ended"))
            await started.wait()
            events.close()
            answer.set()
            assert await opening == b"ended"
            assert await anext(events.watch(None, []), b"ended") == b"ended"

    _run(work)


def test_a_run_stream_opened_during_shutdown_ends(tmp_path: Path) -> None:
    async def work() -> None:
        log = RunLog(tmp_path / "supervisor.db")
        events = RunEvents(Supervisor(log, {}))
        open_stream = events.watch(None)
        await anext(open_stream)
        events.close()
        assert [frame async for frame in open_stream] == []
        assert [frame async for frame in events.watch(None)] == []
        log.close()

    _run(work)
