"""A crew of one agent with the two tools."""

import os

os.environ["CREWAI_DISABLE_TELEMETRY"] = "true"
os.environ["CREWAI_TRACING_ENABLED"] = "false"

from crewai import LLM, Agent, Crew, Task
from crewai.tools import tool
from shop import MODEL, MODEL_URL, SYSTEM, TASK, get_order, refund_order


def run() -> None:
    agent = Agent(
        role="Shop agent",
        goal="Serve the shop's customers.",
        backstory=SYSTEM,
        llm=LLM(model=f"openai/{MODEL}", base_url=f"{MODEL_URL}/v1", api_key="none"),
        tools=[tool("get_order")(get_order), tool("refund_order")(refund_order)],
    )
    task = Task(description=TASK, expected_output="What was refunded.", agent=agent)
    print(Crew(agents=[agent], tasks=[task]).kickoff())
