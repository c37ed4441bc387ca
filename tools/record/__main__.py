"""`python -m tools.record`: record the installed agents, check the recordings, report changes of formats."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import msgspec
from tests.recordings import CORPUS

from unspool.agents import AGENTS
from unspool.core.errors import UnspoolError
from unspool.runs.registry import DRIVERS

from .reading import Check, checked, known_shapes, shapes_in
from .scenes import SCENES, Scene, truth_of
from .shapes import Difference, compare
from .stages import LOCAL_GEMINI, staged

SCENE_SECONDS = 900.0
_SHOWN = 12
"""The maximum number of field names that a row of the report shows; `--json` has all."""


class Report(msgspec.Struct, kw_only=True):
    """The report on all recordings."""

    missing: dict[str, str] = {}
    """Agents that cannot be run, and why."""
    recordings: list[Check] = []
    differences: list[Difference] = []


def main() -> int:
    """Record and compare. Returns 1 if a recording failed or unspool reads one incorrectly."""
    parser = argparse.ArgumentParser(prog="python -m tools.record", description=__doc__)
    parser.add_argument("--agent", action="append", choices=list(AGENTS), help="only this agent (may be repeated)")
    parser.add_argument("--scene", action="append", choices=[scene.name for scene in SCENES], help="only this scene")
    parser.add_argument("--to", type=Path, default=Path("build/recordings"), metavar="DIR")
    parser.add_argument("--compare-only", action="store_true", help="compare the recordings in DIR without recording")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of tables")
    args = parser.parse_args()
    report = Report()
    for agent in args.agent or list(AGENTS):
        if args.compare_only:
            folders = sorted(path.parent for path in args.to.glob(f"{agent}/*/*/truth.json"))
            report.recordings += map(checked, folders)
        else:
            scenes = [scene for scene in SCENES if agent in scene.agents and scene.name in (args.scene or scene.name)]
            report.recordings += record(agent, scenes, args.to, report.missing)
        report.differences += differences(agent, args.to)
    if args.json:
        sys.stdout.buffer.write(msgspec.json.encode(report) + b"\n")
    else:
        print("\n".join(lines_of(report)))
    return int(any(not check.is_ok for check in report.recordings))


# --- recording --------------------------------------------------------------------------------------------------------


def record(agent: str, scenes: list[Scene], target: Path, missing: dict[str, str]) -> Iterator[Check]:
    """Record the scenes with an agent, if it is installed."""
    if agent == "gemini" and LOCAL_GEMINI.exists():
        os.environ.setdefault("UNSPOOL_GEMINI_PROGRAM", str(LOCAL_GEMINI.absolute()))
    try:
        DRIVERS[agent].find_program()
        DRIVERS[agent].create()
    except UnspoolError as error:
        missing[agent] = str(error)
        return
    for scene in scenes:
        print(f"{agent} {scene.name} …", file=sys.stderr)
        try:
            folder = asyncio.run(asyncio.wait_for(play(agent, scene, target), SCENE_SECONDS))
        except (UnspoolError, AssertionError, TimeoutError, OSError) as error:
            yield Check(agent=agent, version="?", scenario=scene.name, failed=str(error)[:300] or type(error).__name__)
        else:
            yield checked(folder)


async def play(agent: str, scene: Scene, target: Path) -> Path:
    """Record a scene, and return the folder. An earlier recording of the scene is replaced."""
    with tempfile.TemporaryDirectory(prefix="unspool-record-") as temporary:
        async with staged(agent, Path(temporary)) as stage:
            await scene.play(stage)
        version = stage.version or "unknown"
        folder = target / agent / version / scene.name
        shutil.rmtree(folder, ignore_errors=True)
        stage.save(folder / "home")
    truth = truth_of(scene, agent, version)
    (folder / "truth.json").write_text(json.dumps(truth, indent=1, ensure_ascii=False) + "\n")
    return folder


# --- report -----------------------------------------------------------------------------------------------------------


def differences(agent: str, target: Path) -> Iterator[Difference]:
    """Yield the differences of each recorded version from the corpus."""
    if target.resolve() == CORPUS.resolve():
        return
    new = shapes_in(target, agent)
    older = known_shapes(agent) if new else {}
    for version, shape in new.items():
        yield compare(agent, version, shape, older)


def lines_of(report: Report) -> Iterator[str]:
    """Yield the lines of the report as tables."""
    yield f"{'agent':<8}{'version':<12}{'scene':<14}result"
    for check in report.recordings:
        problems = [f"{count} {reason}" for reason, count in check.problems.items()]
        result = check.failed or "; ".join([*check.wrong, *problems]) or "ok"
        yield f"{check.agent:<8}{check.version:<12}{check.scenario:<14}{result}"
    for agent, why in report.missing.items():
        yield f"{agent:<8}{'-':<12}{'-':<14}not recorded: {why}"
    for found in report.differences:
        yield ""
        yield f"{found.agent} {found.version}, compared with the recordings up to {found.compared_with or 'nothing'}"
        yield from _lines_of(found)


def _lines_of(found: Difference) -> Iterator[str]:
    rows = [("new kind", kind, "") for kind in found.new_kinds]
    rows += [("new fields", kind, _some(names)) for kind, names in found.new_fields.items()]
    rows += [("not seen", kind, f"last in {version}") for kind, version in found.gone_kinds.items()]
    rows += [("gone fields", kind, _some(names)) for kind, names in found.gone_fields.items()]
    yield from (f"  {what:<12} {kind:<40} {names}".rstrip() for what, kind, names in rows)
    if not rows:
        yield "  no differences"


def _some(names: list[str]) -> str:
    more = f", … {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


if __name__ == "__main__":
    sys.exit(main())
