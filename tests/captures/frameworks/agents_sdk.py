"""An agent of the OpenAI Agents SDK over the Responses API, streamed."""

import asyncio

from agents import Agent, OpenAIResponsesModel, Runner, function_tool
from openai import AsyncOpenAI
from shop import MODEL, MODEL_URL, SYSTEM, TASK, get_order, refund_order


def run() -> None:
    print(asyncio.run(_answer()))


async def _answer() -> object:
    client = AsyncOpenAI(base_url=f"{MODEL_URL}/v1", api_key="none")
    agent = Agent(
        name="shop",
        instructions=SYSTEM,
        model=OpenAIResponsesModel(MODEL, client),
        tools=[function_tool(get_order), function_tool(refund_order)],
    )
    result = Runner.run_streamed(agent, TASK)
    async for _ in result.stream_events():
        pass
    return result.final_output
