"""Interleaving of search trees, so that an incumbent of one prunes the others early."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator

from placer.problem.placement import WorkerGroup

Groups = tuple[WorkerGroup, ...]
Tree = Iterator[Groups | None]
"""Machines that may improve; None at a pause, after which other trees of the mode have their turn;
`BREATH` where another mode may have its turn.
"""
BREATH: Groups = ()


def interleave(
    trees: Iterable[Callable[[], Tree]], offer: Callable[[Groups], None]
) -> Iterator[None]:
    """Search every tree to its end, the first for one pause each, then for twice as many in every
    turn; yield at each pause.

    Parameters
    ----------
    trees
        Begin a tree when its first turn comes, the most promising first.
    offer
        Called with groups that may improve.
    """
    left: list[Tree] = []
    for begin in trees:
        tree = begin()
        if not (yield from _ended(tree, 1, offer)):
            left.append(tree)
        yield
    pauses = 2
    while left:
        under_way, left = left, []
        for tree in under_way:
            if not (yield from _ended(tree, pauses, offer)):
                left.append(tree)
            yield
        pauses *= 2


def _ended(tree: Tree, pauses: int, offer: Callable[[Groups], None]) -> Generator[None, None, bool]:
    """Search a tree until its end or so many pauses; return whether it has ended."""
    for groups in tree:
        if groups:
            offer(groups)
            continue
        yield
        if groups is BREATH:
            continue
        pauses -= 1
        if pauses == 0:
            return False
    return True
