"""What a free run came to, in sentences: where it left the recorded road, how far it went, why it
is over, and what is to be known of what it was answered with.

None of them says how the run would have ended.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from arc_tui.experiments.progress import resting
from arc_tui.experiments.request import CostEstimate
from arc_tui.features.free.view import FreeView
from arc_tui.ui import format
from replay.compare.actions import Difference
from replay.effects import By
from replay.free.recorded_results import Rank
from replay.free.result import FreeRun, Status
from replay.locked.estimate import Estimate
from replay.models import protocol

UNCHECKED = "Whether such a run would have passed nobody checked."
"""Stands under every free run."""

LOOK = "One run: a look."

RANKS: dict[Rank, str] = {
    "exact": "recorded for this call, at this moment",
    "edited": "recorded for this call, changed by your edit",
    "stub": "your stub",
    "guessed": "recorded for this call, at this moment if the calls before it are reads",
    "reused": "recorded for this call, given once more",
    "stale": "recorded for this call, at another moment",
    "miss": "nothing answers it",
}
"""What a rank means."""

BY: dict[By, str] = {
    "yours": "you say so",
    "annotated": "as annotated",
    "known": "a known tool",
    "arguments": "as its arguments say",
    "guessed": "a guess from its name",
    "unknown": "nobody says whether",
}
"""Who says what a tool does to the world."""

_STOPPED: dict[Status, str] = {
    "finished": "finished",
    "user": "stopped before the user's next words",
    "miss": "stopped at a miss",
    "stale": "stopped where only a stale answer is left",
    "masked": "stopped at a masked value",
    "cut": "stopped at an answer that is not whole",
    "refused": "stopped at a request that was refused",
    "cap": "stopped at its limit of answers",
    "going": "is not over",
}


def sentence(made: FreeRun) -> str:
    """What the run came to, or came to so far."""
    path = _path_sentence(made)
    if made.stop is None:
        return f"So far: {path[:1].lower()}{path[1:]}" if path else "Asking the first answer."
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
    beyond = f", and gave {format.count(own, 'more answer')}" if own else ""
    if left is not None and left.against is not None:
        return f"It left the recorded road at step {left.step}{_how(left.against)}{beyond}."
    if own:
        return f"It did what was recorded to the end of the recording{beyond}."
    if not same:
        return ""
    if same == 1:
        return f"It did what was recorded at step {answered[-1].step}."
    return f"It did what was recorded at {same} steps, to step {answered[-1].step}."


def _how(against: Difference) -> str:
    if against.departs:
        return f": {format.one_line(against.brief)}"
    if against.reworded:
        return ", speaking in other words"
    return f", as far as anyone can tell ({format.one_line(against.brief)})"


def notices(made: FreeRun) -> Iterator[str]:
    """What is to be known of the answers it got, the gravest first."""
    ranks = made.ranks
    if stale := ranks.get("stale"):
        yield (
            f"{format.count(stale, 'call')} got what was recorded at another moment (stale): by"
            " then it may have been otherwise."
        )
    if made.guesses:
        said = " ".join(f"--reads {format.one_line(tool)}" for tool in made.guesses)
        yield f"To say that these tools change nothing: {said}; of one that does: --writes TOOL."
    if stubs := ranks.get("stub"):
        yield f"{format.count(stubs, 'call')} got what you wrote ({_stubs(stubs)})."
    if made_up := [each for each in made.writes if not each.recorded]:
        named = ", ".join(dict.fromkeys(format.one_line(each.call.tool) for each in made_up))
        yield (
            f"It made {format.count(len(made_up), 'call')} that may write and that the recording"
            f" did not make there ({named}); no tool was run."
        )
    if made.status == "stale" or stale:
        for tool, by in {each.call.tool: each.by for each in made.writes}.items():
            if by in ("guessed", "unknown"):
                name = format.one_line(tool)
                yield f"{name} counts as writing ({BY[by]}): --reads {name} says that it reads."


def _stubs(number: int) -> str:
    return "a stub" if number == 1 else "stubs"


def runs_sentence(runs: Sequence[FreeView]) -> str:
    """How several runs ended, and where they left the road: `3 of 5 finished, 2 stopped at a miss
    at step 6`."""
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
    return f" at step {last.step}" if last.step is not None else f" at answer {last.index}"


def _leaving(runs: Sequence[FreeView]) -> str:
    left = Counter(run.left.step for run in runs if run.left is not None)
    if not left:
        return "none left the recorded road"
    several = len(left) > 1
    places = ", ".join(
        f"step {step}" + (f" ({n})" if several else "") for step, n in left.most_common()
    )
    return f"{left.total()} left the recorded road at {places}"


class FreeRunEstimate(CostEstimate, frozen=True, eq=False, kw_only=True):
    """What a free run of a server's model may come to. How often it will ask nobody knows: at most
    `most` times a run; `as_recorded` is what its recorded steps would ask and cost, all afresh."""

    most: int
    as_recorded: Estimate

    def question(self) -> str:
        found = self.as_recorded
        money = (
            "no price is known for it" if found.usd is None else f"about {format.usd(found.usd)}"
        )
        whom = " and ".join(map(format.one_line, self.models))
        return (
            f"{whom} has not answered all of this yet. How often it will be"
            f" asked nobody knows: at most {format.count(self.most, 'time')}. The recording, asked"
            f" again from here, is {format.count(found.calls, 'call')},"
            f" {format.tokens(found.input_tokens)} tokens in,"
            f" {format.tokens(found.output_tokens)} out: {money}.\n"
            f"They go to {protocol.address(protocol.server_url())}. Answers are kept and never paid"
            " for twice."
        )
