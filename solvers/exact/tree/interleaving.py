"""Interleaving of search trees, so that an incumbent of one prunes the others early."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from placer.problem.placement import WorkerGroup

Groups = tuple[WorkerGroup, ...]
Tree = Iterator[Groups | None]
"""Machines that may improve; None at a pause."""


def interleave(trees: Iterable[Callable[[], Tree]], offer: Callable[[Groups], None]) -> None:
    """Search every tree to its end, the first for one pause each, then for twice as many in every
    turn.

    Parameters
    ----------
    trees
        Begin a tree when its first turn comes, the most promising first.
    offer
        Called with groups that may improve.
    """
    left = [tree for tree in (begin() for begin in trees) if not _ended(tree, 1, offer)]
    pauses = 2
    while left:
        left = [tree for tree in left if not _ended(tree, pauses, offer)]
        pauses *= 2


def _ended(tree: Tree, pauses: int, offer: Callable[[Groups], None]) -> bool:
    """Search a tree until its end or so many pauses."""
    for groups in tree:
        if groups is not None:
            offer(groups)
            continue
        pauses -= 1
        if pauses == 0:
            return False
    return True
