"""A plain loop over Anthropic's client told by OpenLLMetry's instrumentation. Not streamed: of a
stream it adds up what the first and the last event say of the output's tokens."""

# /// script
# dependencies = [
#   "anthropic==2.12.0",
#   "opentelemetry-instrumentation-anthropic==0.62.4",
#   "opentelemetry-exporter-otlp-proto-http==1.45.2",
# ]
# [tool.capture.openllmetry_anthropic]
# ///

import messages_loop
from opentelemetry.instrumentation.anthropic import AnthropicInstrumentor
from shop import tracer_provider

provider = tracer_provider()
AnthropicInstrumentor().instrument(tracer_provider=provider)
with provider.get_tracer("shop").start_as_current_span("refunds"):
    print(messages_loop.run())
provider.shutdown()
