"""One step in full: why it is suspect, what the model saw, what it said, what came back. As values,
and as Markdown to paste into an issue or a conversation: whole, nothing folded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, overload

import msgspec
from msgspec import Struct, convert, structs

from arc_tui.ui import format
from arc_tui.views.evidence import judge_findings
from arc_tui.views.media import described, without_bytes
from arc_tui.views.scores import Scorer, scorers
from replay.errors import no_step
from replay.messages import calls, new_since, observed, prose, results, text, thinking
from replay.store import read
from replay.store.handle import Store, now_ns
from replay.store.rows import LatencyRank, StepRow, standing, step_rows
from replay.trace import Json, Level, Message, Observation, Step, ToolCall
from taxonomy.calibration.approval import trusted_scores
from taxonomy.findings import Diagnosis, Finding, Item, Signal, StepScore, most_trusted
from taxonomy.judgements.diagnoses import diagnosis
from taxonomy.judgements.scores import all_scores

if TYPE_CHECKING:  # what these rest on is half of what the app would load before it is drawn
    from arc_tui.views.code import EditView
    from arc_tui.views.probe_offers import WhyProbes
    from arc_tui.views.value_origins import StepOrigins


class CallView(Struct, frozen=True, kw_only=True):
    """A tool call: `arguments` as JSON text, `parsed` False where it is what could not be read.

    `edits` are what it writes into files, as far as it shows that; `only_edits`: they say all that
    the arguments do.
    """

    name: str
    arguments: str
    parsed: bool = True
    edits: tuple[EditView, ...] = ()
    only_edits: bool = False


class MessageView(Struct, frozen=True, kw_only=True):
    """A message as a reader sees it."""

    role: str
    text: str
    thinking: str = ""
    calls: tuple[CallView, ...] = ()
    results: tuple[str, ...] = ()


COMPARED = 20
"""Calls of a tool with a time, of all runs, that one is held against; fewer say little."""


class Seen(Struct, frozen=True, kw_only=True):
    """A call and what came back; `result` None where it was not recorded.

    `standing` is how long it took beside all calls of its tool, None where too few are known.
    """

    span: str
    call: CallView
    result: str | None
    error: bool
    duration_ns: int | None
    standing: LatencyRank | None = None


class Scored(Struct, frozen=True, kw_only=True):
    """A score of the step and who gave it."""

    who: Scorer
    score: StepScore


class MessageViews(Sequence[MessageView]):
    """Messages that are made readable where they are looked at: late in a long run thousands of
    them stand behind one line."""

    def __init__(self, messages: Sequence[Message], places: range) -> None:
        self._messages, self._places = messages, places

    def __len__(self) -> int:
        return len(self._places)

    @overload
    def __getitem__(self, place: int) -> MessageView: ...
    @overload
    def __getitem__(self, place: slice) -> MessageViews: ...
    def __getitem__(self, place: int | slice) -> MessageView | MessageViews:
        if isinstance(place, slice):
            return MessageViews(self._messages, self._places[place])
        return say(self._messages[self._places[place]])


class StepView(Struct, frozen=True, eq=False, kw_only=True):
    """Everything the detail tabs of one step draw.

    `agent` is who took the step, where the source says. `score` is the one that counts, `scores`
    are all there are, most trusted first. `value_origins` are where the values of its calls came
    from, None until the whole run was read for that; so are `probes`, what can be probed here.

    `shared` counts the leading messages that the step before it (in its thread; `before` is its
    number) saw too, `earlier` holds them, None until somebody looks at them; `new` are the rest.
    `tools` is None where it is not known what was offered.
    """

    trace: str
    row: StepRow
    before: int | None
    fidelity: Level
    reasons: tuple[str, ...]
    findings: tuple[Finding, ...]
    signals: tuple[Signal, ...]
    score: StepScore | None
    system: str | None
    system_changed: bool
    tools: tuple[str, ...] | None
    shared: int
    new: tuple[MessageView, ...]
    response: MessageView | None
    observations: tuple[Seen, ...]
    raw: str
    earlier: Sequence[MessageView] | None = None
    agent: str | None = None
    scores: tuple[Scored, ...] = ()
    value_origins: StepOrigins | None = None
    probes: WhyProbes | None = None

    @property
    def earlier_line(self) -> str:
        """One line for the part of the request that the step before saw too."""
        if not self.shared:
            return "first request"
        noun = "message" if self.shared == 1 else "messages"
        before = "the previous step" if self.before is None else f"step {self.before}"
        return f"{self.shared} {noun} as in {before}"

    @property
    def items(self) -> tuple[Item, ...]:
        return self.score.items if self.score else ()


EMPTY = StepView(
    trace="",
    row=convert(
        {each.name: None for each in structs.fields(StepRow)}
        | dict.fromkeys(("trace", "thread", "span"), "")
        | dict.fromkeys(("step", "calls", "errors", "masked"), 0)
        | {"time_quality": "none", "fidelity": "none", "status": "unset"},
        StepRow,
    ),
    before=None,
    fidelity=Level.NONE,
    reasons=(),
    findings=(),
    signals=(),
    score=None,
    system=None,
    system_changed=False,
    tools=None,
    shared=0,
    new=(),
    response=None,
    observations=(),
    raw="",
)


def build_step(
    store: Store,
    trace: str,
    index: int,
    *,
    rows: Sequence[StepRow] | None = None,
    said: Diagnosis | None = None,
    blind: bool = False,
) -> StepView:
    """The step of that number. Raises NotFound for the trace, IndexError for the step.

    A screen that holds the trace gives its `rows` and what is `said` of it; they are read where
    `rows` is None. `blind` leaves out scores and what judges suggest.
    """
    if rows is None:
        rows, said = step_rows(store, trace), diagnosis(store, trace, scores=False)
    if not 0 <= index < len(rows):
        raise IndexError(index)
    row = rows[index]
    before = next((r.step for r in reversed(rows[:index]) if r.thread == row.thread), None)
    found = read.step_since(store, trace, index, before)
    if found is None:  # a live run was read differently since
        raise no_step(index, len(rows))
    findings = [each for each in (said.findings if said else ()) if each.step == row.step]
    view = _view(trace, row, found, before, findings, said, raw=_raw(found))
    shown = _with_standings(store, view)
    return shown if blind else _with_judgements(store, shown)


def read_earlier(store: Store, view: StepView) -> StepView:
    """The step with the messages that the step before it saw too. Raises NotFound."""
    found = read.part(store, view.trace, {view.row.step}).get(view.row.step)
    context = found.ask.request.context if found is not None else None
    messages = context.messages() if context is not None else ()
    return structs.replace(view, earlier=MessageViews(messages, range(view.shared)))


def build_steps(store: Store, trace: str) -> Iterator[StepView]:
    """Every step of a run in its order, as `build_step` has it, the run read once: without its raw
    spans, and how long calls took beside those of other runs. Raises NotFound."""
    with store.reading():
        recorded, said = read.load(store, trace), diagnosis(store, trace, scores=False)
        rows = step_rows(store, trace)
    now = now_ns()
    trusted, every = trusted_scores(store, trace, now), all_scores(store, trace)
    by = scorers(store, every, trusted, now)
    scored, judged = _by_step(every), _by_step(judge_findings(store, trace))
    found = _by_step(said.findings if said else ())
    counted, best = _by_step(trusted), most_trusted(trusted)
    before: dict[str, Step] = {}
    for row, step in zip(rows, recorded.steps, strict=True):
        earlier = before.get(row.thread)
        number = earlier.index if earlier is not None else None
        own_findings = found.get(row.step, ())
        shown = _view(trace, row, _since(step, earlier), number, own_findings, said, raw="")
        before[row.thread] = step
        own = {(score.source, score.by): score for score in scored.get(row.step, ())}
        yield structs.replace(
            shown,
            findings=(*shown.findings, *judged.get(row.step, ())),
            score=best.get(row.step, next(iter(counted.get(row.step, ())), None)),
            scores=tuple(
                Scored(who=who, score=own[who.source, who.by])
                for who in by
                if (who.source, who.by) in own
            ),
        )


T = TypeVar("T", StepScore, Finding)


def _by_step(given: Sequence[T]) -> dict[int, list[T]]:
    found: dict[int, list[T]] = {}
    for each in given:
        found.setdefault(each.step, []).append(each)
    return found


def _since(step: Step, earlier: Step | None) -> read.StepSince:
    """Of a run that was read whole."""
    request = step.ask.request
    previous = earlier.ask.request if earlier is not None else None
    shared, new = new_since(request.context, previous.context if previous else None)
    return read.StepSince(
        step=step,
        shared=shared,
        new=tuple(new),
        system_changed=previous is not None and previous.system != request.system,
    )


def _view(
    trace: str,
    row: StepRow,
    found: read.StepSince,
    before: int | None,
    findings: Sequence[Finding],
    said: Diagnosis | None,
    *,
    raw: str,
) -> StepView:
    step, request = found.step, found.step.ask.request
    return StepView(
        trace=trace,
        row=row,
        before=before,
        fidelity=step.ask.fidelity.level,
        reasons=step.ask.fidelity.reasons,
        findings=tuple(findings),
        signals=_signals(said, row.step),
        score=None,
        agent=step.ask.agent,
        system=text(request.system) if request.system is not None else None,
        system_changed=found.system_changed,
        tools=None if request.tools is None else tuple(tool.name for tool in request.tools),
        shared=found.shared,
        new=tuple(map(say, found.new)),
        response=say(step.ask.response.message) if step.ask.response.message else None,
        observations=tuple(map(_seen, step.acts)),
        raw=raw,
    )


def _with_standings(store: Store, view: StepView) -> StepView:
    """The view with how long its calls took beside those of all runs."""
    return structs.replace(
        view,
        observations=tuple(
            structs.replace(seen, standing=_standing(store, seen)) for seen in view.observations
        ),
    )


def _standing(store: Store, seen: Seen) -> LatencyRank | None:
    if not seen.duration_ns:
        return None
    found = standing(store, seen.call.name, seen.duration_ns)
    return found if found.spans >= COMPARED else None


def _with_judgements(store: Store, view: StepView) -> StepView:
    """The view with everyone's scores of the step, and what judges suggest of it."""
    now, step = now_ns(), view.row.step
    trusted = trusted_scores(store, view.trace, now, step)
    every = all_scores(store, view.trace, step)
    by = {(score.source, score.by): score for score in every}
    return structs.replace(
        view,
        findings=(*view.findings, *judge_findings(store, view.trace, step)),
        score=most_trusted(trusted).get(step, next(iter(trusted), None)),
        scores=tuple(
            Scored(who=who, score=by[who.source, who.by])
            for who in scorers(store, every, trusted, now)
        ),
    )


