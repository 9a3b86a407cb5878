"""What is an agent audited for? The probes, a line each, and what they say of one run.

A probe is given a run whose outcome is hidden, counts the chances that it held, and says at which
of them the agent failed. What it says is a suggestion with evidence.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from msgspec import Struct

from replay.store import read
from replay.store.handle import Store
from replay.trace import Trace
from taxonomy.audit import claims, faithfulness, gaming, instructions
from taxonomy.findings import Audited, AuditResult, ProbeName
from taxonomy.judgements.audits import keep_audits
from taxonomy.judgements.diagnoses import digest_sources, engine_version
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
    Probe(
        name="gaming",
        title=gaming.NAME,
        unit="coding runs",
        counted=("gamed",),
        audit=gaming.audit,
    ),
)
"""In the order in which they are shown."""

BY_NAME: dict[str, Probe] = {probe.name: probe for probe in PROBES}


def audit_run(trace: Trace) -> tuple[Audited, ...]:
    """What every probe says of a run, which none of them knows to have passed or failed."""
    case = RuleContext(trace).unjudged()
    return tuple(probe.audit(case) for probe in PROBES)


@cache
def audit_version() -> str:
    """The version of the probes and of the rules that they rest on."""
    own = digest_sources({"taxonomy": ("audit",)})
    return f"arc audit {own} {engine_version().split()[-1]}"


def audit_one(store: Store, key: str, at_ns: int) -> tuple[Audited, ...]:
    """Audit a run, and keep what is said where anything can be kept."""
    said = audit_run(read.load(store, key))
    if not store.read_only:
        keep_audits(store, {key: said}, audit_version(), at_ns)
    return said
