"""What became of errors put into runs on purpose, kept, and as the recovery rate counts them.

One record an error: how it was put in and what each sample of the model did about it. The recovery
rate speaks of the agent that was recorded, so it counts only errors after which the recorded model
was asked; an error tried in several samples counts once, by the share of them that corrected it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec
from msgspec import Struct, structs

from replay import canon
from replay.injection.choice import PLACES
from replay.injection.mended import Outcome
from replay.injection.wrong import Wrong
from replay.statistics import rate
from replay.store import Store, notes
from replay.store.handle import now_ns
from taxonomy.stats.injections import Injection, Recovery

_NOTE = "injected:"


class Tried(Struct, frozen=True, kw_only=True):
    """What one sample did about the error; `after` counts answers, None for no correction."""

    sample: int
    outcome: Outcome
    because: str
    after: int | None = None


class Injected(Struct, frozen=True, kw_only=True):
    """An error put into a run, and what became of it.

    `own` tells whether the model that went on is the recorded one.
    """

    trace: str
    task: str | None
    model: str
    own: bool
    wrong: Wrong
    tried: tuple[Tried, ...]
    at_ns: int = 0

    @property
    def decided(self) -> tuple[Tried, ...]:
        """Those of which it can be told."""
        return tuple(each for each in self.tried if each.outcome != "unknown")

    @property
    def corrected(self) -> int:
        return sum(each.outcome == "corrected" for each in self.tried)


def keep(store: Store, found: Injected) -> Injected:
    """Keep what became of an error, in place of what the same model did about it before."""
    about = canon.digest("injected", found.model, canon.canonical(msgspec.to_builtins(found.wrong)))
    whole = structs.replace(found, at_ns=now_ns())
    notes.keep(store, f"{_NOTE}{found.trace}:{about.rpartition(':')[2][:16]}", whole)
    return whole


def kept(store: Store) -> list[Injected]:
    """Everything that was found, by trace."""
    return notes.found(store, _NOTE, Injected)


def recovery_of(found: Iterable[Injected]) -> Recovery:
    """The recovery rate over errors after which the recorded model was asked.

    `unknown` counts those of which no sample can be told.
    """
    own = [each for each in found if each.own]
    told = [each for each in own if each.decided]
    return Recovery(
        rate=rate(sum(each.corrected / len(each.decided) for each in told), len(told)),
        unknown=len(own) - len(told),
        elsewhere=sum(each.wrong.step not in PLACES for each in own),
    )


def lines(found: Iterable[Injected]) -> Iterator[Injection]:
    """A line for `arc stats --injections` of each sample that can be told."""
    for each in found:
        for tried in each.decided:
            yield Injection(run=each.trace, step=each.wrong.step, corrected_after=tried.after)
