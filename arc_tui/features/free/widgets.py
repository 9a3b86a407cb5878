"""What the free screen shows: where a run stands, as one value; its path, an answer a row; the
lines above and below; an answer in full, and why the run is over, as documents.
"""

from __future__ import annotations

from collections.abc import Iterator

from rich.cells import cell_len
from rich.text import Text
from textual.message import Message
from textual.reactive import reactive
from typing_extensions import override

from arc_tui.experiments.call_blocks import call_blocks
from arc_tui.experiments.models import Spending
from arc_tui.experiments.progress import ExperimentState, Phase, as_sentence, spending_line
from arc_tui.experiments.request import FreeRunRequest
from arc_tui.experiments.screen import ExperimentHead
from arc_tui.features.free.view import (
    BY,
    MARKS,
    NO_RUN,
    ONE_RUN,
    RANKS,
    UNCHECKED,
    FreeRow,
    FreeStop,
    FreeView,
    Got,
    Missed,
    NearCall,
    did_words,
    got_words,
    progress_words,
)
from arc_tui.ui import format
from arc_tui.ui.bindings import bind
from arc_tui.ui.document import INDENT, Block, Document, HintBlock, Item, value
from arc_tui.ui.format import fit, pack_lines, spread
from arc_tui.ui.keys import stops
from arc_tui.ui.list import RowList
from arc_tui.ui.styles import SummaryLines
from replay.budget import Limits
from replay.free.result import Status
from replay.store.edits import short

# --- where it stands


class FreeState(ExperimentState, frozen=True, eq=False, kw_only=True):
    """What is run, how far it is, and how that ended."""

    phase: Phase = "running"
    request: FreeRunRequest = FreeRunRequest(trace="")
    view: FreeView = NO_RUN

    @property
    def missed(self) -> Missed | None:
        """The call that a stub can be written of now."""
        return None if self.running else self.view.missed

    @property
    def can_allow_stale(self) -> bool:
        """Would allowing stale answers, or no longer doing so, change anything?"""
        return not self.running and (self.request.allow_stale or self.view.status == "stale")

    @property
    def lines(self) -> tuple[str, ...]:
        """How it stands, in one sentence."""
        return (self._sentence,)

    @property
    def _sentence(self) -> str:
        if self.trouble is not None:
            return as_sentence(self.trouble.message)
        if self.phase == "stopped":
            so_far = self.view.sentence if self.view.rows else ""
            return f"Stopped. Completed calls are saved. {so_far}".rstrip()
        if self.running or self.view.stop is None:
            return self.view.sentence or "Replaying the first step."
        return f"{self.view.sentence} {ONE_RUN}" if self.has_answers else self.view.sentence

    @property
    def has_answers(self) -> bool:
        """Did the model answer at all?"""
        return self.view.spent.calls + self.view.spent.cached > 0

    @property
    def notices(self) -> tuple[str, ...]:
        """Warnings, and what is allowed that is not by default."""
        return tuple(self._notices())

    def _notices(self) -> Iterator[str]:
        if self.trouble is not None and self.trouble.hint:
            yield self.trouble.hint
        if self.request.allow_stale:
            yield "Stale results are allowed; ‹free.stale› disallow."
        yield from self.view.notices


EMPTY = FreeState()


def next_steps(state: FreeState) -> Iterator[str]:
    """What a person can do about a run that is over, by its keys."""
    stop = state.view.stop
    if stop is None:
        return
    if state.view.missed is not None:
        yield "‹free.stub› write a stub; the run then continues"
    elif stop.missed:
        yield "no stub is possible: this call is recorded, and the edit forbids it"
    if stop.status == "stale":
        yield "‹free.stale› allow stale results"
    if stop.passing:
        yield "‹free.run› run again with a limit"
    match stop.status:
        case "finished" if state.view.diverged is None:
            yield (
                "‹free.model› choose another model; ‹trace.edit:e› on a run replays it with an edit"
            )
        case "user":
            yield "the next user message is unknown: run the agent again"
        case "cap":
            yield f"Try: {_command(state)} --max-steps N"
        case "refused" if not state.has_answers and "`arc attach`" in stop.sentence:
            yield "‹free.back› back, then ‹trace.edit:e› attach what is missing"
        case "cut" | "refused" if not stop.passing and state.has_answers:
            yield "‹free.run› gives the same: the response is cached. Try another edit."
        case _:
            pass
    if state.has_answers:
        yield f"five samples: {_command(state)} -k 5"


