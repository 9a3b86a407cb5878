"""mini-swe-agent trajectories (`.traj.json`), v1 and v2: one trace a file.

A document is one run and is held whole: the conversation itself, with notes of the harness under
`extra`. Three generations of models write it: commands in a fenced block of text (v1, and text
models since), tool calls of a chat completion (v2), and objects of the Responses API, which have no
role. A bare list of messages is the oldest form, and known by the agent's own marks in its texts.
How a run ended is its exit status; whether its patch is right stands in the reports of the
benchmark beside it (`replay.formats.sidecars`).

What the model saw at an answer is every message before it, the harness's notes left out. A message
says when it was recorded, so a model call is taken to last from the message before to its own. An
answer that could not be used was paid for and shown to nobody: it stands at the message that says
so, and joins no context.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from msgspec import Struct, structs

from replay.errors import BadTrace
from replay.formats import common, sidecars
from replay.formats.common import cost, derived_id, known, listed, obj, seconds_ns, word
from replay.formats.dialogue import Thread, Turn
from replay.formats.source import Head, Source, Tally
from replay.messages import Call, calls, content_text, text
from replay.trace import (
    NO_SYSTEM,
    NO_TOOLS,
    AgentSpan,
    AnySpan,
    Batch,
    Fidelity,
    Header,
    Json,
    Level,
    Message,
    Observation,
    Outcome,
    Place,
    Request,
    Response,
    TimeQuality,
    Tool,
    ToolCall,
)

NAME = "mini-swe-agent"
TITLE = "mini-swe-agent trajectories"
FILES = ".traj.json"
FIDELITY = (Level.REBUILT, Level.PARTIAL)
LACKS = "the text of reasoning items; in the oldest files, also what they leave out"
VERIFIED = "real files"

_VERSION = rb'"(?:trajectory_format"\s*:\s*"mini-swe-agent|mini_version"\s*:)'
_MARKS = rb"mswea_bash_command|(?:COMPLETE_TASK_AND_SUBMIT|MINI_SWE_AGENT)_FINAL_OUTPUT"
_LIST = rb'\A\W*\[\s*\{\s*"(?:role|content)"\s*:'
_FIELDS = {"info", "messages", "trajectory_format", "instance_id"}
_INSTANCE = re.compile(r"[\w.-]+__[\w.-]+-\d+")


def sniff(head: Head) -> bool:
    if head.starts(b"["):
        return head.has(_LIST, _MARKS)
    return head.starts(b"{") and head.has(_VERSION, rb'"(?:messages|info)"\s*:')


def read(source: Source, tally: Tally) -> Iterator[Batch]:
    """The one trace of a file. Raises BadTrace where it contains no list of messages."""
    document = source.document()
    raw = document if isinstance(document, dict) else {"messages": document}
    if not isinstance(raw.get("messages"), list):
        raise BadTrace(source.display, "", "contains no list of `messages`")
    for name in raw.keys() - _FIELDS:
        tally.unknown[name] += 1
    records = [*_records(raw["messages"], tally)]
    info = obj(raw.get("info"))
    task = _instance(raw, source)
    verdict = sidecars.verdict_of(source, task)
    settings = _settings(info)
    root = derived_id(task, *(record.raw for record in records))
    reported = cost(obj(info.get("model_stats")).get("instance_cost"), None)
    _count(records, info, tally)
    own = _ended(info, records)
    yield Batch(
        header=Header(
            format=NAME,
            source_id=root,
            path=source.display,
            title=_title(records) or task,
            task=task,
            variant=verdict.variant or word(settings.get("model_name")),
            agent=NAME,
            labels=known(version=word(info.get("mini_version"))),
            outcome=verdict.outcome if verdict.outcome != Outcome() else own,
            reference=verdict.reference or None,
            reported_cost_usd=reported.usd if reported is not None else None,
        ),
        spans=(
            _agent(root, records, info, own),
            *SpanBuilder(root, request(records, settings), tally).build(records),
        ),
        last=True,
    )


def _records(messages: list[Json], tally: Tally) -> Iterator[Record]:
    for index, raw in enumerate(messages):
        if isinstance(raw, dict):
            yield Record(index=index, raw=raw)
        else:
            tally.problem(f"message {index}", "is not an object")


def _settings(info: dict[str, Any]) -> dict[str, Any]:
    """The model's settings, and its class under `type`."""
    config = obj(info.get("config"))
    return {**obj(config.get("model")), "type": config.get("model_type")}


