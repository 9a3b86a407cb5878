"""A plain loop over the OpenAI client: ask, run what was asked for, ask again."""

import json
from collections.abc import Callable
from typing import Any

import openai
from shop import MODEL, MODEL_URL, SYSTEM, TASK, get_order, refund_order, tools_json

TOOLS = {"get_order": get_order, "refund_order": refund_order}


def run(wrap: Callable[[Any], Any] = lambda tool: tool, **more: Any) -> str:
    """The agent's last words; `wrap` is put around each tool, `more` goes into each request."""
    tools = {name: wrap(tool) for name, tool in TOOLS.items()}
    client = openai.OpenAI(base_url=f"{MODEL_URL}/v1", api_key="none")
    messages: list[Any] = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": TASK}]
    while True:
        answer = client.chat.completions.create(
            model=MODEL, messages=messages, tools=tools_json(), **more
        )
        said = answer.choices[0].message
        messages.append(said.model_dump(exclude_none=True))
        messages += [
            {"role": "tool", "tool_call_id": call.id, "content": _result(tools, call)}
            for call in said.tool_calls or ()
        ]
        if not said.tool_calls:
            return str(said.content)


def _result(tools: dict[str, Any], call: Any) -> str:
    try:
        return tools[call.function.name](**json.loads(call.function.arguments))
    except ValueError as error:
        return f"Error: {error}"