def _command(state: FreeState) -> str:
    """The command that runs the same again."""
    request = state.request
    edited = f" --edit {short(request.edit.digest)}" if request.edit is not None else ""
    start = f" --step {request.start}" if request.start else ""
    return f"arc replay {request.trace} --free{edited}{start}"


def left_of(limits: Limits, spent: Spending) -> Limits | None:
    """What is left of a limit in money or calls, None where that is nothing."""
    usd = None if limits.usd is None else limits.usd - spent.usd
    calls = None if limits.calls is None else limits.calls - spent.calls
    gone = any(each is not None and each <= 0 for each in (usd, calls))
    return None if gone or not limits.any else Limits(usd=usd, calls=calls)


# --- the path

MARK = 10
STEP = 5
GAP = 2
MOST_GOT = 26
"""Cells that what was answered takes at most."""

GOT = "tool result"
STOPPED, ENDED = "■ stopped", "● ended"


class FreePath(RowList):
    """The steps of a run; where it is over, a last row with the reason."""

    HELP = "the path"
    HEAD = 1
    STYLES = {
        "same": "$quiet",
        "diverged": "bold $warning",
        "unclear": "bold $secondary",
        "own": "$primary",
        "stopped": "bold $bad",
        "ended": "bold $good",
        "number": "$quiet",
        "quiet": "$quiet",
        "unanswered": "$bad",
    }

    BINDINGS = [
        bind("enter", "open_row", id="free.full", label="in full",
             tooltip="Show this response in full"),
    ]  # fmt: skip

    state: reactive[FreeState] = reactive(EMPTY, repaint=False)

    class Chosen(Message):
        """The row under the cursor is to be read in full."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.border_title = "steps"
        self._got_width = 0

    @property
    def view(self) -> FreeView:
        return self.state.view

    @property
    def row_count(self) -> int:
        return len(self.view.rows) + (self.view.stop is not None)

    @property
    def row(self) -> FreeRow | None:
        """The answer under the cursor, None on the last row of a run that is over."""
        rows = self.view.rows
        return rows[self.cursor] if self.cursor < len(rows) else None

    def watch_state(self, before: FreeState, state: FreeState) -> None:
        """Follow the run: to its newest answer, and to why it is over."""
        if before.view is state.view:
            return
        self._got_width = min(_widest(state.view), MOST_GOT)
        self.rows_changed()
        self.cursor = self.row_count - 1
        self.post_message(self.Moved(self))

    def draw_head(self, line: int, width: int) -> Text:
        del line
        did = self._did_width(width)
        got = GOT if self._got_width else ""
        return Text(f"{' ' * MARK} {fit('step', STEP)}{fit('action', did)}{' ' * GAP}{got}")

    def draw(self, index: int, width: int) -> Text:
        rows, stop = self.view.rows, self.view.stop
        if index < len(rows):
            return self._draw_row(rows[index], width)
        return self._draw_stop(stop, width) if stop is not None else Text()

    def _draw_row(self, row: FreeRow, width: int) -> Text:
        step = str(row.step) if row.step is not None else format.UNKNOWN
        got = _got(row)
        unanswered = any(each.text is None for each in row.got)
        return Text.assemble(
            (fit(MARKS[row.mark], MARK), self.style_of(row.mark)),
            (f" {step:>3}  ", self.style_of("number")),
            fit(did_words(row), self._did_width(width)) + " " * GAP,
            (
                fit(got, self._got_width),
                self.style_of("unanswered" if unanswered else "quiet"),
            ),
        )

    def _draw_stop(self, stop: FreeStop, width: int) -> Text:
        ended = stop.status == "finished"
        mark, style = (ENDED, "ended") if ended else (STOPPED, "stopped")
        return Text.assemble(
            (fit(mark, MARK), self.style_of(style)),
            " " * (STEP + 1),
            fit(format.one_line(stop.sentence), width - MARK - STEP - 1),
        )

    def _did_width(self, width: int) -> int:
        return max(width - MARK - STEP - 1 - GAP - self._got_width, 8)

    def action_open_row(self) -> None:
        self.post_message(self.Chosen())


def _got(row: FreeRow) -> str:
    """What all calls of an answer got: of several that got the same, how many."""
    said = [_rank(each, row.step) for each in row.got]
    if len(set(said)) <= 1:
        times = f"{len(said)} × " if len(said) > 1 else ""
        return f"{times}{said[0]}" if said else ""
    return " + ".join(said)


def _rank(got: Got, here: int | None) -> str:
    """The rank of what a call got, and the step it is from where that is another one."""
    if got.text is None:
        return got_words(got)
    place = f" of {got.step}" if got.step not in (None, here) else ""
    return f"{got.rank}{place}{', error' if got.is_error else ''}"


def _widest(view: FreeView) -> int:
    """Cells of what was answered, 0 where nothing was called."""
    widest = max((cell_len(_got(row)) for row in view.rows), default=0)
    return max(widest, len(GOT)) if widest else 0


# --- the first lines and the last ones


class FreeHead(ExperimentHead[FreeState]):
    """How the run stands."""

    state: reactive[FreeState] = reactive(EMPTY, layout=True)


class FreeFoot(SummaryLines):
    """Progress or figures, and the sentence that stands under every free run."""

    STYLES = {"figures": "$quiet", "unchecked": "italic $quiet"}

    state: reactive[FreeState] = reactive(EMPTY, layout=True)

    @override
    def lines(self, width: int) -> list[Text]:
        figures = self.style_of("figures")
        unchecked = self.style_of("unchecked")
        if self.state.running:
            ends = stops(self.screen, "free.stop", stopping=self.state.phase == "stopping")
            lines = [spread(Text(progress(self.state)), Text(ends), width)]
        else:
            lines = [Text(line, figures) for line in pack_lines(_figures(self.state), width)]
        return [*lines, Text(UNCHECKED, unchecked)]


def progress(state: FreeState) -> str:
    """How far a run is."""
    view = state.view
    if not view.limit:
        return "Starting"
    return f"Replaying {progress_words(view, state.request.limits)}"


def _figures(state: FreeState) -> Iterator[str]:
    """Its tool results, the model, lowest fidelity, calls, cost, digest."""
    view = state.view
    if view.ranks:
        yield ", ".join(f"{number} {rank}" for rank, number in view.ranks.items())
    if view.model:
        yield f"{format.one_line(view.model)}{_place(view)}"
    if view.edit is not None:
        yield f"edit {format.cut(format.one_line(view.edit), 40)}"
    if view.fidelity is not None:
        masked = f", {view.masked} masked" if view.masked else ""
        yield f"fidelity {view.fidelity.value}{masked}"
    if view.rows:
        yield spending_line(view.spent, state.request.limits)
    if view.digest is not None:
        yield format.short_digest(view.digest)


def _place(view: FreeView) -> str:
    return f" at {format.one_line(view.server)}" if view.server else ""


# --- an answer in full, and why a run is over

BLANK = Block(text="")
NEAR = 400
"""Characters of a near call's result shown before the rest is folded away."""

