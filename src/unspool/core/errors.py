"""The errors a caller may want to treat differently. Their message says what failed, why, and what to try.

A damaged line in somebody's log is no error: it becomes a `Problem` in the record.
"""

from __future__ import annotations


class UnspoolError(Exception):
    """Something the user can mend; the message is meant to be shown as it is."""


class NotFoundError(UnspoolError):
    """No such session, file or folder."""


class AmbiguousError(UnspoolError):
    """A short name that fits several sessions."""


class UsageError(UnspoolError):
    """A request that makes no sense, whatever the files hold."""


class MissingExtraError(UnspoolError):
    """A feature whose optional packages are not installed."""
