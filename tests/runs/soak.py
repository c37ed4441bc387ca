"""Many agents for a while, with everything that can go wrong: `python -m tests.runs.soak 20 500`.

Agents are scripted, everything else is real: the server, its processes, its log, the events it sends. Turns are
answered from two places at once, interrupted, killed; listeners come and go; the server itself is killed and started
again. At the end nothing may be missing, double or left behind.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import random
import re
import signal
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx

from unspool.library import Library
from unspool.store.decision_log import FILE_NAME
from unspool.store.run_log import RunLog

from ..waiting import PATIENCE, finished
from .scripted import install

_TOKEN = re.compile(r"token-[0-9a-z-]+")
_MOST_FAILURES = 500
"""In a row: more than a restart of the server causes."""
_MARK = "GEMINI_SOAK_MARK"
_KINDS = ("say", "ask", "kill", "ask", "interrupt", "say")
"""The turns, in turn."""


class Soak:
    """One run of it."""

    def __init__(self, folder: Path, agents: int, turns: int, seed: int, restarts: int) -> None:
        self.folder = folder
        self.agents = agents
        self.turns = turns
        self.restarts = restarts
        self.chance = random.Random(seed)
        self.home = folder / "home"
        self.home.mkdir()
        self.mark = f"{os.getpid()}-{seed}"
        self.address = ""
        self.token = ""
        self.server: asyncio.subprocess.Process | None = None
        self.is_up = asyncio.Event()
        self.left = turns
        self.completed: set[str] = set()
        """Messages whose turn went to its end: they have to be in the log, once."""
        self.least = turns // 4
        """So many of them there have to be, however busy the machine is."""
        self.kinds = itertools.cycle(_KINDS)
        self.sent: set[str] = set()
        self.answers: Counter[str] = Counter()
        self.heard: list[dict[int, dict[str, Any]]] = []
        self.memory: list[int] = []
        self.faults: list[str] = []
        self.counts: Counter[str] = Counter()

    # --- the server ---

    async def start_server(self) -> None:
        environ = {
            **os.environ, "UNSPOOL_DATA": str(self.folder / "data"), "IDLE_TIMEOUT": "0", "WAITING_TIMEOUT": "0",
            "UNSPOOL_GEMINI_PROGRAM": str(install(self.folder)), _MARK: self.mark,
        }  # fmt: skip
        command = ["-m", "unspool", "serve", "--home", str(self.home), "--no-browser", "--port", "0"]
        with open(self.folder / "server.log", "ab") as log:
            self.server = await asyncio.create_subprocess_exec(
                sys.executable, *command, env=environ, stdout=asyncio.subprocess.PIPE, stderr=log
            )
        assert self.server.stdout is not None
        line = (await finished(self.server.stdout.readline(), "the server to start")).decode()
        found = re.match(r"(http://\S+)/open\?token=(\S+)", line)
        assert found is not None, (line, (self.folder / "server.log").read_text()[-2000:])
        self.address, self.token = found[1], found[2]
        self.is_up.set()

    async def disturb_server(self) -> None:
        """Kill it, or end it, a few times."""
        for number in range(self.restarts):
            target = self.turns * (number + 1) / (self.restarts + 1)
            while self.turns - self.left < target:
                await asyncio.sleep(0.02)
            self.is_up.clear()
            assert self.server is not None
            self.server.send_signal(signal.SIGKILL if number % 2 == 0 else signal.SIGTERM)
            await self.server.wait()
            self.counts["restarts"] += 1
            await self.start_server()

    def note_memory(self) -> None:
        if self.server is not None:
            with suppress(OSError):
                found = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{self.server.pid}/status").read_text())
                if found:
                    self.memory.append(int(found[1]) * 1024)

    # --- people ---

    def client(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(
            base_url=self.address, headers={"authorization": f"Bearer {self.token}"}, timeout=PATIENCE
        )

    async def listen(self, place: int) -> None:
        """Receive all events, with breaks; continue from the last number."""
        self.heard.append({})
        last = 0
        while True:
            await self.is_up.wait()
            with suppress(httpx.HTTPError):
                async with self.client() as client:
                    until = time.monotonic() + self.chance.uniform(0.5, 4)
                    headers = {"last-event-id": str(last)} if last else {}
                    async with client.stream("GET", "/api/runs/events?since=0", headers=headers) as response:
                        async for line in response.aiter_lines():
                            if line.startswith("data: "):
                                last = self._hear(place, json.loads(line[6:]), last)
                            if time.monotonic() > until:
                                break
            await asyncio.sleep(0.02)

    def _hear(self, place: int, event: dict[str, Any], last: int) -> int:
        seq = event["seq"]
        if seq is None:
            return last
        if seq in self.heard[place]:
            self.faults.append(f"event {seq} came twice to listener {place}")
        if event["kind"] == "resync":
            self.faults.append(f"listener {place} lost its way at {seq}")
        if seq <= last:
            self.faults.append(f"event {seq} came after {last}")
        self.heard[place][seq] = event
        return int(seq)

    def is_enough(self) -> bool:
        """Whether everything has happened often enough, however long it took."""
        kinds = all(self.counts[how] for how in _KINDS)
        has_restarted = self.counts["restarts"] >= self.restarts
        return self.left <= 0 and len(self.completed) >= self.least and has_restarted and kinds

    async def work(self, number: int) -> None:
        """One agent, turn after turn; a new program for the same session whenever the old one is gone."""
        session: str | None = None
        run: str | None = None
        project = self.folder / f"project{number}"
        project.mkdir()
        failures = 0
        while not self.is_enough():
            await self.is_up.wait()
            try:
                async with self.client() as client:
                    if run is None:
                        run, session = await self._begin(client, project, session)
                    run, session = await self._turn(client, run, session, number)
                    failures = 0
            except (httpx.HTTPError, AssertionError, TimeoutError, KeyError) as error:
                self.counts[f"again after {type(error).__name__}"] += 1
                run = None
                failures += 1
                if failures > _MOST_FAILURES:
                    self.faults.append(f"agent {number} cannot be started: {error}")
                    return
                if failures > 3:
                    # It was killed before it wrote anything: there is nothing to resume.
                    session = None
                await asyncio.sleep(0.02)

    async def _begin(self, client: httpx.AsyncClient, project: Path, session: str | None) -> tuple[str, str | None]:
        body: dict[str, Any] = {"agent": "gemini", "folder": str(project), "who": "soak"}
        if session is not None:
            # The store may not have it yet, but the supervisor does.
            body = {"session": session, "who": "soak", "take_over": True}
        response = await client.post("/api/runs", json=body)
        assert response.status_code == 201, response.text
        self.counts["starts"] += 1
        found = response.json()["run"]
        return found["id"], found["session"] or session

    async def _turn(
        self, client: httpx.AsyncClient, run: str, session: str | None, number: int
    ) -> tuple[str | None, str | None]:
        """Say something and see it through."""
        self.left -= 1
        token = f"token-{number}-{self.left}"
        how = next(self.kinds)
        script = {
            "say": f"say {token}", "ask": f"say a {token} ;; ask true ;; say b",
            "interrupt": f"say {token} ;; sleep 300", "kill": f"say {token} ;; sleep 300",
        }[how]  # fmt: skip
        response = await client.post(f"/api/runs/{run}/messages", json={"id": token, "text": script, "who": "soak"})
        if response.status_code in (404, 409):
            return None, session
        assert response.status_code == 201, response.text
        self.sent.add(token)
        self.counts[how] += 1
        if how in ("interrupt", "kill"):
            await asyncio.sleep(self.chance.uniform(0.05, 0.3))
        view = (await client.get(f"/api/runs/{run}")).json()
        session = view["session"] or session
        if how == "kill":
            with suppress(ProcessLookupError, TypeError):
                os.kill(view["pid"], signal.SIGKILL)
        if how == "interrupt":
            await client.post(f"/api/runs/{run}/interrupt", json={"who": "soak"})
        return await self._see_through(client, run, session, token, how)

    async def _see_through(
        self, client: httpx.AsyncClient, run: str, session: str | None, token: str, how: str
    ) -> tuple[str | None, str | None]:
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            view = (await client.get(f"/api/runs/{run}")).json()
            session = view["session"] or session
            for question in view["questions"]:
                await self._answer_from_two_places(run, question)
            if view["state"] == "ended":
                return None, session
            if view["state"] in ("idle", "interrupted"):
                if how in ("say", "ask") and view["state"] == "idle":
                    self.completed.add(token)
                return run, session
            await asyncio.sleep(0.03)
        self.faults.append(f"{token} ({how}) did not end: {view['state']}")
        return None, session

    async def _answer_from_two_places(self, run: str, question: dict[str, Any]) -> None:
        request = question["asked"]["id"]
        verdicts = ["allow", self.chance.choice(("allow", "deny"))]
        async with self.client() as one, self.client() as other:
            bodies = [{"digest": question["digest"], "verdict": verdict, "who": verdict} for verdict in verdicts]
            results = await asyncio.gather(
                *(
                    client.post(f"/api/runs/{run}/answers/{request}", json=body)
                    for client, body in zip((one, other), bodies, strict=True)
                )
            )
        won = sum(result.status_code == 200 for result in results)
        if won > 1:
            self.faults.append(f"{run}/{request} was answered {won} times")
        self.answers[f"{run}/{request}"] += won

    # --- all of it ---

    async def run(self) -> None:
        await self.start_server()
        listeners = [asyncio.create_task(self.listen(place)) for place in range(3)]
        chaos = asyncio.create_task(self.disturb_server())
        workers = [asyncio.create_task(self.work(number)) for number in range(self.agents)]
        while (await asyncio.wait(workers, timeout=0.5))[1]:
            self.note_memory()
        await asyncio.gather(*workers)
        await chaos
        for listener in listeners:
            listener.cancel()
        await asyncio.gather(*listeners, return_exceptions=True)
        await self._catch_up()
        assert self.server is not None
        self.server.send_signal(signal.SIGTERM)
        await finished(self.server.wait(), "the server to end")
        self._check()

    async def _catch_up(self) -> None:
        """Every listener gets the rest."""
        async with self.client() as client:
            seq = (await client.get("/api/runs")).json()["seq"]
            for place, heard in enumerate(self.heard):
                since = max(heard, default=0)
                if since >= seq:
                    continue
                async with client.stream("GET", f"/api/runs/events?since={since}") as response:
                    async for line in response.aiter_lines():
                        if line.startswith("data: "):
                            since = self._hear(place, json.loads(line[6:]), since)
                        if since >= seq:
                            break

    def _check(self) -> None:
        events = self.heard[0]
        if any(set(heard) != set(events) for heard in self.heard):
            self.faults.append(f"listeners heard different things: {[len(heard) for heard in self.heard]}")
        sent = Counter(event["message"]["id"] for event in events.values() if event["kind"] == "sent")
        self.faults += [f"{id} was written down {count} times" for id, count in sent.items() if count != 1]
        self.faults += [f"{id} is not in the run log" for id in self.sent - set(sent)]
        answered = Counter(_name(event) for event in events.values() if event["kind"] == "answered")
        self.faults += [f"{id} was answered {count} times" for id, count in answered.items() if count > 1]
        unknown = [id for id, won in self.answers.items() if won and id not in answered]
        self.faults += [f"the answer to {id} is not in the run log" for id in unknown]
        asked = {_name(event) for event in events.values() if event["kind"] == "asked"}
        closed = set(answered) | {_name(event) for event in events.values() if event["kind"] == "withdrawn"}
        ended = {event["run"] for event in events.values() if event.get("state") == "ended"}
        self.faults += [f"{id} was never answered" for id in asked - closed if id.partition("/")[0] not in ended]
        log = RunLog(self.folder / "data" / FILE_NAME)
        self.faults += [f"agent {run.id} never ended" for run in log.open_runs()]
        log.close()
        self._check_logs()
        left = _marked(self.mark)
        self.faults += [f"process {pid} is left" for pid in left]
        if len(self.memory) > 8:
            early, late = max(self.memory[: len(self.memory) // 3]), max(self.memory[-len(self.memory) // 3 :])
            self.counts["memory early MB"], self.counts["memory late MB"] = early >> 20, late >> 20
            if late > 1.5 * early + (40 << 20):
                self.faults.append(f"memory grew from {early >> 20} to {late >> 20} MB")

    def _check_logs(self) -> None:
        library = Library(self.home)
        said: Counter[str] = Counter()
        for ref in library.refs():
            for message in library.load(ref).messages:
                if message.author == "human":
                    texts = [getattr(block, "text", "") for block in message.blocks]
                    said.update({found for text in texts for found in _TOKEN.findall(text)})
        self.faults += [f"{token} is in the logs {said[token]} times" for token in self.completed if said[token] != 1]


def _name(event: dict[str, Any]) -> str:
    """A question: agents number theirs each for itself."""
    request = event["question"]["asked"]["id"] if event["kind"] == "asked" else event["request"]
    return f"{event['run']}/{request}"


def _marked(mark: str) -> list[int]:
    """Processes that were started by this soak, zombies included."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if f"{_MARK}={mark}".encode() in (path / "environ").read_bytes().split(b"\0"):
                found.append(int(path.name))
    return found


def soak(folder: Path, agents: int, turns: int, seed: int = 1, restarts: int = 4, seconds: float = 1200) -> Soak:
    """Run it; what went wrong is in `faults`."""

    async def bounded() -> Soak:
        # What it needs of the loop is made inside of it.
        one = Soak(folder, agents, turns, seed, restarts)
        try:
            await asyncio.wait_for(one.run(), seconds)
        finally:
            if one.server is not None and one.server.returncode is None:
                one.server.kill()
                await one.server.wait()
        return one

    return asyncio.run(bounded())


def main() -> int:
    """From the command line."""
    agents, turns = (int(word) for word in [*sys.argv[1:], *("20", "500")[len(sys.argv) - 1 :]][:2])
    with tempfile.TemporaryDirectory(prefix="unspool-soak-") as folder:
        began = time.monotonic()
        done = soak(Path(folder), agents, turns)
        print(f"{agents} agents, {turns} turns in {time.monotonic() - began:.0f} s: {dict(done.counts)}")
        print(f"{len(done.sent)} messages, {len(done.completed)} complete, {sum(done.answers.values())} answers")
        for fault in done.faults[:20]:
            print(f"  {fault}")
        return 1 if done.faults else 0


if __name__ == "__main__":
    raise SystemExit(main())
