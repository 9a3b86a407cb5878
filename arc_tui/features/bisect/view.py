"""What `arc bisect` and its screen show: a row per version, the rounds and their reasons, the
result in sentences that claim no more than the samples show; all of it as Markdown too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import unified_diff
from typing import Literal, TypeAlias

from msgspec import Struct

from arc_tui.ui import format
from replay.bisection.hunks import Culprits
from replay.bisection.rounds import ALONE, Found, Seen, Status, Why
from replay.models.choose import DEMO
from replay.statistics import Rate, rate

Kind: TypeAlias = Literal["versions", "hunks", "prefix"]
State: TypeAlias = Literal[Status, "going"]

WHY: dict[Why, str] = {
    "ends": "oldest and newest first",
    "tells most": "most informative next sample",
    "any change?": "do oldest and newest differ?",
    "far from it": "check for a second change",
    "all": "not monotonic: test every version",
    "fresh": "confirm both sides of the boundary",
}


class VersionRow(Struct, frozen=True, kw_only=True):
    """One version: `bad` is the share of its usable samples that are bad, `unusable` counts the
    others. `likely` is the probability that it is the first bad one, None for the oldest. `among`
    marks those that are named, `misfit` those one change does not explain; `next` counts the
    samples of the current round."""

    name: str
    note: str
    bad: Rate
    hits: int
    unusable: int
    likely: float | None
    among: bool = False
    misfit: bool = False
    next: int = 0


class RoundLine(Struct, frozen=True, kw_only=True):
    """A round of samples: of which versions, in words, and why."""

    versions: str
    why: str


class BisectView(Struct, frozen=True, eq=False, kw_only=True):
    """A search over versions so far.

    `unchanged` is the probability that nothing changed, `several` that the boundary is one of
    several, None where that is no question. `samples` counts those of the search, `checks` those
    that confirm it; `calls` of all of them were new, `cached` were stored. `diff` is the named
    version against the one before it, or the named hunks. `bounds` are sentences that limit the
    result. `fidelity` is that of the requests. `ended` is why the search ended early. `digest` is
    over the evidence, None before the end.
    """

    trace: str
    kind: Kind
    status: State
    sentence: str
    step: int | None
    free: bool
    detector: str
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
    bounds: tuple[str, ...] = ()
    samples: int = 0
    checks: int = 0
    max_samples: int = 0
    calls: int = 0
    cached: int = 0
    spent_usd: float = 0.0
    spent_complete: bool = True
    ended: str | None = None
    digest: str | None = None

    @property
    def named(self) -> bool:
        """Is one named, and not refuted by new samples?"""
        return self.status == "found" and self.verified is not False


EMPTY = BisectView(
    trace="",
    kind="versions",
    status="going",
    sentence="",
    step=None,
    free=False,
    detector="",
    model="",
    server="",
    fidelity=None,
)


class Label(Struct, frozen=True):
    """A version's name, a note, and its author's subject line."""

    name: str
    note: str = ""
    subject: str = ""

    @property
    def full_name(self) -> str:
        """The name in a sentence."""
        return f"{self.name} “{format.cut(self.subject, 60)}”" if self.subject else self.name


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
            unusable=counts.censored,
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
    """`v1, v5 ×2`: the samples of a round, and why."""
    counted = {name: list(names).count(name) for name in dict.fromkeys(names)}
    versions = (name if times == 1 else f"{name} ×{times}" for name, times in counted.items())
    return RoundLine(versions=", ".join(versions), why=WHY[why])


def text_diff(old: str, new: str, old_name: str, new_name: str) -> tuple[str, ...]:
    """What the new text changes, as a unified diff."""
    lines = unified_diff(old.splitlines(), new.splitlines(), old_name, new_name, lineterm="", n=2)
    return tuple(lines)


# --- the result


def sentence(found: Found, labels: Sequence[Label], kind: Kind, refused: str | None) -> str:
    """The result of a search over versions or prefixes."""
    names = [label.name for label in labels]
    match found.status:
        case "found" if kind == "prefix":
            return _last_recoverable(found, names)
        case "found":
            return _first_bad(found, [label.full_name for label in labels])
        case "no change":
            return _unchanged(found, names, kind)
        case "reversed":
            return _reversed(found, names, kind)
        case "non-monotone":
            return _mixed(found, names)
        case "censored":
            ends = [at for at in (0, len(names) - 1) if not found.seen[at].n]
            which = " and ".join(names[at] for at in ends)
            return f"No usable sample of {which}"
        case "budget":
            return _inconclusive(found, names, refused)


def hunk_sentence(culprits: Culprits, many: int, refused: str | None) -> str:
    """The result of a search over hunks, which are counted from 1."""
    first = culprits.parts[0].found
    if not culprits.hunks:
        texts = [Label("old text"), *(Label(f"{n} hunks") for n in range(1, many))]
        return sentence(first, [*texts, Label("new text")], "versions", refused)
    several = len(culprits.hunks) > 1
    which = f"{'hunks' if several else 'hunk'} {_listed(culprits.hunks)} of {many}"
    boundary = min(first.among)
    counts = (
        f"{_share(first, boundary, many + 1)} fail with {'them' if several else 'it'},"
        f" {_share(first, 0, boundary)} without"
    )
    if first.verified is False:
        return f"Not confirmed by new samples: {which}; {counts}"
    together = " (together)" if several else ""
    return f"First bad: {which}{together}; {counts} {_basis(first)}; {_alone(culprits, refused)}"


def _alone(culprits: Culprits, refused: str | None) -> str:
    if culprits.enough:
        return "sufficient without the others" if len(culprits.hunks) > 1 else "sufficient alone"
    if refused is not None or culprits.parts[-1].found.status == "budget":
        return "not evaluated without the others"
    return "not sufficient without the others; the rest of the cause was not found"


def part_lines(culprits: Culprits) -> Iterator[str]:
    """The searches after the first one: is a hunk sufficient, what else does it need?"""
    for part in culprits.parts[1:]:
        found = part.found
        ends = f"{_counts(found.seen[-1])} fail with, {_counts(found.seen[0])} without"
        if not part.base:
            noun = "hunk" if len(part.order) == 1 else "hunks"
            sufficient = "sufficient" if found.status == "found" else "not sufficient"
            if found.status == "budget":
                sufficient = "inconclusive"
            yield f"{noun} {_listed(part.order)} alone: {sufficient} ({ends})"
        else:
            kept = _listed(sorted(part.base))
            yield f"with hunk {kept}, among {_listed(part.order)}: {found.status} ({ends})"


def _listed(hunks: Sequence[int]) -> str:
    """`1, 2 and 5`: hunks, counted from 1."""
    *most, last = (str(hunk + 1) for hunk in hunks)
    return f"{', '.join(most)} and {last}" if most else last


def limits_of(kind: Kind, *, free: bool, step: int | None, model: str) -> Iterator[str]:
    """What the result does not cover."""
    if free or kind == "prefix":
        yield (
            "Tools are mocked from the recording: outcome not evaluated, and runs without a"
            " recorded result are unusable."
        )
    else:
        yield (f"Step {step} only, with its recorded context; --free tests whole runs.")
    if model == DEMO:
        yield ("The demo model is rule-based: the result says nothing about a real model.")
    else:
        yield f"Holds for {model}; other models may differ."


# --- the statuses


def _first_bad(found: Found, names: Sequence[str]) -> str:
    first, last = min(found.among), max(found.among)
    which = " or ".join(names[at] for at in found.among)
    unusable = _without_samples(found, names)
    counts = f"{_share(found, last, len(names))} fail from it on, {_share(found, 0, first)} before"
    if found.verified is False:
        return f"Not confirmed by new samples: {which}{unusable}; {counts}"
    return f"First bad: {which}{unusable}; {counts} {_basis(found)}"


def _last_recoverable(found: Found, names: Sequence[str]) -> str:
    first, last = min(found.among), max(found.among)
    counts = (
        f"{_share(found, last, len(names))} fail from {names[last]} on,"
        f" {_share(found, 0, first)} before"
    )
    if found.verified is False:
        return f"Last recoverable step not confirmed by new runs: {names[first - 1]}; {counts}"
    last_good = f"{names[first - 1]}{_without_samples(found, names)}"
    return f"Last recoverable: {last_good}; {counts} {_basis(found)}"


def _without_samples(found: Found, names: Sequence[str]) -> str:
    """The named ones without a usable sample, in brackets."""
    without = [names[at] for at in found.among if not found.seen[at].n]
    return f" (no usable sample of {', '.join(without)})" if without else ""


def _unchanged(found: Found, names: Sequence[str], kind: Kind) -> str:
    first, last = found.seen[0], found.seen[-1]
    mostly = 2 * (first.bad + last.bad) > first.n + last.n
    if kind == "prefix":
        result = (
            "Not recoverable from any step tested"
            if mostly
            else "Recoverable from every step tested"
        )
        return f"{result}: {_counts(first)} fail from {names[0]}, {_counts(last)} from {names[-1]}"
    ends = f"{_counts(first)} fail in {names[0]}, {_counts(last)} in {names[-1]}"
    why = f"the cause is older than {names[0]}" if mostly else "neither fails in most samples"
    return f"No change between {names[0]} and {names[-1]}: {ends}; {why}"


def _reversed(found: Found, names: Sequence[str], kind: Kind) -> str:
    first, last = _counts(found.seen[0]), _counts(found.seen[-1])
    if kind == "prefix":
        return (
            f"Reversed: a later start recovers more often ({first} fail from {names[0]}, {last}"
            f" from {names[-1]})"
        )
    return (
        f"Reversed: oldest fails, newest passes ({first} fail in {names[0]}, {last} in"
        f" {names[-1]}). To find what fixed it, name the newest first"
    )


def _mixed(found: Found, names: Sequence[str]) -> str:
    misfits = ", ".join(f"{names[at]} ({_counts(found.seen[at])})" for at in found.misfits)
    rest = f"not explained by one change: {misfits}"
    if found.first_bad is None:
        return f"Not monotonic: {rest}"
    return f"Not monotonic: {names[found.first_bad]} is {SEVERAL}{_again(found)}; {rest}"


SEVERAL = "one boundary of possibly several"


def several(found: Found) -> str | None:
    """The warning where the versions away from the boundary may hide another; None where they were
    sampled until that is unlikely."""
    if not found.warned or found.several is None:
        return None
    return (
        f"{SEVERAL}: probability {found.several:.2f} of another one, by the samples of the other"
        f" versions (threshold {ALONE:.2f})"
    )


def _inconclusive(found: Found, names: Sequence[str], refused: str | None) -> str:
    after = f"Inconclusive after {format.count(found.samples, 'sample')}"
    why = f"; stopped: {refused}" if refused else ". Try: --max-samples N"
    if found.first_bad is None or not found.samples:
        return f"{after}{why}"
    return (
        f"{after}: most likely {names[found.first_bad]} (probability {found.confidence:.2f}){why}"
    )


# --- counts


def _share(found: Found, start: int, end: int) -> str:
    seen = found.seen[start:end]
    return f"{sum(each.bad for each in seen)}/{sum(each.n for each in seen)}"


def _counts(seen: Seen) -> str:
    return f"{seen.bad}/{seen.n}"


def _basis(found: Found) -> str:
    checked = f" + {found.more} to confirm" if found.more else ""
    samples = f"{format.count(found.samples, 'sample')}{checked}"
    return f"(probability {found.confidence:.2f}, {samples}{_again(found)})"


def _again(found: Found) -> str:
    """The new samples of both sides of the boundary."""
    if found.again is None:
        return ""
    good, bad = found.again
    return f", new samples: {_counts(bad)} fail, {_counts(good)} just before"


# --- to paste into an issue or a commit


def bisect_markdown(view: BisectView) -> str:
    """The verdict, a row per version, the diff, the bounds."""
    return "\n".join(_lines(view)) + "\n"


def _lines(view: BisectView) -> Iterator[str]:
    yield f"**{format.one_line(view.sentence)}**"
    yield ""
    for notice in view.notices:
        yield f"- ! {format.one_line(notice)}"
    yield "| version | bad | first bad? | |"
    yield "|---|---|---|---|"
    yield from map(_row, view.rows)
    if view.unchanged is not None:
        yield f"| no change | | {view.unchanged:.2f} | |"
    yield ""
    if view.diff:
        fence = "`" * max(3, 1 + max(_ticks(line) for line in view.diff))
        yield from (f"{fence}diff", *map(format.plain, view.diff), fence, "")
    where = "" if view.step is None else f" at step {view.step}"
    yield f"Bad: {format.one_line(view.detector)}{where}, trace {view.trace[:8]}. Model:"
    yield (
        f"{format.one_line(view.model)}, {view.samples} + {view.checks} samples."
        f" {'Not finished.' if view.digest is None else f'Digest {view.digest}.'}"
    )
    yield from (f"- {format.one_line(each)}" for each in view.bounds)


def _row(row: VersionRow) -> str:
    name = format.one_line(row.name).replace("|", "\\|")
    note = format.one_line(row.note).replace("|", "\\|")
    likely = "" if row.likely is None else f"{row.likely:.2f}"
    unusable = f" · {row.unusable} unusable" if row.unusable else ""
    shown = f"**{name}**" if row.among else name
    return f"| {shown} | {row.hits}/{row.bad.n}{unusable} | {likely} | {note} |"


def _ticks(line: str) -> int:
    """The longest run of backticks in a line."""
    longest = run = 0
    for character in line:
        run = run + 1 if character == "`" else 0
        longest = max(longest, run)
    return longest
