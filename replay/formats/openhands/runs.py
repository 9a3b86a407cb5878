"""Where are the runs of an OpenHands source, which events has each, and which are one answer?

A run becomes spans: a model call an answer, a tool call an action. Each agent's thread keeps its
context as events, and how well it is known.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from msgspec import Struct, structs

from replay.errors import BadTrace
from replay.formats import common
from replay.formats.common import (
    count,
    derived_id,
    known,
    listed,
    ns,
    obj,
    seconds_ns,
    total_usage,
    word,
)
from replay.formats.dialogue import Thread, Turn
from replay.formats.openhands.events import (
    Acted,
    Aside,
    Back,
    Forgot,
    Happened,
    Prompted,
    Received,
    Returned,
    Sent,
    is_runtime_event,
    is_sdk_event,
    read_runtime_event,
    read_sdk_event,
)
from replay.formats.source import Head, Source, Tally, decode
from replay.messages import calls
from replay.trace import (
    NO_SYSTEM,
    NO_TOOLS,
    AgentSpan,
    AnySpan,
    Cost,
    Fidelity,
    Json,
    Level,
    Message,
    OtherSpan,
    Place,
    Request,
    TimeQuality,
    ToolCall,
    Usage,
)

_FILE = re.compile(r"event-(\d+)(?:-.*)?\.json|(\d+)\.json")
_MAX_FOLDER = 200_000


class Event(Struct, frozen=True, kw_only=True, eq=False):
    """One event at its place among those of its run."""

    index: int
    raw: dict[str, Any]

    @property
    def happened(self) -> Happened:
        if is_sdk_event(self.raw):
            return read_sdk_event(self.raw, self.index)
        return read_runtime_event(self.raw, self.index)


class Run(Struct, frozen=True, kw_only=True, eq=False):
    """One run: what the source says of it, and its events. `line` is None for a whole file."""

    about: dict[str, Any]
    events: list[Event]
    line: int | None = None


def is_event(raw: Json) -> bool:
    return isinstance(raw, dict) and (is_sdk_event(raw) or is_runtime_event(raw))


def runs(source: Source, tally: Tally) -> Iterator[Run]:
    """The runs of a source. Raises BadTrace where it holds none."""
    if not source.head.starts(b"{"):
        yield from _listed(source, tally)
        return
    loose: list[Json] = []
    found = False
    for line, raw in _objects(source, tally):
        if isinstance(raw.get("history"), list):
            found = True
            yield Run(about=raw, events=_events(raw["history"], tally), line=line)
        elif is_event(raw):
            loose.append(raw)
        else:
            tally.problem(f"line {line}", "is not a run: it has no `history`")
    if len(loose) == 1 and _number(source.path) is not None:
        loose = [*_folder(source, loose[0], tally)]
    if loose:
        yield Run(about=_state(source.path), events=_events(loose, tally))
    elif not found:
        raise BadTrace(source.display, "", "contains no run with a `history` of events")


def _listed(source: Source, tally: Tally) -> Iterator[Run]:
    document = source.document()
    entries = listed(document)
    if any(is_event(entry) for entry in entries):
        yield Run(about={}, events=_events(entries, tally))
        return
    told = [obj(entry) for entry in entries if isinstance(obj(entry).get("history"), list)]
    if not told:
        raise BadTrace(
            source.display, "", "contains neither events nor a run with a `history` of them"
        )
    for about in told:
        yield Run(about=about, events=_events(about["history"], tally))


def _objects(source: Source, tally: Tally) -> Iterator[tuple[int, dict[str, Any]]]:
    """The objects of a file, one a line, or one over many lines."""
    if _is_one_object(source.head):
        yield 1, obj(source.document())
    else:
        yield from source.records(tally)


def _is_one_object(head: Head) -> bool:
    """Does the first line of the file end in the midst of an object?"""
    first, newline, _ = head.data.lstrip(b"\xef\xbb\xbf \t\r\n").partition(b"\n")
    if not newline:
        return False
    try:
        decode(first, head.name, "line 1")
    except BadTrace:
        return True
    return False


def _events(entries: list[Json], tally: Tally) -> list[Event]:
    """The events in their order. The oldest histories hold pairs of action and observation."""
    flat: list[Json] = []
    for entry in entries:
        flat.extend(entry if isinstance(entry, list) else [entry])
    found: list[Event] = []
    for index, raw in enumerate(flat):
        if is_event(raw):
            found.append(Event(index=index, raw=raw))
        else:
            tally.problem(f"event {index}", "is neither an action nor an observation")
    return found


# --- a folder of events


def part_of(path: Path) -> Path | None:
    """The first file of the folder of events that this file belongs to."""
    if path.parent.name != "events" or _number(path) is None:
        return None
    found = _files(path.parent)
    return found[0] if found and found[0] != path else None


def _number(path: Path) -> int | None:
    match = _FILE.fullmatch(path.name)
    return int((match[1] or match[2])[:18]) if match is not None else None


def _files(folder: Path) -> tuple[Path, ...]:
    try:
        return _sorted(folder, folder.stat().st_mtime_ns)
    except OSError:
        return ()


@lru_cache(maxsize=2)
def _sorted(folder: Path, _changed_ns: int) -> tuple[Path, ...]:
    numbered = [
        (number, path) for path in folder.iterdir() if (number := _number(path)) is not None
    ]
    return tuple(path for _, path in sorted(numbered)[:_MAX_FOLDER])


def _folder(source: Source, first: Json, tally: Tally) -> Iterator[Json]:
    """The events of the files beside the first one, where it stands in such a folder."""
    yield first
    if source.display == "-" or source.path.parent.name != "events":
        return
    for path in _files(source.path.parent):
        if path.name == source.path.name:
            continue
        try:
            yield Source(path).document()
        except BadTrace as error:
            tally.problem(path.name, error.why)


def _state(path: Path) -> dict[str, Any]:
    """What the SDK keeps of a conversation beside its events."""
    place = path.parent.parent / "base_state.json"
    if path.parent.name != "events" or not place.is_file():
        return {}
    try:
        state = obj(Source(place).document())
    except BadTrace:
        return {}
    return {"base_state": state}


def answers(told: list[tuple[Event, Happened]]) -> dict[int, list[Acted]]:
    """The answers of a run: the index of the event that tells each, and all that share its id."""
    found: dict[int, list[Acted]] = {}
    first: dict[str, int] = {}
    for event, happened in told:
        acted = happened.acted if isinstance(happened, Sent) else happened
        if not isinstance(acted, Acted):
            continue
        index = first.setdefault(acted.answer_id, event.index) if acted.answer_id else event.index
        found.setdefault(index, []).append(acted)
    return found


def answer_id(group: list[Acted]) -> str | None:
    return group[0].answer_id


def joined(group: list[Acted]) -> Message:
    """The message of an answer: the provider's own, or one with the calls of all its events."""
    first = group[0].message
    if group[0].answer or len(group) == 1:
        return first
    given = [each.message.body.get("tool_calls") for each in group if calls(each.message)]
    listed_calls = [call for each in given if isinstance(each, list) for call in each]
    return Message(dialect="openai", body={**first.body, "tool_calls": listed_calls})


