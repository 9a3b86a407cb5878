"""What an audit says in words and in cells, on the screen as from the command."""

from __future__ import annotations

from collections.abc import Iterator

from arc_tui.features.audit.view import AuditRow, AuditView
from arc_tui.ui import format
from arc_tui.ui.tables import counted
from arc_tui.views.runs import NO_AUDIT, audit_text
from taxonomy.audit.rates import ProbeRate
from taxonomy.judgements.audits import AuditAge

RATES = ("probe", "checked", "failed", "runs that failed", "not counted", "not read")
ROWS = ("", "id", "run", "step", "result", "what", "quote")

SUGGESTED = "Findings are suggestions of rules: a rate counts what the rules found, and no more."
INTERVALS = (
    "95 % Wilson intervals. What is checked in one run may be alike: where few runs hold most of"
    " it, the interval is wide."
)
NOT_READ = (
    "not read: names nothing that could be looked for in calls, or nothing was recorded to hold it"
    " against; in no rate."
)


def rate_cells(found: ProbeRate) -> tuple[str, ...]:
    """A row of the table of probes."""
    apart = ", ".join(f"{count} {name}" for name, count in found.apart.items())
    return (
        found.title,
        found.unit,
        counted(found.chances),
        counted(found.runs),
        apart or "0",
        format.number(found.unread),
    )


def row_cells(row: AuditRow) -> tuple[str, ...]:
    """A row of the findings."""
    return (
        "█" if row.is_tagged else "▒",
        row.trace[:8],
        row.run,
        str(row.step),
        row.result,
        format.one_line(row.what),
        format.one_line(row.quote) or format.UNKNOWN,
    )


def no_findings(view: AuditView, run: str = "", back: str = "") -> str:
    """What stands in place of findings; `run` and `back` are keys, "" for the command."""
    if not view.runs:
        asked = format.one_line(view.query)
        said = f"No runs match '{asked}'." if asked else "No runs yet. Try: arc import PATH"
        return f"{said}\n\n{back}   back" if back else said
    if view.audited:
        return "No findings."
    said = "No audit yet." if view.age.last_ns is None else "No audit by the rules of today."
    return f"{said}\n\n{run}   audit {format.count(view.runs, 'run')}" if run else NO_AUDIT


def before_line(age: AuditAge) -> str:
    """What was known before the audit that is shown, "" for nothing."""
    return f"before this audit: {audit_text(age)}" if age.last_ns is not None else ""


def sentence(view: AuditView) -> str:
    """What to know first: how many runs were audited, and how many failed a probe."""
    if not view.audited:
        return f"{format.count(view.runs, 'run')}, none audited"
    failed = len({row.trace for row in view.rows})
    audited = format.count(view.audited, "run")
    return f"{audited} audited, {format.number(failed)} with a finding"


def notes(view: AuditView) -> Iterator[str]:
    """What has to be known to read the figures."""
    yield SUGGESTED
    yield INTERVALS
    if any(each.unread for each in view.rates):
        yield NOT_READ
