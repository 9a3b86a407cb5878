"""An import behind a screen: it says how far it is, and stops where it is when it is told to."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from textual.message import Message
from textual.worker import Worker, get_current_worker

from arc_tui import format
from taxonomy.ledger import open_ledger

if TYPE_CHECKING:
    from arc_tui.jobs.importing import ImportReport, Progress
    from arc_tui.screens.base import ArcScreen


class ImportMoved(Message):
    """The import stands somewhere else."""

    def __init__(self, progress: Progress) -> None:
        super().__init__()
        self.progress = progress

    def can_replace(self, message: Message) -> bool:
        return isinstance(message, ImportMoved)


class ImportEnded(Message):
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
            return "the import was stopped; what was read before is kept"
        if not self.report.files and not self.report.skipped:
            return "the rules have looked at every run"
        traces = sum(len(file.traces) for file in self.report.files)
        same = sum(file.duplicates for file in self.report.files)
        known = f", {same} known already" if same else ""
        skipped = len(self.report.skipped)
        passed = f", {format.count(skipped, 'file')} skipped" if skipped else ""
        return f"{format.count(traces, 'trace')} imported{known}{passed}"


class Importing:
    """A running import of some paths."""

    def __init__(self, screen: ArcScreen, path: Path, imports: tuple[Path, ...]) -> None:
        self._screen = screen
        self._path = path
        self._imports = imports
        self._worker: Worker[None] = screen.run_worker(
            self._work, group="import", thread=True, exit_on_error=False
        )

    @property
    def asked(self) -> bool:
        """Did a person ask for it? Else only the rules look at what is there."""
        return bool(self._imports)

    def stop(self) -> None:
        """Stop at the next trace. What is finished stays, what is half read is dropped."""
        self._worker.cancel()

    def _work(self) -> None:
        from arc_tui.jobs import importing  # the readers are not needed to look at what is there

        worker = get_current_worker()
        with (
            open_ledger(self._path) as store,
            closing(importing.import_paths(store, self._imports)) as going,
        ):
            for event in going:
                if isinstance(event, importing.ImportReport):
                    self._screen.post_message(ImportEnded(event))
                    return
                self._screen.post_message(ImportMoved(event))
                if worker.is_cancelled:
                    break
        self._screen.post_message(ImportEnded(None))
