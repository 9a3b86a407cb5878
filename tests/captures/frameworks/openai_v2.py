"""OpenTelemetry's own instrumentation with contents in log records beside the spans."""

# /// script
# dependencies = [
#   "openai==2.54.0",
#   "opentelemetry-instrumentation-openai-v2==2.4b0",
#   "opentelemetry-util-genai==1.1b0",
#   "opentelemetry-exporter-otlp-proto-http==1.45.2",
# ]
# [tool.capture.openai_v2_logs]
# not_in_the_file = ["cache_read_tokens"]
# [tool.capture.openai_v2_logs.env]
# OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT = "EVENT_ONLY"
# [tool.capture.openai_v2_no_contents]
# not_in_the_file = [
#   "messages, and with them the tool calls and their results",
#   "cache_read_tokens",
# ]
# ///

import chat_loop
from opentelemetry.instrumentation.openai_v2 import OpenAIInstrumentor
from shop import logger_provider, tracer_provider

provider, logs = tracer_provider(), logger_provider()
OpenAIInstrumentor().instrument(tracer_provider=provider, logger_provider=logs)
with provider.get_tracer("shop").start_as_current_span("refunds"):
    print(chat_loop.run())
provider.shutdown()
logs.shutdown()
