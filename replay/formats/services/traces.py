"""The spans of one trace; what a function was given and gave back, as a request and its answer.

Google's contents and parts are messages of parts; token counts go by the names of the GenAI
conventions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from msgspec import structs

from replay.depth import TOO_DEEP, is_deep
from replay.formats.chat import cut, user_label
from replay.formats.common import count, known, listed, obj, word
from replay.formats.openinference.exports import Raw as Attributed
from replay.formats.openinference.exports import parsed
from replay.formats.openinference.messages import answered as sdk_answered
from replay.formats.openinference.messages import input_messages as sdk_asked
from replay.formats.otlp import names
from replay.formats.otlp.calls import message_of
from replay.formats.otlp.held import Known, known_of
from replay.formats.otlp.messages import several
from replay.formats.otlp.names import Kind
from replay.formats.otlp.records import RawSpan
from replay.formats.otlp.tree import Builder, count_spans
from replay.formats.services.records import readable
from replay.formats.source import Tally
from replay.formats.sqlite import mlflow
from replay.formats.sqlite.mlflow import Request, Response
from replay.messages import Call, calls
from replay.trace import AgentSpan, AnySpan, Json, ModelCall

_TASK = ("question", "query", "task", "prompt", "q", "input", "text", "content")


def spans(raws: Iterable[RawSpan], tally: Tally) -> tuple[AnySpan, ...]:
    """The spans of a trace, each id once; they are counted in the tally."""
    by_id: dict[str, RawSpan] = {}
    for raw in raws:
        if by_id.setdefault(raw.id, raw) is not raw:
            tally.problem(f"span {raw.id}", "stands in the file twice; it is read once")
    found = _with_tools([known_of(raw) for raw in by_id.values()])
    made = Builder(found, tally).spans()
    tally.counts["traces"] += 1
    tally.counts["spans"] += len(found)
    count_spans(made, tally)
    return made


def _with_tools(found: list[Known]) -> list[Known]:
    """With tools told by what models called: a span of no kind of its own that bears the name of
    a tool is one; one without the id of its call has that of the first call, not run yet, of the
    same name and arguments."""
    waiting: dict[str, list[Call]] = {}
    for each in sorted(found, key=lambda each: each.raw.start_ns or 0):
        for call in _called(each.raw):
            waiting.setdefault(call.name, []).append(call)
    if waiting:
        for at, each in enumerate(found):
            name = each.raw.name.removeprefix("tool.")
            if each.kind is Kind.OTHER and name in waiting:
                made = tool(name, each.of(names.GIVEN), each.of(names.GAVE))
                each.raw.attributes = {**each.raw.attributes, **made}
                found[at] = known_of(each.raw)
        tools = [at for at, each in enumerate(found) if each.kind is Kind.TOOL]
        for at in sorted(tools, key=lambda at: found[at].raw.start_ns or 0):
            found[at] = _with_id(found[at], waiting)
    return found


def _with_id(span: Known, waiting: dict[str, list[Call]]) -> Known:
    """A span of a tool with the id of the call it ran; one that no call has is a framework's
    own."""
    asked = waiting.get(span.word(names.TOOL) or span.raw.name, [])
    own, given = span.word(names.CALL), parsed(span.of(names.ARGUMENTS))
    wanted = (given, obj(given).get("input"))
    same = [call for call in asked if own is not None and call.id == own]
    same = same or [call for call in asked if call.arguments in wanted]
    if not same:
        return span
    asked.remove(same[0])
    if same[0].id in (None, own):
        return span
    attributes = {n: v for n, v in span.raw.attributes.items() if n not in names.CALL.names}
    span.raw.attributes = {**attributes, names.CALL.names[0]: same[0].id}
    return known_of(span.raw)


def _called(raw: RawSpan) -> list[Call]:
    """The calls in a model's answer."""
    bodies = several(listed(raw.attributes.get(names.OUTPUT)), "assistant")
    return [call for body in bodies for call in calls(message_of(body))]


