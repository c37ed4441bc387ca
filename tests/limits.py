"""Programs that run under lower limits of the system."""

from __future__ import annotations

import shutil
import subprocess

import pytest


def limited(name: str, number: int) -> tuple[str, ...]:
    """A command that runs another with a limit of `/proc/sys/user`; skips the test where that is impossible."""
    script = f'echo {number} >/proc/sys/user/{name} && exec "$@"'
    within = ("unshare", "--user", "--map-root-user", "sh", "-c", script, "sh")
    if shutil.which("unshare") is None or subprocess.run([*within, "true"], capture_output=True).returncode != 0:
        pytest.skip("limits cannot be set for a single process here")
    return within
