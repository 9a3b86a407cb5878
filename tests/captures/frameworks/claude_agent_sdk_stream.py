"""Claude Agent SDK with the tools of a server in the process: its messages, a JSON line each, as a
program keeps them."""

# /// script
# dependencies = ["claude-agent-sdk==0.2.187"]
# [tool.capture.claude_agent_sdk_stream]
# not_in_the_file = [
#   "system prompt",
#   "user's prompt",
#   "tokens of an answer: those out are what its stream began with; the last line has the sum",
#   "stop reasons",
# ]
# ///

import asyncio
import dataclasses
import json
import os
from pathlib import Path
from typing import Any

import shop
from claude_agent_sdk import ClaudeAgentOptions, create_sdk_mcp_server, query, tool


@tool("get_order", "Look up an order.", {"order_id": str})
async def get_order(given: dict[str, Any]) -> dict[str, Any]:
    return result(shop.get_order, given)


@tool("refund_order", "Refund an order.", {"order_id": str, "amount": int})
async def refund_order(given: dict[str, Any]) -> dict[str, Any]:
    return result(shop.refund_order, given)


def result(run: Any, given: dict[str, Any]) -> dict[str, Any]:
    try:
        return {"content": [{"type": "text", "text": run(**given)}]}
    except ValueError as error:
        return {"content": [{"type": "text", "text": str(error)}], "is_error": True}


async def main() -> None:
    options = ClaudeAgentOptions(
        model="claude-haiku-4-5",
        system_prompt=shop.SYSTEM,
        mcp_servers={"shop": create_sdk_mcp_server("shop", tools=[get_order, refund_order])},
        tools=[],
        allowed_tools=["mcp__shop__get_order", "mcp__shop__refund_order"],
        setting_sources=[],
        env={
            "ANTHROPIC_BASE_URL": shop.MODEL_URL,
            "ANTHROPIC_API_KEY": "none",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        },
    )
    with (Path(os.environ["CAPTURE_FOLDER"]) / "messages.jsonl").open("w") as file:
        async for message in query(prompt=shop.TASK, options=options):
            file.write(json.dumps(dataclasses.asdict(message), default=str) + "\n")


asyncio.run(main())
