"""OpenAI Agents SDK over the Responses API, streamed, told by OpenTelemetry's own
instrumentation."""

# /// script
# dependencies = [
#   "openai-agents==0.24.0",
#   "opentelemetry-instrumentation-openai-agents-v2==0.1.0",
#   "opentelemetry-exporter-otlp-proto-http==1.45.2",
# ]
# [tool.capture.openai_agents_otel]
# not_in_the_file = [
#   "words of errors: the SDK hides them from the model and from traces",
#   "system prompt",
#   "cache_read_tokens",
# ]
# [tool.capture.openai_agents_otel.env]
# OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT = "span_and_event"
# OTEL_SEMCONV_STABILITY_OPT_IN = "gen_ai_latest_experimental"
# ///

import agents_sdk
from opentelemetry.instrumentation.openai_agents import OpenAIAgentsInstrumentor
from shop import tracer_provider

provider = tracer_provider()
OpenAIAgentsInstrumentor().instrument(tracer_provider=provider)
agents_sdk.run()
provider.shutdown()
