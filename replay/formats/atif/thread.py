"""Which ATIF documents make one trace, where are they, and what are their spans?

A trajectory goes on in the file its `continued_trajectory_ref` names. Its sub-agents stand in
the document itself (1.7), in files beside it, or next to it in a bundle `{parent, child…}`.
Files are looked for in the folder of the main one and nowhere else. The spans of a sub-agent stand
below the call that sent it.

ATIF records a conversation, not requests: what the model saw is everything told before. Steps
marked as copied were told in another document and are context here, no calls. A step has one
time, when it was recorded, so a model call is taken to last from the step before to its own, the
tools in between included; when a tool ended is not known.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from msgspec import Struct, structs

from replay.errors import BadTrace
from replay.formats.atif.steps import (
    Entry,
    Turn,
    answer_message,
    answered,
    cost,
    entries,
    extra,
    given_up,
    input_message,
    lacks_media,
    model,
    observed,
    quality,
    replaces_context,
    response,
    turns,
    usage,
)
from replay.formats.chat import tool
from replay.formats.common import derived_id, known, listed, obj, word
from replay.formats.dialogue import Thread
from replay.formats.dialogue import Turn as DialogueTurn
from replay.formats.source import Source, Tally
from replay.trace import (
    NO_SYSTEM,
    NO_TOOLS,
    AgentSpan,
    AnySpan,
    Fidelity,
    Json,
    Level,
    Message,
    Place,
    Request,
    ToolCall,
    extend,
)

_PART = re.compile(r"(.+)\.(?:cont-\d+|summarization-\d+-\w+)\.json$")
_GOES_ON = re.compile(rb'"continued_trajectory_ref"\s*:\s*"([^"\\/\0]+)"')


class Document(Struct, frozen=True, kw_only=True, eq=False):
    """A trajectory with at least a list of steps. `name` is the source's own or its file's."""

    raw: dict[str, Any]
    name: str

    @property
    def steps(self) -> list[Json]:
        return listed(self.raw.get("steps"))

    @property
    def agent(self) -> dict[str, Any]:
        return obj(self.raw.get("agent"))


class Family:
    """The documents of one trace. Each is handed out once, so no reference leads in a circle.

    Raises BadTrace where the source holds no trajectory.
    """

    def __init__(self, source: Source, tally: Tally) -> None:
        self._tally = tally
        self._folder = None if source.display == "-" else source.path.resolve().parent
        self._files = {source.path.resolve()}
        self._waiting: dict[int, Document] = {}
        self._by_id: dict[str, Document] = {}
        self._by_session: dict[str, Document] = {}
        self.main, *others = _trajectories(source)
        self._adopt(self.main, *others)
        del self._waiting[id(self.main.raw)]

    def next_of(self, document: Document) -> Document | None:
        """The document that continues this one, None where none does or it is not there."""
        name = word(document.raw.get("continued_trajectory_ref"))
        if name is None:
            return None
        return self._taken(self._other_document(name, "continued_trajectory_ref"))

    def sent(self, reference: dict[str, Any], where: str) -> Document | None:
        """The sub-agent that a result refers to; None where it was told before or is not there.

        A session id is looked at last: since 1.7 the agents of a run may share it.
        """
        fields = ("trajectory_id", "trajectory_path", "session_id")
        own, path, session = (word(reference.get(name)) for name in fields)
        if own in self._by_id:
            return self._taken(self._by_id[own])
        if path is not None and (session not in self._by_session or self._inside(path)):
            return self._taken(self._other_document(path, where))
        if session in self._by_session:
            return self._taken(self._by_session[session])
        self._tally.problem(where, f"the sub-agent {own or session} is not recorded here")
        return None

    def rest(self) -> list[Document]:
        """The sub-agents in the document that nothing referred to."""
        found = list(self._waiting.values())
        self._waiting.clear()
        return found

    def _taken(self, document: Document | None) -> Document | None:
        return None if document is None else self._waiting.pop(id(document.raw), None)

    def _other_document(self, name: str, where: str) -> Document | None:
        """A file in the main one's folder or below it; anything else is a problem."""
        path = self._inside(name)
        if path is None:
            self._tally.problem(where, f"{name} is not in the folder of the file")
            return None
        if path in self._files:
            return None
        self._files.add(path)
        try:
            raw = _opened(Source(path))
        except BadTrace as error:
            self._tally.problem(f"{name}: {error.where}", error.why)
            return None
        if not _is_trajectory(raw):
            self._tally.problem(name, "contains no ATIF trajectory")
            return None
        found = _document(raw, path.name)
        self._adopt(found)
        return found

    def _inside(self, name: str) -> Path | None:
        if self._folder is None:
            return None
        try:
            path = (self._folder / name).resolve()
            return path if path.is_relative_to(self._folder) and path.is_file() else None
        except (OSError, ValueError):  # a name no file can have
            return None

    def _adopt(self, *documents: Document) -> None:
        """Know documents and all that are embedded in them."""
        found = list(documents)
        for document in found:
            self._waiting[id(document.raw)] = document
            if own := word(document.raw.get("trajectory_id")):
                self._by_id.setdefault(own, document)
            session = word(document.raw.get("session_id"))
            if session is not None and document is not self.main:
                self._by_session.setdefault(session, document)
            for index, raw in enumerate(listed(document.raw.get("subagent_trajectories"))):
                if isinstance(raw, dict) and isinstance(raw.get("steps"), list):
                    found.append(_document(raw, f"sub-agent {index}"))
                else:
                    self._tally.problem(f"subagent_trajectories {index}", "has no list of steps")


