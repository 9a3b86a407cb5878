"""Microsoft's Agent Framework with its own spans, contents enabled, over the Responses API."""

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
# ///

import asyncio

from agent_framework import Agent, tool
from agent_framework.openai import OpenAIChatClient
from shop import MODEL, MODEL_URL, SYSTEM, TASK, get_order, refund_order, tracer_provider

provider = tracer_provider()
client = OpenAIChatClient(model=MODEL, base_url=f"{MODEL_URL}/v1", api_key="none")
agent = Agent(
    client,
    SYSTEM,
    name="shop",
    tools=[tool(get_order), tool(refund_order)],
)
print(asyncio.run(agent.run(TASK)))
provider.shutdown()
