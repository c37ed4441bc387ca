"""Makes a large home directory from recordings, for the benchmarks.

Every recording is copied `copies` times, with new ids, so that all sessions are different. Each session is made
`length` times as long by repeating its lines, again with new ids; the first line of a repetition continues the previous
one. Otherwise the lines stay as the agents wrote them: same kinds, same sizes, same order.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

UUID = re.compile(rb"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
IDS = re.compile(
    rb"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|(?:toolu|msg|call|req)_[0-9A-Za-z_]{8,}"
)
ORDINAL = re.compile(rb'"ordinal":(\d+)')
ROOT = re.compile(rb'"parentUuid":null')


class Renamer:
    """Replaces every id with another one of the same form, which depends only on the id and the salt."""

    def __init__(self, salt: str, keep: frozenset[bytes] = frozenset()) -> None:
        self._salt = salt.encode()
        self._keep = keep
        self._known: dict[bytes, bytes] = {}

    def __call__(self, match: re.Match[bytes]) -> bytes:
        old = match[0]
        if old in self._keep:
            return old
        if old not in self._known:
            digest = hashlib.blake2b(self._salt + old, digest_size=16).hexdigest().encode()
            self._known[old] = _like(old, digest)
        return self._known[old]


def _like(old: bytes, digest: bytes) -> bytes:
    if UUID.fullmatch(old):
        return b"-".join((digest[:8], digest[8:12], digest[12:16], digest[16:20], digest[20:32]))
    prefix, _, rest = old.partition(b"_")
    return prefix + b"_" + (digest * (len(rest) // 32 + 1))[: len(rest)]


def lengthen(data: bytes, session: bytes, times: int) -> Iterator[bytes]:
    """Iterate over the lines of a session, repeated `times` times."""
    lines = data.splitlines(keepends=True) if data.endswith(b"\n") else (data + b"\n").splitlines(keepends=True)
    yield data if data.endswith(b"\n") else data + b"\n"
    last = _last_id(lines)
    highest = max((int(found[1]) for line in lines if (found := ORDINAL.search(line[:80]))), default=0)
    for turn in range(1, times):
        rename = Renamer(f"turn {turn}", keep=frozenset((session,)))
        first = True
        for line in lines:
            if b'"type":"session_meta"' in line[:200]:
                continue
            line = IDS.sub(rename, line)
            if first and last is not None and ROOT.search(line[:400]):
                line = ROOT.sub(b'"parentUuid":"' + last + b'"', line, count=1)
                first = False
            if found := ORDINAL.search(line[:80]):
                line = line.replace(found[0], b'"ordinal":%d' % (int(found[1]) + turn * (highest + 1)), 1)
            yield line
        if last is not None:
            match = UUID.fullmatch(_last_id(lines) or b"")
            last = rename(match) if match else None


def _last_id(lines: list[bytes]) -> bytes | None:
    for line in reversed(lines):
        if line.startswith((b'{"parentUuid"', b'{"type":"user"', b'{"type":"assistant"')):
            found = re.search(rb'"uuid":"(' + UUID.pattern + rb')"', line)
            if found:
                return found[1]
    return None


def recordings(corpus: Path, newest: int) -> list[Path]:
    """Return the homes of the recordings made with the newest versions of each agent."""
    found = []
    for agent in sorted(path for path in corpus.iterdir() if path.is_dir()):
        for version in sorted(agent.iterdir(), key=_number)[-newest:]:
            found += sorted(version.glob("*/home"))
    return found


def _number(version: Path) -> list[int]:
    return [int(part) for part in version.name.split(".")]


def multiply(homes: list[Path], target: Path, copies: int, length: int, first: int = 0) -> int:
    """Write the large home; returns its size in bytes. Copies are numbered from `first`, and each number is unique."""
    size = 0
    for number, home in enumerate(homes):
        for copy in range(first, first + copies):
            rename = Renamer(f"copy {number} {copy}")
            for path in sorted(home.rglob("*")):
                if not path.is_file() or path.name in ("history.jsonl", "logs.json", "session_index.jsonl"):
                    continue
                size += _write(path, target / _target(path.relative_to(home), rename, number, copy), rename, length)
    return size


def _target(path: Path, rename: Renamer, number: int, copy: int) -> Path:
    text = UUID.sub(rename, str(path).encode()).decode()
    parts = list(Path(text).parts)
    for index, part in enumerate(parts):
        if index and parts[index - 1] in ("projects", "tmp"):
            parts[index] = f"{part}-{number}-{copy}"
    return Path(*parts)


def _write(source: Path, target: Path, rename: Renamer, length: int) -> int:
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.suffix == ".zst":
        shutil.copyfile(source, target)
        return target.stat().st_size
    data = IDS.sub(rename, source.read_bytes())
    is_log = source.suffix == ".jsonl" and length > 1
    found = UUID.search(target.name.encode())
    with open(target, "wb") as file:
        for piece in lengthen(data, found[0] if found else b"", length) if is_log else [data]:
            file.write(piece)
    return target.stat().st_size


def main() -> None:
    """Write a home from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--copies", type=int, default=14)
    parser.add_argument("--length", type=int, default=1)
    parser.add_argument("--newest", type=int, default=1000, help="number of versions of each agent (default: all)")
    args = parser.parse_args()
    size = multiply(recordings(args.corpus, args.newest), args.target, args.copies, args.length)
    print(f"{size / 1e6:.0f} MB in {args.target}")


if __name__ == "__main__":
    main()
