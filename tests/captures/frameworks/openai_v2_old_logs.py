"""OpenTelemetry's instrumentation of the conventions up to 1.36: a log record a message."""

# /// script
# dependencies = [
#   "openai==2.54.0",
#   "opentelemetry-instrumentation-openai-v2==2.2b0",
#   "wrapt==1.17.3",
#   "opentelemetry-exporter-otlp-proto-http==1.45.2",
# ]
# [tool.capture.openai_v2_old_logs]
# not_in_the_file = ["cache_read_tokens"]
# [tool.capture.openai_v2_old_logs.env]
# OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT = "true"
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