class Figures:
    """The figures of a run by call; `answers` are the answer ids of its calls in their order."""

    def __init__(self, metrics: dict[str, Any], answers: Sequence[str | None]) -> None:
        self._tokens = _by_call(listed(metrics.get("token_usages")), answers)
        self._latencies = _by_call(listed(metrics.get("response_latencies")), answers)
        self._costs = _by_call(listed(metrics.get("costs")), answers)

    def usage(self, call: int, answer: dict[str, Any]) -> Usage | None:
        """Tokens of the provider's own answer, else of the run's list."""
        return common.usage(answer.get("usage")) or _usage(obj(self._tokens.get(call)))

    def cost(self, call: int, tokens: Usage | None) -> Cost | None:
        given = self._costs.get(call)
        return common.cost(obj(given).get("cost") if isinstance(given, dict) else given, tokens)

    def latency_ns(self, call: int) -> int | None:
        latency = seconds_ns(obj(self._latencies.get(call)).get("latency"))
        return latency if latency is not None and latency >= 0 else None


def _by_call(entries: list[Json], answers: Sequence[str | None]) -> dict[int, Json]:
    """The entries by the index of their call: by answer id, or all in their order."""
    named = {name: entry for entry in entries if (name := word(obj(entry).get("response_id")))}
    known = {call: named[name] for call, name in enumerate(answers) if name and name in named}
    if known or len(entries) != len(answers):
        return known
    return dict(enumerate(entries))


def _usage(given: dict[str, Any]) -> Usage | None:
    return total_usage(
        count(given.get("prompt_tokens")),
        count(given.get("completion_tokens")),
        reasoning=count(given.get("reasoning_tokens")) or None,
        read=count(given.get("cache_read_tokens")),
        write=count(given.get("cache_write_tokens")),
    )


def metrics_of(about: dict[str, Any]) -> dict[str, Any]:
    """The metrics of a run: its own, or what the SDK's state adds up for the agent."""
    if isinstance(about.get("metrics"), dict):
        return obj(about["metrics"])
    stats = obj(obj(about.get("base_state")).get("stats"))
    used = obj(stats.get("usage_to_metrics")) or obj(stats.get("service_to_metrics"))
    return obj(used.get("agent"))


