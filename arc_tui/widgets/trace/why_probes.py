"""The probes of a step beside its reasons: what the last one came to, which letters run one. Pure.

No cause is named here unless a probe was run.
"""

from __future__ import annotations

from collections.abc import Iterator

from arc_tui import format
from arc_tui.views.probing.reasons import WhyProbes
from arc_tui.views.probing.words import between, last_basis, last_words, price
from arc_tui.widgets.document import INDENT, Block, Item, Keyed


def last_blocks(probes: WhyProbes) -> Iterator[Item]:
    """What the last probe at the step came to, and what that rests on."""
    if probes.last is None:
        return
    style = "good" if probes.last.classification is not None else "head"
    yield Block(text=format.one_line(last_words(probes.last)), style=style)
    yield Block(text=last_basis(probes.last), indent=INDENT, style="quiet")


def offer_blocks(probes: WhyProbes) -> Iterator[Item]:
    """The probes that fit, each with its letter, what it tells apart, its price and change; a
    command names the model where that is not known."""
    listed = probes.listed
    if listed is None or not listed.offers:
        return
    aside = "‹trace.probes›, then a letter, tells two causes apart"
    every = ("arc", "probe", listed.trace[:8], "--step", str(probes.step))
    yield Keyed(text="probes", style="head", aside=aside, command=every)
    named = () if listed.model is not None else ("--model", "NAME")
    for offer in listed.offers:
        aside = price(offer, listed.model)
        label = f"‹trace.probes› ‹probe.{offer.name}:{offer.key}›"
        command = (*offer.command, *named) if offer.command else ()
        yield Keyed(text=f"{between(offer)}?", label=label, aside=aside, indent=INDENT,
                    command=command)  # fmt: skip
        yield Block(text=offer.why_not or offer.change, label=" ", indent=INDENT, style="quiet")
