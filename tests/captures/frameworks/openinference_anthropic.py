"""A plain loop over Anthropic's client, told by OpenInference beside the client's own spans."""

# /// script
# dependencies = [
#   "anthropic==2.12.0",
#   "openinference-instrumentation-anthropic==3.1.0",
#   "opentelemetry-exporter-otlp-proto-http==1.45.2",
# ]
# [tool.capture.openinference_anthropic]
# [tool.capture.openinference_anthropic.env]
# ANTHROPIC_OPEN_TELEMETRY_TRACES_CONTENT_MODE = "content"
# ///

import messages_loop
from openinference.instrumentation.anthropic import AnthropicInstrumentor
from shop import tracer_provider

provider = tracer_provider()
AnthropicInstrumentor().instrument(tracer_provider=provider)
with provider.get_tracer("shop").start_as_current_span("refunds"):
    print(messages_loop.run())
provider.shutdown()