_MARK_STYLES = {"same": "role", "diverged": "candidate", "unclear": "candidate", "own": "role"}
_PLACES = {
    "same": "as recorded",
    "diverged": "",
    "unclear": "",
    "own": "not in the recording",
}
_TITLES: dict[Status, str] = {
    "finished": "● ended its turn",
    "user": "■ stopped before the next user message",
    "miss": "■ stopped: no recorded result",
    "stale": "■ stopped: only a stale result",
    "masked": "■ stopped: masked value",
    "cut": "■ stopped: truncated response",
    "refused": "■ stopped: request refused",
    "cap": "■ stopped: step limit",
    "going": "running",
}


def row_page(row: FreeRow) -> Document:
    """Where it stands, what it said and called, what each call got, what was recorded there."""
    return tuple(_row(row))


def stop_page(state: FreeState) -> Document:
    """Why the run is over, the nearest recorded calls, and what to do next."""
    return tuple(_stop(state))


def _row(row: FreeRow) -> Iterator[Item]:
    why = format.one_line(row.why) or _PLACES[row.mark]
    yield Block(text=MARKS[row.mark], style=_MARK_STYLES[row.mark], aside=why)
    for flaw in row.flaws:
        yield Block(text=format.plain(flaw), label="flaw", style="error")
    yield BLANK
    if row.text:
        yield value(row.text, key="said")
    if not row.got:
        for place, call in enumerate(row.calls):
            yield from call_blocks(call, f"call {place}")
    if not row.text and not row.calls:
        yield Block(text=format.plain(row.phrase), style="quiet", indent=INDENT)
    for number, got in enumerate(row.got):
        if number or row.text:
            yield BLANK
        yield from _pages_got(got, number)
    if row.recorded and row.mark != "same":
        yield BLANK
        yield Block(text="recorded", style="role")
        if row.recorded_text:
            yield value(row.recorded_text, key="recorded")
        for number, call in enumerate(row.recorded_calls):
            yield from call_blocks(call, f"recorded {number}")
    yield BLANK
    yield from _trust(row)