def reported_usd(metrics: dict[str, Any]) -> float | None:
    """The run's cost; zero without a single cost is a model without a price."""
    found = common.cost(metrics.get("accumulated_cost"), None)
    return found.usd if found is not None else None


MAX_DEPTH = 32


class SpanBuilder:
    """Tells the events of one run."""

    def __init__(
        self, run: Run, root: str, request: Request, metrics: dict[str, Any], tally: Tally
    ):
        self._run = run
        self._root = root
        self._tally = tally
        self._request = request
        self._talks = [Talk(root, request, tally)]
        self._before_ns: int | None = None
        self._call_of: dict[str, str] = {}
        self._told = [(event, event.happened) for event in run.events]
        self._answers = answers(self._told)
        self._figures = Figures(metrics, [answer_id(group) for group in self._answers.values()])
        self._numbers = {first: number for number, first in enumerate(self._answers)}
        self._began: dict[str, tuple[int | None, Place]] = {}

    def build(self) -> tuple[AnySpan, ...]:
        for event, happened in self._told:
            at_ns = ns(event.raw.get("timestamp"))
            if isinstance(happened, Prompted):
                self._prompted(happened)
            elif isinstance(happened, Received):
                self._add_input(event, happened.message)
            elif isinstance(happened, Acted):
                self._acted(event, happened, at_ns)
            elif isinstance(happened, Returned):
                self._returned(event, happened, at_ns)
            elif isinstance(happened, Sent):
                self._sent(event, happened, at_ns)
            elif isinstance(happened, Back):
                self._back(event, happened, at_ns)
            elif isinstance(happened, Forgot):
                self._talk.forget(happened)
                self._aside(event, Aside(name="condensation", extra=known(text=happened.summary)))
            elif isinstance(happened, Aside):
                self._aside(event, happened)
            self._before_ns = at_ns or self._before_ns
        while len(self._talks) > 1:
            self._close()
        return tuple(map(self._placed, self._talks[0].thread.spans()))

    @property
    def _talk(self) -> Talk:
        return self._talks[-1]

    # --- what an event does to the thread

    def _prompted(self, prompt: Prompted) -> None:
        talk = self._talk
        talk.thread.request = structs.replace(
            talk.thread.request, system=prompt.message, tools=prompt.tools
        )
        lacks = () if prompt.schemas else (NO_SCHEMAS,)
        has = (NO_SYSTEM,) if prompt.tools is None else (NO_SYSTEM, NO_TOOLS)
        talk.know(*lacks, known_now=has)

    def _add_input(self, event: Event, message: Message) -> None:
        self._show(event, message)
        self._talk.thread.add_message(message, place=self._place(event))

    def _show(self, event: Event, message: Message) -> None:
        self._talk.shown.append(Shown(event=_id(event), message=message))

    def _acted(self, event: Event, acted: Acted, at_ns: int | None) -> None:
        talk, place = self._talk, self._place(event)
        if acted.call_id is not None:
            talk.called = acted.call_id
            self._call_of[_id(event)] = acted.call_id
        if event.index in self._answers:
            self._answered(event, acted, at_ns)
        for call in reversed(talk.thread.open_calls()):
            if call.call_id == acted.call_id:
                self._began[call.id] = (at_ns, place)
                break

    def _answered(self, event: Event, acted: Acted, at_ns: int | None) -> None:
        """The model call of an answer, told at the first event that is of it."""
        talk = self._talk
        if acted.recast:
            talk.know(RECAST)
        message = joined(self._answers[event.index])
        number = self._numbers[event.index]
        tokens = self._figures.usage(number, acted.answer)
        latency = self._figures.latency_ns(number)
        start = at_ns - latency if at_ns is not None and latency is not None else self._before_ns
        quality: TimeQuality = "derived" if at_ns is not None else "none"
        response = common.response(acted.answer)
        self._show(event, message)
        talk.thread.add_model_call(
            message,
            Turn(
                id=derived_id(self._root, event.index),
                response=structs.replace(response, id=response.id or acted.answer_id),
                usage=tokens,
                cost=self._figures.cost(number, tokens),
                start_ns=start if at_ns is not None else None,
                end_ns=at_ns,
                time_quality=quality,
                place=self._place(event),
                extra=known(latency_s=latency / 1e9 if latency is not None else None),
            ),
        )
        self._tally.counts["model_calls"] += 1

    def _returned(self, event: Event, returned: Returned, at_ns: int | None) -> None:
        talk = self._talk
        call_id = returned.call_id or self._call_of.get(returned.cause or "") or talk.called
        content = "" if returned.content is None else returned.content
        body = {"role": "tool", "tool_call_id": call_id, "content": content}
        body.update(known(name=returned.name))
        if call_id is None:
            body = {"role": "user", "content": content}
        elif returned.error and all(c.call_id != call_id for c in talk.thread.open_calls()):
            body["is_error"] = True  # there is no call that could be told to have failed
        message = Message(dialect="openai", body=body)
        self._show(event, message)
        errors = {call_id: returned.error} if call_id and returned.error else None
        talk.thread.add_message(message, place=self._place(event), at_ns=at_ns, errors=errors)
        talk.called = None

    def _sent(self, event: Event, sent: Sent, at_ns: int | None) -> None:
        self._acted(event, sent.acted, at_ns)
        if len(self._talks) >= MAX_DEPTH:
            self._tally.problem(f"event {event.index}", f"an agent more than {MAX_DEPTH} deep")
            return
        parent = next((c.id for c in reversed(self._talk.thread.open_calls())), self._talk.agent)
        agent = derived_id(self._root, "agent", event.index)
        self._talk.thread.add_spans(
            AgentSpan(
                id=agent,
                name=sent.agent,
                parent=parent,
                start_ns=at_ns,
                time_quality="derived" if at_ns is not None else "none",
                place=self._place(event),
            )
        )
        request = structs.replace(self._request, system=None, tools=None, context=None)
        self._talks.append(Talk(agent, request, self._tally))
        task = Message(dialect="openai", body={"role": "user", "content": sent.task})
        self._add_input(event, task)

    def _back(self, event: Event, back: Back, at_ns: int | None) -> None:
        if len(self._talks) > 1:
            self._close()
        self._returned(event, back.result, at_ns)

    def _close(self) -> None:
        ended = self._talks.pop()
        self._talk.thread.add_spans(*ended.thread.spans())

    def _aside(self, event: Event, aside: Aside) -> None:
        at_ns = ns(event.raw.get("timestamp"))
        if aside.recalled:
            self._talk.know(RECALLED)
        self._talk.thread.add_spans(
            OtherSpan(
                id=derived_id(self._root, "aside", event.index),
                name=aside.name,
                parent=self._talk.agent,
                start_ns=at_ns,
                end_ns=at_ns,
                time_quality="exact" if at_ns is not None else "none",
                status="error" if aside.error is not None else "unset",
                error=aside.error,
                place=self._place(event),
                operation=aside.name,
                extra=aside.extra,
            )
        )

    def _placed(self, span: AnySpan) -> AnySpan:
        """A call begins with its own action, where one answer made several."""
        if not isinstance(span, ToolCall) or span.id not in self._began:
            return span
        start, place = self._began[span.id]
        if span.start_ns is None or start is None or start < span.start_ns:
            return structs.replace(span, place=place)
        ended = span.end_ns is not None and span.end_ns < start
        return span if ended else structs.replace(span, start_ns=start, place=place)

    def _place(self, event: Event) -> Place:
        return Place(span=word(event.raw.get("id")), message=event.index, line=self._run.line)


