"""One call told by two instrumentations: OpenInference's and OpenTelemetry's own, both with
contents on the spans."""

# /// script
# dependencies = [
#   "openai==2.54.0",
#   "openinference-instrumentation-openai==0.1.66",
#   "opentelemetry-instrumentation-openai-v2==2.4b0",
#   "opentelemetry-util-genai==1.1b0",
#   "opentelemetry-exporter-otlp-proto-http==1.45.2",
# ]
# [tool.capture.openai_told_twice]
# [tool.capture.openai_told_twice.env]
# OTEL_SEMCONV_STABILITY_OPT_IN = "gen_ai_latest_experimental"
# OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT = "SPAN_ONLY"
# ///

import chat_loop
from openinference.instrumentation.openai import OpenAIInstrumentor as OpenInference
from opentelemetry.instrumentation.openai_v2 import OpenAIInstrumentor as OpenTelemetry
from shop import tracer_provider

provider = tracer_provider()
OpenInference().instrument(tracer_provider=provider)
OpenTelemetry().instrument(tracer_provider=provider)
with provider.get_tracer("shop").start_as_current_span("refunds"):
    print(chat_loop.run())
provider.shutdown()
