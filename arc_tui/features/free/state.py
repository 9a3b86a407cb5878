"""Where a free run stands, as one value, and what the screen says of it in words."""

from __future__ import annotations

from collections.abc import Iterator

from arc_tui.experiments.models import Spending
from arc_tui.experiments.progress import ExperimentState, Phase, as_sentence
from arc_tui.experiments.request import FreeRunRequest
from arc_tui.features.free.view import EMPTY as NO_RUN
from arc_tui.features.free.view import ONE_RUN, FreeView, Missed
from replay.budget import Limits


class FreeState(ExperimentState, frozen=True, eq=False, kw_only=True):
    """What is run, how far it is, and how that ended."""

    phase: Phase = "running"
    request: FreeRunRequest = FreeRunRequest(trace="")
    view: FreeView = NO_RUN

    @property
    def missed(self) -> Missed | None:
        """The call that a stub can be written of now."""
        return None if self.running else self.view.missed

    @property
    def can_allow_stale(self) -> bool:
        """Would allowing stale answers, or no longer doing so, change anything?"""
        return not self.running and (self.request.allow_stale or self.view.status == "stale")

    @property
    def lines(self) -> tuple[str, ...]:
        """How it stands, in one sentence."""
        return (self._sentence,)

    @property
    def _sentence(self) -> str:
        if self.trouble is not None:
            return as_sentence(self.trouble.message)
        if self.phase == "stopped":
            so_far = self.view.sentence if self.view.rows else ""
            return f"Stopped; what was answered is kept. {so_far}".rstrip()
        if self.running or self.view.stop is None:
            return self.view.sentence or "Asking the first answer."
        return f"{self.view.sentence} {ONE_RUN}"

    @property
    def notices(self) -> tuple[str, ...]:
        """What stands against it, and what is allowed that is not by itself."""
        return tuple(self._notices())

    def _notices(self) -> Iterator[str]:
        if self.trouble is not None and self.trouble.hint:
            yield self.trouble.hint
        if self.request.allow_stale:
            yield "Answers of another moment are allowed (‹free.stale› takes that back)."
        yield from self.view.notices


EMPTY = FreeState()


def next_steps(state: FreeState) -> Iterator[str]:
    """What a person can do about a run that is over, by its keys."""
    stop = state.view.stop
    if stop is None:
        return
    if state.view.missed is not None:
        yield "‹free.stub› writes what it would have got, in a stub; the run goes on at once"
    elif stop.missed:
        yield "no stub answers this: the recorded road has this call, and the edit forbids it"
    if stop.status == "stale":
        yield "‹free.stale› takes what was recorded at another moment, marked as stale"
    if stop.passing:
        yield "‹free.run› runs again, and asks what that may cost"
    match stop.status:
        case "finished" if state.view.left is None:
            yield (
                "‹free.model› lets another model act;"
                " the replay screen (‹trace.edit:e› on a run) tries an edit"
            )
        case "user":
            yield "what the user would have said to this, only a new run of the agent tells"
        case "cap":
            yield "arc replay --free --max-steps N lets it go further"
        case "cut" | "refused" if not stop.passing:
            yield "‹free.run› comes to the same: the answer is kept; another edit may go further"
        case _:
            pass
    yield "one run is a look: arc replay --free -k 5 makes five"


def left_of(limits: Limits, spent: Spending) -> Limits | None:
    """What is left of a limit in money or calls, None where that is nothing."""
    usd = None if limits.usd is None else limits.usd - spent.usd
    calls = None if limits.calls is None else limits.calls - spent.asked
    gone = any(each is not None and each <= 0 for each in (usd, calls))
    return None if gone or not limits.any else Limits(usd=usd, calls=calls)
