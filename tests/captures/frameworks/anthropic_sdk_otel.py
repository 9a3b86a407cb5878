"""Anthropic's SDK with its own spans: its tool runner, which sends only what is new."""

# /// script
# dependencies = [
#   "anthropic==2.12.0",
#   "opentelemetry-exporter-otlp-proto-http==1.45.2",
# ]
# [tool.capture.anthropic_sdk_otel]
# [tool.capture.anthropic_sdk_otel.env]
# ANTHROPIC_OPEN_TELEMETRY_TRACES_CONTENT_MODE = "content"
# ///

from anthropic import Anthropic, beta_tool
from shop import MODEL_URL, SYSTEM, TASK, get_order, refund_order, tracer_provider

provider = tracer_provider()
client = Anthropic(base_url=MODEL_URL, api_key="none")
runner = client.beta.messages.tool_runner(
    model="claude-haiku-4-5",
    max_tokens=1000,
    system=SYSTEM,
    messages=[{"role": "user", "content": TASK}],
    tools=[beta_tool(get_order), beta_tool(refund_order)],
)
print(runner.until_done())
provider.shutdown()
