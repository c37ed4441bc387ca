"""The order in which a run reads sessions."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ..agents import SessionRef


def folder_of(ref: SessionRef) -> tuple[str, ...]:
    """Return the parts of the path of the folder that groups a session with others, by project or by time."""
    return ref.path.parts[: len(ref.root.parts) + 2]


def reading_order(
    refs: Iterable[SessionRef], changed_at: Callable[[SessionRef], int]
) -> Callable[[SessionRef], tuple[object, ...]]:
    """Return a key to sort sessions by.

    Sessions of a folder are next to each other, because reading one needs data from the files around it. The oldest
    come first, and sub-agents come after their parent, because reading them needs data found there.
    """
    folders: dict[str, tuple[str, ...]] = {}
    families: dict[str, int] = {}
    for ref in refs:
        family = _family(ref)
        families[family] = max(families.get(family, 0), changed_at(ref))
        if family not in folders or ref.parent is None:
            folders[family] = folder_of(ref)
    newest: dict[tuple[str, ...], int] = {}
    for family, folder in folders.items():
        newest[folder] = max(newest.get(folder, 0), families[family])

    def key(ref: SessionRef) -> tuple[object, ...]:
        family = _family(ref)
        folder = folders[family]
        return newest[folder], folder, families[family], family, ref.parent is not None

    return key


def _family(ref: SessionRef) -> str:
    return ref.parent or ref.id
