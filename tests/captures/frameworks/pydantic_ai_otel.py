"""Pydantic AI with its own instrumentation, which records contents unless told not to: over the
OpenAI wire, streamed over Anthropic's, and without contents."""

# /// script
# dependencies = [
#   "pydantic-ai-slim[openai,anthropic]==2.68.0",
#   "opentelemetry-sdk==1.45.2",
#   "opentelemetry-exporter-otlp-proto-http==1.45.2",
# ]
# [tool.capture.pydantic_ai_otel]
# [tool.capture.pydantic_ai_streamed]
# [tool.capture.pydantic_ai_streamed.env]
# STREAMED = "1"
# [tool.capture.pydantic_ai_no_contents]
# not_in_the_file = ["messages"]
# [tool.capture.pydantic_ai_no_contents.env]
# NO_CONTENTS = "1"
# ///

import asyncio
import os

from pydantic_ai import Agent, InstrumentationSettings, ModelRetry
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider
from shop import MODEL, MODEL_URL, SYSTEM, TASK, get_order, refund_order, tracer_provider

provider = tracer_provider()
openai = OpenAIChatModel(MODEL, provider=OpenAIProvider(base_url=f"{MODEL_URL}/v1", api_key="none"))
anthropic = AnthropicModel(
    "claude-haiku-4-5", provider=AnthropicProvider(base_url=MODEL_URL, api_key="none")
)
streamed = "STREAMED" in os.environ
agent = Agent(
    anthropic if streamed else openai, name="shop", instructions=SYSTEM, tools=[get_order]
)
agent.instrument = InstrumentationSettings(
    tracer_provider=provider, include_content="NO_CONTENTS" not in os.environ
)


@agent.tool_plain(name="refund_order")
def refund(order_id: str, amount: int) -> str:
    """Refund an order; the model is told of an error and may try again."""
    try:
        return refund_order(order_id, amount)
    except ValueError as error:
        raise ModelRetry(str(error)) from error


async def main() -> None:
    if not streamed:
        print((await agent.run(TASK)).output)
        return
    async with agent.run_stream(TASK) as result:
        async for text in result.stream_text():
            print(text)


asyncio.run(main())
provider.shutdown()
