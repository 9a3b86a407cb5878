"""Samples that are missing, asked together: who is asked, and what each comes to.

Whose samples they are, one replay's or those of several, is the caller's affair.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing

from replay.errors import OfflineMiss
from replay.locked.row import Missing
from replay.models.cached import Outcome


def asked(
    missing: Sequence[Missing], *, marked: bool = False, batch: bool = False
) -> Iterator[tuple[Missing, Outcome]]:
    """What each sample comes to, as it comes; each model answers its own at once.

    A miss names its step. Raises ModelRefused where a model declines altogether, and Stopped.
    """
    for model in dict.fromkeys(each.model for each in missing):
        wanted = [each for each in missing if each.model is model]
        asks = [each.ask for each in wanted]
        with closing(model.answers(asks, marked=marked, batch=batch)) as answers:
            for place, outcome in answers:
                each = wanted[place]
                yield each, _named(outcome, each) if isinstance(outcome, OfflineMiss) else outcome


def _named(miss: OfflineMiss, wanted: Missing) -> OfflineMiss:
    """The miss with its step, and what can be had without asking."""
    where = f"step {wanted.row.plan.step.index}"
    if not wanted.place:
        return OfflineMiss(f"{where}: {miss.message}", miss.hint)
    which = f"{where}, {wanted.side}, sample {wanted.place + 1}"
    return OfflineMiss(f"{which}: {miss.message}", f"{miss.hint}; fewer samples: -k {wanted.place}")