def _instance(raw: dict[str, Any], source: Source) -> str | None:
    """The instance the file names, or is named after as benchmarks name them."""
    stated = word(raw.get("instance_id")) or word(obj(raw.get("info")).get("instance_id"))
    stem = source.name.removesuffix(".json").removesuffix(".traj")
    return stated or (stem if _INSTANCE.fullmatch(stem) else None)


def _title(records: list[Record]) -> str | None:
    for record in records:
        if record.raw.get("role") == "user":
            return sidecars.first_line(text(record.message))
    return None


def _last(records: list[Record]) -> dict[str, Any]:
    """The notes of the message that ended the run, {} where none did."""
    return next((record.extra for record in reversed(records) if record.ends), {})


def _ended(info: dict[str, Any], records: list[Record]) -> Outcome:
    """The exit status. Without a patch nothing was solved; with one, nobody knows yet."""
    last = _last(records)
    status = word(info.get("exit_status")) or word(last.get("exit_status"))
    if status is None:
        return Outcome()
    handed_in = status == "Submitted" or info.get("submission") or last.get("submission")
    return Outcome(status="unknown" if handed_in else "failed", value=status, by="exit status")


def _agent(root: str, records: list[Record], info: dict[str, Any], ended: Outcome) -> AgentSpan:
    times = [at_ns for record in records if (at_ns := record.at_ns) is not None]
    last = _last(records)
    failed = ended.status == "failed"
    why = word(last.get("exception_str")) or word(ended.value) if failed else None
    quality: TimeQuality = "derived" if times else "none"
    return AgentSpan(
        id=root,
        name=NAME,
        start_ns=min(times, default=None),
        end_ns=max(times, default=None),
        time_quality=quality,
        status="error" if failed else "unset",
        error=why,
        extra=known(
            exit_status=ended.value,
            submission=info.get("submission") or last.get("submission"),
            traceback=info.get("traceback") or last.get("traceback"),
            mini_version=info.get("mini_version"),
            model_stats=info.get("model_stats"),
            agent=obj(obj(info.get("config")).get("agent")).get("mode"),
            environment=obj(info.get("config")).get("environment_type"),
        ),
    )


def _count(records: list[Record], info: dict[str, Any], tally: Tally) -> None:
    tally.counts["traces"] += 1
    tally.counts["messages"] += len(records)
    for name in ("api_calls", "instance_cost"):
        value = obj(info.get("model_stats")).get(name)
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            tally.counts[name] += value


# --- what each message is: an answer, a result, or the harness speaking

_OPENS = re.compile(r"```(?:mswea_bash_command|bash)[ \t]*\n|<mswea_bash_command>")
_CODE = re.compile(r"\s*<returncode>(-?\d+)</returncode>")
_NOTES = {"extra", "timestamp", "type"}
TOOL = "bash"


