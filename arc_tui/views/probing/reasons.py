"""The probes of a step as they stand beside its reasons; `probe_offers` finds them.

They are offered where the run broke; what one came to stands at the step it was run at. It takes
the whole run to find them, so they follow the rest of the step.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:  # to look at a step no probe is read
    from arc_tui.views.probing.view import ProbesView
    from taxonomy.probes.log import LogLine


class WhyProbes(Struct, frozen=True, eq=False, kw_only=True):
    """The probes that fit at a step, and the `last` line of the log for it.

    `listed` is None at a step where the run did not break.
    """

    step: int
    listed: ProbesView | None = None
    last: LogLine | None = None
