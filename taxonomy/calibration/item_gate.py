"""May the answers to this rubric item be used without a person looking at each?

An item passes where, of people's answers that the source answered too, at least `LEAST_EACH` are
yes and as many no, κ is at least `LEAST_KAPPA` and the lower end of its interval is over
`OVER_KAPPA`. .60 is where Landis and Koch (1977) begin to call agreement substantial; over .40,
the end of what they call fair, is our own demand, so that a handful of lucky labels pass nothing.
κ rather than TPR and TNR, because where nearly every answer is yes a source may have both at .9
and most of its no be wrong.

A verdict is kept by source and item, so that labels of one item never touch another's verdict. It
expires as that on scores does, and another model, rubric or template has none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from replay.store import Store, notes
from taxonomy.calibration.agreement import Estimate
from taxonomy.calibration.gate import EXPIRES_NS

if TYPE_CHECKING:  # it knows every rule: too much to load for a look at kept verdicts
    from taxonomy.calibration.items import ItemAgreement

LEAST_KAPPA = 0.60
OVER_KAPPA = 0.40
LEAST_EACH = 5
"""Of people's yes and of their no."""


class ItemGate(Struct, frozen=True, kw_only=True):
    """The verdict on one item of one source: passed, or every reason why not.

    `enough`: were there labels enough to say either?
    """

    by: str
    item: str
    kappa: Estimate
    missing: tuple[str, ...]
    enough: bool = True
    checked_ns: int = 0

    @property
    def passed(self) -> bool:
        return not self.missing


def item_gate(found: ItemAgreement, checked_ns: int = 0) -> ItemGate:
    """Hold the figures of an item against the gate."""
    kappa = found.held.kappa
    counts = {"yes": found.held.tp + found.held.fn, "no": found.held.tn + found.held.fp}
    missing = [
        f"{count} of at least {LEAST_EACH} labels say {word}"
        for word, count in counts.items()
        if count < LEAST_EACH
    ]
    enough = not missing
    if kappa.value is None:
        missing.extend([f"κ is not defined on {kappa.n} labels"] if enough else [])
    elif kappa.value < LEAST_KAPPA:
        missing.append(f"κ {kappa.value:.2f} is under {LEAST_KAPPA:.2f}")
    elif kappa.low <= OVER_KAPPA:
        missing.append(f"κ may be as low as {kappa.low:.2f}: more labels, or it is not enough")
    return ItemGate(
        by=found.by,
        item=found.item,
        kappa=kappa,
        missing=tuple(missing),
        enough=enough,
        checked_ns=checked_ns,
    )


def keep_item(store: Store, verdict: ItemGate) -> None:
    """Keep a verdict in place of the last one on the same item of the same source.

    One on too few labels says nothing against an item: it takes no trust away that stands.
    """
    if not verdict.enough and verdict.item in standing_items(store, verdict.by, verdict.checked_ns):
        return
    notes.keep(store, f"{_note(verdict.by)}{verdict.item}", verdict)


def kept_items(store: Store, by: str) -> tuple[ItemGate, ...]:
    """The last verdict on each item of a source, expired or not."""
    return tuple(each for each in notes.found(store, _note(by), ItemGate) if each.by == by)


def standing_items(store: Store, by: str, now_ns: int) -> frozenset[str]:
    """The items of a source that may be used today."""
    return frozenset(
        each.item
        for each in kept_items(store, by)
        if each.passed and now_ns - each.checked_ns < EXPIRES_NS
    )


def _note(by: str) -> str:
    return f"calibration of items {by} · "