class Record(Struct, frozen=True, kw_only=True, eq=False):
    """One message: its place, the source's object, and what was sent of it."""

    index: int
    raw: dict[str, Any]

    @property
    def extra(self) -> dict[str, Any]:
        return obj(self.raw.get("extra"))

    @property
    def is_response(self) -> bool:
        return self.raw.get("object") == "response"

    @property
    def answers(self) -> bool:
        """Is it the model's?"""
        return self.is_response or self.raw.get("role") == "assistant"

    @property
    def ends(self) -> bool:
        return self.raw.get("role") == "exit"

    @property
    def at_ns(self) -> int | None:
        stamp = self.extra.get("timestamp", self.raw.get("timestamp"))
        return seconds_ns(stamp)

    @property
    def message(self) -> Message:
        """The message as the model was sent it, or as it answered."""
        if self.is_response:
            return common.answer_text(self.raw)
        if self.raw.get("type") == "function_call_output":
            return common.returned(self.raw)
        body = {name: value for name, value in self.raw.items() if name not in _NOTES}
        return Message(dialect="openai", body=body)

    @property
    def answer(self) -> dict[str, Any]:
        """The provider's whole answer, {} where it was not kept."""
        return self.raw if self.is_response else obj(self.extra.get("response"))

    @property
    def response(self) -> Response:
        return common.response(self.answer)

    @property
    def unusable(self) -> Message | None:
        """The answer that this message tells the model it cannot use; it joins no conversation."""
        if self.extra.get("interrupt_type") != "FormatError":
            return None
        if self.answer.get("object") == "response" or listed(self.answer.get("output")):
            return common.answer_text(self.answer)
        told = obj(common.choice(self.answer).get("message"))
        words = self.extra.get("model_response")
        if not told and not isinstance(words, str):
            return None
        return Message(dialect="openai", body={"role": "assistant", "content": words, **told})

    @property
    def written(self) -> tuple[Call, ...]:
        """The commands of an answer that are text and no tool calls."""
        if calls(self.message):
            return ()
        noted = [obj(each) for each in listed(self.extra.get("actions"))]
        found = [command for each in noted if (command := word(each.get("command")))]
        if not noted:
            fenced = _fenced(content_text(self.raw.get("content")))
            found = fenced if len(fenced) == 1 else []
        return tuple(
            Call(id=None, name=TOOL, arguments={"command": command}, position=position)
            for position, command in enumerate(found)
        )

    @property
    def failure(self) -> str | None:
        """Why the command whose result this is failed, None where it did not."""
        raised = word(self.extra.get("exception_info"))
        code: Json = self.extra.get("returncode")
        if code is None and (found := _CODE.match(content_text(self.raw.get("content")))):
            code = int(found[1][:9])
        failed = isinstance(code, int) and not isinstance(code, bool) and code != 0
        return raised or (f"exit code {code}" if failed else None)


def _fenced(words: str) -> list[str]:
    """The commands between the fences of a text, an unclosed one left out. One pass."""
    found: list[str] = []
    opened = _OPENS.search(words)
    while opened is not None:
        close = "</mswea_bash_command>" if opened[0].startswith("<") else "\n```"
        end = words.find(close, opened.end())
        if end < 0:
            return found
        found.append(words[opened.end() : end].strip())
        opened = _OPENS.search(words, end + len(close))
    return found


# --- the run as spans

NO_REASONING = "of the Responses API's reasoning items, only the summary is recorded"

BASH = Tool(
    name=TOOL,
    description="Execute a bash command",
    schema={
        "type": "object",
        "properties": {"command": {"type": "string", "description": "The bash command to execute"}},
        "required": ["command"],
    },
)
"""The one tool that the agent's own models offer; no file records it."""


def request(records: list[Record], settings: dict[str, Any]) -> Request:
    """What all calls of the run share. `settings` are those of the model."""
    first = records[0].message if records else None
    params = settings.get("model_kwargs")
    names = ("temperature", "top_p", "max_tokens")
    given = params if isinstance(params, dict) else {}
    return Request(
        model=word(settings.get("model_name")),
        system=first if first is not None and first.role == "system" else None,
        tools=_tools(records, word(settings.get("type"))),
        params=known(**{name: given.get(name) for name in names}),
    )


def _tools(records: list[Record], model_type: str | None) -> tuple[Tool, ...] | None:
    """() where the commands are text; the implicit tool where one of the agent's own models calls
    it; None where nobody knows."""
    answers = [record for record in records if record.answers]
    if any(record.is_response or calls(record.message) for record in answers):
        ours = model_type is not None and model_type.startswith("minisweagent.")
        return (BASH,) if ours else None
    return () if any(record.written for record in answers) else None


