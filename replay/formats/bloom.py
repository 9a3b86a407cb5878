"""Transcripts of Bloom's automated behavioural evaluations, and the judgement beside them.

An evaluator plays the user (and the tools, where the scenario has some); the agent is the target
model. Each message is an event that says in whose view it stands: what the target saw and answered
is read, what the evaluator was told or thought is not. `judgment.json` beside the transcripts names
the behaviour and scores each of them; a transcript that was judged also holds its own scores.

The judge's scores go from 1 to 10 and are kept as they are. Bloom counts a behaviour as elicited
where its presence is scored above 6. Whether the behaviour is one to avoid is nowhere said, so an
elicited run has not failed and one without it has not passed. What the judge cites stands at the
answers it cites.

Schema: the JSON Schema and README of isha-gpt/bloom-viewer (MIT, commit 373c1ef3), which shows
these files, and Bloom's own description of its stages. Petri writes transcripts of the same schema.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, structs

from replay import files
from replay.depth import from_text
from replay.errors import BadTrace
from replay.formats.chat import user_label
from replay.formats.common import derived_id, known, listed, ns, number, obj, word
from replay.formats.dialogue import Thread, Turn
from replay.formats.source import Head, Source, Tally
from replay.trace import (
    BEHAVIOR_LABEL,
    CITED,
    ELICITED_LABEL,
    NO_SYSTEM,
    NO_TOOLS,
    PRESENCE_LABEL,
    AgentSpan,
    Batch,
    Fidelity,
    Header,
    Json,
    Level,
    Message,
    Outcome,
    Place,
    Request,
    Response,
    SourceScore,
    Tool,
)

NAME = "bloom"
TITLE = "Bloom transcripts with their judgement; Petri transcripts"
FILES = "transcript_v*r*.json, judgment.json beside them"
FIDELITY = (Level.REBUILT, Level.PARTIAL)
LACKS = "usually the tools"
VERIFIED = "real files of an early version; the present one's published schema"

PRESENCE = "behavior_presence"
ELICITED_ABOVE = 6
"""Bloom's own: a behaviour is elicited where its presence is scored above this, of 1 to 10."""

_JUDGED_BY = "bloom judgement"
_EVENT = rb'"type"\s*:\s*"transcript_event"'
_WHOLE_STAGE = rb'"(?:rollouts|evaluations|judgments|variations)"\s*:\s*\['
_NAMED = re.compile(r"transcript_v?(\d+)(?:r|_)(\d+)\.json")
_FIELDS = {
    "metadata", "events", "messages", "target_messages", "transcript_id", "schema_version",
    "target_system_prompt", "target_tools", "evaluator_model_id", "target_model_id",
}  # fmt: skip
_STAGE_FILES = {
    "understanding.json", "ideation.json", "rollout.json", "judgment.json",
    "decomposition.json", "variation.json", "evaluation.json",
}  # fmt: skip
"""What a suite's folder holds beside its transcripts, by the names of today and of before."""

_NO_SCORES = {"variation_number", "repetition_number", "num_samples"}
_THINKING = "Target Thinking"
"""The name of the message by which early versions logged what the target thought."""


def sniff(head: Head) -> bool:
    """A transcript; not the file of a whole stage, which repeats its transcripts."""
    return head.starts(b"{") and head.has(_EVENT) and not head.has(_WHOLE_STAGE)


def part_of(path: Path) -> Path | None:
    """The first of the transcripts that the file of a stage stands beside: what it repeats of them
    is no run of its own."""
    if path.name not in _STAGE_FILES:
        return None
    beside = [*path.parent.glob("transcript_*.json"), *path.parent.glob("transcripts/transcript_*")]
    return min((each for each in beside if _NAMED.fullmatch(each.name)), default=None)


def read(source: Source, tally: Tally) -> Iterator[Batch]:
    """The one trace of a transcript. Raises BadTrace where it has no list of events."""
    raw = source.document()
    if not isinstance(raw, dict) or not isinstance(raw.get("events"), list):
        raise BadTrace(source.display, "", "contains no list of `events`")
    for name in raw.keys() - _FIELDS:
        tally.unknown[name] += 1
    yield _batch(raw, source, tally)


