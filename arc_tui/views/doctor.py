"""What `arc doctor` says: checks of this machine, and reports of what a server does.

The Markdown of a report, and of what was never tried against the live API, is made here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

from msgspec import Struct

from arc_tui import format
from replay.doctor.assumptions import AS_OF, ASSUMPTIONS
from replay.doctor.check import Check
from replay.doctor.report import Report, Result
from replay.models import server

HEALTH_MARKS = {"ok": "✓", "warn": "!", "fail": "✗", "unknown": "?"}
OUTCOME_MARKS = {"holds": "✓", "fails": "✗", "unclear": "?", "not run": "–", None: "·"}

NOT_CHECKED = "not checked"


class DoctorView(Struct, frozen=True, eq=False, kw_only=True):
    """`checks` of this machine; `report` of the check-up just made, None without one.

    `kept` are the last reports of every server and model, the latest first.
    """

    checks: tuple[Check, ...]
    report: Report | None
    kept: tuple[Report, ...]

    @property
    def failed(self) -> bool:
        """Does something on this machine not work, or did an assumption just fail?"""
        broken = any(each.status == "fail" for each in self.checks)
        return broken or (self.report is not None and bool(self.report.failed))


EMPTY = DoctorView(checks=(), report=None, kept=())


def when(report: Report) -> str:
    """The day and minute a report was made."""
    made = datetime.fromtimestamp(report.checked_ns / 1e9, UTC)
    return f"{made:%Y-%m-%d %H:%M} UTC"


def outcome(result: Result) -> str:
    return result.outcome or NOT_CHECKED


def summary(report: Report) -> str:
    """How many assumptions hold, and how many do not or could not be told."""
    counts = {
        "hold": report.count("holds"),
        "fail": report.count("fails"),
        "unclear": report.count("unclear"),
        "not run": report.count("not run"),
        NOT_CHECKED: report.count(None),
    }
    return " · ".join(f"{word} {count}" for word, count in counts.items() if count)


def circumstances(report: Report) -> Iterator[tuple[str, str]]:
    """Where a report comes from, as (name, value)."""
    yield "date", when(report)
    yield "server", server.address(report.server)
    yield "model", _model(report)
    if report.max_input_tokens is not None:
        yield "input limit", f"{format.number(report.max_input_tokens)} tokens"
    yield "client", f"{report.sdk}, API version {report.api}"
    yield "spent", f"at most {format.usd(report.most_usd)}"


def markdown(report: Report) -> str:
    """A report as Markdown, to be attached to a bug report."""
    lines = [f"- {name}: {value}" for name, value in circumstances(report)]
    rows = (
        (f"`{each.id}`", each.says, outcome(each), each.finding, _consequence(each))
        for each in report.results
    )
    head = ("check", "assumption", "outcome", "seen", "so")
    return "\n".join([*lines, f"- outcome: {summary(report)}", "", *_table(head, rows)])


def never_checked() -> str:
    """What nobody has checked against the live API, as a sentence with its date and a table."""
    tried = "`arc doctor --live`"
    rows = (
        (each.says, each.otherwise, tried if each.untried is None else each.untried)
        for each in ASSUMPTIONS
    )
    said = (
        f"As of {AS_OF} none of this has met the live API: it comes from the documents, and is"
        " tested against a strict local server."
    )
    head = ("assumed", "if it is not so", "checked by")
    return "\n".join([said, "", *_table(head, rows)])


def _model(report: Report) -> str:
    answered = report.answered_by
    other = f", answered by {answered}" if answered not in {None, report.model} else ""
    known = f" ({report.lifecycle})" if report.lifecycle else ""
    return f"{report.model}{known}{other}"


def _consequence(result: Result) -> str:
    return result.otherwise if result.outcome == "fails" else ""


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    for row in (head, tuple("---" for _ in head), *rows):
        yield f"| {' | '.join(format.one_line(cell).replace('|', chr(92) + '|') for cell in row)} |"