class SpanBuilder:
    """Tells the messages of a run in their order."""

    def __init__(self, root: str, shared: Request, tally: Tally) -> None:
        reasons = [
            reason
            for reason, missing in ((NO_SYSTEM, shared.system), (NO_TOOLS, shared.tools))
            if missing is None
        ]
        self._root = root
        self._tally = tally
        self._before_ns: int | None = None
        self._waiting: list[ToolCall] = []
        self._late: dict[str, dict[str, Any]] = {}
        self._thread = Thread(
            parent=root,
            request=shared,
            fidelity=Fidelity(
                level=Level.PARTIAL if reasons else Level.REBUILT, reasons=tuple(reasons)
            ),
            tally=tally,
        )

    def build(self, records: Iterable[Record]) -> tuple[AnySpan, ...]:
        for record in records:
            if record.ends:
                self._ended(record)
            elif record.answers:
                self._add_model_call(record, record.message)
            elif record.message != self._thread.request.system:
                self._add_input(record)
            self._before_ns = record.at_ns or self._before_ns
        self._flush()
        return tuple(map(self._settled, self._thread.spans()))

    def _add_model_call(self, record: Record, message: Message) -> None:
        self._flush()
        tokens = common.usage(record.answer.get("usage"))
        end = record.at_ns
        start = self._before_ns if _in_order(self._before_ns, end) else None
        quality: TimeQuality = "derived" if end is not None else "none"
        turn = Turn(
            id=derived_id(self._root, record.index),
            response=record.response,
            usage=tokens,
            cost=common.cost(record.extra.get("cost"), tokens),
            start_ns=start,
            end_ns=end,
            time_quality=quality,
            place=Place(message=record.index),
            extra=known(interrupt=record.extra.get("interrupt_type")),
        )
        self._tally.counts["model_calls"] += 1
        self._thread.add_model_call(message, turn)
        if record.is_response and common.reasons(record.raw):
            self._thread.fidelity = Fidelity(
                level=Level.PARTIAL,
                reasons=tuple(dict.fromkeys((*self._thread.fidelity.reasons, NO_REASONING))),
            )
        self._waiting = [
            ToolCall(
                id=derived_id(turn.id, call.position, call.name),
                name=call.name,
                parent=self._root,
                start_ns=end,
                time_quality=quality,
                place=turn.place,
                asked_by=turn.id,
                arguments=call.arguments,
            )
            for call in (record.written if record.answers else ())
        ]

    def _add_input(self, record: Record) -> None:
        message, failure, lost = record.message, record.failure, record.unusable
        if lost is not None:
            self._lose(record, lost)
        name = word(message.body.get("tool_call_id"))
        errors = {name: failure} if name is not None and failure is not None else None
        self._thread.add_message(
            message, place=Place(message=record.index), at_ns=record.at_ns, errors=errors
        )
        if self._waiting and message.role == "user":
            self._answer(message, record.at_ns, failure)

    def _lose(self, record: Record, lost: Message) -> None:
        """An answer that nobody could use: its calls were not run, and the next answer is asked
        for as if it had not been given."""
        context = self._thread.context
        before = {call.id for call in self._thread.open_calls()}
        self._add_model_call(record, lost)
        self._thread.context = context
        why = text(record.message) or "FormatError"
        for call in self._thread.open_calls():
            if call.id not in before:
                self._late[call.id] = {"status": "error", "error": why}

    def _answer(self, message: Message, at_ns: int | None, failure: str | None) -> None:
        """The oldest command written as text that waits for its result has it now."""
        call = self._waiting.pop(0)
        self._thread.add_spans(
            structs.replace(
                call,
                observation=Observation(message=message),
                end_ns=at_ns if _in_order(call.start_ns, at_ns) else None,
                status="error" if failure is not None else "ok",
                error=failure,
            )
        )

    def _ended(self, record: Record) -> None:
        """What was handed in is the last command's output; any other ending answers nothing."""
        if record.extra.get("exit_status") != "Submitted":
            return
        if self._waiting:
            self._answer(record.message, record.at_ns, None)
        elif opened := self._thread.open_calls():
            seen = Observation(message=record.message)
            self._late[opened[-1].id] = {"observation": seen, "status": "ok"}

    def _flush(self) -> None:
        """Commands that no result answered."""
        self._thread.add_spans(*self._waiting)
        self._waiting = []

    def _settled(self, span: AnySpan) -> AnySpan:
        """A call with what was learnt of it beside its result."""
        return structs.replace(span, **self._late[span.id]) if span.id in self._late else span


def _in_order(start: int | None, end: int | None) -> bool:
    return start is not None and end is not None and start <= end