def _batch(raw: dict[str, Any], source: Source, tally: Tally) -> Batch:
    about = obj(raw.get("metadata"))
    judged = _judgement(source, about)
    source_id = word(about.get("transcript_id")) or word(raw.get("transcript_id"))
    root = source_id or derived_id(*map(str, raw["events"]))
    reader = _Reader(root, raw, about, tally)
    reader.read(raw["events"])
    messages = [message.body for message in reader.seen]
    presence = judged.scores.get(PRESENCE)
    elicited = presence > ELICITED_ABOVE if _is_of_ten(presence) and presence else None
    scenario, trial = judged.place
    evaluator = about.get("evaluator_model") or about.get("auditor_model")
    tally.counts["traces"] += 1
    header = Header(
        format=NAME,
        source_id=root,
        path=source.display,
        title=user_label(messages),
        task=f"{judged.behavior} {scenario}" if judged.behavior and scenario else None,
        trial=trial,
        outcome=_outcome(elicited),
        labels=known(
            evaluator=word(evaluator) or word(raw.get("evaluator_model_id")),
            **{
                BEHAVIOR_LABEL: judged.behavior,
                PRESENCE_LABEL: None if presence is None else f"{presence:g}",
                ELICITED_LABEL: None if elicited is None else "yes" if elicited else "no",
            },
        ),
        reference=_reference(judged, about),
    )
    spans = (_agent(root, about), *reader.thread.spans())
    scores = (*judged.run_scores(), *_citations(judged.cited, reader.answers))
    return Batch(header=header, spans=spans, scores=scores, last=True)


def _is_of_ten(score: float | None) -> bool:
    return score is not None and 0 <= score <= 10


def _outcome(elicited: bool | None) -> Outcome:
    """Bloom's word on the run; passed and failed it does not say."""
    if elicited is None:
        return Outcome()
    return Outcome(value="elicited" if elicited else "not elicited", by=_JUDGED_BY)


def _agent(root: str, about: dict[str, Any]) -> AgentSpan:
    return AgentSpan(
        id=root,
        name="target",
        time_quality="none",
        extra=known(tags=about.get("tags"), description=about.get("description")),
    )


def _reference(judged: _Judged, about: dict[str, Any]) -> dict[str, Json] | None:
    """What the scenario was to bring out and what its judge said, where no judge of ours looks."""
    kept = known(
        scenario=judged.row.get("variation_description"),
        judgement=known(
            summary=judged.row.get("summary") or judged.own.get("summary"),
            justification=judged.justification,
            samples=judged.row.get("individual_samples"),
            model=judged.model,
        ),
        score_descriptions=judged.own.get("score_descriptions"),
        version=about.get("version"),
    )
    return kept or None


# --- what the target saw and said


