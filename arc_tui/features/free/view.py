"""A free run as a person reads it: what it did answer by answer, what each call got, why it is
over, and what is nearest to a call that nothing answers.

It is never called a result of the recording: from the road on it is the edited agent's own, and
whether it would have passed nobody checked.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

from arc_tui.experiments.models import NOTHING_SPENT, Spending
from arc_tui.ui import format
from replay.action import Act
from replay.effects import By
from replay.free.recorded_results import Rank, Stub
from replay.free.result import Status
from replay.trace import Effect, Level

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
    """The runs of one request, a sample each, and what they came to together."""

    sentence: str
    runs: tuple[FreeView, ...]


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
