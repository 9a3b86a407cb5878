"""What a function was given and gave back, as a model's request and its answer.

The shapes are those that libraries have for it: OpenAI's chat and responses, Anthropic's messages,
LangChain's messages and generations, Google's contents and parts, the JavaScript SDK's, a plain
text. They are told in the names of the GenAI conventions, and so are counts of tokens.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from msgspec import Struct, structs

from replay.formats.common import known, listed, obj, word
from replay.formats.genai import attributes
from replay.formats.genai.messages import answered, call_part, input_messages
from replay.formats.genai.printed import is_message, messages_of, response_in
from replay.formats.genai.records import Raw, readable
from replay.trace import Json

Body = dict[str, Json]

_PARAMS = {
    "temperature", "top_p", "top_k", "max_tokens", "max_completion_tokens", "max_output_tokens",
    "stop", "stop_sequences", "seed", "frequency_penalty", "presence_penalty", "tool_choice",
    "response_format", "reasoning_effort", "reasoning", "thinking", "parallel_tool_calls", "n",
}  # fmt: skip

_ROLES = {"human": "user", "ai": "assistant", "AIMessageChunk": "assistant"}
"""LangChain's words for roles."""


class Request(Struct, frozen=True, kw_only=True):
    """`tools` is None where the call may have had some that are not told."""

    messages: list[Body]
    system: Json = None
    tools: list[Json] | None = None
    params: Body = {}
    model: str | None = None


class Response(Struct, frozen=True, kw_only=True):
    message: Body
    model: str | None = None
    id: str | None = None
    why: str | None = None


def chat_request(inputs: Json) -> Request | None:
    """The request in a function's inputs, None where none is recognised."""
    given = obj(inputs)
    raw = given.get("messages", given.get("input", given.get("prompt"))) if given else inputs
    messages = _messages(raw)
    if not messages:
        return None
    model = word(given.get("model"))
    tools = given.get("tools")
    if not isinstance(tools, list):
        tools = [] if model is not None else None  # a call of a library tells all it was given
    return Request(
        messages=messages,
        system=given.get("system", given.get("instructions")),
        tools=tools,
        params={n: v for n, v in given.items() if n in _PARAMS and v is not None} if model else {},
        model=model,
    )


def chat_answer(outputs: Json) -> Response | None:
    """The answer in a function's outputs, None where none is recognised."""
    if isinstance(outputs, list) and len(outputs) == 1:
        outputs = outputs[0]
    given = obj(outputs)
    message, why = _answer(outputs, given)
    if message is None:
        return None
    return Response(
        message=message,
        model=word(given.get("model")),
        id=word(given.get("id")),
        why=why or word(given.get("stop_reason")),
    )


def _answer(outputs: Json, given: dict[str, Any]) -> tuple[Body | None, str | None]:
    if isinstance(outputs, str):
        return {"role": "assistant", "content": outputs}, None
    choice = obj(next(iter(listed(given.get("choices"))), None))
    if choice:
        found = obj(choice.get("message")) or {"content": choice.get("text")}
        return {"role": "assistant", **found}, word(choice.get("finish_reason"))
    if isinstance(given.get("output"), list):
        made = _of_items(given["output"])
        return (made[-1] if made and made[-1]["role"] == "assistant" else None), None
    generations = listed(next(iter(listed(given.get("generations"))), None))
    if generations:
        first = obj(generations[0])
        return _message(obj(first.get("message"))) or _text(first.get("text")), None
    if isinstance(given.get("messages"), list):
        return _message(obj(next(iter(reversed(given["messages"])), None))), None
    return _message(given), None


def _text(text: Json) -> Body | None:
    return {"role": "assistant", "content": text} if isinstance(text, str) else None


def _messages(value: Json) -> list[Body]:
    """Chat messages of a text, of a list, of a list of lists (LangChain asks in batches), of the
    items of OpenAI's responses."""
    if isinstance(value, str):
        return [{"role": "user", "content": value}]
    entries = listed(value)
    if len(entries) == 1 and isinstance(entries[0], list):
        entries = entries[0]
    if any(obj(each).get("type") in ("function_call", "function_call_output") for each in entries):
        return _of_items(entries)
    if any(map(is_message, entries)):
        return [body for each in entries if is_message(each) for body in messages_of(each)]
    return [body for each in entries if (body := _message(obj(each))) is not None]


