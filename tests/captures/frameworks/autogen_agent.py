"""AutoGen's assistant with the two tools."""

import asyncio

from autogen_agentchat.agents import AssistantAgent
from autogen_ext.models.openai import OpenAIChatCompletionClient
from shop import MODEL, MODEL_URL, SYSTEM, TASK, get_order, refund_order


def run() -> None:
    print(asyncio.run(_answer()))


async def _answer() -> object:
    agent = AssistantAgent(
        name="shop",
        model_client=OpenAIChatCompletionClient(
            model=MODEL, base_url=f"{MODEL_URL}/v1", api_key="none"
        ),
        system_message=SYSTEM,
        tools=[get_order, refund_order],
        max_tool_iterations=5,
    )
    return (await agent.run(task=TASK)).messages[-1]
