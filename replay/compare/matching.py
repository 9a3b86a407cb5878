"""Which of these values pair up with which of those, so that as many as can be have a like one?"""

from __future__ import annotations

from collections.abc import Sequence

from replay.compare.likeness import Counted

MAX_PAIRS = 2500
"""With more pairs to weigh, each value takes the first one that will do."""


def pairs(before: Sequence[Counted], after: Sequence[Counted]) -> list[tuple[int, int]]:
    """Places of `before` with their partners' places in `after`, no place twice.

    Where likeness is equality alone, the first takes the first. Where numbers need only be near,
    1.00 may be like 1.01 and 1.02 while another is like 1.01 alone: then partners are exchanged
    until no more values can have one.
    """
    candidates: dict[tuple[str, int], list[int]] = {}
    for column, other in enumerate(after):
        candidates.setdefault(other.key, []).append(column)
    exact = len(before) * len(after) <= MAX_PAIRS
    holder: dict[int, int] = {}
    for row, mine in enumerate(before):
        columns = candidates.get(mine.key, [])
        if not mine.near:
            if columns:
                holder[columns.pop(0)] = row
        else:
            _seat(row, before, after, columns, holder, set(), exchange=exact)
    return sorted((row, column) for column, row in holder.items())


def _seat(
    row: int,
    before: Sequence[Counted],
    after: Sequence[Counted],
    columns: Sequence[int],
    holder: dict[int, int],
    tried: set[int],
    *,
    exchange: bool,
) -> bool:
    """Give a value a partner, moving the holder of one to another where that helps."""
    likes = [column for column in columns if before[row].like(after[column])]
    for column in likes:
        if column not in holder:
            holder[column] = row
            return True
    for column in likes if exchange else ():
        if column not in tried:
            tried.add(column)
            if _seat(holder[column], before, after, columns, holder, tried, exchange=True):
                holder[column] = row
                return True
    return False
