"""Microsoft's Agent Framework with its own spans: over the Responses API with contents and
without, and streamed over the chat API."""

# /// script
# dependencies = [
#   "agent-framework-core==1.23.0",
#   "agent-framework-openai==1.17.0",
#   "opentelemetry-exporter-otlp-proto-http==1.45.2",
# ]
# [tool.capture.agent_framework_otel]
# [tool.capture.agent_framework_otel.env]
# ENABLE_INSTRUMENTATION = "true"
# ENABLE_SENSITIVE_DATA = "true"
# [tool.capture.agent_framework_streamed]
# [tool.capture.agent_framework_streamed.env]
# ENABLE_INSTRUMENTATION = "true"
# ENABLE_SENSITIVE_DATA = "true"
# STREAMED = "1"
# [tool.capture.agent_framework_no_contents]
# not_in_the_file = ["messages", "words of errors"]
# [tool.capture.agent_framework_no_contents.env]
# ENABLE_INSTRUMENTATION = "true"
# ///

import asyncio
import os

from agent_framework import Agent, tool
from agent_framework.openai import OpenAIChatClient, OpenAIChatCompletionClient
from shop import MODEL, MODEL_URL, SYSTEM, TASK, get_order, refund_order, tracer_provider

provider = tracer_provider()
streamed = "STREAMED" in os.environ
wire = OpenAIChatCompletionClient if streamed else OpenAIChatClient
agent = Agent(
    wire(model=MODEL, base_url=f"{MODEL_URL}/v1", api_key="none"),
    SYSTEM,
    name="shop",
    tools=[tool(get_order), tool(refund_order)],
)


async def main() -> None:
    if not streamed:
        print(await agent.run(TASK))
        return
    async for piece in agent.run(TASK, stream=True):
        print(piece)


asyncio.run(main())
provider.shutdown()