def _trajectories(source: Source) -> list[Document]:
    """The trajectories of a file, the main one first."""
    raw = _opened(source)
    if _is_trajectory(raw):
        return [_document(raw, source.name)]
    bundled = {name: each for name, each in obj(raw).items() if _is_trajectory(each)}
    if not bundled:
        why = "has no list of steps" if obj(raw).get("schema_version") else "is not a trajectory"
        raise BadTrace(source.display, "", why)
    first = "parent" if "parent" in bundled else next(iter(bundled))
    return [
        _document(bundled.pop(first), first),
        *(_document(each, name) for name, each in bundled.items()),
    ]


def _opened(source: Source) -> Json:
    return source.document()


def _is_trajectory(raw: Json) -> bool:
    version = str(obj(raw).get("schema_version"))
    return version.startswith("ATIF-v") and isinstance(raw.get("steps"), list)


def _document(raw: dict[str, Any], otherwise: str) -> Document:
    name = word(raw.get("trajectory_id")) or word(raw.get("session_id")) or otherwise
    return Document(raw=raw, name=name)


def main_document(path: Path) -> Path | None:
    """The main file of a continuation or of a summarising sub-agent, if it leads to this one.

    Goes by the names Harbor gives: `X.json`, `X.cont-1.json`, `X.summarization-1-summary.json`.
    """
    found = _PART.match(path.name)
    if found is None:
        return None
    main = path.with_name(f"{found[1]}.json")
    return main if _leads(main, path.name) else None


def _leads(main: Path, name: str) -> bool:
    """Is the file named in the main one, or in one that continues it?"""
    here: Path | None = main
    seen: set[Path] = set()
    while here is not None and here not in seen:
        seen.add(here)
        try:
            data = Source(here).read()
        except BadTrace:
            return False
        if f'"{name}"'.encode() in data:
            return True
        further = _GOES_ON.search(data)
        here = main.parent / further[1].decode("utf-8", "replace") if further else None
    return False


SUMMARISED = "context summarised by sub-agents; what replaced it is not recorded"
COMPACTED = "of the context after a compaction, only the summary is recorded"
NO_MEDIA = "media recorded as a path only"
SEVERAL = "several model calls recorded as one step"

MAX_DEPTH = 32
"""How deep sub-agents may send sub-agents; real runs stay below four."""

_PARAMS = ("temperature", "top_p", "max_tokens")


