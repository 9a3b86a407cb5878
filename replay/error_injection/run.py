"""Where is an error put, which one, how does the agent go on, and was the error corrected?

Two answers, from the recording. Deterministic: a run always gets the same error. It is put into the
agent's requests, never into the recorded results. What came of it is decided by rule, from what the
run did.

Of a wrong observation, `corrected`: the agent makes the call again and is answered, or makes
another read about the same thing whose answer shows the hidden value, or says or passes that
value itself; and in neither of the two answers does it act on the false one. `acted`: it makes a
call that may write and is not one of the recording's, with the false value or about the same
thing by a tool that the recording never uses on it; or it ends its turn saying the false value
and not the true one. Of an error in place of a result, `corrected` is the call made again;
`acted` is to end the turn, or to make a change that the recording does not make, without having
done so. Of a wrong step, `corrected` is the recorded call: the same tool with the changed
argument right again; `acted` is a change made with the wrong value.

`carried`: two answers passed, or the run ended, and neither happened; that is no correction.
Where the run stopped before, or looked again and no recorded result tells what it would have seen,
the outcome is `unknown`.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from typing import Literal, TypeAlias

from msgspec import Struct, structs

from replay import digests, messages
from replay.action import Act, Action
from replay.compare.rules import PLAIN, Rules
from replay.digests import bare_text
from replay.edit.changes import Edit, SetObservation
from replay.edit.editor import Editor
from replay.edit.places import goes_on_from
from replay.effects import Effects
from replay.error_injection import values
from replay.error_injection.derive import replaced, tool_error, wrong_observation, wrong_step
from replay.error_injection.values import Kind, Wrong, shares
from replay.errors import BadEdit, no_step
from replay.free import run as free
from replay.free.recorded import effect_of, effects_of
from replay.free.recorded_results import BARE, Found, Stub, Terms
from replay.free.result import FreeRun, FreeStep
from replay.models.cached import Cached
from replay.trace import Context, Json, Message, Request, Step, Trace, extend

WINDOW = 2
"""So many answers after the error may pass until it is corrected."""

Outcome: TypeAlias = Literal["corrected", "acted", "carried", "unknown"]


class Corrected(Struct, frozen=True, kw_only=True):
    """What became of an error. `after` counts answers from 1, None where it was not corrected;
    `because` says by what it was decided."""

    outcome: Outcome
    because: str
    after: int | None = None


def is_corrected(wrong: Wrong, run: FreeRun, trace: Trace, effects: Effects) -> Corrected:
    """What became of the error in a run of `WINDOW` answers. `trace` is the recording itself."""
    judge = _Judge(wrong, trace, effects)
    corrected: Corrected | None = None
    blind: str | None = None
    for number, step in enumerate(run.steps[:WINDOW], 1):
        if step.action is None or step.action.cut is not None:
            break
        acted = judge.acts(step.action, noticed=corrected is not None)
        if acted is not None:
            return Corrected(outcome="acted", because=f"{acted} (response {number})")
        if corrected is None:
            how = judge.corrects(step, step.action)
            if how is not None:
                corrected = Corrected(outcome="corrected", because=how, after=number)
            blind = blind or judge.looks_in_vain(step)
    if corrected is not None:
        return corrected
    if blind is not None:
        return Corrected(outcome="unknown", because=blind)
    stop = run.stop
    if stop is not None and stop.status not in {"cap", "finished"}:
        return Corrected(outcome="unknown", because=stop.sentence)
    ended = stop is not None and stop.status == "finished"
    how = "ends its turn" if ended else f"{WINDOW} responses pass"
    undone = (
        "making the right call" if wrong.kind == "step" else "using the value or reading it again"
    )
    return Corrected(outcome="carried", because=f"{how} without {undone}")


class _Judge:
    """One error, asked of the answers after it."""

    def __init__(self, wrong: Wrong, trace: Trace, effects: Effects) -> None:
        self._wrong = wrong
        self._effects = effects
        calls = [call for step in trace.steps for call in step.acts]
        self._recorded = {_identity(call.name, call.arguments) for call in calls}
        self._changers = {call.name for call in calls if shares(call.arguments, wrong.about)}

    # --- acting on it

    def acts(self, given: Action, *, noticed: bool) -> str | None:
        """How an answer acts on the error, None where it does not."""
        for call in given.calls:
            if effect_of(call, self._effects).reads:
                continue
            if self._falsely(call):
                return f"{call.tool} with {self._false}"
            if not noticed and self._only_now(call):
                return f"{call.tool}, not in the recording"
        if given.calls:
            return None
        if self._wrong.kind == "tool-error":
            return None if noticed else "ends its turn without making the call again"
        if self._wrong.kind == "step":
            return None
        says = any(values.stands_in(each, given.text) for each in self._wrong.false)
        right = any(values.stands_in(each, given.text) for each in self._wrong.true)
        return f"says {self._false}" if says and not right else None

    def _falsely(self, call: Act) -> bool:
        if _identity(call.tool, call.arguments) in self._recorded:
            return False
        return any(values.held_by(each, call.arguments) for each in self._wrong.false)

    def _only_now(self, call: Act) -> bool:
        """A change that follows from the error, as far as the recording tells."""
        if self._same(call) or self._wrong.kind == "step":
            return False
        if self._wrong.kind == "tool-error":
            return _identity(call.tool, call.arguments) not in self._recorded
        return shares(call.arguments, self._wrong.about) and call.tool not in self._changers

    # --- correcting it

    def corrects(self, step: FreeStep, given: Action) -> str | None:
        """How an answer corrects the error, None where it does not."""
        return next(self._corrections(step, given), None)

    def _corrections(self, step: FreeStep, given: Action) -> Iterator[str]:
        for call in given.calls:
            if self._wrong.kind == "step" and self._right(call):
                yield "makes the right call"
        if self._wrong.kind == "step":
            return
        for found in step.found:
            if found.text is not None and self._same(found.call):
                yield "makes the call again"
            elif self._shows(found):
                yield f"reads it again with {found.call.tool}"
        for true in self._wrong.true:
            if any(values.held_by(true, call.arguments) for call in given.calls):
                yield f"uses the right value {bare_text(true)}"
            elif values.stands_in(true, given.text):
                yield f"says {bare_text(true)}"

    def looks_in_vain(self, step: FreeStep) -> str | None:
        """Does it look again, and the tape does not answer?"""
        for found in step.found:
            about = effect_of(found.call, self._effects).reads and self._about(found.call)
            if found.text is None and (self._same(found.call) or about):
                return "reads it again; no recorded result"
        return None

    def _shows(self, found: Found) -> bool:
        """Did another read about the same thing show what the error hides?"""
        if found.text is None or not effect_of(found.call, self._effects).reads:
            return False
        text = found.text
        shown = any(values.stands_in(each, text) for each in self._wrong.true)
        return shown and self._about(found.call)

    # --- which call is it

    def _same(self, call: Act) -> bool:
        wrong = self._wrong
        return call.tool == wrong.tool and digests.same(call.arguments, wrong.arguments)

    def _about(self, call: Act) -> bool:
        return shares(call.arguments, self._wrong.about)

    def _right(self, call: Act) -> bool:
        """The recorded tool, with what was made wrong right again."""
        if call.tool != self._wrong.tool:
            return False
        given = {values.shown_path(path): leaf for path, leaf in values.leaves(call.arguments)}
        right = self._wrong.path in given
        return self._same(call) or (
            right and any(digests.same(given[self._wrong.path], each) for each in self._wrong.true)
        )

    @property
    def _false(self) -> str:
        return bare_text(self._wrong.false[0]) if self._wrong.false else "it"


def _identity(tool: str, arguments: object) -> str:
    return digests.canonical([tool, arguments])


class Trial(Struct, frozen=True, eq=False, kw_only=True):
    """An error put in once: the run after it so far; `mended` None until that is over."""

    sample: int
    run: FreeRun
    mended: Corrected | None = None


def inject(
    trace: Trace,
    wrong: Wrong,
    model: Cached,
    terms: Terms = BARE,
    *,
    sample: int = 0,
    rules: Rules = PLAIN,
) -> Generator[Trial]:
    """The run after every answer; the last one says what became of the error.

    Raises OfflineMiss where an answer is not stored and none may be asked for, and Stopped.
    """
    first = asked_after(trace, wrong)
    assert first is not None
    going = free.run(
        put(trace, wrong),
        None,
        model,
        _with_retry(trace, wrong, terms),
        start=first.index,
        sample=sample,
        max_steps=WINDOW,
        rules=rules,
    )
    effects = effects_of(trace, terms.effects)
    for made in going:
        over = made.stop is not None
        yield Trial(
            sample=sample,
            run=made,
            mended=is_corrected(wrong, made, trace, effects) if over else None,
        )


def _with_retry(trace: Trace, wrong: Wrong, terms: Terms) -> Terms:
    """The terms with an answer for the call that an error took the place of."""
    call = trace.steps[wrong.step].acts[wrong.call]
    if wrong.kind != "tool-error" or call.observation is None:
        return terms
    result = messages.observed(call.observation)
    again = Stub(tool=wrong.tool, arguments=wrong.arguments, result=result.text)
    return structs.replace(terms, stubs=(again, *terms.stubs))


PLACES = (2, 3)
"""The third and the fourth step, counted from 0."""


class NotPut(Struct, frozen=True):
    """Why a run gets no error."""

    why: str


def chosen(trace: Trace, kind: Kind, at: int | None = None) -> Wrong | NotPut:
    """The error of that kind for a run, at step `at` or where the rule puts it.

    Raises NotFound where the run has no step `at`.
    """
    if at is not None:
        if not 0 <= at < len(trace.steps):
            raise no_step(at, len(trace.steps))
        return _at(trace, trace.steps[at], kind)
    tried: Wrong | NotPut = NotPut("no step where an error can be injected")
    for step in order(trace):
        tried = _at(trace, step, kind)
        if isinstance(tried, Wrong):
            return tried
    return tried


def order(trace: Trace) -> Sequence[Step]:
    """The steps of the first thread in the order in which they are tried."""
    if not trace.steps:
        return ()
    first = int(digests.digest("injected at", trace.id)[-1], 16) % len(PLACES)
    wanted = (*PLACES[first:], *PLACES[:first])
    own = [step for step in trace.steps if step.thread == trace.steps[0].thread]

    def distance(step: Step) -> tuple[int, int]:
        if step.index in wanted:
            return 0, wanted.index(step.index)
        return min(abs(step.index - place) for place in PLACES), -step.index

    return sorted(own, key=distance)


def yours(trace: Trace, edit: Edit) -> Wrong:
    """The error that an edit with one `set_observation` describes.

    Raises BadEdit where it has another change, or none, or does not apply to the run.
    """
    changes = [each for each in edit.changes if isinstance(each, SetObservation)]
    if len(changes) != 1 or len(edit.changes) != 1:
        raise BadEdit(
            f"{edit.name}: an injected error is one change of kind set_observation",
            "Try: arc replay TRACE --free --edit FILE, for any other edit",
        )
    (change,) = changes
    if not 0 <= change.step < len(trace.steps):
        raise no_step(change.step, len(trace.steps))
    step = trace.steps[change.step]
    if not step.acts:
        raise BadEdit(f"step {step.index}: no tool call, so no result to change")
    if change.call is None and len(step.acts) > 1:
        raise BadEdit(
            f"step {step.index}: makes {len(step.acts)} calls", "Try: choose one with `call`"
        )
    place = change.call or 0
    if place >= len(step.acts):
        raise BadEdit(f"step {step.index}: no call {place}")
    wrong = replaced(step, place, change.text, change.is_error)
    put(trace, wrong)
    if asked_after(trace, wrong) is None:
        raise BadEdit(f"step {step.index}: last step: no model call follows")
    return wrong


def _at(trace: Trace, step: Step, kind: Kind) -> Wrong | NotPut:
    """The error at a step, else why it can take none."""
    where = f"step {step.index}"
    if not step.acts:
        return NotPut(f"{where} calls no tool")
    wrong = next(_made(trace, step, kind), None)
    if wrong is None:
        return NotPut(f"{where}: {_NONE[kind]}")
    if asked_after(trace, wrong) is None:
        return NotPut(f"{where} is the last of its thread: no model call follows")
    try:
        put(trace, wrong)
    except BadEdit as error:
        return NotPut(error.message)
    return wrong


_NONE: dict[Kind, str] = {
    "observation": "no value to corrupt in its result: no date, amount, status, id, number or name"
    " that is not in the call itself",
    "tool-error": "no successful result recorded",
    "step": "no argument of its call to corrupt",
    "yours": "no result",
}


def _made(trace: Trace, step: Step, kind: Kind) -> Iterator[Wrong]:
    if kind == "step":
        effects = effects_of(trace, {})
        found = wrong_step(trace, step, lambda call: effects.of(call.name, call.arguments).reads)
    else:
        found = wrong_observation(trace, step) if kind == "observation" else tool_error(step)
    if found is not None:
        yield found


_ID = "toolu_wrong_step"


def edit_of(trace: Trace, wrong: Wrong) -> Edit:
    """The error of an observation as an edit of the run, for whoever wants to replay it."""
    change = SetObservation(
        step=wrong.step, text=wrong.text, call=wrong.call, is_error=wrong.is_error
    )
    thread = trace.steps[wrong.step].thread
    return Edit(name=f"wrong at {wrong.step}", changes=(change,), thread=thread)


def asked_after(trace: Trace, wrong: Wrong) -> Step | None:
    """The recorded step whose request is the first to hold the error, None where there is none."""
    at = trace.steps[wrong.step]
    later = (
        step
        for step in trace.steps
        if step.thread == at.thread
        and (step.index > at.index or (wrong.kind == "step" and step is at))
        and step.ask.response.message is not None
    )
    return next(later, None)


def put(trace: Trace, wrong: Wrong) -> Trace:
    """The recording with the error in every request that would hold it.

    Raises BadEdit where the recording carries the observation on to no later request.
    """
    if wrong.kind == "step":
        return structs.replace(trace, steps=tuple(_with_wrong_step(trace, wrong)))
    editor = Editor(edit_of(trace, wrong), trace)
    thread = trace.steps[wrong.step].thread
    steps = tuple(
        _asking(step, editor.request(step.ask.request, f"step {step.index}", step.index))
        if step.thread == thread and step.index > wrong.step
        else step
        for step in trace.steps
    )
    if editor.unmet:
        raise BadEdit(f"step {wrong.step}: no later request of the recording contains its result")
    return structs.replace(trace, steps=steps)


def _with_wrong_step(trace: Trace, wrong: Wrong) -> Iterator[Step]:
    at = trace.steps[wrong.step]
    before = at.ask.request.context
    grown = extend(before, _exchange(wrong))
    for step in trace.steps:
        if step.thread != at.thread or step.index < at.index:
            yield step
        else:
            yield _asking(step, _regrown(step.ask.request, before, grown))


def _exchange(wrong: Wrong) -> tuple[Message, Message]:
    """The call it is shown to have made, and what that got."""
    use = {"type": "tool_use", "id": _ID, "name": wrong.tool, "input": wrong.wrong_arguments}
    result: dict[str, Json] = {"type": "tool_result", "tool_use_id": _ID, "content": wrong.text}
    if wrong.is_error:
        result["is_error"] = True
    return _message("assistant", use), _message("user", result)


def _message(role: str, block: dict[str, Json]) -> Message:
    return Message(dialect="anthropic", body={"role": role, "content": [block]})


def _regrown(request: Request, before: Context | None, grown: Context | None) -> Request:
    """The request with the exchange after all that the conversation held at the step."""
    context = request.context
    if not goes_on_from(context, before):
        return request
    depth = before.depth if before is not None else 0
    said = context.messages()[depth:] if context is not None else []
    return structs.replace(request, context=extend(grown, said))


def _asking(step: Step, request: Request) -> Step:
    return structs.replace(step, ask=structs.replace(step.ask, request=request))
