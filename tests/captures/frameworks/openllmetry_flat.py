"""A plain loop told by OpenLLMetry as it was for years: a flat attribute for each field of each
message."""

# /// script
# dependencies = [
#   "openai==2.54.0",
#   "opentelemetry-instrumentation-openai==0.40.14",
#   "opentelemetry-exporter-otlp-proto-http",
# ]
# [tool.capture.openllmetry_flat]
# ///

import chat_loop
from opentelemetry.instrumentation.openai import OpenAIInstrumentor
from shop import tracer_provider

provider = tracer_provider()
OpenAIInstrumentor().instrument(tracer_provider=provider)
with provider.get_tracer("shop").start_as_current_span("refunds"):
    print(chat_loop.run())
provider.shutdown()
