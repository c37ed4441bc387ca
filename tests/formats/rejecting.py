"""A rejection as Claude Code records it."""

from __future__ import annotations

from unspool.testing import ClaudeLog

REJECTED = (
    "The user doesn't want to proceed with this tool use. The tool use was rejected (eg. if it was a file edit, the "
    "new_string was NOT written to the file). To tell you how to proceed, the user said:\n"
)


def reject(log: ClaudeLog, id: str, reason: str) -> None:
    """Let the user reject a call, with a reason."""
    log.result(
        id, REJECTED + reason, error=True, toolUseResult="User rejected tool use", toolDenialKind="user-rejected"
    )