def _signals(said: Diagnosis | None, index: int) -> tuple[Signal, ...]:
    for candidate in said.candidates if said else ():
        if candidate.step == index:
            return candidate.signals
    return ()


def say(message: Message) -> MessageView:
    """A message as a reader sees it; a line stands for each picture in it."""
    message = described(message)
    return MessageView(
        role=message.role,
        text=prose(message),
        thinking=thinking(message),
        calls=tuple(_call(call.name, call.arguments, call.raw) for call in calls(message)),
        results=tuple(result.text for result in results(message)),
    )


def _call(name: str, arguments: Json, raw: str | None, reply: str = "") -> CallView:
    from arc_tui.views.code import edit_views
    from taxonomy.evidence.file_edits import only_edits

    edits = edit_views(name, raw if arguments is None else arguments, reply)
    whole = bool(edits) and only_edits(raw if arguments is None else arguments)
    if raw is not None and arguments is None:
        return CallView(name=name, arguments=raw, parsed=False, edits=edits, only_edits=whole)
    return CallView(name=name, arguments=pretty(arguments), edits=edits, only_edits=whole)


def pretty(value: Json) -> str:
    """JSON text a person reads; a short value stays on one line."""
    encoded = msgspec.json.encode(value)
    shown = msgspec.json.format(encoded, indent=0 if len(encoded) <= 60 else 2)
    return shown.decode()