def made_of(record: dict[str, Any], where: str, make: Any, tally: Tally) -> Iterator[RawSpan]:
    """The span that `make` takes a record for; a problem where it is none or nested too deeply."""
    try:
        raw = make(record)
    except RecursionError:
        tally.problem(where, TOO_DEEP)
        return
    if raw is None:
        tally.problem(where, "has no id")
    elif is_deep(raw.attributes):
        tally.problem(where, TOO_DEEP)
    else:
        yield raw


def agent_of(found: tuple[AnySpan, ...]) -> str | None:
    return next((span.name for span in found if isinstance(span, AgentSpan)), None)


def title_of(found: tuple[AnySpan, ...], given: Json, otherwise: str | None) -> str | None:
    """The first line of what the run was asked: in what it was `given`, else what the first model
    call was told; else another name for it."""
    task = _task(given)
    if task is not None:
        return task
    for span in found:
        if isinstance(span, ModelCall) and span.request.context is not None:
            title = user_label([message.body for message in span.request.context.messages()])
            if title is not None:
                return title
    return cut(otherwise) if otherwise else None


def _task(given: Json) -> str | None:
    if isinstance(given, dict):
        said = next((given[n] for n in _TASK if isinstance(given.get(n), str) and given[n]), None)
        if said is not None:
            return user_label([{"role": "user", "content": said}])
    if not isinstance(given, (dict, list, str)) or not given:
        return None
    request = request_of(given)
    return user_label(several(request.messages)) if request is not None else None


def root_of(raws: list[RawSpan]) -> RawSpan | None:
    """The first span in time that hangs below none of the others."""
    ids = {raw.id for raw in raws}
    roots = [raw for raw in raws if raw.parent not in ids]
    return min(roots, key=lambda raw: raw.start_ns or 2**63, default=None)


Body = dict[str, Json]

_SDK = ("tool-call", "tool-result")
_CLASSES = {
    "AIMessage": "ai", "HumanMessage": "human", "SystemMessage": "system", "ToolMessage": "tool",
}  # fmt: skip
"""What LangChain's classes of messages call themselves."""

_INSIDE = ("message", "output", "outputs", "response", "completion", "result")
"""Names under which a function's result may hold the answer alone."""


def has_text(inputs: Json, outputs: Json) -> dict[str, Json]:
    """Both sides under the names of the GenAI conventions, {} for what is not recognised."""
    request, response = request_of(inputs), response_of(outputs)
    found: dict[str, Json] = {}
    if request is not None:
        found |= {names.INPUT: request.messages}
        found |= known(**{names.SYSTEM: request.system})
        found |= known(**{"llm.invocation_parameters": request.params})
        found |= present(
            **{"gen_ai.request.model": request.model, "gen_ai.tool.definitions": request.tools}
        )
    if response is not None:
        found[names.OUTPUT] = [response.message]
        found |= present(
            **{
                "gen_ai.response.model": response.model,
                "gen_ai.response.id": response.id,
                "gen_ai.response.finish_reasons": [response.why] if response.why else None,
            }
        )
    return found | _responses(obj(outputs), found)


def tool(name: str | None, inputs: Json, outputs: Json) -> dict[str, Json]:
    """A tool, what it was given and gave back, under the names of the conventions."""
    result, call_id = result_of(outputs)
    return present(
        **{
            names.OPERATION: "execute_tool",
            names.TOOL.names[0]: name or None,
            names.ARGUMENTS.names[0]: inputs,
            names.RESULT.names[0]: result,
            names.CALL.names[0]: call_id,
        }
    )


def present(**values: Json) -> dict[str, Json]:
    """Those that are known."""
    return {name: value for name, value in values.items() if value is not None}


def _responses(response: dict[str, Any], found: dict[str, Json]) -> dict[str, Json]:
    """What an object of OpenAI's responses repeats of its request."""
    if response.get("object") != "response":
        return {}
    repeated = known(**{names.SYSTEM: response.get("instructions")})
    if isinstance(response.get("tools"), list):
        repeated["gen_ai.tool.definitions"] = response["tools"]
    return {name: value for name, value in repeated.items() if not found.get(name)}


# --- asked


