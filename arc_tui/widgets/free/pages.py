"""An answer of a free run in full, and why a run is over, as documents. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from arc_tui import format
from arc_tui.views.free.stage import FreeStage, next_steps
from arc_tui.views.free.view import MARKS, FreeRow, Got, Missed, NearCall, got_words
from arc_tui.views.free.words import BY, RANKS
from arc_tui.widgets.document import INDENT, Block, Document, Fold, Item, Keyed, value
from replay.action import Act
from replay.free.result import Status

BLANK = Block(text="")
NEAR = 400
"""Characters of a near call's result shown before the rest is folded away."""

_MARK_STYLES = {"same": "role", "left": "candidate", "unclear": "candidate", "own": "role"}
_PLACES = {
    "same": "as recorded",
    "left": "",
    "unclear": "",
    "own": "beyond the recording: its conversation is its own from here",
}
_TITLES: dict[Status, str] = {
    "finished": "● ended its turn",
    "user": "■ stopped before the user's next words",
    "miss": "■ stopped at a miss",
    "stale": "■ stopped: only a stale answer is left",
    "masked": "■ stopped at a masked value",
    "cut": "■ stopped at an answer that is not whole",
    "refused": "■ stopped at a request that was refused",
    "cap": "■ stopped at its limit of answers",
    "going": "it goes on",
}


def row_page(row: FreeRow) -> Document:
    """Where it stands, what it said and called, what each call got, what was recorded there."""
    return tuple(_row(row))


def stop_page(stage: FreeStage) -> Document:
    """Why the run is over, the nearest recorded calls, and what to do next."""
    return tuple(_stop(stage))


def document_text(document: Document) -> str:
    """A page as plain text, nothing of it folded away."""
    return "".join(f"{line.rstrip()}\n" for line in _lines(document))


def _lines(document: Sequence[Item]) -> Iterator[str]:
    for item in document:
        if isinstance(item, Fold):
            yield from _lines(item.inside())
            continue
        label = f"{item.label}: " if item.label else ""
        aside = f"   {item.aside}" if item.aside else ""
        for line in f"{label}{item.text}{aside}".split("\n"):
            yield f"{item.mark}{' ' * item.indent}{line}"


# --- an answer


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
            yield from _call(call, f"call {place}")
    if not row.text and not row.calls:
        yield Block(text=format.plain(row.phrase), style="quiet", indent=INDENT)
    for number, got in enumerate(row.got):
        if number or row.text:
            yield BLANK
        yield from _got(got, number)
    if row.recorded and row.mark != "same":
        yield BLANK
        yield Block(text="recorded there", style="role")
        if row.recorded_text:
            yield value(row.recorded_text, key="recorded")
        for number, call in enumerate(row.recorded_calls):
            yield from _call(call, f"recorded {number}")
    yield BLANK
    yield from _trust(row)


def _got(got: Got, number: int) -> Iterator[Item]:
    """A call, what it got, and how that is known."""
    yield from _call(got.call, f"call {number}")
    style = "error" if got.text is None else "role" if got.rank in ("exact", "edited") else "head"
    yield Block(
        text=f"→ {got_words(got)}",
        style=style,
        indent=INDENT,
        aside=RANKS[got.rank] if got.text is not None else format.one_line(got.why),
    )
    if got.text is not None:
        error = "error" if got.is_error else ""
        yield value(got.text or "(an empty text)", key=f"got {number}", indent=4, style=error)
    if got.guesses:
        tools = ", ".join(map(format.one_line, got.guesses))
        yield Block(text=f"guessed: read-only by name alone: {tools}", style="quiet", indent=4)
    if got.effect != "read" or got.by != "annotated":
        does = {"read": "reads", "write": "writes", "unknown": "may write"}[got.effect]
        tool = format.one_line(got.call.tool)
        yield Block(text=f"{tool} {does} ({BY[got.by]})", style="quiet", indent=4)


def _call(call: Act, key: str, indent: int = INDENT) -> Iterator[Item]:
    yield Block(text=format.one_line(call.tool), style="head", indent=indent)
    yield value(_arguments(call), key=key, indent=indent + INDENT)


def _arguments(call: Act) -> str:
    return call.raw if call.raw is not None else msgspec.json.encode(call.arguments).decode()


def _trust(row: FreeRow) -> Iterator[Item]:
    aside = "; ".join(map(format.one_line, row.reasons))
    yield Block(text=row.fidelity.value, label="fidelity", style="quiet", aside=aside)
    for loss in row.losses:
        yield Block(text=format.plain(loss), label="lost", style="quiet")


# --- the end


def _stop(stage: FreeStage) -> Iterator[Item]:
    stop = stage.view.stop
    if stop is None:
        return
    style = "role" if stop.status == "finished" else "candidate"
    can = "‹free.stub› writes what it would have got" if stage.view.missed is not None else ""
    yield Keyed(text=_TITLES[stop.status], style=style, aside=can)
    if not stop.missed:
        yield Block(text=format.plain(stop.sentence), indent=INDENT)
    for number, missed in enumerate(stop.missed):
        yield BLANK
        yield from _missed(missed, number)
    yield BLANK
    yield Block(text="what next", style="role")
    for said in next_steps(stage):
        yield Keyed(text=f"› {said}", indent=INDENT, style="quiet")


def _missed(missed: Missed, number: int) -> Iterator[Item]:
    yield Block(text="nothing answers", style="error", aside=format.one_line(missed.why))
    yield from _call(missed.call, f"missed {number}")
    if not missed.near:
        yield Block(text="the recording holds no call that was answered", style="quiet")
        return
    yield Block(text="nearest recorded calls", style="role")
    for place, near in enumerate(missed.near):
        yield from _near(near, f"near {number} {place}")


def _near(near: NearCall, key: str) -> Iterator[Item]:
    differs = format.one_line(near.differs)
    yield Block(text=f"step {near.step}", style="head", indent=INDENT, aside=differs)
    yield Block(text=format.one_line(near.phrase), style="quiet", indent=2 * INDENT)
    text = format.plain(near.text) or "(an empty text)"
    style = "error" if near.is_error else ""
    yield Block(text=text, style=style, indent=2 * INDENT, key=key, shown=NEAR)
