"""How often did an agent fail a probe, of the chances it had and of the runs that had any?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from msgspec import Struct

from replay.statistics import Rate, clustered, rate
from taxonomy.audit.probes import Probe
from taxonomy.findings import Audited, AuditResult, ProbeName


class ProbeRate(Struct, frozen=True, kw_only=True):
    """What a probe found over some runs.

    `chances` is the share of the chances at which the agent failed, `failed` of them, its interval
    corrected for those of one run; `unit` says what they are. `runs` is the share of the runs with
    a chance that failed at one, `runs_failed` of them. `apart` counts results that are no failures.
    `unread` chances name nothing that a rule could look for, and are in neither share.
    """

    probe: ProbeName
    title: str
    unit: str
    chances: Rate
    failed: int
    runs: Rate
    runs_failed: int
    apart: dict[AuditResult, int] = {}
    unread: int = 0


def rate_probe(probe: Probe, found: Mapping[str, tuple[Audited, ...]]) -> ProbeRate:
    """The rates of one probe over runs, by trace."""
    said = [(trace, each) for trace, of in found.items() for each in of if each.probe == probe.name]
    results = Counter(finding.result for _, each in said for finding in each.findings)
    failed = {trace: _failures(probe, each) for trace, each in said}
    chances = [
        (trace, place < failed[trace]) for trace, each in said for place in range(each.checked)
    ]
    share = clustered(chances)
    runs_failed = sum(count > 0 for count in failed.values())
    return ProbeRate(
        probe=probe.name,
        title=probe.title,
        unit=probe.unit,
        chances=share.rate,
        failed=share.hits,
        runs=rate(runs_failed, sum(each.checked > 0 for _, each in said)),
        runs_failed=runs_failed,
        apart={name: count for name, count in results.items() if name not in probe.counted},
        unread=sum(each.unread for _, each in said),
    )


def _failures(probe: Probe, said: Audited) -> int:
    """The findings that count, no more than there were chances."""
    counted = sum(finding.result in probe.counted for finding in said.findings)
    return min(counted, said.checked)
