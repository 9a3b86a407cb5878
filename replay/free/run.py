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
from typing import Any, NamedTuple

from msgspec import structs

from replay import action, canon, compare, messages, redact
from replay.action import Act, Action
from replay.compare import PLAIN, Difference, Rules
from replay.convert import Sent
from replay.edit import Edit, observation_edits
from replay.errors import BadEdit, ModelRefused, OfflineMiss, RequestRefused, no_step
from replay.free.growth import grown
from replay.free.nearest import nearest
from replay.free.result import FreeRun, FreeStep, Status, Stop, Unanswered
from replay.free.tape import BARE, Found, Head, Tape, Terms
from replay.models.cached import Cached
from replay.plan import Plan, plans
from replay.trace import Context, Fidelity, Level, Message, Tool, Trace


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
    course = _Course(trace, edit, model, terms, start, sample, rules)
    limit = limit_of(course.road, max_steps)
    made = FreeRun(
        trace=trace.id,
        thread=course.thread,
        edit=edit.digest if edit is not None else None,
        model=model.name,
        server=model.server,
        start=course.road[0].step.index,
        sample=sample,
        allow_stale=terms.allow_stale,
        limit=limit,
        paths=rules.paths,
        yours=terms.effects,
    )
    ask: _Ask | None = _Ask(course.road[0].edited.sent, 0)
    while ask is not None:
        place = ask.place
        step, following = course.go(ask, len(made.steps))
        stop = following if isinstance(following, Stop) else None
        if stop is None and step.index + 1 >= limit:
            stop = Stop(
                status="cap", sentence=f"It was asked {limit} times, as often as this run may."
            )
        ask = following if stop is None and isinstance(following, _Ask) else None
        made = structs.replace(made, steps=(*made.steps, step), stop=stop)
        if step.against is not None and not step.against.same:
            made = structs.replace(made, notices=course.notices(place))
        yield made


class _Ask(NamedTuple):
    """What is asked next.

    `place` counts the road: the recorded step this request is, or the one the run left at, where
    `head` says how far it has come on the tape since.
    """

    sent: Sent
    place: int
    head: Head | None = None


