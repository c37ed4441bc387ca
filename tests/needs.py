"""What tests need beside Python, and how they are marked by it."""

from __future__ import annotations

NEEDS = {
    "agent": (
        "mcp/test_agents.py",
        "runs/drivers/test_claude.py", "runs/drivers/test_codex.py", "runs/drivers/test_gemini.py",
        "runs/test_repair.py", "runs/test_end_to_end.py", "runs/test_evidence.py",
        "runs/test_hostile_agent.py", "runs/test_card.py",
    ),
    "server": (
        "ingest/test_worker.py", "mcp/test_stdio.py", "runs/drivers/test_acp.py", "runs/test_processes.py",
        "runs/test_soak.py", "runs/test_supervisor.py", "runs/test_terminal.py", "spark/test_source.py",
    ),
    "slow": (
        "cli/test_options.py", "data/test_lake.py", "data/test_tables.py", "formats/test_hostile.py",
        "formats/test_inspect.py", "formats/test_otel.py", "ingest/test_file_faults.py",
        "mcp/test_recordings.py", "store/test_database_faults.py", "store/test_faults.py",
        "store/test_numbers.py", "store/test_repacking.py",
        "test_docs.py", "test_hostile.py", "test_package.py", "tools/test_measure.py", "tools/test_public_check.py",
        "tools/test_record.py", "web/api/test_openapi.py", "web/api/test_session.py", "web/test_contradictions.py",
    ),
}  # fmt: skip
"""Modules in which every test needs something; `make test-fast` leaves them out."""
FIXTURES = {"browser": "browser", "postgres_server": "server", "postgres_address": "server"}
"""Fixtures that need something."""
