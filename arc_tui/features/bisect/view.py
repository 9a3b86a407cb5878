"""What `arc bisect` and its screen show: a row a version, what was asked and why, and what it came
to in sentences that claim no more than the answers show; all of it as Markdown too.
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


# --- what it came to


def sentence(found: Found, labels: Sequence[Label], kind: Kind, refused: str | None) -> str:
    """The result of a search over versions or prefixes."""
    names = [label.name for label in labels]
    match found.status:
        case "found" if kind == "prefix":
            return _lost(found, names)
        case "found":
            return _broke(found, [label.full_name for label in labels])
        case "no change":
            return _unchanged(found, names, kind)
        case "reversed":
            return _reversed(found, names, kind)
        case "non-monotone":
            return _mixed(found, names)
        case "censored":
            ends = [at for at in (0, len(names) - 1) if not found.seen[at].n]
            which = " and ".join(names[at] for at in ends)
            return f"Nothing can be told: {which} gave nothing that can be judged"
        case "budget":
            return _unsure(found, names, refused)


def hunk_sentence(culprits: Culprits, many: int, refused: str | None) -> str:
    """The result of a search over hunks, which are counted from 1."""
    first = culprits.parts[0].found
    if not culprits.hunks:
        texts = [Label("the old text"), *(Label(f"{n} hunks") for n in range(1, many))]
        return sentence(first, [*texts, Label("the new text")], "versions", refused)
    several = len(culprits.hunks) > 1
    which = f"{'Hunks' if several else 'Hunk'} {_listed(culprits.hunks)} of {many}"
    boundary = min(first.among)
    counts = (
        f"with {'them' if several else 'it'} {_share(first, boundary, many + 1)} fail, before"
        f" {_share(first, 0, boundary)}"
    )
    if first.verified is False:
        return f"{which} seemed to break it, but fresh answers did not confirm it: {counts}"
    together = " together" if several else ""
    return f"{which} broke it{together}: {counts} {_basis(first)}; {_alone(culprits, refused)}"


def _alone(culprits: Culprits, refused: str | None) -> str:
    if culprits.enough:
        return "enough without the others" if len(culprits.hunks) > 1 else "enough alone"
    if refused is not None or culprits.parts[-1].found.status == "budget":
        return "whether that is enough without the others is open"
    return "not enough without the others, and what else it takes was not found"


def part_lines(culprits: Culprits) -> Iterator[str]:
    """The searches after the first one: was a hunk enough, what did it need?"""
    for part in culprits.parts[1:]:
        found = part.found
        ends = f"{_counts(found.seen[-1])} fail with, {_counts(found.seen[0])} without"
        if not part.kept:
            noun = "hunk" if len(part.order) == 1 else "hunks"
            enough = "enough" if found.status == "found" else "not enough"
            if found.status == "budget":
                enough = "not sure"
            yield f"{noun} {_listed(part.order)} alone: {enough} ({ends})"
        else:
            kept = _listed(sorted(part.kept))
            yield f"beside hunk {kept}, of {_listed(part.order)}: {found.status} ({ends})"


def _listed(hunks: Sequence[int]) -> str:
    """`1, 2 and 5`: hunks as they are counted for people."""
    *most, last = (str(hunk + 1) for hunk in hunks)
    return f"{', '.join(most)} and {last}" if most else last


def limits_of(kind: Kind, *, free: bool, step: int | None, model: str) -> Iterator[str]:
    """What the result does not say."""
    if free or kind == "prefix":
        yield (
            "Runs are answered from the tape: whether a real one would have passed nobody checked,"
            " and one that left what was recorded is counted apart."
        )
    else:
        yield (
            f"This is about the answer at step {step} alone, asked with its recorded history;"
            " what whole runs do --free asks."
        )
    if model == DEMO:
        yield (
            "The demo model answers by rule: this shows how the search works, and nothing of a"
            " real model."
        )
    else:
        yield f"Another model than {model} may answer otherwise."


# --- the statuses


def _broke(found: Found, names: Sequence[str]) -> str:
    first, last = min(found.among), max(found.among)
    which = " or ".join(names[at] for at in found.among)
    beside = _mute(found, names)
    counts = f"from it on {_share(found, last, len(names))} fail, before {_share(found, 0, first)}"
    if found.verified is False:
        return f"{which} seemed to break it{beside}, but fresh answers did not confirm it: {counts}"
    return f"{which} broke it{beside}: {counts} {_basis(found)}"


def _lost(found: Found, names: Sequence[str]) -> str:
    first, last = min(found.among), max(found.among)
    counts = (
        f"from {names[last]} on {_share(found, last, len(names))} are lost, before"
        f" {_share(found, 0, first)}"
    )
    if found.verified is False:
        return (
            f"{names[first - 1]} seemed the last from which the fix saves the run, but fresh runs"
            f" did not confirm it: {counts}"
        )
    said = f"{names[first - 1]} is the last from which the fix saves the run{_mute(found, names)}"
    return f"{said}: {counts} {_basis(found)}"


def _mute(found: Found, names: Sequence[str]) -> str:
    """The named ones that gave nothing to judge, in brackets."""
    mute = [names[at] for at in found.among if not found.seen[at].n]
    return f" ({', '.join(mute)} gave nothing that can be judged)" if mute else ""


def _unchanged(found: Found, names: Sequence[str], kind: Kind) -> str:
    first, last = found.seen[0], found.seen[-1]
    mostly = 2 * (first.bad + last.bad) > first.n + last.n
    if kind == "prefix":
        said = (
            "The fix saves the run from no step asked"
            if mostly
            else ("The fix saves the run from every step asked")
        )
        return f"{said}: lost {_counts(first)} from {names[0]}, {_counts(last)} from {names[-1]}"
    ends = f"{names[0]} fails {_counts(first)}, {names[-1]} {_counts(last)}"
    why = f"what fails is older than {names[0]}" if mostly else "neither end shows the failure"
    return f"Nothing changed between {names[0]} and {names[-1]}: {ends}; {why}"


def _reversed(found: Found, names: Sequence[str], kind: Kind) -> str:
    ends = f"{names[0]} fails {_counts(found.seen[0])}, {names[-1]} {_counts(found.seen[-1])}"
    if kind == "prefix":
        return f"The other way round: {ends}; a later start is saved more often"
    return (
        f"The other way round: {ends}; something in between repaired it"
        " (named newest first, the versions would say what)"
    )


def _mixed(found: Found, names: Sequence[str]) -> str:
    misfits = ", ".join(f"{names[at]} ({_counts(found.seen[at])})" for at in found.misfits)
    verb = "does" if len(found.misfits) == 1 else "do"
    rest = f"{misfits} {verb} not fit one change; the table says what each does"
    if found.first_bad is None:
        return f"Not one change: {rest}"
    return f"{names[found.first_bad]} is {SEVERAL}{_again(found)}: {rest}"


SEVERAL = "one boundary of possibly several"


def several(found: Found) -> str | None:
    """The warning where the versions away from the boundary may hide another; None where they were
    sampled until that is unlikely."""
    if not found.warned or found.several is None:
        return None
    return (
        f"{SEVERAL}: by the answers of the other versions there are more with a probability of"
        f" {found.several:.2f}; one alone is said at {ALONE:.2f} or less"
    )


def _unsure(found: Found, names: Sequence[str], refused: str | None) -> str:
    after = f"after {format.count(found.samples, 'answer')}"
    why = f"; it ended there: {refused}" if refused else "; --max-samples N allows more"
    if found.first_bad is None or not found.samples:
        return f"Not sure {after}{why}"
    likeliest = f"{names[found.first_bad]} is the likeliest (posterior {found.confidence:.2f})"
    return f"Not sure {after}: {likeliest}{why}"


# --- counts


def _share(found: Found, start: int, end: int) -> str:
    seen = found.seen[start:end]
    return f"{sum(each.bad for each in seen)}/{sum(each.n for each in seen)}"


def _counts(seen: Seen) -> str:
    return f"{seen.bad}/{seen.n}"


def _basis(found: Found) -> str:
    checked = f" + {found.more} to check it" if found.more else ""
    answers = f"{format.count(found.samples, 'answer')}{checked}"
    return f"(posterior {found.confidence:.2f}, {answers}{_again(found)})"


def _again(found: Found) -> str:
    """What both sides of the boundary did when they were asked again."""
    if found.again is None:
        return ""
    good, bad = found.again
    return f", asked again {_counts(bad)} fail, just before {_counts(good)}"


# --- to paste into an issue or a commit


def bisect_markdown(view: BisectView) -> str:
    """The verdict, a row a version, the diff, what it does not say."""
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
        yield f"| nothing changed | | {view.unchanged:.2f} | |"
    yield ""
    if view.diff:
        fence = "`" * max(3, 1 + max(_ticks(line) for line in view.diff))
        yield from (f"{fence}diff", *map(format.plain, view.diff), fence, "")
    where = "" if view.step is None else f" at step {view.step}"
    yield f"Bad: {format.one_line(view.oracle)}{where}, of trace {view.trace[:8]}. Asked:"
    yield (
        f"{format.one_line(view.model)}, {view.samples} + {view.checks} answers."
        f" {'Not finished.' if view.digest is None else f'Digest {view.digest}.'}"
    )
    yield from (f"- {format.one_line(each)}" for each in view.says_not)


def _row(row: VersionRow) -> str:
    name = format.one_line(row.name).replace("|", "\\|")
    note = format.one_line(row.note).replace("|", "\\|")
    likely = "" if row.likely is None else f"{row.likely:.2f}"
    lost = f" · {row.censored} lost" if row.censored else ""
    shown = f"**{name}**" if row.among else name
    return f"| {shown} | {row.hits}/{row.bad.n}{lost} | {likely} | {note} |"


def _ticks(line: str) -> int:
    """The longest run of backticks in a line."""
    longest = run = 0
    for character in line:
        run = run + 1 if character == "`" else 0
        longest = max(longest, run)
    return longest
