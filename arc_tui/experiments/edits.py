"""What can be edited of a trace before the model is asked again, and the edit that comes of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal

from msgspec import Struct, structs

from arc_tui.attachment import offers_for, record_command
from arc_tui.experiments.locked_view import ReplayRow
from arc_tui.ui import format
from arc_tui.ui.diff import DiffLine, diff_block, diff_lines
from arc_tui.ui.document import Block, Document
from replay import messages
from replay.action import action
from replay.edit.changes import (
    Change,
    Edit,
    InjectConstraint,
    PatchSystem,
    ReplaceText,
    SetMessage,
    SetObservation,
    SetSystem,
    SetTool,
    describe,
    meant,
)
from replay.edit.editor import Editor, diff_trace
from replay.errors import ArcError, BadEdit
from replay.models.choose import default_name
from replay.store import edits, read
from replay.store.handle import Store
from replay.store.offers import Offer
from replay.store.rows import step_rows, trace_row
from replay.trace import NO_SYSTEM, NO_TOOLS, Request, Step, ToolCall, Trace
from taxonomy.query.failures import break_and_notice


class Draft(Struct, frozen=True, eq=False, kw_only=True):
    """What the replay screen starts from: a step, and everything its request can be edited in.

    `edit` is what was chosen or put together so far; `targets` show what it makes of the texts,
    `also` the changes that no text shows. `thread` is the one that is edited, None for that of
    step 0. `missing` says what was not recorded and can be attached. `rows` are the steps as
    recorded; `model` answered them, None where that is not known. `names` are those of the edits
    that are kept, by digest. `notice` is what speaks against a prompt edit. `source` is the trace
    itself, None before it is read. `offers` are what may be attached, the best first; `record` is
    the command that records the next run whole, None where there is none.
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
    offers: tuple[Offer, ...] = ()
    record: str | None = None

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
    found = targets(trace, step, missing, edit) if step is not None else ()
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
        also=also(edit.changes if edit is not None else (), found),
        offers=offers_for(store, trace.id) if missing else (),
        record=record_command(trace.header.agent, trace.header.format),
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
        if place_of(change) not in anew or not only_text(change):
            yield change
    left = {place_of(change) for change in draft.also}
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


class Target(Struct, frozen=True, eq=False, kw_only=True):
    """A text that can be edited: the system prompt, a tool's description, what a message says,
    what a tool returned.

    `name` is the tool's name, the index of the message, the step and the index of its call
    (`3.0`), or "". `about` says which one it is. `text` is what was recorded, `edited` what the
    edit of the draft makes of it, None where it leaves it.
    """

    kind: Literal["system", "tool", "message", "result"]
    text: str
    name: str = ""
    label: str
    about: str = ""
    edited: str | None = None

    @property
    def place(self) -> str:
        """Which text it is, in the words of `ReplaceText`."""
        return f"{self.kind} {self.name}".rstrip()

    @property
    def shown(self) -> str:
        """What it says under the edit of the draft."""
        return self.text if self.edited is None else self.edited

    def change(self, text: str) -> Change:
        """The change that makes it say `text`."""
        match self.kind:
            case "system":
                return SetSystem(text)
            case "tool":
                return SetTool(self.name, description=text)
            case "message":
                return SetMessage(int(self.name), text)
            case "result":
                step, _, call = self.name.partition(".")
                return SetObservation(step=int(step), call=int(call), text=text)


def place_of(change: Change) -> str | None:
    """The place of the text it changes, None where it changes no text that is there."""
    match change:
        case SetSystem() | PatchSystem() | InjectConstraint(step=None):
            return "system"
        case ReplaceText(target=target):
            return target
        case SetTool(name=name, description=str()):
            return f"tool {name}"
        case SetMessage(index=index):
            return f"message {index}"
        case SetObservation(step=step, call=call):
            return f"result {step}.{call or 0}"
        case _:
            return None


def only_text(change: Change) -> bool:
    """Does it change the text of its place and nothing beside it?"""
    match change:
        case SetTool(schema=schema):
            return schema is None
        case SetObservation(is_error=is_error):
            return is_error is None
        case _:
            return place_of(change) is not None


