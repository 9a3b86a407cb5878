"""What the list of runs says of itself: its headline, what it shows, why it is empty. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from rich.text import Text

from arc_tui import format
from arc_tui.views.runs.arrangement import Arrangement
from arc_tui.views.runs.view import RunsView, apart_words

NO_RUNS = """no runs here yet

{open:<15}   opens what is here: sessions, logs, the demo
arc import PATH   reads traces: a file, a folder, - for a pipe
arc FILE          reads a file and opens it here
arc demo          shows bundled runs: no key, no network"""

KeyOf: TypeAlias = Callable[[str], str]
"""How the key of a binding is written, by its id."""


def headline(view: RunsView, key_of: KeyOf) -> Text:
    """The database, and sums over the runs that are listed."""
    totals = view.totals
    cost = format.usd(totals.cost_usd, complete=totals.cost_complete)
    facts = [
        counted(view),
        f"{format.number(totals.failed)} failed",
        f"cost {cost if totals.cost_usd is not None else 'unknown'}",
        f"{apart_words(view.apart)} ({key_of('runs.held_out')})" if view.apart.runs else "",
    ]
    database = f"  {format.one_line(view.database)}   "
    return Text.assemble((" arc ", "bold"), database, " · ".join(filter(None, facts)))


def counted(view: RunsView) -> str:
    """The runs that are listed, of how many."""
    runs = format.count(view.runs, "run")
    return runs if view.wanted.everything else f"{format.number(view.totals.runs)} of {runs}"


def title(wanted: Arrangement) -> Text:
    """Which runs the list shows, and in which order."""
    chosen = [
        "runs",
        format.one_line(wanted.kind),
        format.one_line(wanted.words),
        "failed only" if wanted.failed_only else "",
        f"by {wanted.order}" if wanted.order else "",
    ]
    return Text(" · ".join(filter(None, chosen)))


def nothing(view: RunsView, key_of: KeyOf) -> str:
    """What stands where the runs would, if there are none."""
    if not view.runs:
        hidden = apart_words(view.apart)
        if hidden:
            return f"{hidden}; {key_of('runs.held_out')} shows them"
        return NO_RUNS.format(open=key_of("runs.here"))
    wanted = view.wanted
    failed = "failed " if wanted.failed_only else ""
    kind = f" of {format.one_line(wanted.kind)!r}" if wanted.kind else ""
    says = f" says {format.one_line(wanted.words)}" if wanted.words else ""
    return f"no {failed}run{kind}{says}; {key_of('runs.back')} shows all"
