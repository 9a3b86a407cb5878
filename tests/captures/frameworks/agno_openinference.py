"""Agno told by OpenInference, whole and streamed."""

# /// script
# dependencies = [
#   "agno==3.1.10",
#   "openai==3.54.0",
#   "openinference-instrumentation-agno==1.0.15",
#   "opentelemetry-exporter-otlp-proto-http==1.45.2",
# ]
# [tool.capture.agno_openinference]
# not_in_the_file = ["stop reasons"]
# [tool.capture.agno_streamed]
# not_in_the_file = ["stop reasons"]
# [tool.capture.agno_streamed.env]
# STREAMED = "1"
# ///

import os

from agno.agent import Agent
from agno.models.openai import OpenAIChat
from openinference.instrumentation.agno import AgnoInstrumentor
from shop import MODEL, MODEL_URL, SYSTEM, TASK, get_order, refund_order, tracer_provider

provider = tracer_provider()
AgnoInstrumentor().instrument(tracer_provider=provider)
agent = Agent(
    name="shop",
    model=OpenAIChat(id=MODEL, base_url=f"{MODEL_URL}/v1", api_key="none"),
    system_message=SYSTEM,
    tools=[get_order, refund_order],
    telemetry=False,
)
if "STREAMED" in os.environ:
    print(*(event.event for event in agent.run(TASK, stream=True)))
else:
    print(agent.run(TASK).content)
provider.shutdown()
