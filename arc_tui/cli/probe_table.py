"""Probes as text: those that fit a run with their price, and what one came to."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from rich.console import Console
from rich.text import Text

from arc_tui import format
from arc_tui.cli.common import print_table, with_database
from arc_tui.views.probing.view import ProbeOffer, ProbesView, ProbeView
from arc_tui.views.replay.view import ReplayRow
from replay.locked.estimate import Estimate
from replay.models.choose import DEMO, label

_WIDTH = 60
_LINES = 12


# --- which probes


def print_offers(out: Console, view: ProbesView) -> None:
    """The symptom, every probe with its price, and what those that fit would put in."""
    name = format.one_line(view.task or view.trace[:8])
    for line in _heading(view, name):
        out.print(Text(format.plain(line), "bold"), soft_wrap=True)
    if view.notice is not None:
        out.print(Text(format.plain(view.notice), "yellow"), soft_wrap=True)
    if not view.offers:
        return
    out.print()
    head = ["", "probe", "tells apart", "by one change", "calls", "cost"]
    print_table(out, head, [_offer_cells(each, view) for each in view.offers])
    out.print()
    for each in view.offers:
        if each.fits:
            _print_offer(out, each)
    samples = f"{format.count(view.k, 'sample')} an arm"
    if view.model is None:
        unknown = f"{samples} · the trace does not say which model answered: --model names one"
        out.print(Text(f"{unknown}, to run a probe and to know what it costs", "yellow"),
                  soft_wrap=True)  # fmt: skip
    else:
        out.print(Text(f"{samples} · {view.model}", "dim"))


def _heading(view: ProbesView, name: str) -> Iterator[str]:
    if view.unfit is not None:
        yield f"{name}: {view.unfit}"
    for noted in view.symptoms:
        yield f"{name}: {noted.symptom} (step {view.step}): {noted.why}"


def _offer_cells(offer: ProbeOffer, view: ProbesView) -> list[Text | str]:
    mark = "▸" if offer.fits and offer.why_not is None else " "
    style = "" if offer.fits else "dim"
    apart = " or ".join(offer.candidates)
    calls, cost = _price(offer.estimate, local=view.model == label(DEMO))
    cells = [mark, offer.name, apart, offer.why_not or offer.change, calls, cost]
    return [Text(format.cut(format.one_line(cell), _WIDTH), style) for cell in cells]


def _price(found: Estimate | None, *, local: bool) -> tuple[str, str]:
    if found is None:
        return format.UNKNOWN, format.UNKNOWN
    stored = f" ({found.stored} stored)" if found.stored else ""
    return f"{found.calls}{stored}", "free" if local else format.usd(found.usd)


def _print_offer(out: Console, offer: ProbeOffer) -> None:
    """What a probe that fits would put in, and the command that runs it."""
    if offer.why_not is not None:
        out.print(Text(format.plain(f"{offer.name}: {offer.why_not}"), "yellow"), soft_wrap=True)
        return
    out.print(Text(f"{offer.name} puts in ({format.one_line(offer.by)}):", "dim"), soft_wrap=True)
    _print_text(out, offer.text)
    out.print(Text(shlex.join(with_database(offer.command))), soft_wrap=True)
    out.print()


def _print_text(out: Console, text: str) -> None:
    lines = format.plain(text).splitlines()
    for line in lines[:_LINES]:
        out.print(Text(f"  {line}"), soft_wrap=True)
    if len(lines) > _LINES:
        more = format.count(len(lines) - _LINES, "more line")
        out.print(Text(f"  … {more} (--json)", "dim"), soft_wrap=True)


# --- one probe


def print_probe(out: Console, view: ProbeView) -> None:
    """The sentence, why, what was put in, the steps, the line of the log."""
    out.print(Text(format.plain(view.sentence), "bold"), soft_wrap=True)
    if view.classification is not None:
        out.print(Text(format.plain(view.why)), soft_wrap=True)
    for notice in view.notices:
        out.print(Text(format.plain(notice), "yellow"), soft_wrap=True)
    out.print()
    out.print(Text(f"put in ({format.one_line(view.by)}):", "dim"), soft_wrap=True)
    _print_text(out, view.text)
    out.print()
    print_table(out, ["step", "", "control", "with the probe"], [_step(r) for r in view.rows])
    out.print()
    if view.line is not None:
        out.print(Text(format.plain(view.line.line)), soft_wrap=True)
    spent = format.usd(view.spent_usd, complete=view.spent_complete)
    judged = f", judged by {view.test.oracle}" if view.test is not None else ""
    foot = (
        f"answered by {view.model}{judged} · {format.count(view.k, 'sample')} an arm at step"
        f" {view.step} · {view.asked} asked, {view.kept} kept · spent {spent}"
    )
    out.print(Text(format.plain(foot), "dim"), soft_wrap=True)


def _step(row: ReplayRow) -> list[Text | str]:
    style = "dim" if row.dimmed else ""
    control = row.control.mostly.phrase if row.control else row.refused or format.UNKNOWN
    edited = row.edited.mostly.phrase if row.edited else row.edited_refused or format.UNKNOWN
    cells = [str(row.step), "◆" if row.at_break else "", control, edited]
    return [Text(format.cut(format.one_line(cell), _WIDTH), style) for cell in cells]
