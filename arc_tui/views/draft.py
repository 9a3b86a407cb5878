"""What can be edited of a trace before the model is asked again, and the edit that comes of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal

from msgspec import Struct

from arc_tui import format
from arc_tui.replaying import break_and_notice
from arc_tui.views.replay import ReplayRow
from replay import messages
from replay.action import action
from replay.edit import Change, Edit, SetMessage, SetSystem, SetTool
from replay.models.choose import default_name
from replay.store import Store, edits, read
from replay.store.rows import trace_row
from replay.trace import NO_SYSTEM, NO_TOOLS, Request, Step, Trace


class Target(Struct, frozen=True, eq=False, kw_only=True):
    """A text that can be edited: the system prompt, a tool's description, what a message says.

    `name` is the tool's name, the index of the message, or "". `about` says which one it is.
    """

    kind: Literal["system", "tool", "message"]
    text: str
    name: str = ""
    about: str = ""

    @property
    def label(self) -> str:
        return "system prompt" if self.kind == "system" else f"{self.kind} {self.name}"

    def change(self, text: str) -> Change:
        """The change that makes it say `text`."""
        match self.kind:
            case "system":
                return SetSystem(text)
            case "tool":
                return SetTool(self.name, description=text)
            case "message":
                return SetMessage(int(self.name), text)


class Draft(Struct, frozen=True, eq=False, kw_only=True):
    """What the replay screen starts from: a step, and everything its request can be edited in.

    `thread` is that of the step, None for the thread of step 0. `missing` says what was not
    recorded and can be attached. `rows` are the steps as recorded; `model` answered them, None
    where that is not known. `names` are those of the edits that are kept, by digest. `notice` is
    what speaks against a prompt edit.
    """

    trace: str
    run: str
    step: int
    thread: str | None
    request: Request
    targets: tuple[Target, ...]
    missing: tuple[str, ...]
    rows: tuple[ReplayRow, ...]
    model: str | None
    names: Mapping[str, str]
    notice: str | None

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
    request=Request(),
    targets=(),
    missing=(),
    rows=(),
    model=None,
    names={},
    notice=None,
)


def build_draft(store: Store, name: str, at: int) -> Draft:
    """The draft at step `at`. Raises NotFound for the trace."""
    trace = read.load(store, trace_row(store, name).trace)
    broke, notice = break_and_notice(store, trace.id)
    step = trace.steps[min(at, len(trace.steps) - 1)] if trace.steps else None
    missing = _missing(trace, step)
    return Draft(
        trace=trace.id,
        run=format.cut(format.one_line(trace.header.source_id), 40),
        step=step.index if step is not None else 0,
        thread=step.thread if step is not None and step.thread != trace.steps[0].thread else None,
        request=step.ask.request if step is not None else Request(),
        targets=_targets(step, missing) if step is not None else (),
        missing=missing,
        rows=tuple(_recorded(each, broke) for each in trace.steps),
        model=default_name(trace),
        names={digest: named for named, digest in edits.names(store)},
        notice=notice,
    )


def edit_of(draft: Draft, texts: Mapping[str, str], name: str) -> Edit | None:
    """The edit that gives targets, by their label, other texts; None where none is given."""
    changes = tuple(
        target.change(texts[target.label]) for target in draft.targets if target.label in texts
    )
    return Edit(name=name, changes=changes, thread=draft.thread) if changes else None


def _missing(trace: Trace, step: Step | None) -> tuple[str, ...]:
    """What was not recorded anywhere in the thread of the step."""
    reasons = {
        reason
        for each in trace.steps
        if step is not None and each.thread == step.thread
        for reason in each.ask.fidelity.reasons
    }
    return tuple(reason for reason in (NO_SYSTEM, NO_TOOLS) if reason in reasons)


def _targets(step: Step, missing: tuple[str, ...]) -> tuple[Target, ...]:
    """Each label once: a change to a tool reaches every tool of that name."""
    found: dict[str, Target] = {}
    for target in _texts_of(step, missing):
        found.setdefault(target.label, target)
    return tuple(found.values())


def _texts_of(step: Step, missing: tuple[str, ...]) -> Iterator[Target]:
    request = step.ask.request
    if NO_SYSTEM not in missing:
        system = messages.text(request.system) if request.system is not None else ""
        yield Target(kind="system", text=system, about="" if system else "none")
    for tool in request.tools or ():
        text = tool.description or ""
        yield Target(kind="tool", name=tool.name, text=text, about=format.one_line(text))
    said = request.context.messages() if request.context is not None else []
    for index, message in enumerate(said):
        text = messages.text(message)
        if text and not messages.results(message):
            about = f"{message.role}: {format.one_line(text)}"
            yield Target(kind="message", name=str(index), text=text, about=about)


def _recorded(step: Step, broke: int | None) -> ReplayRow:
    """A step nobody was asked for yet."""
    did = action(step.ask.response, step.ask.error)
    return ReplayRow(
        step=step.index,
        fidelity=step.ask.fidelity.level,
        recorded=did.phrase,
        control=None,
        control_same=None,
        edited=None,
        edited_same=None,
        mark=None,
        at_break=step.index == broke,
        dimmed=False,
        refused=None,
        recorded_text=did.text,
        recorded_calls=did.calls,
        reasons=step.ask.fidelity.reasons,
    )
