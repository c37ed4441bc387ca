"""Reading returns no memory to the system between two blocks, only to get it again."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from unspool.io.lines import BLOCK_SIZE

_BLOCKS = 200
_READ = """
import resource, sys
from pathlib import Path
from unspool.io.files import read_blocks

def read():
    faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    count = 0
    for block in read_blocks(Path(sys.argv[1])):
        # Objects of a block are freed after those of the next one were made.
        pieces = [block[start : start + 60_000] for start in range(0, len(block), 60_000)]
        count += 1
    return count, resource.getrusage(resource.RUSAGE_SELF).ru_minflt - faults

print(*read())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the C library of Linux returns memory so eagerly")
def test_blocks_use_the_same_memory(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_bytes((b"x" * 999 + b"\n") * (_BLOCKS * BLOCK_SIZE // 1000))
    result = subprocess.run([sys.executable, "-c", _READ, str(path)], capture_output=True, text=True, check=True)
    count, faults = map(int, result.stdout.split())
    assert count >= _BLOCKS
    # A block has 64 pages; few of them are new ones.
    assert faults < 5 * count