def request_of(inputs: Json) -> Request | None:
    """The request in what a function was given, None where none is recognised."""
    given = obj(inputs)
    if given and given.keys() <= {"args", "kwargs"}:
        args = listed(given.get("args"))
        return request_of(obj(given.get("kwargs")) or (args[0] if len(args) == 1 else None))
    if isinstance(given.get("prompts"), list) and len(given["prompts"]) == 1:
        return mlflow.request_of({**given, "messages": given["prompts"][0]})
    if "contents" in given:
        return _of_google(given)
    messages = given.get("messages", given.get("input")) if given else inputs
    if isinstance(messages, list):
        found = _listed(messages, given)
        if found is not None:
            return found
    if given and word(given.get("role")) and "messages" not in given:
        return mlflow.request_of([given])
    return mlflow.request_of(inputs)


def _of_google(given: dict[str, Any]) -> Request | None:
    config = obj(given.get("config")) or given
    messages = gemini_messages(given["contents"])
    if not messages:
        return None
    return Request(
        messages=messages,
        system=instructions(config),
        tools=list(declared(config.get("tools"))),
        model=word(given.get("model")),
    )


def _listed(messages: list[Json], given: dict[str, Any]) -> Request | None:
    """The request of a list that has more in it than chat messages; None for one of them alone."""
    if len(messages) == 1 and isinstance(messages[0], list):
        messages = messages[0]
    entries = [each for each in messages if isinstance(each, dict)]
    if any(map(is_content, entries)):
        return Request(messages=gemini_messages(messages))
    if any(isinstance(each.get("parts"), list) for each in entries):
        return Request(messages=entries)
    if any(obj(part).get("type") in _SDK for e in entries for part in listed(e.get("content"))):
        attributes: Body = {"ai.prompt.messages": entries}
        return Request(messages=sdk_asked(Attributed(trace="", id="", attributes=attributes)))
    offered = [tool for each in entries if (tool := _offered(each)) is not None]
    chat = mlflow.request_of(
        {**given, "messages": [_lifted(e) for e in entries if not _offered(e)]}
    )
    return structs.replace(chat, tools=offered) if chat is not None and offered else chat


def _offered(message: dict[str, Any]) -> Json:
    """The tool that a message declares: an integration puts them among the messages."""
    content = obj(message.get("content"))
    declares = message.get("role") == "tool" and content.get("type") == "function"
    return content if declares and obj(content.get("function")) else None


def _lifted(message: dict[str, Any]) -> Body:
    """LangChain's message with its calls where chat messages have them, once."""
    inner = obj(message.get("kwargs")) or obj(message.get("data"))
    body = {**message, **inner} if inner else message
    if body.get("type") == "constructor":
        path = listed(message.get("id")) or [""]
        body = {**body, "type": _CLASSES.get(str(path[-1]).removesuffix("Chunk"), "")}
    calls = listed(obj(body.get("additional_kwargs")).get("tool_calls"))
    if not calls and body.get("role") == "assistant":
        calls = _calls_alone(body.get("content"))
        body = {**body, "content": None} if calls else body
    if calls and not body.get("tool_calls"):
        body = {**body, "tool_calls": calls}
    if any(obj(block).get("type") == "tool_use" for block in listed(body.get("content"))):
        body = {name: value for name, value in body.items() if name != "tool_calls"}
    return {name: value for name, value in body.items() if name not in ("kwargs", "data")}


def _calls_alone(content: Json) -> list[Json]:
    """The calls of a content that is a list of calls and nothing else, [] for another one."""
    entries = listed(readable(content))
    return entries if all(obj(obj(each).get("function")).get("name") for each in entries) else []


# --- what a tool gave back


def result_of(outputs: Json) -> tuple[Json, str | None]:
    """What a tool gave back and the id of the call it answers, where LangChain's message or its
    envelope holds them; else the value as it is."""
    given = obj(outputs)
    if given.keys() == {"output"}:
        outputs, given = given["output"], obj(given["output"])
    given = _lifted(given)
    call_id = word(given.get("tool_call_id"))
    if call_id is not None and "content" in given:
        return given["content"], call_id
    return outputs, None


# --- answered