def also(changes: Iterable[Change], targets: Iterable[Target]) -> tuple[Change, ...]:
    """The changes that none of the texts shows, or not all of."""
    places = {target.place for target in targets}
    return tuple(
        change for change in changes if not only_text(change) or place_of(change) not in places
    )


def also_words(changes: Iterable[Change]) -> tuple[str, ...]:
    return tuple(format.one_line(describe(change)) for change in changes)


def targets(
    trace: Trace, step: Step, missing: Sequence[str], edit: Edit | None
) -> tuple[Target, ...]:
    """The texts of a step's request under an edit, each once. Raises BadEdit where it does not
    apply."""
    found: dict[str, Target] = {}
    for target in _texts(trace, step, missing):
        found.setdefault(target.place, target)
    if edit is None:
        return tuple(found.values())
    return tuple(_under(target, edit, trace, step) for target in found.values())


def _texts(trace: Trace, step: Step, missing: Sequence[str]) -> Iterator[Target]:
    request = step.ask.request
    if NO_SYSTEM not in missing:
        system = messages.text(request.system) if request.system is not None else ""
        about = "" if system else "none"
        yield Target(kind="system", label="system prompt", text=system, about=about)
    for tool in request.tools or ():
        text, name = tool.description or "", tool.name
        about = format.one_line(text)
        yield Target(kind="tool", name=name, label=f"tool {name}", text=text, about=about)
    said = request.context.messages() if request.context is not None else []
    for index, message in enumerate(said):
        text, name = messages.text(message), str(index)
        if text and not messages.results(message):
            about = f"{message.role}: {format.one_line(text)}"
            yield Target(kind="message", name=name, label=f"message {name}", text=text, about=about)
    for each in trace.steps[: step.index + 1]:
        if each.thread == step.thread:
            yield from _results(each)


def _results(step: Step) -> Iterator[Target]:
    """What the calls of a step returned, where that was recorded."""
    for place, act in enumerate(step.acts):
        if act.observation is not None:
            call = f".{place}" if len(step.acts) > 1 else ""
            text = messages.observed(act.observation).text
            yield Target(
                kind="result",
                name=f"{step.index}.{place}",
                label=f"result {step.index}{call}",
                text=text,
                about=_about(act, text),
            )


def _about(act: ToolCall, text: str) -> str:
    return f"{format.one_line(act.name)}: {format.one_line(text)}"


def _under(target: Target, edit: Edit, trace: Trace, step: Step) -> Target:
    """The target with what the edit makes of its text."""
    touching = tuple(each for each in edit.changes if place_of(each) == target.place)
    if not touching:
        return target
    if target.kind == "result":
        last = touching[-1]
        assert isinstance(last, SetObservation)
        return structs.replace(target, edited=last.text)
    editor = Editor(structs.replace(edit, changes=touching), trace)
    request = editor.request(step.ask.request, f"step {step.index}")
    return structs.replace(target, edited=_text_in(request, target))


def _text_in(request: Request, target: Target) -> str:
    """The text of a target in a request that changes of this text alone were made to."""
    match target.kind:
        case "system":
            return messages.text(request.system) if request.system is not None else ""
        case "tool":
            tools = request.tools or ()
            return next((t.description or "" for t in tools if t.name == target.name), "")
        case _:
            assert request.context is not None
            return messages.text(request.context.messages()[int(target.name)])


def diff_page(lines: Sequence[str]) -> Document:
    """A unified diff, each line as long as it is; or that there is none."""
    if not lines:
        return (Block(text="No edit: control arm only.", style="quiet"),)
    made = diff_lines([format.plain(line) for line in lines])
    return tuple(map(_diff_line, (line for line in made if not is_second_name(line))))


def is_second_name(line: DiffLine) -> bool:
    """Is it the name of the changed text, below that of the one it was made from?"""
    return line.kind == "name" and line.text.startswith("+")


def _diff_line(line: DiffLine) -> Block:
    if line.kind == "name":
        return Block(text=format.one_line(line.text[4:]), style="head")
    return diff_block(line)


def trouble_page(error: ArcError) -> Document:
    """Why there is no diff, and what to do."""
    said = Block(text=format.plain(error.message), style="error")
    return (said, Block(text=format.plain(error.hint), style="quiet")) if error.hint else (said,)