def _seen(act: ToolCall) -> Seen:
    result = None if act.observation is None else _result(act.observation)
    return Seen(
        span=act.id,
        call=_call(act.name, act.arguments, act.arguments_raw, result or ""),
        result=result,
        error=act.status == "error",
        duration_ns=act.duration_ns,
    )


def _result(observation: Observation) -> str:
    shown = structs.replace(observation, message=described(observation.message))
    return observed(shown).text


def _raw(found: read.StepSince) -> str:
    """The spans of the step as they are stored, the context as its length, pictures as a line."""
    step = found.step
    bare = structs.replace(step.ask, request=structs.replace(step.ask.request, context=None))
    ask: dict[str, Any] = msgspec.to_builtins(bare)
    ask["request"]["context"] = f"{found.depth} messages, under Request"
    values = [ask, *(msgspec.to_builtins(act) for act in step.acts)]
    return msgspec.json.format(msgspec.json.encode(without_bytes(values)), indent=2).decode()


def step_markdown(view: StepView) -> str:
    """The step: why it is suspect and how it was scored, what was new to the model, its answer,
    what came back."""
    row = view.row
    parts = [
        f"## Step {row.step} of trace {view.trace[:8]}",
        f"{format.one_line(row.model) or 'model unknown'}, fidelity {view.fidelity.value}",
    ]
    for finding in view.findings:
        unsure = " (hint, not counted)" if finding.is_hint else ""
        parts.append(f"**{finding.failure.value}?** {format.one_line(finding.why)}{unsure}")
        parts += [
            f"- {format.one_line(each.role)}: {format.one_line(each.text)}"
            f" ({format.one_line(each.place) or f'step {each.step}'})"
            for each in finding.evidence
        ]
    if view.scores:
        parts += [
            "### Scores",
            "\n".join(line for each in view.scores for line in _markdown_scored(each)),
        ]
    parts.append("### New in the request")
    parts += [_markdown_message(said) for said in view.new] or ["nothing new"]
    parts += ["### Response", _markdown_message(view.response) if view.response else "not recorded"]
    if view.observations:
        parts.append("### Tool results")
        parts += [_markdown_seen(seen) for seen in view.observations]
    return "\n\n".join(parts) + "\n"


