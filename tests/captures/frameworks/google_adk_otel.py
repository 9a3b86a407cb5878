"""Google's ADK with its own spans, over Gemini's wire."""

# /// script
# dependencies = [
#   "google-adk==2.13.0",
#   "opentelemetry-exporter-otlp-proto-http==1.44.0",
# ]
# [tool.capture.google_adk_otel]
# [tool.capture.google_adk_otel.env]
# OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT = "SPAN_ONLY"
# [tool.capture.google_adk_old_schema]
# [tool.capture.google_adk_old_schema.env]
# ADK_TELEMETRY_SCHEMA_VERSION_OPT_IN = "1"
# [tool.capture.google_adk_no_contents]
# not_in_the_file = ["messages", "words of errors"]
# ///

import adk_agent
from shop import tracer_provider

provider = tracer_provider()
adk_agent.run()
provider.shutdown()
