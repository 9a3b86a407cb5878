"""Haystack's agent told by OpenInference."""

# /// script
# dependencies = [
#   "haystack-ai==3.4.0",
#   "openinference-instrumentation-haystack==0.1.46",
#   "opentelemetry-exporter-otlp-proto-http==1.45.2",
# ]
# [tool.capture.haystack_openinference]
# not_in_the_file = ["cache_read_tokens and stop reasons as attributes: they stand only in reprs"]
# ///

import haystack_agent
from openinference.instrumentation.haystack import HaystackInstrumentor
from shop import tracer_provider

provider = tracer_provider()
HaystackInstrumentor().instrument(tracer_provider=provider)
haystack_agent.run()
provider.shutdown()
