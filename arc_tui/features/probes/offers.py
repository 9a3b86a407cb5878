"""Which probes tell the causes of a step's failure apart, and what did the last one come to?"""

from __future__ import annotations

from arc_tui.features.probes.plan import ProbeRequest
from arc_tui.features.probes.run import offered
from arc_tui.views.probe_offers import WhyProbes
from replay.store.handle import Store
from taxonomy.probes import result
from taxonomy.probes.result import LogLine
from taxonomy.query.failures import break_and_notice


def build_why_probes(store: Store, trace: str, step: int) -> WhyProbes:
    """What can be probed at a step, by the trace's own model. Reads the run only where it broke."""
    broke, _ = break_and_notice(store, trace)
    request = ProbeRequest(trace=trace, step=step)
    return WhyProbes(
        step=step,
        listed=offered(store, request, fitting=True) if step == broke else None,
        last=last_of(store, trace, step),
    )


def last_of(store: Store, trace: str, step: int) -> LogLine | None:
    """The newest probe of a run at a step."""
    found = [line for line in result.kept(store) if (line.trace, line.step) == (trace, step)]
    return found[-1] if found else None
