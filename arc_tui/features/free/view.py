"""A free run as a person reads it: its actions, what each call got, why it is over, and what is
nearest to a call without a recorded result; and what it came to, in sentences.

It is never called a result of the recording: after the divergence it is the edited agent's own,
and its outcome is not evaluated.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Literal, TypeAlias

from msgspec import Struct

from arc_tui.experiments.models import NOTHING_SPENT, Spending, servers_of
from arc_tui.experiments.progress import resting, spent_so_far
from arc_tui.experiments.request import CostEstimate
from arc_tui.ui import format
from replay.action import Act
from replay.budget import Limits
from replay.compare.actions import Difference
from replay.effects import By
from replay.free.recorded_results import Rank, Stub
from replay.free.result import FreeRun, Status
from replay.locked.estimate import Estimate
from replay.trace import Effect, Level

Mark: TypeAlias = Literal["same", "diverged", "unclear", "own"]
"""How a response compares: `same`, the recorded action again; `diverged` there, `unclear` too,
though comparing cannot tell whether it acts otherwise; `own` after that, or after the end of the
recording."""

MARKS: dict[Mark, str] = {
    "same": "· same",
    "diverged": "≠ diverged",
    "unclear": "? unclear",
    "own": "→ new",
}


class Got(Struct, frozen=True, kw_only=True):
    """What a call got: an observation of rank `rank`, or none (`text` None) and `why`.

    `step` is where it was recorded, `stub` the one that was used; `guesses` are the tools that it
    rests on a guess of that they read. `effect` is whether the tool
    reads or writes, `by` how that is known.
    """

    call: Act
    phrase: str
    rank: Rank
    effect: Effect
    by: By
    text: str | None
    is_error: bool
    step: int | None = None
    stub: Stub | None = None
    why: str = ""
    guesses: tuple[str, ...] = ()


class FreeRow(Struct, frozen=True, kw_only=True):
    """One response. `step` is the recorded step it stands in for, None after the divergence;
    `recorded` what was done there, `why` how this differs."""

    index: int
    mark: Mark
    phrase: str
    fidelity: Level
    step: int | None = None
    text: str = ""
    calls: tuple[Act, ...] = ()
    got: tuple[Got, ...] = ()
    recorded: str = ""
    recorded_text: str = ""
    recorded_calls: tuple[Act, ...] = ()
    why: str = ""
    flaws: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()
    losses: tuple[str, ...] = ()


class NearCall(Struct, frozen=True, kw_only=True):
    """A recorded call, how the one in question differs from it, and what it got."""

    step: int
    call: Act
    phrase: str
    differs: str
    text: str
    is_error: bool


class Missed(Struct, frozen=True, kw_only=True):
    """A call without a recorded result, and the recorded ones nearest to it.

    `draft` is a stub to start from, None where no stub can answer; its result is that of the call
    that `drafted_from` names, "" where there is no result of this tool.
    """

    call: Act
    phrase: str
    why: str
    near: tuple[NearCall, ...]
    draft: Stub | None = None
    drafted_from: str = ""


class FreeStop(Struct, frozen=True, kw_only=True):
    """Why a run is over; `passing` where another run may get further for no reason of its own."""

    status: Status
    sentence: str
    missed: tuple[Missed, ...] = ()
    passing: bool = False


class FreeView(Struct, frozen=True, eq=False, kw_only=True):
    """Everything the free screen draws and `arc replay --free` prints of one run.

    `stop` is None while it goes on; `limit` is how often it may be asked. `recorded_steps`
    counts those from `start` on. `ranks` counts the observations it was answered with,
    `guessed` those of them that rest on a guess of what tools do.
    `fidelity` is the worst of a request that was asked, `masked` counts redacted values in
    them. `digest` is there at the end of a run that is kept.
    """

    trace: str
    run: str
    edit: str | None
    model: str
    server: str
    start: int
    sample: int
    allow_stale: bool
    limit: int
    recorded_steps: int
    sentence: str
    rows: tuple[FreeRow, ...] = ()
    stop: FreeStop | None = None
    notices: tuple[str, ...] = ()
    ranks: dict[Rank, int] = {}
    guessed: int = 0
    fidelity: Level | None = None
    masked: int = 0
    spent: Spending = NOTHING_SPENT
    digest: str | None = None

    @property
    def status(self) -> Status:
        return self.stop.status if self.stop is not None else "going"

    @property
    def ended(self) -> str | None:
        """Why the run was not finished, None where it is over, or goes on."""
        return self.stop.sentence if self.stop is not None and self.stop.passing else None

    @property
    def diverged(self) -> FreeRow | None:
        """The response at which it diverged."""
        return next((row for row in self.rows if row.mark in ("diverged", "unclear")), None)

    @property
    def missed(self) -> Missed | None:
        """The first call that a stub would answer."""
        calls = self.stop.missed if self.stop is not None else ()
        return next((each for each in calls if each.draft is not None), None)


NO_RUN = FreeView(
    trace="",
    run="",
    edit=None,
    model="",
    server="",
    start=0,
    sample=0,
    allow_stale=False,
    limit=0,
    recorded_steps=0,
    sentence="",
)


class FreeRuns(Struct, frozen=True, eq=False, kw_only=True):
    """The runs of one request, a sample each, and what they came to together."""

    sentence: str
    runs: tuple[FreeView, ...]


# --- one answer in a few words


def did_words(row: FreeRow) -> str:
    """What an answer did, on one line: its calls, else its words."""
    speaks = row.text and not row.calls
    return f"text: {format.one_line(row.text)}" if speaks else format.one_line(row.phrase)


def got_words(got: Got) -> str:
    """What a call got, in a few words: `exact, step 3`, `stub`, `miss`."""
    if got.text is None:
        return got.rank if got.rank in ("miss", "stale") else "not recorded"
    guessed = ", guessed" if got.guesses and got.rank != "guessed" else ""
    place = f", step {got.step}" if got.step is not None else ""
    return f"{got.rank}{guessed}{place}{', error' if got.is_error else ''}"


def progress_words(view: FreeView, limits: Limits) -> str:
    """`step 3 of at most 29 · $0.03 of $0.50`."""
    place = f"step {min(len(view.rows) + 1, view.limit)} of at most {view.limit}"
    return f"{place} · {spent_so_far(view.spent, limits)}"


# --- a run in sentences

UNCHECKED = "Outcome not evaluated."
"""Stands under every free run."""

ONE_RUN = "1 sample: not conclusive."

RANKS: dict[Rank, str] = {
    "exact": "recorded for this call, with the same writes before it",
    "edited": "recorded for this call, changed by your edit",
    "stub": "your stub",
    "guessed": "recorded for this call, if the calls before it are reads",
    "reused": "recorded for this call, served once more",
    "stale": "recorded for this call, with other writes before it",
    "miss": "no recorded result",
}
"""What a rank means."""

BY: dict[By, str] = {
    "yours": "set by you",
    "annotated": "annotated",
    "known": "known tool",
    "arguments": "by its arguments",
    "guessed": "guessed from its name",
    "unknown": "unknown",
}
"""How it is known whether a tool reads or writes."""

_STOPPED: dict[Status, str] = {
    "finished": "finished",
    "user": "stopped before the next user message",
    "miss": "stopped: no recorded result",
    "stale": "stopped: only a stale result",
    "masked": "stopped: masked value",
    "cut": "stopped: truncated response",
    "refused": "stopped: request refused",
    "cap": "stopped: step limit",
    "going": "unfinished",
}


def run_sentence(made: FreeRun) -> str:
    """What the run came to, or came to so far."""
    path = _path_sentence(made)
    if made.stop is None:
        return f"So far: {path[:1].lower()}{path[1:]}" if path else "Replaying the first step."
    return " ".join(filter(None, (path, made.stop.sentence, _guessed(made))))


def _guessed(made: FreeRun) -> str:
    """How much of what it was answered rests on a guess; "" for nothing."""
    if not made.guessed:
        return ""
    tools = ", ".join(map(format.one_line, made.guesses))
    verb = "is" if made.guessed == 1 else "are"
    results = format.count(made.guessed, "tool result")
    return f"{results} {verb} guessed (read-only by name alone: {tools})."


def _path_sentence(made: FreeRun) -> str:
    """How long it did what was recorded, and how far it went beyond; "" where it did nothing."""
    answered = [each for each in made.steps if each.action is not None]
    left = next((e for e in answered if e.against is not None and not e.against.same), None)
    same = sum(1 for each in answered if each.against is not None and each.against.same)
    own = sum(1 for each in answered if each.against is None)
    beyond = f", then {format.count(own, 'new step')}" if own else ""
    if left is not None and left.against is not None:
        return f"Diverged at step {left.step}{_how(left.against)}{beyond}."
    if own:
        return f"Same as recorded to the end of the recording{beyond}."
    if not same:
        return ""
    if same == 1:
        return f"Same as recorded at step {answered[-1].step}."
    return f"Same as recorded at {same} steps, to step {answered[-1].step}."


def _how(against: Difference) -> str:
    if against.diverges:
        return f": {format.one_line(against.brief)}"
    if against.reworded:
        return ": reworded"
    return f" (unclear: {format.one_line(against.brief)})"


def run_notices(made: FreeRun) -> Iterator[str]:
    """What is to be known of the answers it got, the gravest first."""
    ranks = made.ranks
    if stale := ranks.get("stale"):
        yield (
            f"{format.count(stale, 'call')} got a stale result: the recorded one may be out of"
            " date."
        )
    if made.guesses:
        said = " ".join(f"--reads {format.one_line(tool)}" for tool in made.guesses)
        yield f"Mark these tools as read-only: {said}; or as writing: --writes TOOL."
    if stubs := ranks.get("stub"):
        yield f"{format.count(stubs, 'call')} got a stub."
    if made_up := [each for each in made.writes if not each.recorded]:
        named = ", ".join(dict.fromkeys(format.one_line(each.call.tool) for each in made_up))
        yield (
            f"{format.count(len(made_up), 'new call')} that may write ({named}), not in the"
            " recording; no tool was run."
        )
    if made.status == "stale" or stale:
        for tool, by in {each.call.tool: each.by for each in made.writes}.items():
            if by in ("guessed", "unknown"):
                name = format.one_line(tool)
                yield f"{name} counts as writing ({BY[by]}). Try: --reads {name}"


def runs_sentence(runs: Sequence[FreeView]) -> str:
    """How several runs ended, and where they diverged: `3 of 5 finished, 2 stopped: no recorded
    result at step 6`."""
    if not runs:
        return ""
    ends = Counter((_STOPPED[run.status], _where(run)) for run in runs)
    (first, at), times = ends.most_common(1)[0]
    said = [f"{times} of {len(runs)} {first}{at}"]
    said += [f"{n} {words}{place}" for (words, place), n in ends.most_common()[1:]]
    guessed = resting(sum(1 for run in runs if run.guessed), len(runs))
    return f"{'; '.join(filter(None, (', '.join(said), _leaving(runs), guessed)))}."


def _where(run: FreeView) -> str:
    """The place at which a run stopped; "" where it came to its own end."""
    if run.status in ("finished", "user") or not run.rows:
        return ""
    last = run.rows[-1]
    return f" at step {last.step}" if last.step is not None else f" at response {last.index}"


def _leaving(runs: Sequence[FreeView]) -> str:
    left = Counter(run.diverged.step for run in runs if run.diverged is not None)
    if not left:
        return "none diverged"
    several = len(left) > 1
    places = ", ".join(
        f"step {step}" + (f" ({n})" if several else "") for step, n in left.most_common()
    )
    return f"{left.total()} diverged at {places}"


# --- before anything is asked


class FreeRunEstimate(CostEstimate, frozen=True, eq=False, kw_only=True):
    """What a free run of a server's model may come to. It makes at most `max_calls` calls a run;
    `as_recorded` is what its recorded steps would take, none of them cached."""

    max_calls: int
    as_recorded: Estimate

    def question(self) -> str:
        found = self.as_recorded
        money = "price unknown" if found.usd is None else f"about {format.usd(found.usd)}"
        whom = " and ".join(map(format.one_line, self.models))
        return (
            f"Not all responses of {whom} are cached. Number of calls unknown: at most"
            f" {format.number(self.max_calls)}. Replaying the recording from here takes"
            f" {format.count(found.calls, 'call')}, {format.tokens(found.input_tokens)} tokens in,"
            f" {format.tokens(found.output_tokens)} out: {money}.\n"
            f"Server: {servers_of(self.models)}. Responses are cached and never"
            " paid for twice."
        )
