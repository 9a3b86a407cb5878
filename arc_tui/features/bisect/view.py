"""What `arc bisect` and its screen show: the sentence, a row a version, what was asked and why."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import unified_diff
from typing import Literal, TypeAlias

from msgspec import Struct

from arc_tui.ui.format import cut
from replay.bisection.rounds import Found, Seen, Status, Why
from replay.statistics import Rate, rate

Kind: TypeAlias = Literal["versions", "hunks", "prefix"]
State: TypeAlias = Literal[Status, "going"]

WHY: dict[Why, str] = {
    "ends": "without both ends nothing can be told",
    "tells most": "an answer there is expected to leave the least open",
    "any change?": "do the ends differ at all?",
    "far from it": "one change must explain them too",
    "all": "one change does not explain it: every version is looked at",
    "fresh": "do new answers of both neighbours say the same?",
}


class VersionRow(Struct, frozen=True, kw_only=True):
    """One version: `bad` is the share of its judged answers that are bad, `censored` counts those
    that could not be judged. `likely` is how likely it is the first bad one, None for the first.
    `among` marks those that are named, `misfit` those one change does not explain; `next` counts
    the answers asked for now."""

    name: str
    note: str
    bad: Rate
    hits: int
    censored: int
    likely: float | None
    among: bool = False
    misfit: bool = False
    next: int = 0


class RoundLine(Struct, frozen=True, kw_only=True):
    """A round of answers: of which versions, in words, and what for."""

    versions: str
    why: str


class BisectView(Struct, frozen=True, eq=False, kw_only=True):
    """A search over versions, as far as it is.

    `unchanged` is how likely nothing changed, `several` that the boundary is one of several, None
    where that is no question. `samples` counts the answers of the search, `checks` those of its
    checks; of all of them `asked` were asked for and `kept` were stored. `diff` is the named
    version against the one before it, or the named hunks. `says_not` are sentences that bound what
    was found. `fidelity` is that of the requests that are asked. `ended` says why the model
    declined to go on. `digest` is over the evidence, None before the end.
    """

    trace: str
    kind: Kind
    status: State
    sentence: str
    step: int | None
    free: bool
    oracle: str
    model: str
    server: str
    fidelity: str | None
    fidelity_reasons: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()
    rows: tuple[VersionRow, ...] = ()
    unchanged: float | None = None
    first_bad: str | None = None
    among: tuple[str, ...] = ()
    confidence: float | None = None
    verified: bool | None = None
    several: float | None = None
    rounds: tuple[RoundLine, ...] = ()
    parts: tuple[str, ...] = ()
    diff: tuple[str, ...] = ()
    says_not: tuple[str, ...] = ()
    samples: int = 0
    checks: int = 0
    most: int = 0
    asked: int = 0
    kept: int = 0
    spent_usd: float = 0.0
    spent_complete: bool = True
    ended: str | None = None
    digest: str | None = None

    @property
    def named(self) -> bool:
        """Was something found, and not taken back by fresh answers?"""
        return self.status == "found" and self.verified is not False


EMPTY = BisectView(
    trace="",
    kind="versions",
    status="going",
    sentence="",
    step=None,
    free=False,
    oracle="",
    model="",
    server="",
    fidelity=None,
)


class Label(Struct, frozen=True):
    """How a version is called, a word beside it, and what its author said of it."""

    name: str
    note: str = ""
    subject: str = ""

    @property
    def full_name(self) -> str:
        """How a sentence calls it."""
        return f"{self.name} “{cut(self.subject, 60)}”" if self.subject else self.name


def version_rows(
    labels: Sequence[Label],
    seen: Sequence[Seen],
    likely: Sequence[float],
    *,
    among: Sequence[int] = (),
    misfits: Sequence[int] = (),
    wanted: Sequence[int] = (),
) -> tuple[VersionRow, ...]:
    """A row a version; indices count the versions of the search."""
    return tuple(
        VersionRow(
            name=label.name,
            note=label.note,
            bad=rate(counts.bad, counts.n),
            hits=counts.bad,
            censored=counts.censored,
            likely=likely[at] if at else None,
            among=at in among,
            misfit=at in misfits,
            next=list(wanted).count(at),
        )
        for at, (label, counts) in enumerate(zip(labels, seen, strict=True))
    )


def found_rows(labels: Sequence[Label], found: Found) -> tuple[VersionRow, ...]:
    """The rows of a search that is over."""
    return version_rows(labels, found.seen, found.likely, among=found.among, misfits=found.misfits)


def round_line(why: Why, names: Sequence[str]) -> RoundLine:
    """`v1, v5 ×2`: what a round asks, and what for."""
    counted = {name: list(names).count(name) for name in dict.fromkeys(names)}
    said = (name if times == 1 else f"{name} ×{times}" for name, times in counted.items())
    return RoundLine(versions=", ".join(said), why=WHY[why])


def text_diff(old: str, new: str, old_name: str, new_name: str) -> tuple[str, ...]:
    """What the new text changes, as a unified diff."""
    lines = unified_diff(old.splitlines(), new.splitlines(), old_name, new_name, lineterm="", n=2)
    return tuple(lines)