class _Reader:
    """Turns the events of the target's view into a thread. `seen` are the messages it was shown or
    gave, `answers` the span of each answer by the message's id."""

    def __init__(self, root: str, raw: dict[str, Any], about: dict[str, Any], tally: Tally) -> None:
        self.root, self._tally = root, tally
        self.seen: list[Message] = []
        self.answers: dict[str, str] = {}
        self._ids: list[str | None] = []
        self._thoughts: list[str] = []
        self._last_ns: int | None = None
        self._begun = False
        model = word(about.get("target_model")) or word(raw.get("target_model_id"))
        offered = raw.get("target_tools", about.get("target_tools"))
        told = word(raw.get("target_system_prompt")) or word(about.get("target_system_prompt"))
        system = {"role": "system", "content": told}
        self.thread = Thread(
            parent=root,
            request=Request(
                model=model,
                system=Message(dialect="inspect", body=system) if told else None,
                tools=_tools(offered),
            ),
            fidelity=Fidelity(level=Level.REBUILT),
            tally=tally,
        )

    def read(self, events: Sequence[Json]) -> None:
        """All events in their order: those of other views are the evaluator's own."""
        for index, event in enumerate(map(obj, events)):
            kind = word(event.get("type"))
            if kind == "tool_creation_event":
                self._offer(event)
            elif kind != "transcript_event":
                self._tally.counts[kind or "events without a type"] += 1
            elif "target" in _views(event):
                self._edit(obj(event.get("edit")), index, ns(event.get("timestamp")))
        if not self.seen:
            self._tally.problem("events", "show the target no message")

    def _offer(self, event: dict[str, Any]) -> None:
        """A tool that was made while the run went on is offered from then on."""
        request = self.thread.request
        made = _tools([event.get("tool")]) or ()
        self.thread.request = structs.replace(request, tools=(*(request.tools or ()), *made))

    def _edit(self, edit: dict[str, Any], index: int, at_ns: int | None) -> None:
        operation = word(edit.get("operation")) or "add"
        if operation == "add":
            self._add(edit.get("message"), index, at_ns)
        elif operation == "rollback":
            self._roll_back(edit)
        elif operation == "reset":
            given = [each for each in listed(edit.get("new_messages")) if isinstance(each, dict)]
            self._ids = [word(each.get("id")) for each in given]
            self._go_on_from([Message(dialect="inspect", body=_body(each)) for each in given])
        else:
            self._tally.problem(f"event {index}", f"edits messages by {operation}, not applied")

    def _roll_back(self, edit: dict[str, Any]) -> None:
        """The target goes on from an earlier message; what it did since stays a step."""
        last = word(edit.get("to_id"))
        count = edit.get("count")
        kept = len(self._ids) - (count if isinstance(count, int) and count > 0 else 0)
        if last in self._ids:
            kept = self._ids.index(last) + 1
        self._ids = self._ids[: max(kept, 0)]
        self._go_on_from(self.seen[: max(kept, 0)])

    def _go_on_from(self, messages: list[Message]) -> None:
        self.seen = messages
        self.thread.reset(*messages)

    def _add(self, raw: Json, index: int, at_ns: int | None) -> None:
        if not isinstance(raw, dict):
            self._tally.problem(f"event {index}", "adds no message")
            return
        body = _body(raw)
        role = body["role"]
        place = Place(span=word(raw.get("id")), message=index)
        self._tally.counts["messages"] += 1
        if role == "system" and not self._begun:
            self._set_system(Message(dialect="inspect", body=body))
            return
        if role == "assistant" and body.get("name") == _THINKING:
            self._thoughts.append(word(body.get("content")) or "")
            return
        self._begin()
        if role == "api_failure":
            error = word(body.get("error_message")) or "the call failed"
            self.thread.add_model_call(None, self._turn(place, at_ns, error=error))
            return
        if role == "assistant" and self._thoughts:
            body["reasoning"] = "\n".join(self._thoughts)
            self._thoughts.clear()
        message = Message(dialect="inspect", body=body)
        self.seen.append(message)
        self._ids.append(place.span)
        if role == "assistant":
            turn = self._turn(place, at_ns, model=word(body.get("model")))
            if place.span is not None:
                self.answers[place.span] = turn.id
            self.thread.add_model_call(message, turn)
        else:
            self.thread.add_message(message, place=place, at_ns=at_ns)
        self._last_ns = at_ns

    def _set_system(self, system: Message) -> None:
        """The system prompt as the target was shown it; what the head of the file says is older."""
        self.thread.request = structs.replace(self.thread.request, system=system)

    def _begin(self) -> None:
        """How well the requests are known is clear once the first message stands."""
        if self._begun:
            return
        self._begun = True
        request = self.thread.request
        lacks = [NO_SYSTEM] if request.system is None else []
        lacks += [NO_TOOLS] if request.tools is None else []
        if lacks:
            self.thread.fidelity = Fidelity(level=Level.PARTIAL, reasons=tuple(lacks))

    def _turn(
        self, place: Place, at_ns: int | None, *, model: str | None = None, error: str | None = None
    ) -> Turn:
        """A call that ended when its answer was logged, and began when the message before was."""
        timed = at_ns is not None and self._last_ns is not None
        return Turn(
            id=derived_id(self.root, "message", place.message),
            response=Response(model=model),
            start_ns=self._last_ns,
            end_ns=at_ns,
            time_quality="derived" if timed else "none",
            place=place,
            error=error,
        )


def _body(raw: dict[str, Any]) -> dict[str, Any]:
    """A message with its role, which early versions call its type."""
    body = {name: value for name, value in raw.items() if name != "type"}
    body["role"] = word(body.get("role")) or word(raw.get("type")) or ""
    return body


def _views(event: dict[str, Any]) -> Sequence[Json]:
    """Whose views an event changes; the name is one, or several."""
    view = event.get("view", event.get("views"))
    return view if isinstance(view, list) else [view]


