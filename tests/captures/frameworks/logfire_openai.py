"""A plain loop told by Logfire's instrumentation of the OpenAI client, posted wherever the
environment says."""

# /// script
# dependencies = [
#   "logfire==4.41.0",
#   "openai==2.54.0",
#   "opentelemetry-exporter-otlp-proto-http==1.44.0",
# ]
# [tool.capture.logfire_openai]
# ///

import chat_loop
import logfire

logfire.configure(send_to_logfire=False, service_name="shop", console=False, scrubbing=False)
logfire.instrument_openai()
with logfire.span("refunds"):
    print(chat_loop.run())
logfire.shutdown()