class SpanBuilder:
    """Tells the thread of one agent, document by document, and those of the agents it sent."""

    def __init__(self, agent: str, family: Family, tally: Tally, *, depth: int = 0) -> None:
        self.entries: list[Entry] = []
        self._agent = agent
        self._family = family
        self._tally = tally
        self._depth = depth
        self._before_ns: int | None = None
        self._asked_in: dict[str, list[Entry]] = {}
        self._steps = self._named = 0
        self._shared = Request()
        self._thread = Thread(
            parent=agent, request=Request(), fidelity=Fidelity(level=Level.REBUILT), tally=tally
        )

    def spans(self) -> tuple[AnySpan, ...]:
        """The spans told so far, each tool call in the step it stands in."""
        steps = {asker: iter(found) for asker, found in self._asked_in.items()}
        return tuple(_placed(span, steps) for span in self._thread.spans())

    def build(self, document: Document) -> None:
        """The next document of this thread; one that begins with copied steps begins anew."""
        found = entries(
            document.steps,
            self._tally,
            document=None if document is self._family.main else document.name,
            first=None if self._depth else self._steps,
        )
        self._steps += len(document.steps)
        self.entries.extend(found)
        prompt = _prompt(found)
        if found and found[0].copied:
            self._thread.reset()
            self._thread.fidelity = Fidelity(level=Level.REBUILT)
        self._know(document, prompt)
        told = turns([entry for entry in found if entry is not prompt])
        for turn, follower in zip(told, [*told[1:], None], strict=False):
            self._add_turn(turn, follower)

    def adopt(self, document: Document) -> None:
        """A sub-agent of which no step says who sent it."""
        self._send(document, self._agent)

    def _know(self, document: Document, prompt: Entry | None) -> None:
        """What all calls of a document share; what is not known of it weakens them."""
        declared = document.agent.get("tool_definitions")
        settings = obj(document.agent.get("extra"))
        before = self._shared
        self._shared = Request(
            model=word(document.agent.get("model_name")) or before.model,
            system=input_message(prompt) if prompt else before.system,
            tools=tuple(map(tool, declared)) if isinstance(declared, list) else before.tools,
            params=known(**{name: settings.get(name) for name in _PARAMS}),
        )
        if self._shared.system is None:
            self._weaken(NO_SYSTEM)
        if self._shared.tools is None:
            self._weaken(NO_TOOLS)

    def _add_turn(self, turn: Turn, follower: Turn | None) -> None:
        head = turn[0]
        if head.copied:
            self._overheard(head)
        elif replaces_context(head):
            self._begin_again(head)
        elif head.source != "agent":
            self._add_input(head)
        elif not head.asks_model:
            self._dispatched(head)
        else:
            self._add_model_call(turn, follower)
        for entry in turn:
            self._notice(entry)

    # --- what a step does to the thread

    def _overheard(self, entry: Entry) -> None:
        """A copied step: part of the context, told elsewhere."""
        own = answer_message([entry]) if entry.source == "agent" else input_message(entry)
        self._thread.context = extend(self._thread.context, (own, *self._observed(entry)))

    def _begin_again(self, entry: Entry) -> None:
        """A compaction: its summary, or else the words of the step, is all that is left."""
        self._thread.reset(*self._observed(entry) or [input_message(entry)])
        self._weaken(COMPACTED)

    def _add_input(self, entry: Entry) -> None:
        self._thread.add_message(input_message(entry), place=entry.place)
        self._answer(self._thread, entry)

    def _dispatched(self, entry: Entry) -> None:
        """A step of the agent's without a model (1.7): its calls were asked for by no one."""
        thread = self._thread
        aside = Thread(
            parent=self._agent,
            request=Request(context=thread.context),
            fidelity=thread.fidelity,
            tally=self._tally,
        )
        aside.add_model_call(answer_message([entry]), self._turn([entry]))
        self._answer(aside, entry)
        calls = (span for span in aside.spans() if isinstance(span, ToolCall))
        thread.add_spans(*(structs.replace(call, asked_by=None) for call in calls))
        thread.context = aside.context

    def _add_model_call(self, turn: Turn, follower: Turn | None) -> None:
        """A model call. One given up leaves no trace in what the next one was asked."""
        thread, asked_after = self._thread, self._thread.context
        told = self._turn(turn)
        instead = follower[0] if follower and given_up(turn, follower) else None
        if instead is not None:
            told = structs.replace(told, extra={**told.extra, "given_up_for": instead.place.span})
            self._tally.problem(turn[0].where, f"response superseded at {instead.where}")
        thread.request = self._request(turn[0])
        thread.add_model_call(answer_message(turn), told)
        for entry in turn:
            self._answer(thread, entry)
        if instead is not None:
            thread.context = asked_after

    def _answer(self, thread: Thread, entry: Entry) -> None:
        for message in self._observed(entry):
            thread.add_message(message, place=entry.place)

    def _observed(self, entry: Entry) -> list[Message]:
        found = observed(entry)
        self._tally.counts["tool_errors"] += sum("is_error" in each.body for each in found)
        return found

    # --- what a step says of its call

    def _request(self, head: Entry) -> Request:
        effort = known(reasoning_effort=head.raw.get("reasoning_effort"))
        return structs.replace(
            self._shared,
            model=model(head) or self._shared.model,
            params={**self._shared.params, **effort},
        )

    def _turn(self, turn: Turn) -> DialogueTurn:
        head, start, end = turn[0], self._before_ns, turn[-1].at_ns
        self._named += 1
        name = derived_id(self._agent, self._named)
        self._asked_in[name] = [entry for entry in turn for _ in entry.calls]
        several = (head.model_calls or 0) > 1
        return DialogueTurn(
            id=name,
            response=response(turn),
            usage=usage(head.metrics),
            cost=cost(head.metrics),
            start_ns=start,
            end_ns=end,
            time_quality=quality(start, end),
            place=head.place,
            fidelity=_weaker(self._thread.fidelity, SEVERAL) if several else None,
            extra=extra(head),
        )

    # --- what a step leads to

    def _notice(self, entry: Entry) -> None:
        """The time that passed, media that are not here, and agents that were sent."""
        if entry.at_ns is not None:
            self._before_ns = entry.at_ns
        if lacks_media(entry):
            self._weaken(NO_MEDIA)
        for result in entry.results:
            for reference in _references(result):
                self._follow(entry, result, reference)

    def _follow(self, entry: Entry, result: dict[str, Any], reference: dict[str, Any]) -> None:
        if entry.source == "system" and not replaces_context(entry):
            self._weaken(SUMMARISED)
        document = None if entry.copied else self._family.sent(reference, entry.where)
        if document is not None:
            self._send(document, self._sender(answered(entry, result)))

    def _sender(self, call_id: str | None) -> str:
        """The latest call of that id, the agent itself where there is none."""
        for span in reversed(self._thread.spans()):
            if isinstance(span, ToolCall) and call_id is not None and span.call_id == call_id:
                return span.id
        return self._agent

    def _send(self, document: Document, parent: str) -> None:
        if self._depth >= MAX_DEPTH:
            self._tally.problem(document.name, f"is a sub-agent more than {MAX_DEPTH} deep")
            return
        self._named += 1
        agent = derived_id(self._agent, self._named, document.name)
        teller = SpanBuilder(agent, self._family, self._tally, depth=self._depth + 1)
        teller.build(document)
        span = agent_span(document, agent, teller.entries, parent=parent)
        self._thread.add_spans(span, *teller.spans())

    def _weaken(self, reason: str) -> None:
        """From here on the requests are known less well."""
        self._thread.fidelity = _weaker(self._thread.fidelity, reason)


