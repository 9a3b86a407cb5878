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

import agents_sdk
from openinference.instrumentation.openai_agents import OpenAIAgentsInstrumentor
from shop import tracer_provider

provider = tracer_provider()
OpenAIAgentsInstrumentor().instrument(tracer_provider=provider)
agents_sdk.run()
provider.shutdown()
