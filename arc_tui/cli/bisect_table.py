"""A bisection as `arc bisect` prints it: the sentence, a row a version, what was asked and why."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console
from rich.text import Text

from arc_tui import format
from arc_tui.cli.common import print_table
from arc_tui.views.bisect.view import BisectView, VersionRow

_BAR, _NOTE = 20, 48


def print_bisect(out: Console, view: BisectView) -> None:
    """The sentence, what speaks against it, the table, the rounds, the diff, what it rests on."""
    out.print(Text(format.plain(view.sentence), "bold"), soft_wrap=True)
    for notice in view.notices:
        out.print(Text(format.one_line(notice), "yellow"), soft_wrap=True)
    out.print()
    head = ["", {"prefix": "fix from"}.get(view.kind, "version"), "bad", "first bad?", "", ""]
    print_table(out, head, [_cells(row) for row in view.rows])
    if view.unchanged is not None:
        out.print(f"nothing changed: {view.unchanged:.2f}", style="dim")
    for part in view.parts:
        out.print(Text(format.plain(part)), soft_wrap=True)
    for line in (*_rounds(view), "") if view.rounds else ():
        out.print(Text(format.plain(line), "dim"), soft_wrap=True)
    for line in view.diff:
        out.print(Text(format.plain(line), _diff_style(line)), soft_wrap=True)
    if view.diff:
        out.print()
    for line in (*view.says_not, *_footer(view)):
        out.print(Text(format.plain(line), "dim"), soft_wrap=True)


def _cells(row: VersionRow) -> list[Text | str]:
    mark = "▸" if row.among else "?" if row.misfit else f"+{row.next}" if row.next else ""
    lost = f" · {row.censored} lost" if row.censored else ""
    likely = "" if row.likely is None else f"{row.likely:.2f}"
    return [
        mark,
        format.one_line(row.name),
        f"{row.hits}/{row.bad.n}{lost}",
        likely,
        format.bar(row.likely or 0.0, _BAR) if (row.likely or 0.0) >= 0.005 else "",
        format.cut(format.one_line(row.note), _NOTE),
    ]


def _rounds(view: BisectView) -> Iterator[str]:
    """What was asked, round after round, and why; the reason once where it stays the same."""
    yield ""
    yield "asked"
    why = ""
    for line in view.rounds:
        yield f"  {format.one_line(line.versions)}{'' if line.why == why else f': {line.why}'}"
        why = line.why


def _diff_style(line: str) -> str:
    return {"+": "green", "-": "red", "@": "cyan"}.get(line[:1], "")


def _footer(view: BisectView) -> Iterator[str]:
    at = (
        ""
        if view.step is None
        else f" at step {view.step}"
        if not view.free
        else (f" from step {view.step} on")
    )
    yield f"bad: {format.one_line(view.oracle)}{at}"
    server = f" at {view.server}" if view.server else ""
    yield (
        f"model {view.model}{server} · {format.fidelity(view.fidelity, view.fidelity_reasons)}"
        f" · {view.samples} + {view.checks} answers · {view.asked} asked, {view.kept} kept"
        f" · spent {format.usd(view.spent_usd, complete=view.spent_complete)}"
    )
    yield f"digest {view.digest}" if view.digest is not None else "not finished: no digest"
