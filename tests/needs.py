"""What tests need beside Python, and how they are marked by it."""

from __future__ import annotations

NEEDS = {
    "agent": (
        "runs/drivers/test_claude.py", "runs/drivers/test_codex.py", "runs/drivers/test_gemini.py",
        "runs/test_repair.py", "runs/test_end_to_end.py", "runs/test_evidence.py",
        "runs/test_hostile_agent.py", "runs/test_card.py",
    ),
    "server": (
        "ingest/test_worker.py", "runs/drivers/test_acp.py", "runs/test_processes.py", "runs/test_soak.py",
        "runs/test_supervisor.py", "runs/test_terminal.py",
    ),
    "slow": (
        "store/test_faults.py", "store/test_numbers.py", "test_docs.py", "test_package.py", "tools/test_measure.py",
        "tools/test_public_check.py", "tools/test_record.py", "web/api/test_openapi.py",
    ),
}  # fmt: skip
"""Modules in which every test needs something; `make test-fast` leaves them out."""
FIXTURES = {"browser": "browser", "postgres_server": "server", "postgres_address": "server"}
"""Fixtures that need something."""
