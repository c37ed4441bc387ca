"""The package as others get it: built, installed into an environment that has nothing, and used."""

from __future__ import annotations

import email
import importlib.metadata
import json
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import unspool

from .waiting import PATIENCE

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel and the sdist."""
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT)
    return folder


def run(*command: str | Path, cwd: Path | None = None) -> str:
    """What a command prints; it has to succeed."""
    done = subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, cwd=cwd, check=False, timeout=PATIENCE
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def required_by(wheel: Path) -> set[str]:
    """The distributions that a wheel needs, and what those need, without any extras."""
    with zipfile.ZipFile(wheel) as archive:
        (metadata,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        lines = email.message_from_bytes(archive.read(metadata)).get_all("Requires-Dist", [])
    found: set[str] = set()
    open_lines = list(lines)
    while open_lines:
        requirement = Requirement(open_lines.pop())
        if requirement.name in found or (requirement.marker and not requirement.marker.evaluate({"extra": ""})):
            continue
        found.add(requirement.name)
        open_lines += importlib.metadata.requires(requirement.name) or []
    return found


def extras_of(wheel: Path) -> dict[str, set[str]]:
    """What each extra brings, directly or through another extra."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = email.message_from_bytes(archive.read(name))
    lines = [Requirement(line) for line in metadata.get_all("Requires-Dist", [])]
    found: dict[str, set[str]] = {}
    for extra in metadata.get_all("Provides-Extra", []):
        found[extra] = set()
        waiting = [extra]
        while waiting:
            wanted = waiting.pop()
            for line in lines:
                if line.marker and line.marker.evaluate({"extra": wanted}) and not line.marker.evaluate({"extra": ""}):
                    waiting += line.extras if line.name == "unspool" else ()
                    found[extra] |= {line.name} - {"unspool"}
    return found


def copy_installed(name: str, packages: Path) -> None:
    """Install what is installed here elsewhere; an index may be out of reach, and the versions are the tested ones."""
    for file in importlib.metadata.files(name) or []:
        if ".." not in file.parts and "__pycache__" not in file.parts:
            target = packages / file
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file.locate(), target)


def test_the_wheel_holds_the_package_and_nothing_else(built: Path) -> None:
    """Code, types, templates and samples."""
    (wheel,) = built.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    tops = {name.split("/")[0] for name in names}
    version = f"unspool-{unspool.__version__}"
    # Spark looks for data sources in packages with such a name.
    assert tops == {"unspool", "pyspark_unspool", f"{version}.data", f"{version}.dist-info"}
    pages = {name.rsplit("/", 1)[-1] for name in names if name.startswith(f"{version}.data/data/share/man/man1/")}
    assert pages == {path.name for path in (ROOT / "docs" / "man").glob("*.1")} != set()
    for needed in (
        "unspool/py.typed",
        "unspool/render/templates/session.html",
        "unspool/samples/.gemini/projects.json",
    ):
        assert needed in names
    assert not [name for name in names if name.endswith(".pyc")]


def test_the_extras(built: Path) -> None:
    """`all` has everything but the packages for tables, and the plain package has nothing of any extra."""
    (wheel,) = built.glob("*.whl")
    extras = extras_of(wheel)
    agents, tables = {"agents", "claude", "codex", "gemini"}, {"data", "spark"}
    assert set(extras) == {"web", "postgres", "push", "phone", "mcp", "all"} | agents | tables
    assert extras["agents"] == extras["claude"] | extras["codex"] | extras["gemini"]
    # The packages for tables are larger than everything else together.
    assert extras["all"] == set().union(*extras.values()) - extras["spark"]
    assert extras["spark"] == extras["data"] | {"pyspark"}
    assert extras["spark"] & required_by(wheel) == set()
    assert required_by(wheel) & extras["all"] == set()


def test_make_run_installs_what_the_web_app_needs() -> None:
    """It works with nothing but the pinned packages, which are installed without their dependencies."""
    lines = (ROOT / "requirements" / "run.txt").read_text(encoding="utf-8").splitlines()
    pinned = {line.partition("==")[0].lower().replace("_", "-") for line in lines if line and not line.startswith("#")}
    assert pinned & {"faker", "polyfactory"} == set()
    program = """
import importlib.metadata, sys
pinned = {*sys.argv[1].split(), "unspool", "pip", "setuptools"}
by_module = importlib.metadata.packages_distributions()
class OnlyPinned:
    def find_spec(self, name, path=None, target=None):
        packages = {each.lower().replace("_", "-") for each in by_module.get(name.partition(".")[0], ())}
        if packages and not packages & pinned:
            raise ModuleNotFoundError(f"{name} is not pinned", name=name)
sys.meta_path.insert(0, OnlyPinned())
from unspool.web.app import create_app
from unspool.web.server import serve
import unspool.cli.commands.serve, unspool.render.html, unspool.ingest.watch
"""
    run(sys.executable, "-c", program, " ".join(sorted(pinned)))


def test_the_sdist_can_be_built_from(built: Path) -> None:
    """It holds what the wheel is made of, and the papers."""
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "src/unspool/__init__.py"} <= names
    assert not [name for name in names if name.startswith("tests/corpus")]


def test_the_package_works_without_extras(built: Path, tmp_path: Path) -> None:
    """Its requirements are complete: the command and the library read the samples."""
    (wheel,) = built.glob("*.whl")
    place = tmp_path / "environment"
    venv.create(place, with_pip=False)
    python = place / "bin" / "python"
    packages = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
    for name in sorted(required_by(wheel)):
        copy_installed(name, packages)
    pip = (sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check")
    run(*pip, "install", "--quiet", "--no-index", "--no-deps", wheel)
    run(*pip, "check")
    listed = run(place / "bin" / "unspool", "ls", "--json", "--home", unspool.samples(), cwd=tmp_path)
    assert {json.loads(line)["agent"] for line in listed.splitlines()} == {"claude", "codex", "gemini"}
    code = "import unspool; print(unspool.__file__, sum(len(unspool.load(r).messages) for r in unspool.sessions(unspool.samples())))"  # noqa: E501
    where, count = run(python, "-c", code, cwd=tmp_path).split()
    assert Path(where).is_relative_to(place)
    assert int(count) > 100
    web = subprocess.run(
        [place / "bin" / "unspool", "serve", "--no-browser", "--home", unspool.samples()],
        capture_output=True, text=True, cwd=tmp_path, check=False, timeout=PATIENCE,
    )  # fmt: skip
    assert (web.returncode, web.stdout) == (1, "")
    assert web.stderr.rstrip().endswith("'unspool[web]'")
    page = run(
        place / "bin" / "unspool", "export", "--home", unspool.samples(), "--format", "html", "37c23", cwd=tmp_path
    )
    assert page.startswith("<!doctype html>")
