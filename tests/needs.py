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
        "runs/test_soak.py", "runs/test_supervisor.py", "runs/test_terminal.py", "spark/test_mirror.py",
        "spark/test_source.py", "store/test_postgres_faults.py",
    ),
    "slow": (
        "cli/test_options.py", "cli/test_ways_out.py", "data/test_lake.py", "data/test_tables.py",
        "formats/test_hostile.py", "formats/test_inspect.py", "formats/test_otel.py", "formats/test_requests.py",
        "ingest/test_file_changes.py",
        "ingest/test_file_faults.py", "ingest/test_growth.py", "ingest/test_memory.py", "mcp/test_recordings.py",
        "mcp/test_redaction.py", "runs/test_outbox.py", "search/test_query.py", "store/test_database_faults.py",
        "store/test_faults.py", "store/test_numbers.py", "store/test_repacking.py", "store/test_sync.py",
        "test_bad_files.py", "test_docs.py", "test_event_kinds.py", "test_hostile.py", "test_package.py",
        "tools/test_measure.py", "tools/test_public_check.py", "tools/test_record.py", "web/api/test_openapi.py",
        "web/api/test_search.py", "web/api/test_session.py", "web/pages/test_routes.py", "web/test_contradictions.py",
    ),
}  # fmt: skip
"""Modules in which every test needs something; `make test-fast` leaves them out."""
FIXTURES = {"browser": "browser", "postgres_server": "server", "postgres_address": "server"}
"""Fixtures that need something."""
FAST = "not (browser or server or agent or slow)"
"""What `make test-fast` runs."""
