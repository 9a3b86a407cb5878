"""Haystack with its own spans, contents enabled."""

# /// script
# dependencies = [
#   "haystack-ai==3.4.0",
#   "opentelemetry-haystack==2.0.0",
#   "opentelemetry-sdk==1.45.2",
#   "opentelemetry-exporter-otlp-proto-http==1.45.2",
# ]
# [tool.capture.haystack_otel]
# [tool.capture.haystack_otel.env]
# HAYSTACK_CONTENT_TRACING_ENABLED = "true"
# ///

import haystack_agent
from haystack import tracing
from haystack_integrations.tracing.opentelemetry import OpenTelemetryTracer
from shop import tracer_provider

provider = tracer_provider()
tracing.enable_tracing(OpenTelemetryTracer(provider.get_tracer("haystack")))
haystack_agent.run()
provider.shutdown()
