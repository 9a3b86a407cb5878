"""Was the error corrected within two answers? Decided by rule, from what the run did.

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
Where the run stopped before, or looked again and the tape does not tell what it would have seen,
the outcome is `unknown`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, TypeAlias

from msgspec import Struct

from replay import digests
from replay.action import Act, Action
from replay.effects import Effects
from replay.error_injection import values
from replay.error_injection.values import Wrong, shares, shown
from replay.free.recorded import effect_of
from replay.free.recorded_results import Found
from replay.free.result import FreeRun, FreeStep
from replay.trace import Trace

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
            return Corrected(outcome="acted", because=f"{acted} (answer {number})")
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
    how = "ends its turn" if ended else f"{WINDOW} answers pass"
    undone = "making the right call" if wrong.kind == "step" else "using it or looking again"
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
                return f"{call.tool}, which the recording does not do"
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
                yield f"looks at it again by {found.call.tool}"
        for true in self._wrong.true:
            if any(values.held_by(true, call.arguments) for call in given.calls):
                yield f"goes by {shown(true)}"
            elif values.stands_in(true, given.text):
                yield f"says {shown(true)}"

    def looks_in_vain(self, step: FreeStep) -> str | None:
        """Does it look again, and the tape does not answer?"""
        for found in step.found:
            about = effect_of(found.call, self._effects).reads and self._about(found.call)
            if found.text is None and (self._same(found.call) or about):
                return "looks again, and the tape does not tell what it would have seen"
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
        return shown(self._wrong.false[0]) if self._wrong.false else "it"


def _identity(tool: str, arguments: object) -> str:
    return digests.canonical([tool, arguments])