def _placed(span: AnySpan, steps: dict[str, Iterator[Entry]]) -> AnySpan:
    """A tool call of an answer in several steps begins with the step it stands in."""
    if not isinstance(span, ToolCall) or span.asked_by not in steps:
        return span
    entry = next(steps[span.asked_by])
    return structs.replace(
        span,
        start_ns=entry.at_ns,
        time_quality=quality(entry.at_ns),
        place=entry.place,
    )


def _weaker(known_as: Fidelity, reason: str) -> Fidelity:
    reasons = dict.fromkeys((*known_as.reasons, reason))
    return Fidelity(level=Level.PARTIAL, reasons=tuple(reasons))


def _prompt(found: list[Entry]) -> Entry | None:
    """The system prompt: what the system said before anyone else spoke in this document."""
    for entry in found:
        if entry.source == "system" and not entry.results and not replaces_context(entry):
            return entry
        if not entry.copied:
            return None
    return None


def _references(result: dict[str, Any]) -> list[dict[str, Any]]:
    given = result.get("subagent_trajectory_ref")
    several = given if isinstance(given, list) else [given]
    return [reference for reference in several if isinstance(reference, dict)]


def agent_span(
    document: Document, id: str, found: list[Entry], parent: str | None = None
) -> AgentSpan:
    """The agent of a document; its time is that of its steps."""
    start, end = period(found)
    agent = {name: value for name, value in document.agent.items() if name != "tool_definitions"}
    return AgentSpan(
        id=id,
        name=word(agent.get("name")) or "agent",
        parent=parent,
        start_ns=start,
        end_ns=end,
        time_quality=quality(start, end),
        place=Place(span=document.name),
        extra=known(
            schema_version=document.raw.get("schema_version"),
            agent=agent,
            notes=document.raw.get("notes"),
            extra=document.raw.get("extra"),
            final_metrics=document.raw.get("final_metrics"),
        ),
    )


def period(found: list[Entry]) -> tuple[int | None, int | None]:
    """The earliest and the latest time of the steps."""
    times = [entry.at_ns for entry in found if entry.at_ns is not None]
    return (min(times), max(times)) if times else (None, None)
