"""Tables of text, and the figures in them: the same cells for screens, commands and the docs."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence

from msgspec import Struct

from arc_tui.ui import format
from replay.statistics import Rate
from taxonomy.metrics.agreement import Estimate


class Table(Struct, frozen=True, kw_only=True):
    """A head and its rows, and what has to be known to read them."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()


def short(value: float | None) -> str:
    """A figure between -1 and 1: `.26`, `-.10`, `1.00`."""
    if value is None:
        return format.UNKNOWN
    text = f"{value:.2f}"
    text = "0.00" if text == "-0.00" else text
    return text.replace("0.", ".", 1) if text.lstrip("-").startswith("0.") else text


def signed(value: float) -> str:
    """A difference: `+.05`, `-.10`, `.00`."""
    text = short(value)
    return f"+{text}" if value >= 0.005 else text


def share(rate: Rate) -> str:
    """A rate whose n stands beside it: `.26 (.19–.34)`."""
    if rate.value is None:
        return format.UNKNOWN
    return f"{short(rate.value)} ({short(rate.low)}–{short(rate.high)})"


def counted(rate: Rate) -> str:
    """A rate with its counts: `12/18 .67 (.44–.84)`."""
    if rate.value is None:
        return format.UNKNOWN
    return f"{round(rate.value * rate.n)}/{rate.n} {share(rate)}"


def estimate(found: Estimate) -> str:
    """A coefficient with its interval: `.81 (.60–.92)`."""
    if found.value is None:
        return format.UNKNOWN
    return f"{short(found.value)} ({short(found.low)}–{short(found.high)})"


_FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""What a spreadsheet takes for the beginning of a formula."""


def csv_text(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A head and its rows as CSV, what is unknown empty. A text that a spreadsheet would run gets
    an apostrophe in front."""
    out = io.StringIO()
    written = csv.writer(out, lineterminator="\n")
    written.writerow(head)
    written.writerows([csv_cell(each) for each in row] for row in rows)
    return out.getvalue()


def csv_cell(value: object) -> str:
    """A value as it stands in CSV."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, str):
        return f"{value:.6g}" if isinstance(value, float) else str(value)
    text = format.one_line(value)
    return f"'{text}" if text.startswith(_FORMULA) else text
