"""`python -m unspool.testing CORPUS`: check what unspool reads from the recordings in a folder."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from .conformance import check_recording
from .recordings import find_recordings


def main(argv: Sequence[str] | None = None) -> int:
    """Check the recordings and print failures. Returns 1 if there are any, and 2 if there are no recordings."""
    parser = argparse.ArgumentParser(prog="python -m unspool.testing", description=__doc__)
    parser.add_argument("corpus", type=Path, help="a folder with recordings as <agent>/<version>/<scenario>")
    parser.add_argument("--agent", default="*", help="only recordings of this agent")
    args = parser.parse_args(argv)
    recordings = find_recordings(args.corpus, args.agent)
    if not recordings:
        print(f"{args.corpus} contains no recordings", file=sys.stderr)
        return 2
    failed = 0
    for recording in recordings:
        wrong = check_recording(recording)
        failed += bool(wrong)
        for what in wrong:
            print(f"{recording.name}: {what}")
    print(f"{len(recordings)} recordings, {failed} failed")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