def _markdown_scored(scored: Scored) -> Iterator[str]:
    """A score and whose it is, its answered items below."""
    score, who = scored.score, scored.who
    shown = "no score" if score.value is None else format.score(score.value)
    unused = "" if who.used else ", not counted"
    yield f"- {shown} by {format.one_line(who.name)}{unused}"
    for item in score.items:
        because = format.one_line(item.because)
        if item.held is not None:
            answer = "yes" if item.held else "no"
            yield f"  - {format.one_line(item.name)}: {answer}{f' ({because})' if because else ''}"
        elif because:
            yield f"  - {format.one_line(item.name)}: {because}"


def _markdown_message(said: MessageView) -> str:
    parts = [f"**{format.one_line(said.role)}**"]
    if said.thinking:
        parts.append(f"thinking:\n\n{format.fenced(said.thinking)}")
    if said.text:
        parts.append(format.fenced(said.text))
    parts += [_markdown_call(call) for call in said.calls]
    parts += [format.fenced(result) for result in said.results]
    return "\n\n".join(parts)


def _markdown_call(call: CallView) -> str:
    return f"calls `{format.one_line(call.name)}`\n\n{format.fenced(call.arguments, 'json')}"


def _markdown_seen(seen: Seen) -> str:
    result = "result not recorded" if seen.result is None else format.fenced(seen.result)
    return f"{_markdown_call(seen.call)}\n\n{'error' if seen.error else 'result'}:\n\n{result}"