def _message(entry: dict[str, Any]) -> Body | None:
    """A message as chat clients have it, None where it has no role."""
    inner = obj(entry.get("kwargs")) or obj(entry.get("data"))
    entry = {**entry, **inner} if inner else entry
    kind = word(entry.get("role")) or word(entry.get("type"))
    role = _ROLES.get(kind or "", kind)
    if role not in ("system", "developer", "user", "assistant", "tool", "function"):
        return None
    calls = [
        each
        if "function" in each
        else call_part(each.get("id"), each.get("name"), each.get("args", each.get("arguments")))
        for each in map(obj, listed(entry.get("tool_calls")))
    ]
    return {
        "role": role,
        "content": entry.get("content"),
        **known(
            name=word(entry.get("name")),
            tool_call_id=word(entry.get("tool_call_id")),
            tool_calls=calls,
        ),
    }


def _of_items(items: list[Json]) -> list[Body]:
    """Messages of OpenAI's responses: what the model did between two other items is one answer."""
    found: list[Body] = []
    for item in map(obj, items):
        kind = item.get("type")
        if kind == "function_call_output":
            shown = {"tool_call_id": word(item.get("call_id")), "content": item.get("output")}
            found.append({"role": "tool", **shown})
        elif kind == "function_call" or item.get("role") == "assistant":
            if not found or found[-1]["role"] != "assistant":
                found.append({"role": "assistant", "content": None})
            last = found[-1]
            if kind == "function_call":
                made = call_part(item.get("call_id"), item.get("name"), item.get("arguments"))
                last["tool_calls"] = [*listed(last.get("tool_calls")), made]
            else:
                last["content"] = item.get("content")
        elif kind != "reasoning" and (body := _message({"type": "", **item})) is not None:
            found.append(body)
    return found


_SDK = ("tool-call", "tool-result")

_CLASSES = {
    "AIMessage": "ai", "HumanMessage": "human", "SystemMessage": "system", "ToolMessage": "tool",
}  # fmt: skip
"""What LangChain's classes of messages call themselves."""

_INSIDE = ("message", "output", "outputs", "response", "completion", "result", "replies")
"""Names under which a function's result may hold the answer alone."""


def has_text(inputs: Json, outputs: Json) -> dict[str, Json]:
    """Both sides under the names of the GenAI conventions, {} for what is not recognised."""
    found = under_names(request_of(inputs), response_of(outputs))
    return found | _responses(obj(outputs), found)


def under_names(request: Request | None, response: Response | None) -> dict[str, Json]:
    """A request and its answer under the names of the conventions, those parts that are known."""
    found: dict[str, Json] = {}
    if request is not None:
        found |= {attributes.INPUT: request.messages}
        found |= known(**{attributes.SYSTEM: request.system})
        found |= known(**{"llm.invocation_parameters": request.params})
        found |= present(
            **{"gen_ai.request.model": request.model, "gen_ai.tool.definitions": request.tools}
        )
    if response is not None:
        found[attributes.OUTPUT] = [response.message]
        found |= present(
            **{
                "gen_ai.response.model": response.model,
                "gen_ai.response.id": response.id,
                "gen_ai.response.finish_reasons": [response.why] if response.why else None,
            }
        )
    return found


def tool(name: str | None, inputs: Json, outputs: Json) -> dict[str, Json]:
    """A tool, what it was given and gave back, under the names of the conventions."""
    result, call_id, _ = result_of(outputs)
    return present(
        **{
            attributes.OPERATION: "execute_tool",
            attributes.TOOL.names[0]: name or None,
            attributes.ARGUMENTS.names[0]: inputs,
            attributes.RESULT.names[0]: result,
            attributes.CALL.names[0]: call_id,
        }
    )


def present(**values: Json) -> dict[str, Json]:
    """Those that are known."""
    return {name: value for name, value in values.items() if value is not None}


def _responses(response: dict[str, Any], found: dict[str, Json]) -> dict[str, Json]:
    """What an object of OpenAI's responses repeats of its request."""
    if response.get("object") != "response":
        return {}
    repeated = known(**{attributes.SYSTEM: response.get("instructions")})
    if isinstance(response.get("tools"), list):
        repeated["gen_ai.tool.definitions"] = response["tools"]
    return {name: value for name, value in repeated.items() if not found.get(name)}