def response_of(outputs: Json) -> Response | None:
    """The answer in what a function gave back, None where none is recognised."""
    for _ in range(3):
        if isinstance(outputs, list) and len(outputs) == 1:
            outputs = outputs[0]
        given = obj(outputs)
        wrapped = len(given) < 3 or isinstance(given.get("message"), dict)
        inner = next((given[n] for n in _INSIDE if n in given), None) if wrapped else None
        if "role" in given or not isinstance(inner, (str, dict)):
            break
        outputs = inner
    if isinstance(outputs, list):
        return _of_calls(outputs)
    return _of_object(obj(outputs)) if isinstance(outputs, dict) else mlflow.answered(outputs)


def _of_calls(outputs: list[Json]) -> Response | None:
    """The JavaScript SDK's calls; else a list of messages, of which the last is the answer."""
    if outputs and all("toolCallId" in obj(each) for each in outputs):
        attributes: Body = {"ai.response.toolCalls": outputs}
        body = sdk_answered(Attributed(trace="", id="", attributes=attributes))
        return Response(message=body) if body is not None else None
    last = _lifted(obj(outputs[-1])) if outputs else {}
    if last.get("role") != "assistant":
        return mlflow.answered(outputs)
    if len(outputs) > 1 and all(obj(each).get("role") == "assistant" for each in outputs):
        made = [call for each in outputs for call in listed(_lifted(each).get("tool_calls"))]
        last = {**last, **known(tool_calls=made)}
    return _of_object(last)


def _of_object(given: dict[str, Any]) -> Response | None:
    if given and all("toolCallId" in obj(each) for each in (given,)):
        return _of_calls([given])
    candidate = obj(next(iter(listed(given.get("candidates"))), None)) or given
    if is_content(candidate.get("content")):
        return _from_google(gemini_message(candidate["content"]), candidate, given)
    if is_content(given):
        return _from_google(gemini_message(given), {}, given)
    if isinstance(given.get("parts"), list):
        why = word(given.get("finish_reason"))
        return Response(message={"role": "assistant", **given}, why=why)
    if listed(given.get("generations")):
        return _generation(given)
    found = mlflow.answered(_lifted(given))
    if found is None and isinstance(given.get("content", given.get("text")), (str, list)):
        message = {"role": "assistant", "content": given.get("content", given.get("text"))}
        found = Response(message=message)
    return _noted(found, given) if found is not None else None


def _from_google(message: Body, candidate: dict[str, Any], given: dict[str, Any]) -> Response:
    why = word(candidate.get("finish_reason", candidate.get("finishReason")))
    return Response(
        message={**message, "role": "assistant"},
        model=word(given.get("model_version")),
        id=word(given.get("response_id")),
        why=why.lower().rpartition(".")[2] if why else None,
    )


def _generation(given: dict[str, Any]) -> Response | None:
    """The first of LangChain's generations, which it nests once a prompt."""
    first: Json = given["generations"][0]
    while isinstance(first, list) and first:
        first = first[0]
    generation = obj(first)
    body = _lifted(obj(generation.get("message")))
    found = mlflow.answered(body) if body else mlflow.answered(generation.get("text"))
    if found is None:
        return None
    noted = obj(generation.get("generation_info"))
    why = word(noted.get("finish_reason")) or word(noted.get("stop_reason"))
    return _noted(structs.replace(found, why=found.why or why), body)


def _noted(found: Response, body: dict[str, Any]) -> Response:
    """With what LangChain notes of the response beside its message."""
    noted = obj(body.get("response_metadata"))
    return structs.replace(
        found,
        model=found.model or word(noted.get("model_name")) or word(noted.get("model")),
        why=found.why or word(noted.get("finish_reason")) or word(noted.get("stop_reason")),
    )


GeminiBody = dict[str, Json]


def is_content(entry: Json) -> bool:
    """Is this one of Google's contents? Parts of GenAI spans name their type."""
    parts = listed(obj(entry).get("parts"))
    return bool(parts) and not any("type" in obj(part) for part in parts)


def gemini_messages(contents: Json) -> list[GeminiBody]:
    """The messages of a text, one content, or a list of them."""
    if isinstance(contents, str):
        return [{"role": "user", "content": contents}]
    entries = contents if isinstance(contents, list) else [contents]
    return [gemini_message(each) for each in entries if is_content(each)]


