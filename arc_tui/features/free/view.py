"""A free run as a person reads it: what it did answer by answer, what each call got, why it is
over, and what is nearest to a call that nothing answers.

It is never called a result of the recording: from the road on it is the edited agent's own, and
whether it would have passed nobody checked.

From a free run as the engine gives it to the view of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, TypeAlias

from msgspec import Struct

from arc_tui.experiments.models import NOTHING_SPENT, Spending
from arc_tui.features.free import text as free_words
from arc_tui.ui import format
from replay.action import Act, Action, action, shown
from replay.compare.actions import Difference
from replay.effects import By, takes_program
from replay.free.recorded_results import Found, Near, Rank, Stub, draft
from replay.free.result import FreeRun, FreeStep, Status, Stop, Unanswered
from replay.models.choose import label
from replay.tool_errors import says_error, unwrapped
from replay.trace import Effect, Level, Step, Trace

Mark: TypeAlias = Literal["same", "left", "unclear", "own"]
"""Where an answer stands: `same` on the road, the recorded action again; `left` it left the road
there, `unclear` too, though nobody can tell whether it acts otherwise; `own` after that, or after
the end of the recording."""

MARKS: dict[Mark, str] = {
    "same": "· same",
    "left": "≠ left",
    "unclear": "? left",
    "own": "→ its own",
}


class Got(Struct, frozen=True, kw_only=True):
    """What a call got: an observation of rank `rank`, or none (`text` None) and `why`.

    `step` is where it was recorded, `stub` the one that was used; `guesses` are the tools that it
    rests on a guess of that they read. `effect` is what the tool does
    to the world, `by` who says so.
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
    """One answer. `step` is the recorded step it stands in for, None off the road; `recorded` what
    was done there, `why` how this differs."""

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
    """A call that nothing answers, and the recorded ones nearest to it.

    `draft` is a stub to start from, None where no stub can answer; its result is that of the call
    that `drafted_from` names, "" where this tool was never heard.
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

    `stop` is None while it goes on; `limit` is how often it may be asked. `road` counts the
    recorded steps from `start` on. `ranks` counts the observations it was answered with,
    `guessed` those of them that rest on a guess of what tools do.
    `fidelity` is the worst of a request that was asked, `masked` counts values in them that nobody
    saw. `digest` is there at the end of a run that is kept.
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
    road: int
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
    def left(self) -> FreeRow | None:
        """The answer at which it left the road."""
        return next((row for row in self.rows if row.mark in ("left", "unclear")), None)

    @property
    def missed(self) -> Missed | None:
        """The first call that a stub would answer."""
        calls = self.stop.missed if self.stop is not None else ()
        return next((each for each in calls if each.draft is not None), None)


EMPTY = FreeView(
    trace="",
    run="",
    edit=None,
    model="",
    server="",
    start=0,
    sample=0,
    allow_stale=False,
    limit=0,
    road=0,
    sentence="",
)


class FreeRuns(Struct, frozen=True, eq=False, kw_only=True):
    """The runs of one wish, a sample each, and what they came to together."""

    sentence: str
    runs: tuple[FreeView, ...]


def free_runs(views: Iterable[FreeView]) -> FreeRuns:
    """The runs together: of one, its own sentence, and that one run is a look."""
    runs = tuple(views)
    alone = len(runs) == 1
    said = f"{runs[0].sentence} {free_words.LOOK}" if alone else free_words.together(runs)
    return FreeRuns(sentence=said, runs=runs)


def did_words(row: FreeRow) -> str:
    """What an answer did, on one line: its calls, else its words."""
    speaks = row.text and not row.calls
    return f"says: {format.one_line(row.text)}" if speaks else format.one_line(row.phrase)


def got_words(got: Got) -> str:
    """What a call got, in a few words: `exact, step 3`, `stub`, `miss`."""
    if got.text is None:
        return got.rank if got.rank in ("miss", "stale") else "not recorded"
    guessed = ", guessed" if got.guesses and got.rank != "guessed" else ""
    place = f", step {got.step}" if got.step is not None else ""
    return f"{got.rank}{guessed}{place}{', an error' if got.is_error else ''}"


def free_view(
    made: FreeRun,
    trace: Trace,
    *,
    edit: str | None = None,
    spent: Spending = NOTHING_SPENT,
    masked: Mapping[int, int] = {},
    notice: str | None = None,
    stubs: Sequence[Stub] = (),
) -> FreeView:
    """The view of a run so far. `masked` counts masked values by step; `notice` speaks against any
    edit of the trace; `stubs` are those the run could use."""
    recorded = {step.index: step for step in trace.steps}
    by_digest = {stub.digest: stub for stub in stubs}
    rows = tuple(
        _row(step, each, recorded, by_digest)
        for step in made.steps
        if (each := step.action) is not None
    )
    weakest = made.weakest
    said = (notice,) if notice is not None else ()
    return FreeView(
        trace=made.trace,
        run=format.cut(format.one_line(trace.header.source_id), 40),
        edit=edit,
        model=label(made.model),
        server=made.server,
        start=made.start,
        sample=made.sample,
        allow_stale=made.allow_stale,
        limit=made.limit,
        road=sum(s.thread == made.thread and s.index >= made.start for s in trace.steps),
        sentence=free_words.sentence(made),
        rows=rows,
        stop=_stop(made.stop) if made.stop is not None else None,
        notices=(*said, *made.notices, *free_words.notices(made)),
        ranks=dict(made.ranks),
        guessed=made.guessed,
        fidelity=weakest.level if weakest is not None else None,
        masked=sum(masked.get(row.step, 0) for row in rows if row.step is not None),
        spent=spent,
    )


def _row(
    step: FreeStep, did: Action, recorded: Mapping[int, Step], stubs: Mapping[str, Stub]
) -> FreeRow:
    was = recorded[step.step].ask if step.step is not None else None
    then = action(was.response, was.error) if was is not None else Action()
    return FreeRow(
        index=step.index,
        step=step.step,
        mark=_mark(step.against),
        phrase=did.cut or did.phrase,
        text=did.text,
        calls=did.calls,
        got=tuple(_got(found, stubs) for found in step.found),
        recorded=then.phrase if was is not None else "",
        recorded_text=then.text,
        recorded_calls=then.calls,
        why=step.against.brief if step.against is not None and not step.against.same else "",
        flaws=step.flaws,
        fidelity=step.fidelity.level,
        reasons=step.fidelity.reasons,
        losses=step.losses,
    )


def _mark(against: Difference | None) -> Mark:
    if against is None:
        return "own"
    return "same" if against.same else "left" if against.departs else "unclear"


def _got(found: Found, stubs: Mapping[str, Stub]) -> Got:
    return Got(
        call=found.call,
        phrase=_phrase(found.call),
        rank=found.rank,
        effect=found.effect.effect,
        by=found.effect.by,
        text=found.text,
        is_error=bool(found.is_error) or _says_error(found.call, found.text),
        step=found.step,
        stub=stubs.get(found.stub) if found.stub is not None else None,
        why=found.why or "",
        guesses=found.guesses,
    )


def _says_error(call: Act, text: str | None) -> bool:
    """Is a result an error by its words? Served as recorded, it need not be marked as one."""
    program = takes_program(call.arguments)
    return text is not None and says_error(unwrapped(text), program=program)


def _stop(stop: Stop) -> FreeStop:
    return FreeStop(
        status=stop.status,
        sentence=stop.sentence,
        missed=tuple(_missed(each, stubs_help=stop.stubs_help) for each in stop.calls),
        passing=stop.passing,
    )


def _missed(each: Unanswered, *, stubs_help: bool) -> Missed:
    can = stubs_help and each.call.raw is None and isinstance(each.call.arguments, dict)
    same = next((near for near in each.near if near.recorded.call.tool == each.call.tool), None)
    return Missed(
        call=each.call,
        phrase=_phrase(each.call),
        why=each.why,
        near=tuple(map(_near, each.near)),
        draft=draft(each.call, each.near) if can else None,
        drafted_from=_place(same) if can and same is not None else "",
    )


def _near(near: Near) -> NearCall:
    return NearCall(
        step=near.recorded.step,
        call=near.recorded.call,
        phrase=_phrase(near.recorded.call),
        differs=near.phrase,
        text=near.recorded.text or "",
        is_error=bool(near.recorded.is_error)
        or _says_error(near.recorded.call, near.recorded.text),
    )


def _place(near: Near) -> str:
    """Where an observation was recorded, and for what other arguments."""
    changed = near.difference.changes
    given = (
        f"{each.path} {shown(each.before)}" if each.change != "extra" else f"no {each.path}"
        for each in changed
    )
    other = ", ".join(given) if changed else "the same call at another moment"
    return f"step {near.recorded.step}, for {other}"


def _phrase(call: Act) -> str:
    return Action(calls=(call,)).phrase
