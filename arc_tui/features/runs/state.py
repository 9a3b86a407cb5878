"""What the runs screen holds beside its view: the reading of its runs, the run that the cursor goes
to, and the import that goes on behind it.
"""

from __future__ import annotations

from contextlib import closing
from functools import partial
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

from textual.message import Message
from textual.worker import get_current_worker

from arc_tui.ui import format
from arc_tui.ui.screen import ArcScreen
from arc_tui.views.runs import first_meant
from taxonomy.judgements.schema import open_ledger

if TYPE_CHECKING:
    from arc_tui.importing import ImportReport, Progress


class RunsReading:
    """Whether the runs are being read: one reading at a time, and once more after it where that
    was asked for meanwhile."""

    def __init__(self) -> None:
        self.under_way = False
        self._again = False

    def request(self) -> bool:
        """Is a reading to begin now? Else it follows the one that is under way."""
        self._again = self.under_way
        return not self.under_way

    def begin(self) -> None:
        """A reading begins; one that is under way for other runs is dropped."""
        self.under_way, self._again = True, False

    def finish(self) -> bool:
        """The reading is over: is another one to follow?"""
        self.under_way = False
        return self._again

    def cancel(self) -> None:
        """Nobody waits for the runs any more."""
        self.under_way = self._again = False


class CursorTarget:
    """The run that the cursor is to stand on, now or once it was imported: the first of those that
    a query means."""

    class Found(Message):
        """The run was looked for; `trace` is "" where there is none yet."""

        def __init__(self, trace: str) -> None:
            super().__init__()
            self.trace = trace

    def __init__(self, screen: ArcScreen) -> None:
        self._screen = screen
        self._query = ""

    def set(self, query: str) -> None:
        """Look for the first run that a query means; "" looks for none."""
        self._query = query
        self.find()

    def find(self) -> None:
        """Look for the run, if there is one that the cursor has not reached yet."""
        query = self._query
        if query:
            self._screen.ask(lambda store: first_meant(store, query), self.Found, group="target")

    def reached(self) -> None:
        """The cursor stands on the run."""
        self._query = ""


class ImportProgressed(Message):
    """The import stands somewhere else."""

    def __init__(self, progress: Progress) -> None:
        super().__init__()
        self.progress = progress

    def can_replace(self, message: Message) -> bool:
        return isinstance(message, ImportProgressed)


class ImportFinished(Message):
    """The import is over; `report` is None where it was stopped."""

    def __init__(self, report: ImportReport | None) -> None:
        super().__init__()
        self.report = report

    @property
    def only(self) -> str | None:
        """The id of the trace, where exactly one came in."""
        traces = (
            [trace.id for file in self.report.files for trace in file.traces] if self.report else []
        )
        return traces[0] if len(traces) == 1 else None

    @property
    def fruitless(self) -> bool:
        """Were runs asked for, and none came?"""
        files = self.report.files if self.report else ()
        return self.report is None or (bool(files) and not any(file.traces for file in files))

    @property
    def errors(self) -> tuple[str, ...]:
        return self.report.errors if self.report else ()

    @property
    def summary(self) -> str:
        """What came of it, in one line."""
        if self.report is None:
            return "Import stopped. Traces imported so far are saved."
        if not (self.report.files or self.report.skipped or self.errors):
            return "All runs analysed."
        same = sum(file.duplicates for file in self.report.files)
        new = sum(len(file.traces) for file in self.report.files) - same
        skipped = len(self.report.skipped)
        read = self.report.files or self.report.skipped
        parts = [
            f"Imported {format.count(new, 'trace')}" if read else "Runs analysed",
            f"{same} already imported" if same else "",
            f"{format.count(skipped, 'file')} skipped: not a known trace format" if skipped else "",
            format.count(len(self.errors), "error") if self.errors else "",
        ]
        return " · ".join(filter(None, parts))


class ImportJob:
    """The import behind a screen, one at a time: the paths that wait for it, and how far it is.

    An import of no paths has the rules look at the runs that wait for them.
    """

    def __init__(self, screen: ArcScreen, waiting: tuple[Path, ...]) -> None:
        self.waiting = waiting
        self.traces = 0
        """Read so far by the import that runs."""
        self._screen = screen
        self._paths: tuple[Path, ...] = ()
        self._stop: Event | None = None
        """Of the import that runs: set where it is to stop."""

    @property
    def is_running(self) -> bool:
        return self._stop is not None

    @property
    def may_bring_one(self) -> bool:
        """Does an import run that a person asked for and that may bring one run alone?"""
        return self.is_running and bool(self._paths) and self.traces < 2

    def start(self) -> None:
        """Import the paths that wait."""
        self._paths, self.waiting, self.traces = self.waiting, (), 0
        self._stop = Event()
        self._screen.run_worker(
            partial(self._import, self._stop), group="import", thread=True, exit_on_error=False
        )

    def stop(self) -> None:
        """Stop at the next trace. What is finished stays, what is half read is dropped."""
        if self._stop is not None:
            self._stop.set()  # a worker cancelled before it begins would never post an end

    def finish(self) -> None:
        """The import is over, or broke."""
        self._stop = None

    def advance(self, progress: Progress) -> bool:
        """The import stands there now: did runs come in?"""
        if progress.diagnoses:
            return False
        came = progress.traces != self.traces
        self.traces = progress.traces
        return came

    def _import(self, stop: Event) -> None:
        from arc_tui import importing

        worker = get_current_worker()
        with (
            open_ledger(self._screen.path) as store,
            closing(importing.import_paths(store, self._paths)) as going,
        ):
            for event in going:
                if isinstance(event, importing.ImportReport):
                    self._screen.post_message(ImportFinished(event))
                    return
                self._screen.post_message(ImportProgressed(event))
                if stop.is_set() or worker.is_cancelled:
                    break
        self._screen.post_message(ImportFinished(None))
