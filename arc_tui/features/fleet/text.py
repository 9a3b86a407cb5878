"""What `arc fleet` says of a store and of its runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime

from msgspec import Struct
from rich.cells import cell_len
from rich.text import Text

from arc_tui.features.fleet.run import FleetView, Listed
from arc_tui.importing import ImportReport
from arc_tui.ui import format
from replay.errors import ArcError
from replay.fleet.connection import Read
from taxonomy.fleet.compile import Window
from taxonomy.fleet.listing import FleetRun
from taxonomy.query.values import moment


class Column(Struct, frozen=True, eq=False, kw_only=True):
    """What a list tells of a run, in at most so many cells."""

    heading: str
    text: Callable[[Listed], str]
    most: int = 20
    right: bool = False

    def width(self, rows: Sequence[Listed]) -> int:
        """Cells that these rows need."""
        longest = max((cell_len(self.text(row)) for row in rows), default=0)
        return min(max(longest, cell_len(self.heading)), self.most)

    def cell(self, row: Listed | None, width: int) -> str:
        """The text of a row, or the heading where there is none, in exactly so many cells."""
        return format.fit(self.heading if row is None else self.text(row), width, right=self.right)


def state(each: Listed) -> str:
    """Is the run here?"""
    if each.local is None:
        return "not here"
    return "partly here" if each.missing_spans else "here"


def run_name(run: FleetRun) -> str:
    """What a run of a store is called."""
    return format.one_line(run.agent or run.name or run.service) or run.trace


STATE = Column(heading="", text=state)
STARTED = Column(heading="started", text=lambda each: moment_text(each.run.start_ns))
TRACE = Column(heading="trace", most=32, text=lambda each: format.one_line(each.run.trace))
NAME = Column(heading="name", most=32, text=lambda each: run_name(each.run))
STEPS = Column(heading="steps", right=True, text=lambda each: format.number(each.run.steps))
CALLS = Column(heading="calls", right=True, text=lambda each: format.number(each.run.calls))
ERRORS = Column(heading="errors", right=True, text=lambda each: format.number(each.run.errors))
TOKENS = Column(
    heading="tokens", right=True, text=lambda each: format.tokens(each.run.input_tokens)
)
TIME = Column(heading="time", right=True, text=lambda each: format.duration(each.run.duration_ns))
MODELS = Column(heading="models", most=32,
                text=lambda each: format.one_line(each.run.models or format.UNKNOWN))  # fmt: skip
HERE = Column(heading="here", text=lambda each: (each.local or "")[:8])

PRINTED = (STARTED, TRACE, NAME, STEPS, CALLS, ERRORS, TOKENS, TIME, MODELS, HERE)
HEADINGS = ("", *(column.heading for column in PRINTED))

SHOWN = (STATE, STARTED, NAME, STEPS, CALLS, ERRORS, TOKENS, TIME, MODELS, TRACE)
BY_WORTH = (STATE, STARTED, NAME, ERRORS, STEPS, TIME, MODELS, TOKENS, CALLS, TRACE)
"""What a line of the app has room for, what is worth most first."""

GAP = 2


def cells(each: Listed) -> list[Text | str]:
    """The printed row of a run."""
    found = [format.cut(column.text(each), column.most) for column in PRINTED]
    return [format.outcome_mark(each.run.outcome), *found]


def fit_columns(rows: Sequence[Listed], width: int) -> list[tuple[Column, int]]:
    """The columns that such a line has room for, each as wide as these rows need."""
    taken: dict[Column, int] = {}
    for column in BY_WORTH:
        needed = column.width(rows)
        if needed + GAP <= width:
            taken[column] = needed
            width -= needed + GAP
    return [(column, taken[column]) for column in SHOWN if column in taken]


def moment_text(ns: int) -> str:
    """A moment in UTC, to the second."""
    return datetime.fromtimestamp(ns / 1e9, tz=UTC).strftime("%Y-%m-%d %H:%M:%S")


def run_count(view: FleetView) -> str:
    """How many runs are listed, and whether these are all."""
    return f"{'the newest ' if view.more else ''}{format.count(len(view.runs), 'run')}"


def window(of: FleetView | Window) -> str:
    """When the runs began that were asked for."""
    return f"begun {moment_text(of.from_ns)} to {moment_text(of.until_ns)} UTC"


def effort(of: FleetView | Read) -> str:
    """What the answer cost the store."""
    queries = format.count(of.queries, "query", "queries")
    return f"{queries}, {format.file_size(of.bytes_read)} read"


def summary(view: FleetView) -> str:
    """How many runs there are, of which time, and what it took to find them."""
    return f"{view.fleet} ({view.dialect}): {run_count(view)}, {window(view)} · {effort(view)}"


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


# --- in the app

RUNS_HERE = "runs here"
LOOKING = "asking it what it is"
ADD = "arc fleet add NAME URL"
NO_FLEET = f"No trace store is named yet. Try: {ADD}"


def headline(fleet: str, view: FleetView | None, seconds: float) -> Text:
    """The store, what it told, and what that took."""
    told = ""
    if view is not None:
        told = f"   {run_count(view)} · {effort(view)} in {format.duration(int(seconds * 1e9))}"
        told += f" · {view.dialect}"
    return Text.assemble((" arc ", "bold"), f"  {format.one_line(fleet)}{told}")


def title(fleet: str, begun: str, query: str) -> Text:
    """Which runs of a store are listed."""
    return Text(" · ".join(filter(None, map(format.one_line, (f"runs of {fleet}", begun, query)))))


def time_named(since: str, until: str) -> str:
    """When the runs began that are listed, as a person named it."""
    if until:
        return f"begun {_moment_named(since)} to {_moment_named(until)}"
    return f"begun since {since}" if moment(since) else f"begun in the last {since}"


def _moment_named(text: str) -> str:
    return text if moment(text) else f"{text} ago"


def nothing_found(view: FleetView) -> str:
    """What stands where the runs would, if there are none."""
    words = f" match '{format.one_line(view.query)}'" if view.query else ""
    return f"No runs of {view.fleet}{words}\n{window(view)}."


def refusal(error: ArcError) -> str:
    """What went wrong and what to do about it, on one line."""
    return " ".join(filter(None, map(format.one_line, (f"{error.message}.", error.hint))))


def pull_summary(report: ImportReport) -> str:
    """What came of a pull, in one line."""
    file = next(iter(report.files))
    new = len(file.traces) - file.duplicates
    problems = format.count(len(file.problems), "problem")
    return f"{format.count(new, 'run')} pulled" + (
        f" · {problems} in them" if file.problems else ""
    )
