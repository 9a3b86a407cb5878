"""What a check-up came to, fit to be attached: when, where, with what, and every assumption.

It holds no key, no address with a password, and no text but the server's own sentences.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib.metadata import version
from typing import Any

from msgspec import Struct

from replay.convert import API
from replay.doctor.checkup import ASSUMPTIONS
from replay.doctor.context import CheckContext
from replay.doctor.probes import Found, Outcome
from replay.store import answers
from replay.store.handle import Store

PREFIX = "doctor:"


class Result(Struct, frozen=True, kw_only=True):
    """An assumption as it was found; "not checked" where nothing tries it."""

    id: str
    says: str
    outcome: Outcome | None
    finding: str
    otherwise: str


class Report(Struct, frozen=True, kw_only=True):
    """A check-up of `model` at `server` ("" for the official API) that began at `checked_ns`.

    `answered_by` is the model that said it answered. `lifecycle` and `max_input_tokens` are what
    the server says of the model, None where it says nothing. `most_usd` is at most what was spent,
    None where no price is known.
    """

    checked_ns: int
    server: str
    model: str
    answered_by: str | None
    lifecycle: str | None
    max_input_tokens: int | None
    sdk: str
    api: str
    most_usd: float | None
    results: tuple[Result, ...]

    @property
    def failed(self) -> tuple[Result, ...]:
        """The assumptions that do not hold."""
        return tuple(each for each in self.results if each.outcome == "fails")

    @property
    def tried(self) -> bool:
        """Did it come to any try at all?"""
        return any(each.outcome not in {None, "not run"} for each in self.results)

    def count(self, outcome: Outcome | None) -> int:
        return sum(each.outcome == outcome for each in self.results)


def report(desk: CheckContext, about: dict[str, Any] | None, found: Iterable[Found]) -> Report:
    """The report of what was found so far; the rest of the assumptions is "not run"."""
    known = {each.check: each for each in found}
    says = about or {}
    limit = says.get("max_input_tokens")
    return Report(
        checked_ns=desk.began_ns,
        server=desk.server,
        model=desk.model,
        answered_by=desk.answered_by,
        lifecycle=str(says["lifecycle"]) if says.get("lifecycle") else None,
        max_input_tokens=limit if type(limit) is int else None,
        sdk=f"anthropic {version('anthropic')}",
        api=API,
        most_usd=desk.budget.usd if desk.budget.usd_complete else None,
        results=tuple(_results(known)),
    )


def _results(known: dict[str, Found]) -> Iterable[Result]:
    for each in ASSUMPTIONS:
        outcome: Outcome | None
        if each.untried is not None:
            outcome, finding = None, each.untried
        elif each.id in known:
            outcome, finding = known[each.id].outcome, known[each.id].finding
        else:
            outcome, finding = "not run", "stopped before"
        yield Result(
            id=each.id, says=each.says, outcome=outcome, finding=finding, otherwise=each.otherwise
        )


def keep(store: Store, made: Report) -> None:
    """Remember a report as the last of its server and model."""
    answers.keep(store, f"{PREFIX}{made.server}:{made.model}", made)


def kept(store: Store) -> tuple[Report, ...]:
    """The last report of every server and model, the latest first."""
    found = answers.found(store, PREFIX, Report)
    return tuple(sorted(found, key=lambda each: -each.checked_ns))
