"""tau2-bench results: simulations of a task, with reward and the criteria it was judged by.

Results are one document, or a folder: `results.json` with a file a simulation in `simulations`
beside it; a simulation may also stand alone. A document is read once as bytes and its simulations
decoded one after another. The criteria, the gold actions among them, and what the simulated user
was told are kept as reference, where no judge looks. Runs by voice, recorded as ticks without
messages, are named and left out.

The agent is shown its own messages, the user's words and the results of its own calls. A simulated
user may call tools too; the agent sees neither its calls nor their results, so they stand on a
thread of their own, asked for by no recorded model call. The greeting that opens most simulations
is canned and no call.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Raw, Struct, structs

from replay.errors import BadTrace
from replay.formats import common
from replay.formats.chat import user_label
from replay.formats.common import cost, derived_id, known, listed, ns, number, obj, seconds_ns, word
from replay.formats.dialogue import Thread, Turn
from replay.formats.sidecars import rewarded
from replay.formats.source import Head, Source, Tally, decode
from replay.messages import calls
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
    SourceScore,
    TimeQuality,
    Tool,
    ToolCall,
)

NAME = "tau2"
TITLE = "tau2-bench results"
FILES = ".json"
FIDELITY = (Level.PARTIAL,)
LACKS = "the system prompt around the policy; usually the tools"
VERIFIED = "its source code"

_INFO = (rb'"num_trials"\s*:', rb'"(?:user_info|agent_info)"\s*:', rb'"max_steps"\s*:')
_ALONE = (rb'"task_id"\s*:', rb'"termination_reason"\s*:', rb'"start_time"\s*:')
_FIELDS = {
    "id", "task_id", "timestamp", "start_time", "end_time", "duration", "termination_reason",
    "agent_cost", "user_cost", "agent_usage", "reward_info", "messages", "ticks", "trial", "seed",
    "mode", "speech_environment", "review", "user_only_review", "info", "auth_classification",
    "hallucination_retries_used", "hallucination_check", "provider_session_id", "policy",
    "effect_timeline",
}  # fmt: skip
_STOPPED = {"user_stop", "agent_stop"}
_NOT_JUDGED = {"infrastructure_error", "context_window_exceeded"}
"""Endings that the benchmark itself leaves out of its figures."""


def sniff(head: Head) -> bool:
    return head.starts(b"{") and (head.has(*_INFO) or head.has(*_ALONE))


def part_of(path: Path) -> Path | None:
    """The results that a simulation's file belongs to."""
    return main_file(path)


def read(source: Source, tally: Tally) -> Iterator[Batch]:
    """A trace a simulation. Raises BadTrace where the source holds none."""
    setting, found = simulations(source, tally)
    for simulation in found:
        raw = simulation.raw
        for name in raw.keys() - _FIELDS:
            tally.unknown[name] += 1
        if not listed(raw.get("messages")) and listed(raw.get("ticks")):
            tally.problem(simulation.where, "is a voice run, recorded only as ticks")
            continue
        tally.counts["traces"] += 1
        yield _batch(simulation, setting, source, tally)


def _batch(simulation: Simulation, setting: Setting, source: Source, tally: Tally) -> Batch:
    raw = simulation.raw
    messages = listed(raw.get("messages"))
    tally.counts["messages"] += len(messages)
    task, trial = word(raw.get("task_id")), word(raw.get("trial"))
    root = word(raw.get("id")) or derived_id(task, trial, *messages)
    shared = request(setting.info, raw)
    teller = SpanBuilder(root, shared, simulation.where, tally)
    spans = teller.build(messages)
    agent = obj(setting.info.get("agent_info"))
    spent = cost(raw.get("agent_cost"), None)
    return Batch(
        header=Header(
            format=NAME,
            source_id=root,
            item="/".join(filter(None, (task, trial))) or None,
            path=source.display,
            title=user_label(messages),
            task=task,
            trial=trial,
            variant=shared.model,
            agent=word(agent.get("implementation")),
            outcome=_outcome(raw),
            labels=known(domain=word(obj(setting.info.get("environment_info")).get("domain_name"))),
            reference=_reference(raw, setting.tasks.get(task or "", {})),
            reported_cost_usd=spent.usd if spent is not None else None,
        ),
        spans=(_agent(raw, root, word(agent.get("implementation"))), *spans),
        scores=tuple(_scores(raw, teller.turns)),
        last=True,
    )


