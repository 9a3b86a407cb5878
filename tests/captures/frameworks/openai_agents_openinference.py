"""OpenAI Agents SDK over the Responses API, streamed, told by OpenInference."""

# /// script
# dependencies = [
#   "openai-agents==0.24.0",
#   "openinference-instrumentation-openai-agents==2.6.0",
#   "opentelemetry-exporter-otlp-proto-http==1.45.2",
# ]
# [tool.capture.openai_agents_openinference]
# not_in_the_file = ["words of errors: the SDK hides them from the model and from traces"]
# ///

import asyncio

from agents import Agent, OpenAIResponsesModel, Runner, function_tool
from openai import AsyncOpenAI
from openinference.instrumentation.openai_agents import OpenAIAgentsInstrumentor
from shop import MODEL, MODEL_URL, SYSTEM, TASK, get_order, refund_order, tracer_provider

provider = tracer_provider()
OpenAIAgentsInstrumentor().instrument(tracer_provider=provider)
client = AsyncOpenAI(base_url=f"{MODEL_URL}/v1", api_key="none")
agent = Agent(
    name="shop",
    instructions=SYSTEM,
    model=OpenAIResponsesModel(MODEL, client),
    tools=[function_tool(get_order), function_tool(refund_order)],
)


async def main() -> None:
    result = Runner.run_streamed(agent, TASK)
    async for _ in result.stream_events():
        pass
    print(result.final_output)


asyncio.run(main())
provider.shutdown()
