"""What `arc fleet` says of a store and of its runs."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from rich.text import Text

from arc_tui.features.fleet.run import FleetView, Listed
from arc_tui.importing import ImportReport
from arc_tui.ui import format

HEADINGS = (
    "", "started", "trace", "name", "steps", "calls", "errors", "tokens", "time", "models", "here",
)  # fmt: skip


def cells(each: Listed) -> list[Text | str]:
    """The row of a run."""
    run = each.run
    return [
        format.outcome_mark(run.outcome),
        moment_text(run.start_ns),
        format.cut(format.one_line(run.trace), 16),
        format.cut(format.one_line(run.agent or run.name or run.service), 32),
        format.number(run.steps),
        format.number(run.calls),
        format.number(run.errors),
        format.tokens(run.input_tokens),
        format.duration(run.duration_ns),
        format.cut(format.one_line(run.models or format.UNKNOWN), 32),
        (each.local or "")[:8],
    ]


def moment_text(ns: int) -> str:
    """A moment in UTC, to the second."""
    return datetime.fromtimestamp(ns / 1e9, tz=UTC).strftime("%Y-%m-%d %H:%M:%S")


def summary(view: FleetView) -> str:
    """How many runs there are, of which time, and what it took to find them."""
    runs = format.count(len(view.runs), "run")
    more = "the newest " if view.more else ""
    window = f"begun {moment_text(view.from_ns)} to {moment_text(view.until_ns)} UTC"
    took = f"{format.count(view.queries, 'query', 'queries')}, {format.file_size(view.bytes_read)}"
    return f"{view.fleet} ({view.dialect}): {more}{runs}, {window} · {took} read"


def notes(view: FleetView) -> Iterator[str]:
    """What the answer is not, and what to do about more."""
    yield from view.notes
    if view.more:
        yield f"older runs match too. Try: --limit {len(view.runs) * 2}, or a narrower query"


def pulled_lines(fleet: str, report: ImportReport) -> Iterator[str]:
    """What a pull brought."""
    file = next(iter(report.files), None)
    if file is None:
        yield f"{fleet}: no runs match"
        return
    new = [each for each in file.traces if each.verdict not in ("duplicate", "lesser")]
    if new:
        steps = format.count(sum(each.steps for each in new), "step")
        spans = format.count(sum(each.spans for each in new), "span")
        yield f"{fleet}: {format.count(len(new), 'run')} pulled ({steps}, {spans})"
    elif file.error is None:
        yield f"{fleet}: 0 runs pulled; what matches is here already"
    if file.problems:
        problems = format.count(len(file.problems), "problem")
        yield f"{problems} in what was pulled (--json lists them)"
