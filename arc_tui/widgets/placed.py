"""Text on a page that is from a step which can be gone to."""

from __future__ import annotations

from arc_tui.widgets.document import Block


class Placed(Block, frozen=True, eq=False, kw_only=True):
    """`goes` is the step the text is from; None where that is this step, or none."""

    goes: int | None = None
