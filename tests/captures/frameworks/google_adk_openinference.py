"""Google's ADK told by OpenInference."""

# /// script
# dependencies = [
#   "google-adk==2.13.0",
#   "openinference-instrumentation-google-adk==1.0.5",
#   "opentelemetry-exporter-otlp-proto-http==1.44.0",
# ]
# [tool.capture.google_adk_openinference]
# [tool.capture.google_adk_openinference.env]
# ADK_TELEMETRY_SCHEMA_VERSION_OPT_IN = "1"
# [tool.capture.google_adk_no_model_calls]
# not_in_the_file = ["model calls: this version tells only of those of ADK's old schema"]
# ///

import adk_agent
from openinference.instrumentation.google_adk import GoogleADKInstrumentor
from shop import tracer_provider

provider = tracer_provider()
GoogleADKInstrumentor().instrument(tracer_provider=provider)
adk_agent.run()
provider.shutdown()
