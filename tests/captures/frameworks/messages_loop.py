"""A plain loop over Anthropic's client: ask, run what was asked for, ask again."""

from typing import Any

from anthropic import Anthropic
from shop import MODEL_URL, SYSTEM, TASK, get_order, refund_order, tools_json

MODEL = "claude-haiku-4-5"
TOOLS = {"get_order": get_order, "refund_order": refund_order}


def run() -> str:
    """The agent's last words."""
    client = Anthropic(base_url=MODEL_URL, api_key="none")
    messages: list[Any] = [{"role": "user", "content": TASK}]
    while True:
        answer = client.messages.create(
            model=MODEL, max_tokens=1000, system=SYSTEM, messages=messages, tools=_tools()
        )
        calls = [block for block in answer.content if block.type == "tool_use"]
        said = [block.model_dump(exclude_none=True) for block in answer.content]
        messages.append({"role": "assistant", "content": said})
        messages.append({"role": "user", "content": [_result(call) for call in calls]})
        if not calls:
            return str(answer.content[0].text)


def _result(call: Any) -> dict[str, Any]:
    shown: dict[str, Any] = {"type": "tool_result", "tool_use_id": call.id}
    try:
        return {**shown, "content": TOOLS[call.name](**call.input)}
    except ValueError as error:
        return {**shown, "content": str(error), "is_error": True}


def _tools() -> list[Any]:
    functions = [each["function"] for each in tools_json()]
    return [
        {
            "name": each["name"],
            "description": each["description"],
            "input_schema": each["parameters"],
        }
        for each in functions
    ]
