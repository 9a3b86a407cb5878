"""A probe in full as a document: before it is run what it would do, afterwards what it came to.
Pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from arc_tui import format
from arc_tui.views.probing.stage import ProbeStage
from arc_tui.views.probing.view import ProbeOffer, ProbeView
from arc_tui.views.probing.words import arms, readings, spent
from arc_tui.widgets.document import EMPTY, Block, Document, Item, Keyed

TEXT = 400
"""Characters of what is put in that are shown before it is opened."""

MORE = "‹probe.samples› asks more often; another probe, or your own words (‹probe.words›), may tell"
YOUR_WORDS = "‹probe.words› writes it here"


def probe_page(stage: ProbeStage) -> Document:
    """What is to be read of the probe that is looked at, or of the one that was asked."""
    if stage.view is not None:
        return tuple(_result(stage.view))
    return tuple(_offer(stage.offer, stage)) if stage.offer is not None else EMPTY


def _offer(offer: ProbeOffer, stage: ProbeStage) -> Iterator[Item]:
    yield Block(text=offer.change, label=offer.name, style="head")
    if not offer.fits:
        unseen = f"{offer.symptom}, which was not seen here: it counts only if you saw it"
        yield Block(text=unseen, label="symptom", style="candidate")
    if offer.why_not is not None:
        aside = YOUR_WORDS if offer.name == "constraint" else ""
        yield Keyed(text=format.plain(offer.why_not), label="cannot", style="error", aside=aside)
        return
    for shown in readings(offer):
        yield Block(text=shown, label="would mean")
    yield from _put_in(offer.text, offer.by)
    k = format.count(stage.listed.k, "sample")
    whom = format.one_line(stage.listed.model or "a model that you name")
    yield Block(text=f"{k} with and {k} without, by {whom}", label="asks", style="quiet")
    yield Block(text=format.one_line(shlex.join(offer.command)), label="command", style="quiet")


def _put_in(text: str, by: str) -> Iterator[Item]:
    """What is put in, and where that comes from."""
    yield Block(text=format.plain(text), label="puts in", key="put in", shown=TEXT)
    yield Block(text=format.one_line(by), label="from", style="quiet")


def _result(view: ProbeView) -> Iterator[Item]:
    for arm, shown in arms(view):
        yield Block(text=shown, label=arm, style="head")
    if view.done and view.classification is None:
        yield Keyed(text=MORE, label="then")
    if view.classification is not None:
        yield Block(text=format.plain(view.why), label="because")
    if view.test is not None:
        yield Block(text=format.one_line(view.test.oracle), label="judged by", style="quiet")
    yield Block(text=spent(view), label="answered by", style="quiet")
    if view.line is not None:
        yield Block(text=format.one_line(view.line.line), label="log", style="quiet")
    yield from _put_in(view.text, view.by)
