"""AutoGen told by OpenInference's two instrumentations, of its agents and of the OpenAI client,
beside its own spans."""

# /// script
# dependencies = [
#   "autogen-agentchat==0.7.5",
#   "autogen-ext[openai]==0.7.5",
#   "openai==2.54.0",
#   "openinference-instrumentation-autogen-agentchat==0.1.22",
#   "openinference-instrumentation-openai==0.1.66",
#   "opentelemetry-exporter-otlp-proto-http==1.45.2",
# ]
# [tool.capture.autogen_openinference]
# ///

import autogen_agent
from openinference.instrumentation.autogen_agentchat import AutogenAgentChatInstrumentor
from openinference.instrumentation.openai import OpenAIInstrumentor
from shop import tracer_provider

provider = tracer_provider()
AutogenAgentChatInstrumentor().instrument(tracer_provider=provider)
OpenAIInstrumentor().instrument(tracer_provider=provider)
autogen_agent.run()
provider.shutdown()
