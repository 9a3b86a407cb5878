"""What can be edited of a trace before the model is asked again, and the edit that comes of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct

from arc_tui import format
from arc_tui.jobs.replaying import break_and_notice
from arc_tui.views.replay import targets
from arc_tui.views.replay.targets import Target
from arc_tui.views.replay.view import ReplayRow
from replay.action import action
from replay.edit import Change, Edit, diff_trace, meant
from replay.errors import BadEdit
from replay.models.choose import default_name
from replay.store import Store, edits, read
from replay.store.rows import step_rows, trace_row
from replay.trace import NO_SYSTEM, NO_TOOLS, Step, Trace


class Draft(Struct, frozen=True, eq=False, kw_only=True):
    """What the replay screen starts from: a step, and everything its request can be edited in.

    `edit` is what was chosen or put together so far; `targets` show what it makes of the texts,
    `also` the changes that no text shows. `thread` is the one that is edited, None for that of
    step 0. `missing` says what was not recorded and can be attached. `rows` are the steps as
    recorded; `model` answered them, None where that is not known. `names` are those of the edits
    that are kept, by digest. `notice` is what speaks against a prompt edit. `source` is the trace
    itself, None before it is read.
    """

    trace: str
    run: str
    step: int
    thread: str | None
    targets: tuple[Target, ...]
    missing: tuple[str, ...]
    rows: tuple[ReplayRow, ...]
    model: str | None
    names: Mapping[str, str]
    notice: str | None
    source: Trace | None = None
    edit: Edit | None = None
    also: tuple[Change, ...] = ()

    @property
    def free_name(self) -> str:
        """A name no kept edit has."""
        taken = set(self.names.values())
        named = (f"edit {number} of {self.run}" for number in range(1, len(taken) + 2))
        return next(name for name in named if name not in taken)


EMPTY = Draft(
    trace="",
    run="",
    step=0,
    thread=None,
    targets=(),
    missing=(),
    rows=(),
    model=None,
    names={},
    notice=None,
)


def build_draft(store: Store, name: str, at: int, edit: Edit | None = None) -> Draft:
    """The draft at step `at`, or in the thread of the edit where that is another one.

    Raises NotFound for the trace, BadEdit where the edit does not apply to it.
    """
    trace = read.load(store, trace_row(store, name).trace)
    broke, notice = break_and_notice(store, trace.id)
    masked = {row.step: row.masked for row in step_rows(store, trace.id)}
    step = _step(trace, at, edit)
    missing = _missing(trace, step)
    found = targets.targets(trace, step, missing, edit) if step is not None else ()
    thread = step.thread if step is not None and step.thread != trace.steps[0].thread else None
    return Draft(
        trace=trace.id,
        run=format.cut(format.one_line(trace.header.source_id), 40),
        step=step.index if step is not None else 0,
        thread=thread if edit is None else edit.thread,
        targets=found,
        missing=missing,
        rows=tuple(_recorded(each, broke, masked.get(each.index, 0)) for each in trace.steps),
        model=default_name(trace),
        names={digest: named for named, digest in edits.names(store)},
        notice=notice,
        source=trace,
        edit=edit,
        also=targets.also(edit.changes if edit is not None else (), found),
    )


def edit_of(draft: Draft, texts: Mapping[str, str], name: str) -> Edit | None:
    """The edit of the draft with other texts, by the label of their target; None where nothing
    is changed at all."""
    changes = tuple(_changes(draft, texts))
    return Edit(name=name, changes=changes, thread=draft.thread) if changes else None


def _changes(draft: Draft, texts: Mapping[str, str]) -> Iterator[Change]:
    """The changes of the draft but those whose text was written anew, then what was written."""
    anew = {target.place: target for target in draft.targets if target.label in texts}
    for change in draft.edit.changes if draft.edit is not None else ():
        if targets.place_of(change) not in anew or not targets.only_text(change):
            yield change
    left = {targets.place_of(change) for change in draft.also}
    for place, target in anew.items():
        text = texts[target.label]
        if text != target.text or place in left:
            yield target.change(text)


def diff_of(draft: Draft, edit: Edit | None) -> list[str]:
    """What an edit changes, each text where it first changes it. Raises BadEdit."""
    if edit is None or draft.source is None:
        return []
    return diff_trace(edit, draft.source)


def _step(trace: Trace, at: int, edit: Edit | None) -> Step | None:
    """The step to start from, None where there is none."""
    if not trace.steps:
        return None
    step = trace.steps[min(at, len(trace.steps) - 1)]
    thread = step.thread
    if edit is not None:
        thread = edit.thread or trace.steps[0].thread
    if step.thread == thread:
        return step
    found = next((each for each in trace.steps if each.thread == thread), None)
    if found is None:
        threads = dict.fromkeys(each.thread for each in trace.steps)
        raise BadEdit(f"the trace has no thread {thread!r}", meant(thread, threads))
    return found


def _missing(trace: Trace, step: Step | None) -> tuple[str, ...]:
    """What was not recorded anywhere in the thread of the step."""
    reasons = {
        reason
        for each in trace.steps
        if step is not None and each.thread == step.thread
        for reason in each.ask.fidelity.reasons
    }
    return tuple(reason for reason in (NO_SYSTEM, NO_TOOLS) if reason in reasons)


def _recorded(step: Step, broke: int | None, masked: int) -> ReplayRow:
    """A step nobody was asked for yet."""
    did = action(step.ask.response, step.ask.error)
    return ReplayRow(
        step=step.index,
        fidelity=step.ask.fidelity.level,
        recorded=did.phrase,
        at_break=step.index == broke,
        recorded_text=did.text,
        recorded_calls=did.calls,
        reasons=step.ask.fidelity.reasons,
        masked=masked,
    )