class _Course:
    """A run under way over one thread. `road` are its recorded steps that can lie ahead."""

    def __init__(
        self,
        trace: Trace,
        edit: Edit | None,
        model: Cached,
        terms: Terms,
        start: int | None,
        sample: int,
        rules: Rules,
    ) -> None:
        self.road = road(trace, edit, model.name, start)
        self.thread = self.road[0].step.thread
        self._edit = edit
        self._model = model
        self._sample = sample
        self._rules = rules
        replaced = observation_edits(edit) if edit is not None else None
        self._tape = Tape(trace, self.thread, terms, replaced=replaced, rules=rules)

    def go(self, ask: _Ask, index: int) -> tuple[FreeStep, _Ask | Stop]:
        """One answer, what its calls got, and what comes after it."""
        plan = self.road[ask.place]
        on_road = ask.head is None
        step = FreeStep(
            index=index,
            step=plan.step.index if on_road else None,
            fidelity=_fidelity(plan),
            losses=plan.edited.sent.losses,
        )
        where = f"step {plan.step.index}" if on_road else f"answer {index} of the run"
        if plan.refusal is not None:
            sentence = f"There is nothing to ask at {where}: {plan.refusal}."
            return step, Stop(status="refused", sentence=sentence)
        try:
            answer = self._model.answer(ask.sent, self._sample)
        except OfflineMiss as miss:
            raise OfflineMiss(f"{where}: {miss.message}", miss.hint) from miss
        except ModelRefused as refused:
            passing = not isinstance(refused, RequestRefused)
            sentence = f"The model declined {where}: {refused}."
            return step, Stop(status="refused", sentence=sentence, passing=passing)
        given = self._read(answer.body, ask.sent)
        step = structs.replace(
            step,
            key=answer.key,
            action=given,
            against=self._against(plan, given) if on_road else None,
            flaws=_flaws(answer.body, ask.sent),
        )
        if given.cut is not None:
            return step, Stop(status="cut", sentence=f"Its answer was {given.cut}.")
        if step.against is not None and step.against.same:
            return self._along(step, given, answer.body, ask)
        return self._beyond(step, given, answer.body, ask)

    def notices(self, place: int) -> tuple[str, ...]:
        """What is known against a run that left the road at that place of it."""
        context = _context(self.road[place])
        for plan in self.road[place + 1 :]:
            shared, _ = messages.new_since(_context(plan), context)
            if context is not None and shared < context.depth:
                return (
                    f"The recording's context was rewritten at step {plan.step.index};"
                    " this run's never is.",
                )
        return ()

    # --- on the road, and beyond it

    def _along(
        self, step: FreeStep, given: Action, answer: dict[str, Any], ask: _Ask
    ) -> tuple[FreeStep, _Ask | Stop]:
        """The recorded action again: what it got is what the next recorded request shows.

        Where none follows, it gets what was recorded, or a stub.
        """
        plan, last = self.road[ask.place], ask.place + 1 == len(self.road)
        found = self._tape.along(plan.step.index, given.calls, self._offered(ask.sent))
        if last:
            found = self._tape.filled(found)
        step = structs.replace(step, found=found)
        if any(each.rank == "miss" for each in found):
            return step, self._stop(found, stubs_help=last)
        if not last:
            return step, _Ask(self.road[ask.place + 1].edited.sent, ask.place + 1)
        if not given.calls:
            return step, self._end(given, ask.place)
        head = self._tape.after(self._tape.at(plan.step.index), given.calls)
        return step, self._taken(found, answer, ask, head)

    def _beyond(
        self, step: FreeStep, given: Action, answer: dict[str, Any], ask: _Ask
    ) -> tuple[FreeStep, _Ask | Stop]:
        """Another action: what it gets is looked up, and the conversation is the run's own."""
        if not given.calls:
            return step, self._end(given, ask.place)
        head = ask.head or self._tape.at(self.road[ask.place].step.index)
        found = self._tape.find(head, given.calls, self._offered(ask.sent))
        after = self._tape.after(head, given.calls)
        return structs.replace(step, found=found), self._taken(found, answer, ask, after)

    def _taken(
        self, found: Sequence[Found], answer: dict[str, Any], ask: _Ask, head: Head
    ) -> _Ask | Stop:
        """The request after a turn, or why the turn cannot be taken: one call is unanswered."""
        if any(each.text is None for each in found):
            return self._stop(found, stubs_help=True)
        return _Ask(grown(ask.sent, answer, found), ask.place, head)

    # --- reading an answer

    def _read(self, body: dict[str, Any], sent: Sent) -> Action:
        found = action.answered(body, sent.recorded_name)
        return found if self._edit is None else action.named(found, self._edit.recorded_name)

    def _against(self, plan: Plan, given: Action) -> Difference:
        ask = plan.step.ask
        recorded = action.action(ask.response, ask.error)
        return compare.compare(recorded, given, ask.request.tools or (), self._rules)

    def _offered(self, sent: Sent) -> set[str]:
        """The tools a request offers, by their recorded names."""
        names = {sent.recorded_name(str(tool["name"])) for tool in sent.tools}
        return names if self._edit is None else set(map(self._edit.recorded_name, names))

    # --- stopping

    def _end(self, given: Action, place: int) -> Stop:
        """The run ended its turn, at a place of the road or after having left it there."""
        said = "It spoke" if given.text else "It ended its turn without a word"
        context = _context(self.road[place])
        for plan in self.road[place + 1 :]:
            if any(map(_speaks, messages.new_since(_context(plan), context)[1])):
                return Stop(
                    status="user",
                    sentence=f"{said}, and the user's next words in the recording"
                    f" (step {plan.step.index}) answer other words.",
                )
        return Stop(
            status="finished",
            sentence=f"{said}, and no words of the user follow in the recording.",
        )

    def _stop(self, found: Sequence[Found], *, stubs_help: bool) -> Stop:
        """Why the calls of a turn do not all get an answer."""
        missing = [each for each in found if each.text is None or each.rank == "miss"]
        status: Status = "stale" if all(each.rank == "stale" for each in missing) else "miss"
        first = missing[0]
        why = first.why or ""
        masked = next((each for each in missing if _masked(each.call)), None)
        if masked is not None:
            status, first, why = "masked", masked, "it hangs on a masked value"
        more = f" (and {len(missing) - 1} more of this turn)" if len(missing) > 1 else ""
        phrase = Action(calls=(first.call,)).phrase
        return Stop(
            status=status,
            sentence=f"The tape does not answer {phrase}: {why}{more}.",
            calls=tuple(self._unanswered(each) for each in missing),
            stubs_help=stubs_help,
        )

    def _unanswered(self, found: Found) -> Unanswered:
        near = nearest(found.call, self._tape.recorded, self._tape.tools, self._rules)
        return Unanswered(found.call, found.why or "", near)


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


def _context(plan: Plan) -> Context | None:
    return plan.edited.request.context


def _fidelity(plan: Plan) -> Fidelity:
    """How completely the request is known, what could not be sent included."""
    fidelity, partial = plan.step.ask.fidelity, plan.edited.sent.partial
    if not partial or fidelity.level is Level.NONE:
        return fidelity
    reasons = dict.fromkeys((*fidelity.reasons, *partial))
    return Fidelity(level=Level.PARTIAL, reasons=tuple(reasons))


def _flaws(body: dict[str, Any], sent: Sent) -> tuple[str, ...]:
    """What is wrong with an answer whatever was meant, in the names the model was given."""
    tools = [Tool(name=str(t["name"]), schema=t["input_schema"]) for t in sent.tools]
    return action.flaws(action.answered(body, str), tools)


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
    return redact.masked_count(f"{canon.canonical(call.arguments)}{call.raw or ''}") > 0
