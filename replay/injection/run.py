"""The agent goes on with an error put in: two answers, off the tape as it was recorded.

A free replay of the recording that holds the error (`put`), asked at most `WINDOW` times. A call
made again gets what was recorded; so does a change made again after an error took the place of its
result, for in that run it had not been made. Nothing here runs a tool.
"""

from __future__ import annotations

from collections.abc import Generator

from msgspec import Struct, structs

from replay import messages
from replay.compare import PLAIN, Rules
from replay.free import run as free
from replay.free.recorded import effects_of
from replay.free.result import FreeRun
from replay.free.stub import Stub
from replay.free.tape import BARE, Terms
from replay.injection.mended import WINDOW, Mended, mended
from replay.injection.put import asked_after, put
from replay.injection.wrong import Wrong
from replay.models.cached import Cached
from replay.trace import Trace


class Trial(Struct, frozen=True, eq=False, kw_only=True):
    """An error put in once: the run after it so far; `mended` None until that is over."""

    sample: int
    run: FreeRun
    mended: Mended | None = None


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
            mended=mended(wrong, made, trace, effects) if over else None,
        )


def _with_retry(trace: Trace, wrong: Wrong, terms: Terms) -> Terms:
    """The terms with an answer for the call that an error took the place of."""
    call = trace.steps[wrong.step].acts[wrong.call]
    if wrong.kind != "tool-error" or call.observation is None:
        return terms
    result = messages.observed(call.observation)
    again = Stub(tool=wrong.tool, arguments=wrong.arguments, result=result.text)
    return structs.replace(terms, stubs=(again, *terms.stubs))
