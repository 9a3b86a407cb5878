"""What a function was given and gave back, as a request to a model and its answer.

Services record the arguments and the result of whatever was called, in its library's own shape:
lists of chat messages, messages of parts, requests and responses of OpenAI, Anthropic and Google,
LangChain's objects, the JavaScript SDK's prompts, or a text.
"""

from __future__ import annotations

from typing import Any

from msgspec import structs

from replay.formats.fields import known, listed, obj, word
from replay.formats.openinference.exports import Raw as Attributed
from replay.formats.openinference.messages import answered as sdk_answered
from replay.formats.openinference.messages import asked as sdk_asked
from replay.formats.otlp import names
from replay.formats.services import gemini
from replay.formats.services.records import readable
from replay.formats.sqlite.mlflow import spoken
from replay.formats.sqlite.mlflow.spoken import Request, Response
from replay.trace import Json

Body = dict[str, Json]

_SDK = ("tool-call", "tool-result")
_CLASSES = {
    "AIMessage": "ai", "HumanMessage": "human", "SystemMessage": "system", "ToolMessage": "tool",
}  # fmt: skip
"""What LangChain's classes of messages call themselves."""

_INSIDE = ("message", "output", "outputs", "response", "completion", "result")
"""Names under which a function's result may hold the answer alone."""


def said(inputs: Json, outputs: Json) -> dict[str, Json]:
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
        return spoken.asked({**given, "messages": given["prompts"][0]})
    if "contents" in given:
        return _of_google(given)
    messages = given.get("messages", given.get("input")) if given else inputs
    if isinstance(messages, list):
        found = _listed(messages, given)
        if found is not None:
            return found
    if given and word(given.get("role")) and "messages" not in given:
        return spoken.asked([given])
    return spoken.asked(inputs)


def _of_google(given: dict[str, Any]) -> Request | None:
    config = obj(given.get("config")) or given
    messages = gemini.messages(given["contents"])
    if not messages:
        return None
    return Request(
        messages=messages,
        system=gemini.instructions(config),
        tools=list(gemini.declared(config.get("tools"))),
        model=word(given.get("model")),
    )


def _listed(messages: list[Json], given: dict[str, Any]) -> Request | None:
    """The request of a list that has more in it than chat messages; None for one of them alone."""
    if len(messages) == 1 and isinstance(messages[0], list):
        messages = messages[0]
    entries = [each for each in messages if isinstance(each, dict)]
    if any(map(gemini.is_content, entries)):
        return Request(messages=gemini.messages(messages))
    if any(isinstance(each.get("parts"), list) for each in entries):
        return Request(messages=entries)
    if any(obj(part).get("type") in _SDK for e in entries for part in listed(e.get("content"))):
        attributes: Body = {"ai.prompt.messages": entries}
        return Request(messages=sdk_asked(Attributed(trace="", id="", attributes=attributes)))
    offered = [tool for each in entries if (tool := _offered(each)) is not None]
    chat = spoken.asked({**given, "messages": [_lifted(e) for e in entries if not _offered(e)]})
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
    return _of_object(obj(outputs)) if isinstance(outputs, dict) else spoken.answered(outputs)


def _of_calls(outputs: list[Json]) -> Response | None:
    """The JavaScript SDK's calls; else a list of messages, of which the last is the answer."""
    if outputs and all("toolCallId" in obj(each) for each in outputs):
        attributes: Body = {"ai.response.toolCalls": outputs}
        body = sdk_answered(Attributed(trace="", id="", attributes=attributes))
        return Response(message=body) if body is not None else None
    last = _lifted(obj(outputs[-1])) if outputs else {}
    if last.get("role") != "assistant":
        return spoken.answered(outputs)
    if len(outputs) > 1 and all(obj(each).get("role") == "assistant" for each in outputs):
        made = [call for each in outputs for call in listed(_lifted(each).get("tool_calls"))]
        last = {**last, **known(tool_calls=made)}
    return _of_object(last)


def _of_object(given: dict[str, Any]) -> Response | None:
    if given and all("toolCallId" in obj(each) for each in (given,)):
        return _of_calls([given])
    candidate = obj(next(iter(listed(given.get("candidates"))), None)) or given
    if gemini.is_content(candidate.get("content")):
        return _from_google(gemini.message(candidate["content"]), candidate, given)
    if gemini.is_content(given):
        return _from_google(gemini.message(given), {}, given)
    if isinstance(given.get("parts"), list):
        why = word(given.get("finish_reason"))
        return Response(message={"role": "assistant", **given}, why=why)
    if listed(given.get("generations")):
        return _generation(given)
    found = spoken.answered(_lifted(given))
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
    found = spoken.answered(body) if body else spoken.answered(generation.get("text"))
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