def _agent(raw: dict[str, Any], root: str, name: str | None) -> AgentSpan:
    start, end = ns(raw.get("start_time")), ns(raw.get("end_time"))
    ended = word(raw.get("termination_reason"))
    failed = ended is not None and ended not in _STOPPED
    return AgentSpan(
        id=root,
        name=name or NAME,
        start_ns=start,
        end_ns=end,
        time_quality="exact" if start is not None and end is not None else "none",
        status="error" if failed else "unset",
        error=ended if failed else None,
        extra=known(
            termination_reason=ended,
            user_cost_usd=raw.get("user_cost"),
            seed=raw.get("seed"),
            info=raw.get("info"),
        ),
    )


def _outcome(raw: dict[str, Any]) -> Outcome:
    ended = word(raw.get("termination_reason"))
    if ended in _NOT_JUDGED:
        return Outcome(value=ended, by="termination reason")
    return rewarded(obj(raw.get("reward_info")).get("reward"), "tau2 reward")


def _reference(raw: dict[str, Any], task: dict[str, Any]) -> dict[str, Json] | None:
    kept = known(
        evaluation_criteria=task.get("evaluation_criteria"),
        user_scenario=task.get("user_scenario"),
        reward_info=raw.get("reward_info"),
    )
    return kept or None


def _scores(raw: dict[str, Any], turns: dict[int, str]) -> Iterator[SourceScore]:
    """The parts of the reward, and what a reviewing model found, at the turns it names."""
    for name, value in obj(obj(raw.get("reward_info")).get("reward_breakdown")).items():
        found = None if isinstance(value, bool) else number(value)
        if found is not None:
            yield SourceScore(name=f"reward {name}", by="tau2", value=found)
    for review in (obj(raw.get("review")), obj(raw.get("user_only_review"))):
        for error in map(obj, listed(review.get("errors"))):
            yield _reviewed(error, turns)
    status = word(obj(raw.get("auth_classification")).get("status"))
    if status is not None:
        yield SourceScore(name="authentication", by="tau2 reviewer", label=status)


def _reviewed(error: dict[str, Any], turns: dict[int, str]) -> SourceScore:
    turn = error.get("turn_idx")
    tags = (word(each) for each in listed(error.get("error_tags")))
    parts = (word(error.get("source")), word(error.get("severity")), *tags)
    return SourceScore(
        name="review",
        by="tau2 reviewer",
        span=turns.get(turn) if isinstance(turn, int) else None,
        label=", ".join(part for part in parts if part) or "error",
        explanation=word(error.get("reasoning")),
    )


# --- the simulations of a source

FOLDER = "simulations"
_MAIN = "results.json"


class _Document(Struct):
    """Results as they are written, each part still JSON."""

    info: Raw = Raw(b"null")
    tasks: Raw = Raw(b"null")
    simulations: list[Raw] | None = None
    simulation_index: Raw = Raw(b"null")
    termination_reason: Raw = Raw(b"null")


class Setting(Struct, frozen=True, kw_only=True, eq=False):
    """What a source says of all its simulations; empty beside one that stands alone."""

    info: dict[str, Any] = {}
    tasks: dict[str, dict[str, Any]] = {}


class Simulation(Struct, frozen=True, kw_only=True, eq=False):
    """One run of a task. `where` names it in problems."""

    raw: dict[str, Any]
    where: str


def simulations(source: Source, tally: Tally) -> tuple[Setting, Iterator[Simulation]]:
    """The setting and the simulations. Raises BadTrace where the source contains no results."""
    data = source.read()
    try:
        document = msgspec.json.decode(data, type=_Document)
        parts = document.simulations
        info, tasks = bytes(document.info), bytes(document.tasks)
        alone = bytes(document.termination_reason) != b"null"
        setting = _setting(decode(info, source.display, ""), decode(tasks, source.display, ""))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _plain(decode(data, source.display, ""), source, tally)
    if parts is not None and (parts or not _folder(source)):
        return setting, _decoded(parts, source, tally)
    if alone:
        return _plain(decode(data, source.display, ""), source, tally)
    return setting, _results_file(source, tally)


def _plain(raw: Json, source: Source, tally: Tally) -> tuple[Setting, Iterator[Simulation]]:
    """Of a document that holds what strict JSON does not, or one simulation alone."""
    whole = obj(raw)
    if isinstance(whole.get("simulations"), list):
        setting = _setting(whole.get("info"), whole.get("tasks"))
        return setting, _objects(enumerate(whole["simulations"]), tally)
    if "task_id" in whole and ("messages" in whole or "termination_reason" in whole):
        return Setting(), iter((Simulation(raw=whole, where="simulation"),))
    raise BadTrace(source.display, "", "contains no list of `simulations` and is not one")


