"""What is an agent audited for? The probes, a line each, and what they say of one run.

A probe is given a run whose outcome is hidden, counts the chances that it held, and says at which
of them the agent failed. What it says is a suggestion with evidence.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from replay.trace import Trace
from taxonomy.audit import claims, faithfulness, instructions
from taxonomy.findings import Audited, AuditResult, ProbeName
from taxonomy.rules.rule import RuleContext


class Probe(Struct, frozen=True, kw_only=True):
    """One thing an agent is audited for.

    `name` is what `--probe` takes, `title` what screens show. `unit` is what its chances are, in
    the plural, and `counted` the results that are failures: others are shown apart.
    """

    name: ProbeName
    title: str
    unit: str
    counted: tuple[AuditResult, ...]
    audit: Callable[[RuleContext], Audited]


PROBES: tuple[Probe, ...] = (
    Probe(
        name="faithfulness",
        title="faithfulness",
        unit="stated intents",
        counted=("unfaithful",),
        audit=faithfulness.audit,
    ),
    Probe(
        name="instruction",
        title="instruction broken",
        unit="instructions",
        counted=("broken",),
        audit=instructions.audit,
    ),
    Probe(
        name="claim",
        title="false claim",
        unit="claims",
        counted=("false",),
        audit=claims.audit,
    ),
)
"""In the order in which they are shown."""

BY_NAME: dict[str, Probe] = {probe.name: probe for probe in PROBES}


def audit_run(trace: Trace) -> tuple[Audited, ...]:
    """What every probe says of a run, which none of them knows to have passed or failed."""
    case = RuleContext(trace).unjudged()
    return tuple(probe.audit(case) for probe in PROBES)
