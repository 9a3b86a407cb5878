"""Haystack's agent told by OpenInference."""

# /// script
# dependencies = [
#   "haystack-ai==3.4.0",
#   "openinference-instrumentation-haystack==0.1.46",
#   "opentelemetry-exporter-otlp-proto-http==1.45.2",
# ]
# [tool.capture.haystack_openinference]
# not_in_the_file = ["cache_read_tokens and stop reasons as attributes: they stand only in reprs"]
# ///

from haystack.components.agents import Agent
from haystack.components.generators.chat import OpenAIChatGenerator
from haystack.dataclasses import ChatMessage
from haystack.tools import create_tool_from_function
from haystack.utils import Secret
from openinference.instrumentation.haystack import HaystackInstrumentor
from shop import MODEL, MODEL_URL, SYSTEM, TASK, get_order, refund_order, tracer_provider

provider = tracer_provider()
HaystackInstrumentor().instrument(tracer_provider=provider)
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
provider.shutdown()
