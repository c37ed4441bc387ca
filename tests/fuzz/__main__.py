"""Fuzzes the readers, and everything behind them, for some time: `python -m tests.fuzz --seconds 3600`.

Each failure that is new is reported with a home that reproduces it, under `build/fuzz`. A home that should stay tested
belongs in `tests/fuzz/corpus`.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from unspool.agents import AGENTS

from .checks import HomeCheck
from .homes import place, write_beside
from .mutations import mutated
from .records import Mutation, random_mutation, seeds

_AT_ONCE = 30
"""Sessions in a home. What fails there is looked for in homes with one session."""
_RESULTS = Path(__file__).parents[2] / "build" / "fuzz"
_VARYING = re.compile(r"/\S+|[0-9a-f]{8}-[0-9a-f-]{27,}|\d+|b'.*?'|b\".*?\"")


def main(argv: Sequence[str] | None = None) -> int:
    """Fuzz until the time is over; 1 if something failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=3600, help="how long (default: an hour)")
    parser.add_argument("--agent", choices=list(AGENTS), action="append", help="only this agent; may be repeated")
    parser.add_argument("--seed", type=int, default=None, help="repeat a run (default: a random one)")
    args = parser.parse_args(argv)
    seed = args.seed if args.seed is not None else random.randrange(1 << 32)
    print(f"seed {seed}, results in {_RESULTS}", flush=True)
    fuzzer = _Fuzzer(random.Random(seed))
    end = time.monotonic() + args.seconds
    while time.monotonic() < end:
        for agent in args.agent or AGENTS:
            fuzzer.run(agent)
    print(f"{fuzzer.count:,} sessions, {len(fuzzer.known)} different failures")
    return 1 if fuzzer.known else 0


class _Fuzzer:
    """Makes homes and checks them."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self.count = 0
        self.known: set[str] = set()
        """The failures, without what differs between two of the same kind."""

    def run(self, agent: str) -> None:
        """Check a home full of sessions, and report what is new."""
        logs = [self._log(agent) for _ in range(_AT_ONCE)]
        self.count += len(logs)
        with tempfile.TemporaryDirectory() as folder:
            os.environ["UNSPOOL_DATA"] = f"{folder}/data"
            home = Path(folder, "home")
            for number, (mutation, data) in enumerate(logs):
                place(home, mutation.seed, data, str(number))
            write_beside(home, agent, self._chance)
            found = self._new(HomeCheck(home).run(whole=True))
        if found:
            self._reproduce(logs, found)

    def _log(self, agent: str) -> tuple[Mutation, bytes]:
        if self._chance.random() < 0.5:
            mutation = random_mutation(agent, self._chance)
            return mutation, mutation.data
        seed = self._chance.choice(seeds(agent))
        return Mutation(seed, ("any",), "random changes"), mutated(seed, self._chance)

    def _new(self, failures: list[str]) -> dict[str, str]:
        kinds = {_VARYING.sub("*", failure)[:600]: failure for failure in failures}
        return {kind: failure for kind, failure in kinds.items() if kind not in self.known}

    def _reproduce(self, logs: list[tuple[Mutation, bytes]], found: dict[str, str]) -> None:
        """Find single sessions that fail; what only happens with all of them together is kept whole."""
        for mutation, data in logs:
            with tempfile.TemporaryDirectory() as folder:
                place(Path(folder), mutation.seed, data, "one")
                alone = self._new(HomeCheck(Path(folder)).run(whole=True))
                if alone:
                    self._report(Path(folder), str(mutation), alone)
        for kind in found.keys() - self.known:
            self.known.add(kind)
            print(f"\nonly with other sessions: {found[kind]}", flush=True)

    def _report(self, home: Path, what: str, failures: dict[str, str]) -> None:
        self.known.update(failures)
        text = "\n\n".join((what, *failures.values()))
        target = _RESULTS / hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=6).hexdigest()
        shutil.copytree(home, target, dirs_exist_ok=True)
        (target / "failure.txt").write_text(text, encoding="utf-8", errors="replace")
        print(f"\n{target}\n{text}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