def _id(event: Event) -> str:
    return word(event.raw.get("id")) or f"#{event.index}"


UNWORDED = "results recorded before they were formatted for the model"
RECALLED = "recalled facts recorded, but not their text in the prompt"
RECAST = "calls derived from the actions; the model's own text not recorded"
NO_SCHEMAS = "parameters of the tools not recorded"


class Shown(Struct, frozen=True, kw_only=True, eq=False):
    """A message of the context and the event it came with."""

    event: str | None
    message: Message


class Talk:
    """One agent's thread, and the events that make up its context."""

    def __init__(self, agent: str, request: Request, tally: Tally) -> None:
        self.agent = agent
        self.shown: list[Shown] = []
        self.called: str | None = None
        self.thread = Thread(
            parent=agent,
            request=request,
            fidelity=Fidelity(level=Level.PARTIAL, reasons=(NO_SYSTEM, NO_TOOLS, UNWORDED)),
            tally=tally,
        )

    def know(self, *learnt: str, known_now: tuple[str, ...] = ()) -> None:
        """From here on the requests have these reasons too, and no longer those."""
        reasons = dict.fromkeys((*self.thread.fidelity.reasons, *learnt))
        kept = tuple(reason for reason in reasons if reason not in known_now)
        self.thread.fidelity = Fidelity(level=Level.PARTIAL, reasons=kept)

    def forget(self, forgot: Forgot) -> None:
        """The context without the forgotten, the summary in its place."""
        kept = [each for each in self.shown if each.event not in forgot.events]
        if forgot.summary is not None:
            body = {"role": "user", "content": forgot.summary}
            summary = Shown(event=None, message=Message(dialect="openai", body=body))
            place = len(kept) if forgot.offset is None else max(0, forgot.offset - 1)
            kept.insert(place, summary)
        self.shown = kept
        self.thread.reset(*(each.message for each in kept))