def _setting(info: Json, tasks: Json) -> Setting:
    named = ((word(obj(task).get("id")), obj(task)) for task in listed(tasks))
    return Setting(info=obj(info), tasks={name: task for name, task in named if name is not None})


def _decoded(parts: list[Raw], source: Source, tally: Tally) -> Iterator[Simulation]:
    for index, part in enumerate(parts):
        where = f"simulation {index}"
        try:
            raw = decode(bytes(part), source.display, where)
        except BadTrace as error:
            tally.problem(where, error.why)
            continue
        yield from _objects([(index, raw)], tally)


def _objects(entries: Any, tally: Tally) -> Iterator[Simulation]:
    for index, raw in entries:
        if isinstance(raw, dict):
            yield Simulation(raw=raw, where=f"simulation {index}")
        else:
            tally.problem(f"simulation {index}", "is not an object")


# --- results kept in a folder


def main_file(path: Path) -> Path | None:
    """The results that a simulation's file belongs to."""
    main = path.parent.parent / _MAIN
    return main if path.parent.name == FOLDER and main.is_file() else None


def _folder(source: Source) -> Path | None:
    if source.display == "-":
        return None
    folder = source.path.parent / FOLDER
    return folder if folder.is_dir() else None


def _results_file(source: Source, tally: Tally) -> Iterator[Simulation]:
    """The simulations of the folder. Raises BadTrace where there is none."""
    folder = _folder(source)
    if folder is None:
        raise BadTrace(source.display, "", f"contains no simulations, and no folder `{FOLDER}`")
    for path in sorted(folder.glob("*.json")):
        try:
            raw = Source(path).document()
        except BadTrace as error:
            tally.problem(path.name, error.why)
            continue
        if isinstance(raw, dict):
            yield Simulation(raw=raw, where=path.name)
        else:
            tally.problem(path.name, "is not an object")


# --- a simulation as spans

POLICY_ALONE = "of the system prompt, only the policy is recorded"
TRUNCATED = "the beginning of the conversation was cut to fit the model"

_PARAMS = ("temperature", "top_p", "max_tokens", "reasoning_effort", "seed")


def request(info: dict[str, Any], simulation: dict[str, Any]) -> Request:
    """What all calls of the agent share."""
    agent, environment = obj(info.get("agent_info")), obj(info.get("environment_info"))
    policy = word(simulation.get("policy")) or word(environment.get("policy"))
    settings = obj(agent.get("llm_args"))
    body = {"role": "system", "content": policy}
    return Request(
        model=word(agent.get("llm")),
        system=Message(dialect="openai", body=body) if policy is not None else None,
        tools=_tools(environment.get("tool_defs")),
        params=known(**{name: settings.get(name) for name in _PARAMS}),
    )


def _tools(given: Json) -> tuple[Tool, ...] | None:
    """Tools by name, as the environment describes them where it was asked to."""
    if not isinstance(given, dict) or not given:
        return None
    return tuple(
        Tool(
            name=str(name),
            description=word(obj(about).get("doc")) or word(obj(about).get("description")),
            schema=obj(about).get("params") or obj(about).get("parameters"),
        )
        for name, about in given.items()
    )


def _fidelity(shared: Request, *more: str) -> Fidelity:
    reasons = [POLICY_ALONE if shared.system is not None else NO_SYSTEM]
    if shared.tools is None:
        reasons.append(NO_TOOLS)
    return Fidelity(level=Level.PARTIAL, reasons=(*reasons, *more))


