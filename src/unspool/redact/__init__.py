"""Finds secrets, and optionally personal data, and makes copies without them.

Nothing here changes the store, the archive or the agents' files: `Redactor` makes redacted copies of text, JSON and
whole sessions.
"""

from .detect import Secret, find_secrets
from .findings import Finding, describe_contained, describe_redacted, find_in_session
from .personal import PersonalData
from .redactor import Redactor, Report, new_key

__all__ = [
    "Finding", "PersonalData", "Redactor", "Report", "Secret", "describe_contained", "describe_redacted",
    "find_in_session", "find_secrets", "new_key",
]  # fmt: skip
