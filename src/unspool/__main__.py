"""Entry point of `python -m unspool`."""

from __future__ import annotations

from .cli.main import main

raise SystemExit(main())
