"""The errors that a caller may want to tell apart. The message says what failed, why, and what to try.

A damaged line in a log is not an error: it becomes a `Problem` in the record.
"""

from __future__ import annotations


class UnspoolError(Exception):
    """Something that the user can fix; the message can be shown as it is."""


class NotFoundError(UnspoolError):
    """No such session, file or directory."""


class AmbiguousError(UnspoolError):
    """A short name that matches several sessions."""


class UsageError(UnspoolError):
    """A request that is invalid regardless of the files."""


class DamagedError(UnspoolError):
    """Stored data is not what was written."""


class RejectedValueError(UnspoolError):
    """The database does not accept a value of a session."""


class BusyError(UnspoolError):
    """Another program holds what is needed. It may work later."""


class NotWritableError(UnspoolError):
    """The store or its folder cannot be written. What is stored may still be readable."""


class RedactedStoreError(NotWritableError):
    """The store has the sessions of this machine without their secrets, and must not get others."""


class MissingExtraError(UnspoolError):
    """A feature whose optional packages are not installed."""
