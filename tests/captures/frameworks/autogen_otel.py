"""AutoGen's own spans of agents and tools, with OpenTelemetry's of the OpenAI client below."""

# /// script
# dependencies = [
#   "autogen-agentchat==0.7.5",
#   "autogen-ext[openai]==0.7.5",
#   "openai==2.54.0",
#   "opentelemetry-instrumentation-openai-v2==2.4b0",
#   "opentelemetry-util-genai==1.1b0",
#   "opentelemetry-exporter-otlp-proto-http==1.45.2",
# ]
# [tool.capture.autogen_otel]
# not_in_the_file = ["cache_read_tokens"]
# [tool.capture.autogen_otel.env]
# OTEL_SEMCONV_STABILITY_OPT_IN = "gen_ai_latest_experimental"
# OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT = "SPAN_ONLY"
# ///

import asyncio

from autogen_agentchat.agents import AssistantAgent
from autogen_ext.models.openai import OpenAIChatCompletionClient
from opentelemetry.instrumentation.openai_v2 import OpenAIInstrumentor
from shop import MODEL, MODEL_URL, SYSTEM, TASK, get_order, refund_order, tracer_provider

provider = tracer_provider()
OpenAIInstrumentor().instrument(tracer_provider=provider)


async def main() -> None:
    agent = AssistantAgent(
        name="shop",
        model_client=OpenAIChatCompletionClient(
            model=MODEL, base_url=f"{MODEL_URL}/v1", api_key="none"
        ),
        system_message=SYSTEM,
        tools=[get_order, refund_order],
        max_tool_iterations=5,
    )
    with provider.get_tracer("shop").start_as_current_span("refunds"):
        result = await agent.run(task=TASK)
    print(result.messages[-1])


asyncio.run(main())
provider.shutdown()
