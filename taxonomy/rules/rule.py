"""A rule, and what those who use its findings need to know of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal, TypeAlias

from msgspec import Struct

from taxonomy.classes import FailureClass
from taxonomy.findings import Finding
from taxonomy.rules.context import RuleContext

Shown: TypeAlias = Literal["answer", "repeated calls", "no calls", "later"]
"""Where the failure shows in another answer to the same request: in the answer itself, in calls
that were all made before, in an answer that calls nothing, or only in what comes back later."""

Against: TypeAlias = Literal["sources", "context", "tools", "numbers"]
"""What a step that contradicts something is held against: the sources that the finding cites, all
that was to be read before, the tools on offer, or its own numbers."""

Item: TypeAlias = Literal["fits", "grounded", "read", "fresh", "ended"]
"""An item of a step's score: its calls fit their tools, their arguments have an origin, results
were read, nothing was repeated, the run ended well."""


class Rule(Struct, frozen=True, kw_only=True):
    """`find` yields findings that bear the `name`. Rules of one name agree in all the rest.

    `against` is None where a finding contradicts nothing that was shown, `denies` where no item of
    a step's score asks about it. A finding counts against a step as those of the class `counts_as`
    do, where that is not its own, and for a `share` of what they count. `advice` is told to a model
    that takes the step again, after the sources; None: that it must agree with them.
    """

    name: str
    find: Callable[[RuleContext], Iterator[Finding]]
    shown: Shown = "later"
    against: Against | None = None
    denies: Item | None = None
    counts_as: FailureClass | None = None
    share: float = 1.0
    advice: str | None = None