def _pages_got(got: Got, number: int) -> Iterator[Item]:
    """A call, what it got, and how that is known."""
    yield from call_blocks(got.call, f"call {number}")
    style = "error" if got.text is None else "role" if got.rank in ("exact", "edited") else "head"
    yield Block(
        text=f"→ {got_words(got)}",
        style=style,
        indent=INDENT,
        aside=RANKS[got.rank] if got.text is not None else format.one_line(got.why),
    )
    if got.text is not None:
        error = "error" if got.is_error else ""
        yield value(got.text or "(empty)", key=f"got {number}", indent=4, style=error)
    if got.guesses:
        tools = ", ".join(map(format.one_line, got.guesses))
        yield Block(text=f"guessed: read-only by name alone: {tools}", style="quiet", indent=4)
    if got.effect != "read" or got.by != "annotated":
        does = {"read": "reads", "write": "writes", "unknown": "may write"}[got.effect]
        tool = format.one_line(got.call.tool)
        yield Block(text=f"{tool} {does} ({BY[got.by]})", style="quiet", indent=4)


def _trust(row: FreeRow) -> Iterator[Item]:
    aside = "; ".join(map(format.one_line, row.reasons))
    yield Block(text=row.fidelity.value, label="fidelity", style="quiet", aside=aside)
    for loss in row.losses:
        yield Block(text=format.plain(loss), label="lost", style="quiet")


def _stop(state: FreeState) -> Iterator[Item]:
    stop = state.view.stop
    if stop is None:
        return
    style = "role" if stop.status == "finished" else "candidate"
    can = "‹free.stub› write a stub" if state.view.missed is not None else ""
    yield HintBlock(text=_TITLES[stop.status], style=style, aside=can)
    if not stop.missed:
        yield Block(text=format.plain(stop.sentence), indent=INDENT)
    for number, missed in enumerate(stop.missed):
        yield BLANK
        yield from _missed(missed, number)
    yield BLANK
    yield Block(text="next", style="role")
    for said in next_steps(state):
        yield HintBlock(text=f"› {said}", indent=INDENT, style="quiet")


def _missed(missed: Missed, number: int) -> Iterator[Item]:
    yield Block(text="no recorded result", style="error", aside=format.one_line(missed.why))
    yield from call_blocks(missed.call, f"missed {number}")
    if not missed.near:
        yield Block(text="the recording has no tool result", style="quiet")
        return
    yield Block(text="nearest recorded calls", style="role")
    for place, near in enumerate(missed.near):
        yield from _near(near, f"near {number} {place}")


def _near(near: NearCall, key: str) -> Iterator[Item]:
    differs = format.one_line(near.differs)
    yield Block(text=f"step {near.step}", style="head", indent=INDENT, aside=differs)
    yield Block(text=format.one_line(near.phrase), style="quiet", indent=2 * INDENT)
    text = format.plain(near.text) or "(empty)"
    style = "error" if near.is_error else ""
    yield Block(text=text, style=style, indent=2 * INDENT, key=key, shown=NEAR)
