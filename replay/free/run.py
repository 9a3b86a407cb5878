"""How would the run go on under an edit? The model acts, and recorded results answer.

`FreeRunState` is one run under way: what an answer does to it, and what is asked next.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import closing
from typing import Any, NamedTuple, TypeAlias

from msgspec import structs

from replay import action, digests, messages
from replay.action import Act, Action
from replay.compare import actions
from replay.compare.actions import Difference
from replay.compare.rules import PLAIN, Rules
from replay.convert import Sent
from replay.edit.changes import Edit, observation_edits
from replay.errors import BadEdit, ModelRefused, OfflineMiss, RequestRefused, no_step
from replay.free.recorded_results import (
    BARE,
    Found,
    Head,
    RecordedResults,
    Terms,
    grown_request,
    nearest,
)
from replay.free.result import FreeRun, FreeStep, Status, Stop, Unanswered
from replay.models.cached import Answered, Ask, Cached
from replay.plan import Plan, plans
from replay.redact.placeholders import masked_count
from replay.trace import Context, Message, Trace


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
    going = FreeRunner(
        trace, edit, model, terms, start=start, sample=sample, max_steps=max_steps, rules=rules
    )
    while not going.over:
        going.go(_answer(model, going.wanted))
        yield going.made


class FreeRunner:
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
        ahead = recorded_actions(trace, edit, model.name, start)
        self._course = FreeRunState(trace, edit, ahead, terms, rules)
        self._next: NextRequest | None = NextRequest(ahead[0].edited.sent, 0)
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
                sentence=f"Stopped at the limit of {made.limit} model calls.",
            )
        self._next = following if stop is None and isinstance(following, NextRequest) else None
        made = structs.replace(made, steps=(*made.steps, step), stop=stop)
        if step.against is not None and not step.against.same:
            made = structs.replace(made, notices=self._course.notices(place))
        self.made = made


def run_all(runs: Sequence[FreeRunner], model: Cached) -> None:
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


def recorded_actions(trace: Trace, edit: Edit | None, model: str, start: int | None) -> list[Plan]:
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
            f"step {start} is in another thread than the edit",
            "Try: name its thread in the edit, or start at another step",
        )
    wanted = threads[start] if start is not None else edited
    steps = [s for s in trace.steps if s.thread == wanted and s.index >= (start or 0)]
    asked = {step.index for step in steps if step.ask.response.message is not None}
    return plans(trace, edit, model, asked | {step.index for step in steps[-1:]})


class NextRequest(NamedTuple):
    """What is asked next.

    `place` counts the road: the recorded step this request is, or the one the run left at, where
    `head` says how far it has come on the tape since.
    """

    sent: Sent
    place: int
    head: Head | None = None


Answer: TypeAlias = Answered | ModelRefused | OfflineMiss
"""What a request comes to."""


class FreeRunState:
    """A run over one thread. `road` are its recorded steps that can lie ahead."""

    def __init__(
        self, trace: Trace, edit: Edit | None, road: Sequence[Plan], terms: Terms, rules: Rules
    ) -> None:
        self.road = road
        self.thread = road[0].step.thread
        self._edit = edit
        self._rules = rules
        replaced = observation_edits(edit) if edit is not None else None
        self._tape = RecordedResults(trace, self.thread, terms, replaced=replaced, rules=rules)

    def refusal(self, wanted: NextRequest) -> str | None:
        """Why there is nothing to ask there, None where there is."""
        return self.road[wanted.place].refusal

    def go(
        self, wanted: NextRequest, index: int, answer: Answer | None
    ) -> tuple[FreeStep, NextRequest | Stop]:
        """The step that an answer makes, what its calls got, and what comes after it.

        `answer` None where there was nothing to ask. Raises OfflineMiss where it is one.
        """
        plan = self.road[wanted.place]
        on_road = wanted.head is None
        step = FreeStep(
            index=index,
            step=plan.step.index if on_road else None,
            fidelity=plan.edited.sent.fidelity(plan.step.ask.fidelity),
            losses=plan.edited.sent.losses,
        )
        where = f"step {plan.step.index}" if on_road else f"response {index} of the run"
        match answer:
            case None:
                sentence = f"Cannot replay {where}: {plan.refusal}."
                return step, Stop(status="refused", sentence=sentence)
            case OfflineMiss():
                raise OfflineMiss(f"{where}: {answer.message}", answer.hint) from answer
            case ModelRefused():
                passing = not isinstance(answer, RequestRefused)
                sentence = f"No response for {where}: {answer}."
                return step, Stop(status="refused", sentence=sentence, passing=passing)
            case Answered():
                return self._answered(step, wanted, answer)

    def _answered(
        self, step: FreeStep, wanted: NextRequest, answer: Answered
    ) -> tuple[FreeStep, NextRequest | Stop]:
        given = self._read(answer.body, wanted.sent)
        step = structs.replace(
            step,
            key=answer.key,
            action=given,
            against=self._against(self.road[wanted.place], given)
            if step.step is not None
            else None,
            flaws=_flaws(answer.body, wanted.sent),
        )
        if given.cut is not None:
            return step, Stop(status="cut", sentence=f"The response was {given.cut}.")
        if step.against is not None and step.against.same:
            return self._along(step, given, answer.body, wanted)
        return self._beyond(step, given, answer.body, wanted)

    def notices(self, place: int) -> tuple[str, ...]:
        """What is known against a run that left the road at that place of it."""
        context = _context(self.road[place])
        for plan in self.road[place + 1 :]:
            shared, _ = messages.new_since(_context(plan), context)
            if context is not None and shared < context.depth:
                return (
                    f"The recording rewrites its context at step {plan.step.index};"
                    " a free replay does not.",
                )
        return ()

    # --- on the road, and beyond it

    def _along(
        self, step: FreeStep, given: Action, answer: dict[str, Any], wanted: NextRequest
    ) -> tuple[FreeStep, NextRequest | Stop]:
        """The recorded action again: what it got is what the next recorded request shows.

        Where none follows, it gets what was recorded, or a stub.
        """
        plan, last = self.road[wanted.place], wanted.place + 1 == len(self.road)
        found = self._tape.along(plan.step.index, given.calls, self._offered(wanted.sent))
        if last:
            found = self._tape.filled(found)
        step = structs.replace(step, found=found)
        if any(each.rank == "miss" for each in found):
            return step, self._stop(found, stubs_help=last)
        if not last:
            return step, NextRequest(self.road[wanted.place + 1].edited.sent, wanted.place + 1)
        if not given.calls:
            return step, self._end(given, wanted.place)
        head = self._tape.after(self._tape.at(plan.step.index), given.calls)
        return step, self._taken(found, answer, wanted, head)

    def _beyond(
        self, step: FreeStep, given: Action, answer: dict[str, Any], wanted: NextRequest
    ) -> tuple[FreeStep, NextRequest | Stop]:
        """Another action: what it gets is looked up, and the conversation is the run's own."""
        if not given.calls:
            return step, self._end(given, wanted.place)
        head = wanted.head or self._tape.at(self.road[wanted.place].step.index)
        found = self._tape.find(head, given.calls, self._offered(wanted.sent))
        after = self._tape.after(head, given.calls)
        return structs.replace(step, found=found), self._taken(found, answer, wanted, after)

    def _taken(
        self, found: Sequence[Found], answer: dict[str, Any], wanted: NextRequest, head: Head
    ) -> NextRequest | Stop:
        """The request after a turn, or why the turn cannot be taken: one call is unanswered."""
        if any(each.text is None for each in found):
            return self._stop(found, stubs_help=True)
        return NextRequest(grown_request(wanted.sent, answer, found), wanted.place, head)

    # --- reading an answer

    def _read(self, body: dict[str, Any], sent: Sent) -> Action:
        found = action.answered(body, sent.recorded_name)
        return found if self._edit is None else action.named(found, self._edit.recorded_name)

    def _against(self, plan: Plan, given: Action) -> Difference:
        ask = plan.step.ask
        recorded = action.action(ask.response, ask.error)
        return actions.compare(recorded, given, ask.request.tools or (), self._rules)

    def _offered(self, sent: Sent) -> set[str]:
        """The tools a request offers, by their recorded names."""
        names = {sent.recorded_name(tool.name) for tool in sent.tools_sent()}
        return names if self._edit is None else set(map(self._edit.recorded_name, names))

    # --- stopping

    def _end(self, given: Action, place: int) -> Stop:
        """The run ended its turn, at a place of the road or after having left it there."""
        said = (
            "The agent replied with text" if given.text else "The agent ended its turn without text"
        )
        context = _context(self.road[place])
        for plan in self.road[place + 1 :]:
            if any(map(_speaks, messages.new_since(_context(plan), context)[1])):
                return Stop(
                    status="user",
                    sentence=f"{said}; the next recorded user message"
                    f" (step {plan.step.index}) replies to a different one.",
                )
        return Stop(
            status="finished",
            sentence=f"{said}; no user message follows in the recording.",
        )

    def _stop(self, found: Sequence[Found], *, stubs_help: bool) -> Stop:
        """Why the calls of a turn do not all get an answer."""
        missing = [each for each in found if each.text is None or each.rank == "miss"]
        status: Status = "stale" if all(each.rank == "stale" for each in missing) else "miss"
        first = missing[0]
        why = first.why or ""
        masked = next((each for each in missing if _masked(each.call)), None)
        if masked is not None:
            status, first, why = "masked", masked, "it depends on a masked value"
        more = f" (and {len(missing) - 1} more calls of this step)" if len(missing) > 1 else ""
        phrase = Action(calls=(first.call,)).phrase
        return Stop(
            status=status,
            sentence=f"No recorded result for {phrase}: {why}{more}.",
            calls=tuple(self._unanswered(each) for each in missing),
            stubs_help=stubs_help,
        )

    def _unanswered(self, found: Found) -> Unanswered:
        near = nearest(found.call, self._tape.recorded, self._tape.tools, self._rules)
        return Unanswered(found.call, found.why or "", near)


def _context(plan: Plan) -> Context | None:
    return plan.edited.request.context


def _flaws(body: dict[str, Any], sent: Sent) -> tuple[str, ...]:
    """What is wrong with an answer whatever was meant, in the names the model was given."""
    return action.flaws(action.answered(body, str), sent.tools_sent())


def _speaks(message: Message) -> bool:
    """Is it the user's, and more than the results of tools?"""
    if message.role != "user":
        return False
    content = message.body.get("content")
    if not isinstance(content, list):
        return bool(messages.text(message).strip())
    words = [b for b in content if not isinstance(b, dict) or b.get("type") != "tool_result"]
    return bool(messages.content_text(words).strip())


def _masked(call: Act) -> bool:
    return masked_count(f"{digests.canonical(call.arguments)}{call.raw or ''}") > 0
