"""The errors that a caller may want to distinguish. The message says what failed, why, and what to try.

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
    """Another program is using what is needed. Trying again later may work."""


class NotWritableError(UnspoolError):
    """The store or its folder cannot be written to. Stored data may still be readable."""


class NoSpaceError(NotWritableError):
    """The disk of the store is full."""


class RedactedStoreError(NotWritableError):
    """The store only has sessions without their secrets, and no others may be added."""


class MissingExtraError(UnspoolError):
    """The optional packages of a feature are not installed."""
