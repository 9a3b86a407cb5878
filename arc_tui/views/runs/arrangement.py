"""Which runs of a list are shown, and in which order: what a person chose, in their own words."""

from __future__ import annotations

from msgspec import Struct

from taxonomy.query.filter import ALL, Filter, of_traces
from taxonomy.query.listing import ORDERS

FAILED = Filter("outcome = ?", ("failed",), recorded=True)


class Arrangement(Struct, frozen=True, kw_only=True):
    """What a person chose to see. `order` is a name of `ORDERS`, "" the order of import.

    `words` are a query. `only` are the traces of one kind, which `kind` names; None is all of them.
    """

    words: str = ""
    only: frozenset[str] | None = None
    kind: str = ""
    failed_only: bool = False
    order: str = ""

    @property
    def everything(self) -> bool:
        return not self.words and not self.failed_only and self.only is None

    @property
    def kept(self) -> Filter:
        """The runs that are wanted, whatever the words are."""
        named = ALL if self.only is None else of_traces(self.only)
        return named & FAILED if self.failed_only else named

    def next_order(self) -> str:
        """The order after this one, round and round."""
        names = [*ORDERS]
        return names[(names.index(self.order) + 1) % len(names)]