def request_of(inputs: Json) -> Request | None:
    """The request in what a function was given, None where none is recognised."""
    given = obj(inputs)
    if given and given.keys() <= {"args", "kwargs"}:
        args = listed(given.get("args"))
        return request_of(obj(given.get("kwargs")) or (args[0] if len(args) == 1 else None))
    if isinstance(given.get("prompts"), list) and len(given["prompts"]) == 1:
        return chat_request({**given, "messages": given["prompts"][0]})
    if "contents" in given:
        return _of_google(given)
    messages = given.get("messages", given.get("input")) if given else inputs
    if isinstance(messages, list):
        found = _listed(messages, given)
        if found is not None:
            return found
    if given and word(given.get("role")) and "messages" not in given:
        return chat_request([given])
    return chat_request(inputs)


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
        return Request(messages=input_messages(Raw(trace="", id="", attributes=attributes)))
    offered = [tool for each in entries if (tool := _offered(each)) is not None]
    chat = chat_request({**given, "messages": [_lifted(e) for e in entries if not _offered(e)]})
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


class Result(NamedTuple):
    """What a tool gave back; `failed` says that its envelope tells of an error."""

    value: Json
    call_id: str | None = None
    failed: bool = False


def result_of(outputs: Json) -> Result:
    """What a tool gave back, out of LangChain's message, Bedrock's block, Google's part or MCP's
    reply where one of these holds it; else the value as it is."""
    given = obj(outputs)
    if given.keys() == {"output"}:
        outputs, given = given["output"], obj(given["output"])
    given = _lifted(given)
    given = obj(given.get("toolResult")) or given
    if given.keys() == {"id", "name", "response"}:  # of Google's parts
        return Result(given["response"], word(given["id"]))
    call_id = next((word(given[name]) for name in _CALL_IDS if name in given), None)
    failed = given.get("isError") is True or given.get("is_error") is True
    if "content" not in given or not (call_id is not None or "isError" in given):
        return Result(outputs)
    return Result(given["content"], call_id, failed or given.get("status") == "error")


_CALL_IDS = ("tool_call_id", "toolUseId", "tool_use_id")

_WRAPPING = {"args", "kwargs", "inputs", "tags", "metadata", "sanitize_inputs_outputs"}
"""What a decorator's or a framework's record of a function has beside its arguments."""


def arguments_of(inputs: Json) -> Json:
    """The named arguments out of the record of a function's; None where none wraps them."""
    given = obj(inputs)
    if not given or not given.keys() <= _WRAPPING or listed(given.get("args")):
        return None
    named = given.get("kwargs") or given.get("inputs")
    return named if isinstance(named, dict) else None


def response_of(outputs: Json) -> Response | None:
    """The answer in what a function gave back, None where none is recognised."""
    for _ in range(3):
        if isinstance(outputs, list) and len(outputs) == 1:
            outputs = outputs[0]
        given = obj(outputs)
        wrapped = len(given) < 3 or isinstance(given.get("message"), dict)
        inner = next((given[n] for n in _INSIDE if n in given), None) if wrapped else None
        if isinstance(inner, list) and len(inner) == 1 and is_message(inner[0]):
            inner = inner[0]
        if "role" in given or not isinstance(inner, (str, dict)):
            break
        outputs = inner
    if is_message(outputs) and (made := messages_of(outputs)):
        noted = response_in(outputs)
        why = word(obj(next(iter(listed(noted.get("choices"))), None)).get("finish_reason"))
        return Response(message=made[-1], model=word(noted.get("model")), why=why)
    if isinstance(outputs, list):
        return _of_calls(outputs)
    return _of_object(obj(outputs)) if isinstance(outputs, dict) else chat_answer(outputs)


def _of_calls(outputs: list[Json]) -> Response | None:
    """The JavaScript SDK's calls; else a list of messages, of which the last is the answer."""
    if outputs and all("toolCallId" in obj(each) for each in outputs):
        attributes: Body = {"ai.response.toolCalls": outputs}
        body = answered(Raw(trace="", id="", attributes=attributes))
        return Response(message=body) if body is not None else None
    last = _lifted(obj(outputs[-1])) if outputs else {}
    if last.get("role") != "assistant":
        return chat_answer(outputs)
    if len(outputs) > 1 and all(obj(each).get("role") == "assistant" for each in outputs):
        made = [call for each in outputs for call in listed(_lifted(each).get("tool_calls"))]
        last = {**last, **known(tool_calls=made)}
    return _of_object(last)


def _of_object(given: dict[str, Any]) -> Response | None:
    if "toolCallId" in given:
        return _of_calls([given])
    if isinstance(given.get("toolCalls"), list):
        said: Body = {
            "ai.response.text": given.get("text"),
            "ai.response.toolCalls": given["toolCalls"],
        }
        body = answered(Raw(trace="", id="", attributes=said))
        return Response(message=body) if body is not None else None
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
    found = chat_answer(_lifted(given))
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
    found = chat_answer(body) if body else chat_answer(generation.get("text"))
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