class SpanBuilder:
    """Tells the messages of one simulation. `turns` gives the span that told a turn."""

    def __init__(self, root: str, shared: Request, where: str, tally: Tally) -> None:
        self.turns: dict[int, str] = {}
        self._root, self._where, self._tally = root, where, tally
        self._user = derived_id(root, "user")
        self._shared = shared
        self._thread = Thread(parent=root, request=shared, fidelity=_fidelity(shared), tally=tally)
        self._did: list[ToolCall] = []
        self._before_ns: int | None = None
        self._user_spoke = False

    def build(self, messages: list[Json]) -> tuple[AnySpan, ...]:
        for index, raw in enumerate(messages):
            if not isinstance(raw, dict):
                self._tally.problem(f"{self._where} message {index}", "is not an object")
                continue
            for each in _flat(raw):
                self._add_message(each, index)
        return (*self._thread.spans(), *self._users())

    def _add_message(self, raw: dict[str, Any], index: int) -> None:
        role, at_ns = raw.get("role"), ns(raw.get("timestamp"))
        place = Place(message=index)
        if role == "tool":
            self._returned(raw, place, at_ns)
        elif role == "assistant" and self._is_call(raw):
            self._add_model_call(raw, place, at_ns)
        elif role == "user" and listed(raw.get("tool_calls")):
            self._user_acted(raw, index, at_ns)
        else:
            self._user_spoke = self._user_spoke or role == "user"
            self._thread.add_message(_message(raw), place=place)
        self._before_ns = at_ns or self._before_ns

    def _is_call(self, raw: dict[str, Any]) -> bool:
        """Words before the user's first are the model's only if something was spent on them."""
        spent = raw.get("raw_data") or raw.get("usage") or raw.get("tool_calls")
        return self._user_spoke or bool(spent)

    def _add_model_call(self, raw: dict[str, Any], place: Place, at_ns: int | None) -> None:
        took = seconds_ns(raw.get("generation_time_seconds"))
        start = at_ns - took if at_ns is not None and took is not None else self._before_ns
        answer = obj(raw.get("raw_data"))
        whole = answer if "choices" in answer else {**answer, "choices": [answer]}
        tokens = common.usage(raw.get("usage")) or common.usage(answer.get("usage"))
        quality: TimeQuality = "derived" if at_ns is not None else "none"
        cut = (TRUNCATED,) if obj(raw.get("context_truncation")) else ()
        turn = Turn(
            id=derived_id(self._root, place.message),
            response=common.response(whole),
            usage=tokens,
            cost=common.cost(raw.get("cost"), tokens),
            start_ns=start if at_ns is not None else None,
            end_ns=at_ns,
            time_quality=quality,
            place=place,
            fidelity=_fidelity(self._shared, *cut),
        )
        number = raw.get("turn_idx")
        self.turns[number if isinstance(number, int) else place.message or 0] = turn.id
        self._tally.counts["model_calls"] += 1
        self._thread.add_model_call(_message(raw), turn)

    def _returned(self, raw: dict[str, Any], place: Place, at_ns: int | None) -> None:
        message = _message(raw)
        name = word(raw.get("id"))
        error = (word(raw.get("content")) or "error") if raw.get("error") else None
        if raw.get("requestor") == "user":
            self._user_saw(message, name, error, at_ns)
            return
        errors = {name: error} if name is not None and error is not None else None
        self._thread.add_message(message, place=place, at_ns=at_ns, errors=errors)

    # --- the simulated user

    def _user_acted(self, raw: dict[str, Any], index: int, at_ns: int | None) -> None:
        for call in calls(_message(raw)):
            self._did.append(
                ToolCall(
                    id=derived_id(self._user, index, call.position),
                    name=call.name,
                    parent=self._user,
                    start_ns=at_ns,
                    time_quality="derived" if at_ns is not None else "none",
                    place=Place(message=index),
                    call_id=call.id,
                    arguments=call.arguments,
                    arguments_raw=call.raw,
                )
            )

    def _user_saw(
        self, message: Message, name: str | None, error: str | None, at_ns: int | None
    ) -> None:
        for slot, call in enumerate(self._did):
            if call.observation is None and name in (None, call.call_id):
                self._did[slot] = structs.replace(
                    call,
                    observation=Observation(message=message),
                    end_ns=at_ns,
                    status="error" if error is not None else "ok",
                    error=error,
                )
                return
        self._tally.problem(self._where, f"a result of the user's {name!r} belongs to no call")

    def _users(self) -> Iterator[AnySpan]:
        if self._did:
            yield AgentSpan(
                id=self._user, name="simulated user", parent=self._root, time_quality="none"
            )
        yield from self._did


def _flat(raw: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A message, or the several results that one may hold."""
    several = [each for each in listed(raw.get("tool_messages")) if isinstance(each, dict)]
    yield from several or [raw]


def _message(raw: dict[str, Any]) -> Message:
    """The message as it is sent to a provider; what the simulator notes on it is left out."""
    role = raw.get("role")
    body: dict[str, Json] = {"role": role, "content": raw.get("content")}
    if role == "tool":
        body["tool_call_id"] = word(raw.get("id"))
    if given := listed(raw.get("tool_calls")):
        body["tool_calls"] = [_call(obj(each)) for each in given]
    answer = obj(raw.get("raw_data"))
    told = obj(answer.get("message")) or obj(common.choice(answer).get("message"))
    if thoughts := word(told.get("reasoning_content")):
        body["reasoning_content"] = thoughts
    return Message(dialect="openai", body=body)


def _call(raw: dict[str, Any]) -> Json:
    arguments = raw.get("arguments")
    if not isinstance(arguments, str):
        arguments = json.dumps(arguments, ensure_ascii=False)
    function = {"name": raw.get("name"), "arguments": arguments}
    return {"id": raw.get("id"), "type": "function", "function": function}
