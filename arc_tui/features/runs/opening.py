"""What is here to be opened, offered on the runs screen, and an import behind it."""

from __future__ import annotations

from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from textual.message import Message
from textual.worker import Worker, get_current_worker

from arc_tui.ui import format
from arc_tui.ui.dialogs import AskBox, Option
from arc_tui.ui.screen import ArcScreen
from replay.store.handle import now_ns
from taxonomy.judgements.schema import open_ledger

if TYPE_CHECKING:
    from arc_tui.features.imports.finding import Offer
    from arc_tui.importing import ImportReport, Progress


ALL, DEMO = ".", "arc demo"
"""Answers that are no file: the folder itself, and the bundled runs."""


class Opening(ArcScreen):
    """Looks around, asks what is to be opened, and has it imported. Actions of the runs screen."""

    class OffersFound(Message):
        """What is here was looked for."""

        def __init__(self, offers: tuple[Offer, ...]) -> None:
            super().__init__()
            self.offers = offers

    class DemoWanted(Message):
        """The bundled runs are asked for; they have a database of their own."""

    def take_in(self, path: Path) -> None:
        """Import a file or a folder, and open what comes of it."""
        raise NotImplementedError

    def action_here(self) -> None:
        """Offer what is here, once it is known."""
        folder = Path.cwd()
        self.hold_keys(self.ask(lambda _: _found(folder), self.OffersFound, group="offers"))

    def on_opening_offers_found(self, event: OffersFound) -> None:
        if not self.is_current:  # someone went on meanwhile
            return
        folder = Path.cwd()
        where = format.one_line(str(folder))
        nothing = f"no session of Claude Code or Codex in {where}, and no trace in it"
        box = AskBox(
            "what shall be opened?",
            "" if event.offers else nothing,
            hint="or the path of a file or a folder",
            choices=options(event.offers, folder),
        )
        self.app.push_screen(box, self._open_answer)

    def _open_answer(self, answer: str | None) -> None:
        if answer == DEMO:
            self.post_message(self.DemoWanted())
        elif answer is not None:
            self.take_in(Path(answer).expanduser())


def options(offers: tuple[Offer, ...], folder: Path) -> list[Option]:
    """The offers as choices, newest first; then all of the folder's own, and the demo."""
    from arc_tui.features.imports.finding import offer_words

    now = now_ns()
    words = [offer_words(offer, folder, now) for offer in offers]
    rows = [
        (offer.path, offer.format, said.age, f"{said.title} · {said.size} · {said.file}")
        for offer, said in zip(offers, words, strict=True)
    ]
    if sum(Path(offer.path).is_relative_to(folder) for offer in offers) > 1:
        rows.append((ALL, "this folder", "", "every trace in it"))
    rows.append((DEMO, "the demo", "", "bundled runs and a built-in model: no key, no network"))
    formats, ages = (max(map(len, column)) for column in list(zip(*rows, strict=True))[1:3])
    return [
        Option(answer, about, f"{name:<{formats}}  {age:<{ages}}")
        for answer, name, age, about in rows
    ]


def _found(folder: Path) -> tuple[Offer, ...]:
    from arc_tui.features.imports.finding import MOST, look

    return tuple(islice(look(folder), MOST))


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
        from arc_tui import importing

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