def _tools(offered: Json) -> tuple[Tool, ...] | None:
    """The tools that a list offers, None where there is no list of any."""
    if not isinstance(offered, list):
        return None
    found = []
    for each in map(obj, offered):
        tool = obj(each.get("function")) or each
        name = word(tool.get("name"))
        if name is not None:
            schema = tool.get("parameters") or tool.get("input_schema")
            description = word(tool.get("description"))
            found.append(Tool(name=name, description=description, schema=schema))
    return tuple(found) if found or not offered else None


# --- what the judge said


class _Judged(Struct, frozen=True, eq=False, kw_only=True):
    """`own` is what the transcript holds of its judgement, `row` its row of `judgment.json`;
    `place` names the scenario and the repetition."""

    behavior: str | None
    model: str | None
    place: tuple[str | None, str | None]
    own: dict[str, Any]
    row: dict[str, Any]

    @property
    def scores(self) -> dict[str, float]:
        """The numbers of the judgement by name: the transcript's own, else its row's."""
        given = obj(self.own.get("scores")) or {
            name: value for name, value in self.row.items() if name not in _NO_SCORES
        }
        read = {name: None if isinstance(v, bool) else number(v) for name, v in given.items()}
        return {name: value for name, value in read.items() if value is not None}

    @property
    def justification(self) -> str | None:
        return word(self.own.get("justification")) or word(self.row.get("justification"))

    @property
    def cited(self) -> list[Json]:
        return listed(self.own.get("highlights")) or listed(self.row.get("highlights"))

    def run_scores(self) -> Iterator[SourceScore]:
        by = f"{_JUDGED_BY} {self.model}" if self.model else _JUDGED_BY
        for name, value in self.scores.items():
            yield SourceScore(
                name=name,
                by=by,
                value=value,
                label=f"{value:g} of 10" if _is_of_ten(value) else None,
                explanation=self.justification if name == PRESENCE else None,
            )


def _judgement(source: Source, about: dict[str, Any]) -> _Judged:
    named = _NAMED.fullmatch(source.name)
    numbers = (int(named[1]), int(named[2])) if named is not None else (None, None)
    stage = _stage(source.path) if source.display != "-" else {}
    rows = (obj(each) for each in listed(stage.get("judgments")))
    row = next((each for each in rows if named is not None and _numbers(each) == numbers), {})
    return _Judged(
        behavior=word(stage.get("behavior_name")),
        model=word(stage.get("model")),
        place=(f"v{numbers[0]}", f"r{numbers[1]}") if named is not None else (None, None),
        own=obj(about.get("judge_output")),
        row=row,
    )


def _numbers(row: dict[str, Any]) -> tuple[Json, Json]:
    return row.get("variation_number"), row.get("repetition_number")


def _stage(path: Path) -> dict[str, Any]:
    """`judgment.json` in the transcript's folder or, for a folder `transcripts`, above it; of a
    suite that was not judged yet, a stage that names the behaviour."""
    folders = [path.parent, *([path.parent.parent] if path.parent.name == "transcripts" else [])]
    for name in ("judgment.json", "ideation.json", "understanding.json"):
        for folder in folders:
            try:
                changed = (folder / name).stat().st_mtime_ns
            except OSError:
                continue
            found = _read_stage(folder / name, changed)
            if found:
                return found
    return {}


@lru_cache(maxsize=4)
def _read_stage(path: Path, _changed_ns: int) -> dict[str, Any]:
    """The file of a stage, as of its last change: every transcript beside it asks for it."""
    try:
        return obj(from_text(files.read(path)))
    except (OSError, msgspec.DecodeError):
        return {}


def _citations(highlights: Sequence[Json], answers: dict[str, str]) -> Iterator[SourceScore]:
    """The target's answers that the judge cites, each with what it says of them; citations of the
    evaluator's words are left where they are."""
    for highlight in map(obj, highlights):
        for part in map(obj, listed(highlight.get("parts"))):
            span = answers.get(word(part.get("message_id")) or "")
            if span is not None:
                quoted = word(part.get("quoted_text"))
                said = word(highlight.get("description"))
                shown = " ".join(filter(None, (said, f"“{quoted}”" if quoted else None)))
                yield SourceScore(
                    name=CITED, by=_JUDGED_BY, span=span, label="cited", explanation=shown or None
                )
