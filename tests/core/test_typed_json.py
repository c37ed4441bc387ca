"""Decoding into Structs from several threads."""

from __future__ import annotations

import os
import subprocess
import sys

import msgspec
import pytest

from unspool.core import typed_json

_RACE = """
import sys, threading
import msgspec
from unspool.core import typed_json

sys.setswitchinterval(1e-6)
names = [f"field{number}" for number in range(40)]
value = {name: dict.fromkeys(names, 1) for name in names}
ways = {
    "decode": lambda kind: typed_json.decode(msgspec.json.encode(value), type=kind),
    "convert": lambda kind: typed_json.convert(value, kind),
    "msgpack": lambda kind: typed_json.msgpack_decoder(kind).decode(msgspec.msgpack.encode(value)),
}
for _ in range(100):
    inner = msgspec.defstruct("Inner", [(name, int | None, None) for name in names])
    outer = msgspec.defstruct("Outer", [(name, inner | None, None) for name in names])
    start = threading.Barrier(4)
    found = []

    def use():
        start.wait()
        found.append(ways[sys.argv[1]](outer))

    threads = [threading.Thread(target=use) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4 and all(each == found[0] for each in found)
"""


@pytest.mark.parametrize("way", ["decode", "convert", "msgpack"])
def test_threads_may_use_a_struct_for_the_first_time_together(way: str) -> None:
    """msgspec itself crashes then, so the threads are those of another process."""
    subprocess.run([sys.executable, "-X", "faulthandler", "-c", _RACE, way], check=True)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_fork_can_prepare_structs() -> None:
    """The lock is free in the child."""

    class Point(msgspec.Struct):
        x: int

    pid = os.fork()
    if not pid:
        try:
            is_right = typed_json.decode(b'{"x":1}', type=Point) == Point(1)
        finally:
            os._exit(0 if is_right else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert typed_json.decode(b'{"x":2}', type=Point) == Point(2)


def test_errors_are_those_of_msgspec() -> None:
    """For JSON that does not fit the type, and for plain values."""
    with pytest.raises(msgspec.ValidationError):
        typed_json.decode(b'"text"', type=int)
    with pytest.raises(msgspec.ValidationError):
        typed_json.convert("1", int)
    assert typed_json.convert("1", int, strict=False) == 1
    assert typed_json.convert(None, int | None) is None
