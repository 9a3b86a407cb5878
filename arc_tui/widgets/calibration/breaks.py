"""Where it broke, as a page: our localiser beside blind guesses, and how sure it may be.

Pure: figures and a width in, lines out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from arc_tui import format
from arc_tui.views.calibration.tables import counted, hit_cells, share, short
from arc_tui.views.calibration.words import MAKE_DECISIVE
from arc_tui.widgets.calibration.ink import BLANK, Line, beside, folded, title
from arc_tui.widgets.cells import fit
from taxonomy.calibration.confidence import Bin, Reliability
from taxonomy.calibration.report import BAD, Calibration
from taxonomy.judge.kept import parsed

TRACK = 25
"""Cells from 0 to 1."""

VAGUE = 0.5
"""An interval wider than this says nothing."""

LABELS = ("n", "exact", "±1", "±3", "±5", "top 3", "mean off")
"""The rows of the table, as `hit_cells` gives them."""

LABEL, CELL, GAP = 9, 15, 2


class Guesser(NamedTuple):
    """Who names steps, in a word and another, its cells under `LABELS`, how often it abstained."""

    kind: str
    name: str
    cells: tuple[str, ...]
    abstained: str = ""


def break_page(figures: Calibration, width: int) -> list[Line]:
    """The page, or what would make one."""
    confidence = list(reliability("candidate", figures.candidates)) if figures.decisive else []
    if figures.findings.bins:
        confidence += [*([BLANK] if confidence else []), *reliability("finding", figures.findings)]
    if not figures.decisive:
        return [*folded(MAKE_DECISIVE, width), *([BLANK] if confidence else []), *confidence]
    return beside(list(_localisation(figures, width)), confidence, width)


def _localisation(figures: Calibration, width: int) -> Iterator[Line]:
    """A column a guesser, so that the figures to compare stand side by side."""
    runs = format.count(figures.decisive, "run")
    yield title(f"where it broke · {runs} whose labels name the step")
    for place, each in enumerate(blocks(list(guessers(figures)), width)):
        if place:
            yield BLANK
        yield from _block(each)
    room = min(width, 4 * (CELL + GAP) + LABEL)
    yield from folded("blind: the best there is, chosen in hindsight on these labels", room)
    if any(each.abstained.value for each in figures.localisation):
        yield from folded(
            "abstaining is a miss and has no distance; `answered` leaves it out", room
        )


def guessers(figures: Calibration) -> Iterator[Guesser]:
    """Ours, the two blind ones, then everyone else who names steps."""
    ours, *others = figures.localisation
    yield Guesser(ours.name, "", hit_cells(ours.over_all), share(ours.abstained))
    if ours.over_all.exact.n != ours.over_answered.exact.n > 0:
        yield Guesser(ours.name, "answered", hit_cells(ours.over_answered))
    known = figures.baselines
    if known is not None:
        yield Guesser("blind", f"step {known.step}", hit_cells(known.constant))
        yield Guesser("blind", f"place {short(known.position)}", hit_cells(known.relative))
    for each in others:
        kind, name = _words(each.name)
        yield Guesser(kind, name, hit_cells(each.over_all), share(each.abstained))


def _words(name: str) -> tuple[str, str]:
    """A guesser's name over two lines; of a first bad score, whose."""
    kind, _, by = name.partition(" · ")
    judge = parsed(by)
    if judge is not None:
        return format.one_line(judge.model), f"{judge.mode} < {short(BAD)}"
    if by:
        return format.one_line(by), f"score < {short(BAD)}"
    first, _, rest = kind.partition(" ")
    return first, rest


def blocks(found: Sequence[Guesser], width: int) -> list[list[Guesser]]:
    """As many guessers side by side as a width holds; ours leads every block."""
    each = max(1, min((width - LABEL) // (CELL + GAP), 7) - 1)
    ours, others = found[0], found[1:]
    return [[ours, *others[at : at + each]] for at in range(0, max(len(others), 1), each)]


def _block(found: Sequence[Guesser]) -> Iterator[Line]:
    yield _row("", [each.kind for each in found], "quiet")
    if any(each.name for each in found):
        yield _row("", [each.name for each in found], "quiet")
    for at, label in enumerate(LABELS):
        yield _row(label, [each.cells[at] for each in found])
    yield _row("abstained", [each.abstained or format.UNKNOWN for each in found])


def _row(label: str, cells: Sequence[str], ink: str = "") -> Line:
    """Ours is the first of the cells, and strong."""
    gap = " " * GAP
    words = [(f"{gap}{fit(cell, CELL)}", ink or ("" if place else "strong"))
             for place, cell in enumerate(cells)]  # fmt: skip
    return ((f"{label:<{LABEL}}", "quiet"), *words)


# --- as sure as right?


def reliability(what: str, found: Reliability) -> Iterator[Line]:
    """A line a bin of stated confidence: where it was, and where the truth lies."""
    yield title(f"is a {what} as often right as it says?")
    if not found.bins:
        silent = format.count(found.silent, what)
        yield ((f"{silent} without a confidence: nothing to compare", "quiet"),)
        return
    head = f"{'said':<6}0{'.5':^{TRACK - 2}}1  {'was right':<21}"
    yield ((head, "quiet"),)
    for each in found.bins:
        yield from _bin(each)
    silent = f" · {found.silent} said nothing" if found.silent else ""
    yield ((f"◇ said  ● was right  ─ its interval · off by {short(found.error)}{silent}", "quiet"),)


def _bin(each: Bin) -> Iterator[Line]:
    verdict, ink = _verdict(each)
    yield (
        (f"{short(each.stated):<6}", "strong"),
        (track(each), ""),
        (f"  {counted(each.right):<21}", ""),
        (f"  {verdict}", ink),
    )


def _verdict(each: Bin) -> tuple[str, str]:
    if each.right.high - each.right.low > VAGUE:
        return "too few to tell", "quiet"
    if each.honest:
        return "holds", "good"
    return ("too sure", "bad") if each.stated > each.right.high else ("too shy", "warn")


def track(each: Bin) -> str:
    """What was said and what was right on one axis from 0 to 1."""
    cells = ["·"] * TRACK
    low, high = _at(each.right.low), _at(each.right.high)
    cells[low : high + 1] = "─" * (high + 1 - low)
    said, right = _at(each.stated), _at(each.right.value or 0.0)
    cells[said] = "◇"
    cells[right] = "◈" if said == right else "●"
    return "".join(cells)


def _at(value: float) -> int:
    return round(value * (TRACK - 1))
