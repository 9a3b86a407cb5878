"""Haystack's agent with the two tools."""

from haystack.components.agents import Agent
from haystack.components.generators.chat import OpenAIChatGenerator
from haystack.dataclasses import ChatMessage
from haystack.tools import create_tool_from_function
from haystack.utils import Secret
from shop import MODEL, MODEL_URL, SYSTEM, TASK, get_order, refund_order


def run() -> None:
    generator = OpenAIChatGenerator(
        model=MODEL, api_base_url=f"{MODEL_URL}/v1", api_key=Secret.from_token("none")
    )
    agent = Agent(
        chat_generator=generator,
        system_prompt=SYSTEM,
        tools=[create_tool_from_function(get_order), create_tool_from_function(refund_order)],
        raise_on_tool_invocation_failure=False,
    )
    print(agent.run(messages=[ChatMessage.from_user(TASK)])["messages"][-1])
