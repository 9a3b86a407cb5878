"""Several edits made as one, for a trial of what they do together."""

from __future__ import annotations

from collections.abc import Sequence

from replay.edit.changes import Edit
from replay.errors import BadEdit


def together(parts: Sequence[Edit]) -> Edit | None:
    """The changes of all parts in their order; None for none, the part itself for one.

    Raises BadEdit where they are meant for different threads.
    """
    if len(parts) <= 1:
        return parts[0] if parts else None
    threads = {part.thread for part in parts if part.thread is not None}
    if len(threads) > 1:
        raise BadEdit(f"{parts[-1].name}: thread: another edit names another thread")
    return Edit(
        name=" + ".join(part.name for part in parts),
        changes=tuple(change for part in parts for change in part.changes),
        thread=threads.pop() if threads else None,
    )
