"""AutoGen's own spans of agents and tools, with OpenTelemetry's of the OpenAI client below."""

# /// script
# dependencies = [
#   "autogen-agentchat==0.7.5",
#   "autogen-ext[openai]==0.7.5",
#   "openai==2.54.0",
#   "opentelemetry-instrumentation-openai-v2==2.4b0",
#   "opentelemetry-util-genai==1.1b0",
#   "opentelemetry-exporter-otlp-proto-http==1.45.2",
# ]
# [tool.capture.autogen_otel]
# not_in_the_file = ["cache_read_tokens"]
# [tool.capture.autogen_otel.env]
# OTEL_SEMCONV_STABILITY_OPT_IN = "gen_ai_latest_experimental"
# OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT = "SPAN_ONLY"
# [tool.capture.autogen_no_model_calls]
# not_in_the_file = [
#   "model calls: AutoGen's own spans are of agents and tools",
#   "model name", "arguments", "tool results", "words of errors", "user's prompt",
# ]
# [tool.capture.autogen_no_model_calls.env]
# ALONE = "1"
# ///

import os

import autogen_agent
from opentelemetry.instrumentation.openai_v2 import OpenAIInstrumentor
from shop import tracer_provider

provider = tracer_provider()
if "ALONE" not in os.environ:
    OpenAIInstrumentor().instrument(tracer_provider=provider)
autogen_agent.run()
provider.shutdown()
