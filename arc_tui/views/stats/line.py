"""How one figure stands in a table: its value, its interval, what it counted, and a note."""

from __future__ import annotations

from msgspec import Struct

from arc_tui import format
from replay.statistics import Rate
from taxonomy.cost import Money


class Line(Struct, frozen=True, kw_only=True):
    """One figure in words; `of` names the part of the table, `n` what was counted."""

    of: str
    name: str
    value: str = format.UNKNOWN
    interval: str = ""
    n: str = ""
    note: str = ""


def rate_line(of: str, name: str, rate: Rate, counted: str, note: str = "") -> Line:
    """A line of a rate, unknown where nothing was counted."""
    if rate.value is None:
        return Line(of=of, name=name, note=note)
    return Line(
        of=of,
        name=name,
        value=share(rate.value),
        interval=interval(rate),
        n=format.count(rate.n, counted),
        note=note,
    )


def joined(*notes: str | None) -> str:
    """The notes that there are, on one line."""
    return " · ".join(note for note in notes if note)


def all_runs(counts: dict[str, int]) -> str:
    """How many runs were counted."""
    return format.count(sum(counts.values()), "run")


def share(value: float | None) -> str:
    """A rate or a mean in 0..1 to three digits."""
    return format.UNKNOWN if value is None else f"{value:.3f}"


def interval(rate: Rate) -> str:
    return f"{rate.low:.3f}–{rate.high:.3f}" if rate.n else ""


def money(amount: Money) -> str:
    return format.usd(amount.cost_usd, complete=amount.cost_complete)
