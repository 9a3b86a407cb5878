"""The parts of the bisect screen: the result and its bounds, the versions, the page of each,
progress and cost; and the dialogs that ask what to search and what a good answer does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from msgspec import structs
from rich.cells import cell_len
from rich.style import Style
from rich.text import Text
from textual.message import Message
from textual.reactive import reactive
from typing_extensions import override

from arc_tui.experiments import expectation
from arc_tui.experiments.edits import diff_page
from arc_tui.experiments.expectation import Expected, parse_expectation
from arc_tui.experiments.screen import (
    ExperimentFooter,
    ExperimentHead,
    ExperimentScreen,
    limit_words,
)
from arc_tui.features.bisect.plan import BisectRequest
from arc_tui.features.bisect.state import EMPTY, RANGES, BisectOptions, BisectState, Way, named
from arc_tui.features.bisect.versions import BadVersions
from arc_tui.features.bisect.view import BisectView, RoundLine, VersionRow
from arc_tui.ui import format
from arc_tui.ui.bindings import bind
from arc_tui.ui.dialogs import AskBox, Option
from arc_tui.ui.document import Block, Document, HintBlock, Item
from arc_tui.ui.format import fit, pack_lines
from arc_tui.ui.list import RowList
from arc_tui.ui.styles import BAR, fold_sentence
from replay.errors import ArcError
from replay.models.choose import DEMO
from replay.predicate import BadPredicate
from taxonomy.detectors import NothingExpected

MARK, BAD, RATE, LIKELY = 2, 6, 8, 4
MOST_NAME = 26
NARROW, WIDE = 8, 16
ROOMY = 76
"""Cells from which on the bar of the posterior is a wide one."""

UNCHANGED = "no change"
SEEN = 0.005
"""A posterior under it prints as .00 and has no bar."""


class BisectList(RowList):
    """The oldest version first, then how likely it is that nothing changed."""

    HELP = "the versions"
    HEAD = 1
    STYLES = {
        "named": "bold $bad",
        "misfit": "bold $secondary",
        "next": "bold $warning",
        "quiet": "$quiet",
        "bar": "$primary",
    }

    BINDINGS = [
        bind("enter", "open_row", id="bisect.diff", label="diff",
             tooltip="Go to what the version changes"),
    ]  # fmt: skip

    state: reactive[BisectState] = reactive(EMPTY, repaint=False)

    class Chosen(Message):
        """What the version under the cursor changes is to be looked at."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._rows: tuple[VersionRow, ...] = ()
        self._unchanged: float | None = None
        self._widest = 0

    @property
    def row_count(self) -> int:
        return len(self._rows) + (self._unchanged is not None)

    @property
    def row(self) -> VersionRow | None:
        """The version under the cursor."""
        return self._rows[self.cursor] if self.cursor < len(self._rows) else None

    def watch_state(self, before: BisectState, state: BisectState) -> None:
        if before.view is not state.view:
            self._show(state)
        if before.view is not state.view or before.phase != state.phase:
            self.post_message(self.Moved(self))

    def _show(self, state: BisectState) -> None:
        self._rows, self._unchanged = state.view.rows, state.view.unchanged
        names = [cell_len(format.one_line(row.name)) for row in self._rows]
        if self._unchanged is not None:
            names.append(len(UNCHANGED))
        self._widest = min(max(names, default=0), MOST_NAME)
        self.rows_changed()
        named = named_at(state.view)
        if named is not None:
            self.cursor = named

    @override
    def draw_head(self, line: int, width: int) -> Text:
        del line
        version = "fix from" if self.state.view.kind == "prefix" else "version"
        cells = (
            fit(version, self._room(width)), fit("bad", BAD, right=True), fit("interval", RATE),
            "first bad?",
        )  # fmt: skip
        return Text(" " * (MARK + 1) + "  ".join(cells))

    @override
    def draw(self, index: int, width: int) -> Text:
        if index == len(self._rows):
            return self._draw_unchanged(width)
        row = self._rows[index]
        style = self._row_style(row)
        line = Text.assemble(
            (f" {fit(_mark(row), MARK)}", style),
            (fit(format.one_line(row.name), self._room(width)), style),
            "  ",
            fit(f"{row.hits}/{row.bad.n}" if row.bad.n else format.UNKNOWN, BAD, right=True),
            (f"  {fit(format.interval(row.bad) if row.bad.n else '', RATE)}  ", self._quiet),
        )
        self._append_likely(line, row.likely, width)
        if row.next:
            line.append(f"next ×{row.next}  ", self.style_of("next"))
        line.append(" · ".join(_notes(row)), self._quiet)
        line.truncate(width, overflow="ellipsis")
        return line

    def _draw_unchanged(self, width: int) -> Text:
        name = fit(UNCHANGED, self._room(width))
        line = Text.assemble(" " * (MARK + 1), (name, self._quiet), " " * (BAD + RATE + 6))
        self._append_likely(line, self._unchanged, width)
        return line

    def _append_likely(self, line: Text, likely: float | None, width: int) -> None:
        """The posterior as a figure and a bar."""
        room = WIDE if width >= ROOMY else NARROW
        said = "" if likely is None else f"{likely:.2f}"
        shown = likely is not None and likely >= SEEN
        line.append(fit(said, LIKELY, right=True) + " ")
        bar = format.bar(likely or 0.0, room) if shown else ""
        line.append(fit(bar, room) + "  ", self.style_of("bar"))

    @property
    def _quiet(self) -> Style:
        return self.style_of("quiet")

    def _row_style(self, row: VersionRow) -> Style | str:
        name = "named" if row.among else "misfit" if row.misfit else ""
        return self.style_of(name) if name else ""

    def _room(self, width: int) -> int:
        """Cells of a version's name: a third of the line at most."""
        return min(max(self._widest, len("version")), width // 3)

    def action_open_row(self) -> None:
        self.post_message(self.Chosen())


def named_at(view: BisectView) -> int | None:
    """Where the first named version stands, None where none is."""
    return next((at for at, row in enumerate(view.rows) if row.among), None)


def _mark(row: VersionRow) -> str:
    return "▸" if row.among else "?" if row.misfit else ""


def _notes(row: VersionRow) -> list[str]:
    notes = [f"{row.unusable} unusable"] if row.unusable else []
    return [*notes, format.one_line(row.note)] if row.note else notes


class BisectHead(ExperimentHead[BisectState]):
    """The verdict, what it does not say, what stands against it, what counts as bad."""

    TITLE_LINES = 1

    state: reactive[BisectState] = reactive(EMPTY, layout=True)

    @override
    def parts(self, width: int) -> Iterator[tuple[str, list[str]]]:
        yield from self.sentences(width)
        bounds = self.with_keys(" ".join(self.state.bounds))
        yield "basis", fold_sentence(bounds, width) if bounds else []
        yield self.warnings(width)
        yield "basis", self._bad(width)

    def _bad(self, width: int) -> list[str]:
        """What counts as bad; once that was read, in a low terminal, on one line."""
        if not self.state.bad:
            return []
        low = self.state.phase != "idle" and not self.is_tall
        return (
            [fit(self.state.bad, width).rstrip()] if low else fold_sentence(self.state.bad, width)
        )


FOOT_WIDE = 100
"""Cells from which on the bar is a long one."""


class BisectFoot(ExperimentFooter[BisectState]):
    """Answers that are in, then as many figures as a line holds."""

    STOP = "bisect.stop"

    state: reactive[BisectState] = reactive(EMPTY)

    @override
    def progress(self, width: int) -> Text:
        view, cost = self.state.view, self.state.cost
        about = max(cost.estimate.samples if cost is not None else 0, view.samples, 1)
        done = f"{view.samples} of about {format.count(about, 'sample')}"
        words = f"{done} · {_spent(view)}{limit_words(self.state.request.limits)}"
        return self.bar(view.samples, about, words, BAR if width >= FOOT_WIDE else BAR // 2)

    @override
    def figures(self, width: int) -> Text:
        return Text(
            "".join(pack_lines(_figures(self.state.view), width)[:1]), self.style_of("figures")
        )


def _figures(view: BisectView) -> Iterator[str]:
    """Who was asked, how often, for how much; what it rests on."""
    where = f" at {format.one_line(view.server)}" if view.server else ""
    if view.model:
        yield f"{format.one_line(view.model)}{where}"
    if view.samples:
        checks = f" + {view.checks} to confirm" if view.checks else ""
        yield f"{format.count(view.samples, 'sample')}{checks}"
        yield _spent(view)
    if view.fidelity is not None:
        yield format.fidelity(view.fidelity, view.fidelity_reasons)


def _spent(view: BisectView) -> str:
    usd = format.usd(view.spent_usd, complete=view.spent_complete)
    return f"{format.count(view.calls, 'call')} · {view.cached} cached · {usd}"


# --- what stands behind a version

BLANK = Block(text="")


def bisect_page(state: BisectState, row: VersionRow | None) -> Document:
    """The page of the version under the cursor (None: that nothing changed): while it runs, first
    what is asked and why; then, and before, what the version changes."""
    asked = tuple(_rounds(state.view.rounds, latest_first=state.running))
    parts = tuple(_parts(state))
    changes = tuple(_changes(state, row)) if state.view.rows else ()
    pages = (asked, changes) if state.running else (changes, parts, asked, tuple(_digest(state)))
    items: list[Item] = []
    for page in filter(None, pages):
        items += [BLANK, *page] if items else page
    return tuple(items)


def _changes(state: BisectState, row: VersionRow | None) -> Iterator[Item]:
    if row is None:
        words = "probability that the newest version is no worse than the oldest"
        yield Block(text=words, style="quiet")
        return
    if state.view.kind == "prefix":
        yield Block(text=f"free runs with the fix from {format.one_line(row.name)}", style="quiet")
        return
    diff = state.diff_of(row)
    if diff:
        yield Block(text=_heading(diff), style="head")
        yield from diff_page([line for line in diff if not line.startswith(("--- ", "+++ "))])
    elif row.likely is None and state.view.rows[0] is row:
        yield Block(text="oldest version: no diff", style="quiet")
    else:
        words = "text not stored. ‹bisect.choose› choose the versions again"
        yield HintBlock(text=words, style="quiet")


def _heading(diff: Sequence[str]) -> str:
    """`v4 → v5`, of the first two lines of a diff."""
    names = [line[4:] for line in diff if line.startswith(("--- ", "+++ "))][:2]
    return " → ".join(map(format.one_line, names))


def _parts(state: BisectState) -> Iterator[Item]:
    if state.view.parts:
        yield Block(text="sufficient alone?", style="role")
        yield from (Block(text=format.one_line(part)) for part in state.view.parts)


def _rounds(rounds: Sequence[RoundLine], *, latest_first: bool) -> Iterator[Item]:
    """The rounds, with their reason where it is another one."""
    if not rounds:
        return
    if latest_first:
        yield Block(text="this round", style="role")
        yield _round(rounds[-1])
        if rounds[:-1]:
            yield Block(text="earlier rounds", style="role")
            yield from map(_round, reversed(rounds[:-1]))
        return
    yield Block(text="rounds", style="role")
    yield from map(_round, rounds)


def _round(line: RoundLine) -> Block:
    return Block(text=format.one_line(line.versions), aside=format.one_line(line.why))


def _digest(state: BisectState) -> Iterator[Item]:
    if state.view.digest is not None and not state.running:
        yield Block(text=f"digest {state.view.digest}", style="quiet")


# --- questions

EXAMPLE = "tool=get_order, args.order_id=1039"

T = TypeVar("T")


class ExpectationDialog:
    """Asks a person what a good answer does."""

    def __init__(self, screen: ExperimentScreen[Any]) -> None:
        self._screen = screen

    def ask(
        self,
        options: BisectOptions,
        request: BisectRequest,
        take: Callable[[BisectRequest], None],
        trouble: ArcError | None = None,
        typed: str = "",
    ) -> None:
        """Expectations to choose from; after a slip only the line, with why and what was typed.
        `take` gets the request with the one that is meant."""
        choices = _expectations(options, request) if trouble is None else []
        box = AskBox(
            _question(options, request),
            str(trouble) if trouble is not None else "",
            answer=typed,
            hint=f"{'or ' if choices else ''}{EXAMPLE}",
            choices=choices,
        )

        def read(words: str | None) -> None:
            if words is not None:
                self._screen.read(
                    lambda store: readable(
                        lambda: parse_expectation(store, request.trace, request.at, words)
                    ),
                    lambda found: answer(words, found),
                    group="expected",
                )

        def answer(words: str, found: Expected | ArcError) -> None:
            if isinstance(found, ArcError):
                self.ask(options, request, take, found, words)
            else:
                take(structs.replace(request, expect=found.words, judge=found.judge))

        self._screen.app.push_screen(box, read)


def _question(options: BisectOptions, request: BisectRequest) -> str:
    if request.fix is not None:
        return "what a recovered run does"
    if request.free:
        return "what a good run does"
    return f"what a good answer does at step {options.step}"


def _expectations(options: BisectOptions, request: BisectRequest) -> list[Option]:
    """What can be expected without a word typed."""
    whole = request.free or request.fix is not None
    choices = []
    if options.by is not None and not whole:
        why = f": {options.why}" if options.why else ""
        choices.append(Option(expectation.RULE, f"{options.by}{why}", "without the rule's finding"))
    if options.gold:
        choices.append(Option(expectation.GOLD, "the gold actions"))
    if not whole and (request.model or options.model) == DEMO:
        choices.append(Option(expectation.JUDGE, "score of 0.5 or more; rule-based"))
    return choices


class WayDialog:
    """Asks a person what is to be searched; what was typed is kept for the next time."""

    def __init__(self, screen: ExperimentScreen[Any]) -> None:
        self._screen = screen
        self._typed = ""

    def ask(
        self,
        options: BisectOptions | None,
        take: Callable[[Way], None],
        trouble: ArcError | None = None,
    ) -> None:
        """Ways to choose from; after a slip only the line, with why and with what was typed."""
        known = options.ways if options is not None else ()
        ways = known if trouble is None else ()
        box = AskBox(
            "bisect edits",
            str(trouble) if trouble is not None else "",
            answer=self._typed,
            hint=f"{'or ' if ways else 'No versions yet. Try '}files, {RANGES}",
            choices=[Option(_at(place), way.words, way.name) for place, way in enumerate(ways)],
        )

        def read(words: str | None) -> None:
            chosen = {_at(place): way for place, way in enumerate(known)}
            if words is None:
                return
            if words in chosen:
                take(chosen[words])
                return
            self._typed = words
            self._screen.read(lambda _: readable(lambda: named(words)), answer, group="named")

        def answer(found: Way | ArcError) -> None:
            if isinstance(found, ArcError):
                self.ask(options, take, found)
            else:
                take(found)

        self._screen.app.push_screen(box, read)


def _at(place: int) -> str:
    """An answer no person types."""
    return f"\0{place}"


def readable(read: Callable[[], T]) -> T | ArcError:
    """What was read, or what a person can put right by typing something else."""
    try:
        return read()
    except (BadPredicate, NothingExpected, BadVersions) as slip:
        return slip