def gemini_message(content: Json) -> GeminiBody:
    role = word(obj(content).get("role")) or "user"
    parts = [_part(obj(part)) for part in listed(obj(content).get("parts"))]
    return {"role": "assistant" if role == "model" else role, "parts": parts}


def _part(part: dict[str, Any]) -> GeminiBody:
    call = obj(part.get("function_call") or part.get("functionCall"))
    if call:
        name = word(call.get("name")) or ""
        call_id = word(call.get("id")) or name
        return {"type": "tool_call", "id": call_id, "name": name, "arguments": call.get("args")}
    answer = obj(part.get("function_response") or part.get("functionResponse"))
    if answer:
        answers = word(answer.get("id")) or word(answer.get("name"))
        return {"type": "tool_call_response", "id": answers, "response": answer.get("response")}
    if isinstance(part.get("text"), str):
        return {"type": "reasoning" if part.get("thought") else "text", "content": part["text"]}
    return {"type": "unknown", **part}


def declared(tools: Json) -> Iterator[GeminiBody]:
    """The functions of a list of Google's tools."""
    for tool in map(obj, listed(tools)):
        for each in listed(tool.get("function_declarations") or tool.get("functionDeclarations")):
            schema = obj(each).get("parameters", obj(each).get("parameters_json_schema"))
            about = {"name": obj(each).get("name"), "description": obj(each).get("description")}
            yield known(**about, parameters=schema)


def instructions(config: dict[str, Any]) -> Json:
    """The system prompt as text or parts, None for none."""
    given = config.get("system_instruction", config.get("systemInstruction"))
    return gemini_message(given)["parts"] if is_content(given) else word(given)


_IN = ("input_tokens", "prompt_tokens", "promptTokens", "inputTokens", "prompt_token_count")
_OUT = (
    "output_tokens", "completion_tokens", "completionTokens", "outputTokens",
    "candidates_token_count",
)  # fmt: skip
_IN_PARTS = (
    "input_tokens_details", "prompt_tokens_details", "input_token_details", "prompt_token_details",
)  # fmt: skip
_OUT_PARTS = (
    "output_tokens_details", "completion_tokens_details", "output_token_details",
    "completion_token_details",
)  # fmt: skip
_BESIDE = ("cache_read_input_tokens", "cache_creation_input_tokens")


def figures(usage: Json) -> dict[str, Json]:
    """The counts of a call. Anthropic counts what was cached beside the input, all others in it."""
    given = obj(usage)
    total, out = _first(given, _IN), _first(given, _OUT)
    reading = _parts(given, _IN_PARTS)
    writing = _parts(given, _OUT_PARTS)
    read = _first({**reading, **given}, ("cached_tokens", "cache_read", _BESIDE[0]))
    write = _first({**reading, **given}, ("cache_creation", "cache_write_tokens", _BESIDE[1]))
    beside = "input_tokens" in given and not reading and any(name in given for name in _BESIDE)
    if beside and total is not None:
        total += (read or 0) + (write or 0)
    reasoning = _first(writing, ("reasoning_tokens", "reasoning"))
    return counted(total, out, read=read, write=write, reasoning=reasoning)


def counted(
    total: int | None,
    out: int | None,
    *,
    read: int | None = None,
    write: int | None = None,
    write_1h: int | None = None,
    reasoning: int | None = None,
) -> dict[str, Json]:
    """Counts under their names, those that are known; `total` includes what was cached."""
    found = {
        "gen_ai.usage.input_tokens": total,
        "gen_ai.usage.output_tokens": out,
        "gen_ai.usage.cache_read.input_tokens": read,
        "gen_ai.usage.cache_write.input_tokens": write,
        "anthropic.usage.cache_creation.ephemeral_1h_input_tokens": write_1h,
        "gen_ai.usage.reasoning.output_tokens": reasoning,
    }
    return {name: value for name, value in found.items() if value is not None}


def _first(given: dict[str, Any], names: tuple[str, ...]) -> int | None:
    found = (count(given.get(name)) for name in names)
    return next((each for each in found if each is not None), None)


def _parts(given: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return next((obj(given[name]) for name in names if obj(given.get(name))), {})
