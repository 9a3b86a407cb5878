"""How would the run go on under an edit? The model acts, and the tape answers.

As long as every action is the recorded one, the run is on the road: it is asked the recorded
requests under the edit, as a locked replay asks them, and both share their answers. So a context
that the harness rewrote is what was sent, and the words beside its calls are the recording's. At
the first action that is not the recorded one it leaves the road for good: from then on its
conversation is the request it left at, its own answers, and one turn of results for each, from the
tape (`replay.free.tape`). What the harness would have added there, or rewritten, is not known.

All calls of a turn are answered, or the run stops before it. It stops with a reason wherever the
recording does not tell what would have come: no tool is ever run, and nothing here could run one.
Everything answered is stored, so a run with one more stub asks only what is new.

For a model that always answers alike, the first departure here is the first one of a locked
replay, unless the run stopped before it: up to there both ask the same requests.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import closing

from msgspec import structs

from replay.compare import PLAIN, Rules
from replay.edit import Edit
from replay.errors import BadEdit, ModelRefused, OfflineMiss, no_step
from replay.free.course import Answer, Course, Wanted
from replay.free.result import FreeRun, Stop
from replay.free.tape import BARE, Terms
from replay.models.cached import Ask, Cached
from replay.plan import Plan, plans
from replay.trace import Trace


def run(
    trace: Trace,
    edit: Edit | None,
    model: Cached,
    terms: Terms = BARE,
    *,
    start: int | None = None,
    sample: int = 0,
    max_steps: int | None = None,
    rules: Rules = PLAIN,
) -> Generator[FreeRun]:
    """Run on from a recorded step: the run so far after every answer; the last one has its stop.

    `start` is a step of the thread that is edited, None for its first; everything before it is as
    recorded. At most `max_steps` answers are asked for, None for twice the recorded steps ahead
    and five. Closing the iterator stops the run; what was answered is kept.

    Raises NotFound where there is no such step, BadEdit where the edit does not apply there,
    OfflineMiss where an answer is not stored and none may be asked for.
    """
    going = Going(
        trace, edit, model, terms, start=start, sample=sample, max_steps=max_steps, rules=rules
    )
    while not going.over:
        going.go(_answer(model, going.wanted))
        yield going.made


class Going:
    """A run under way, for who asks: `wanted` is the request it waits for, `made` the run so far.

    Raises as `run` where it cannot begin.
    """

    def __init__(
        self,
        trace: Trace,
        edit: Edit | None,
        model: Cached,
        terms: Terms = BARE,
        *,
        start: int | None = None,
        sample: int = 0,
        max_steps: int | None = None,
        rules: Rules = PLAIN,
    ) -> None:
        ahead = road(trace, edit, model.name, start)
        self._course = Course(trace, edit, ahead, terms, rules)
        self._next: Wanted | None = Wanted(ahead[0].edited.sent, 0)
        self.made = FreeRun(
            trace=trace.id,
            thread=self._course.thread,
            edit=edit.digest if edit is not None else None,
            model=model.name,
            server=model.server,
            start=ahead[0].step.index,
            sample=sample,
            allow_stale=terms.allow_stale,
            limit=limit_of(ahead, max_steps),
            paths=rules.paths,
            yours=terms.effects,
        )

    @property
    def over(self) -> bool:
        return self._next is None

    @property
    def wanted(self) -> Ask | None:
        """What to ask; None where it is over, and where the next step cannot be asked."""
        if self._next is None or self._course.refusal(self._next) is not None:
            return None
        return Ask(self._next.sent, self.made.sample)

    def go(self, answer: Answer | None) -> None:
        """Go on with what `wanted` came to. Raises OfflineMiss, naming the step, for a miss."""
        assert self._next is not None
        made, place = self.made, self._next.place
        step, following = self._course.go(self._next, len(made.steps), answer)
        stop = following if isinstance(following, Stop) else None
        if stop is None and step.index + 1 >= made.limit:
            stop = Stop(
                status="cap",
                sentence=f"It was asked {made.limit} times, as often as this run may.",
            )
        self._next = following if stop is None and isinstance(following, Wanted) else None
        made = structs.replace(made, steps=(*made.steps, step), stop=stop)
        if step.against is not None and not step.against.same:
            made = structs.replace(made, notices=self._course.notices(place))
        self.made = made


def run_all(runs: Sequence[Going], model: Cached) -> None:
    """Bring runs of one model to their ends, side by side: what all of them want next is asked at
    once, as far as the model can.

    A run is made of its own answers alone, so it comes to the same as by itself. Raises OfflineMiss
    as `run`; where the model declines altogether, every run that still waits has its stop.
    """
    while under_way := [each for each in runs if not each.over]:
        asks = {at: ask for at, each in enumerate(under_way) if (ask := each.wanted) is not None}
        answers = _answers(model, asks)
        for at, each in enumerate(under_way):
            each.go(answers.get(at))


def _answers(model: Cached, asks: dict[int, Ask]) -> dict[int, Answer]:
    """What each request came to, by its key."""
    found: dict[int, Answer] = {}
    keys = list(asks)
    try:
        with closing(model.answers(list(asks.values()), marked=len(asks) > 1)) as answers:
            for place, outcome in answers:
                found[keys[place]] = outcome
    except ModelRefused as refused:
        return {key: found.get(key, refused) for key in keys}
    return found


def _answer(model: Cached, ask: Ask | None) -> Answer | None:
    if ask is None:
        return None
    try:
        return model.answer(*ask)
    except (OfflineMiss, ModelRefused) as error:
        return error


def limit_of(road: Sequence[Plan], max_steps: int | None) -> int:
    """How many answers a run along a road may ask for, unless the user says otherwise."""
    return 2 * len(road) + 5 if max_steps is None else max_steps


def road(trace: Trace, edit: Edit | None, model: str, start: int | None) -> list[Plan]:
    """The recorded steps from `start` on, of its thread, under the edit.

    A call that came to no answer is left out where another one came after it: the harness asked
    again. Raises NotFound and BadEdit as `run` does.
    """
    threads = [step.thread for step in trace.steps]
    thread = edit.thread if edit is not None and edit.thread is not None else None
    if start is not None and not 0 <= start < len(threads):
        raise no_step(start, len(threads))
    if not threads:
        raise no_step(0, 0)
    edited = thread or threads[0]
    if start is not None and edit is not None and threads[start] != edited:
        raise BadEdit(
            f"step {start} is of another thread than the edit",
            "name its thread in the edit, or start elsewhere",
        )
    wanted = threads[start] if start is not None else edited
    steps = [s for s in trace.steps if s.thread == wanted and s.index >= (start or 0)]
    asked = {step.index for step in steps if step.ask.response.message is not None}
    return plans(trace, edit, model, asked | {step.index for step in steps[-1:]})
