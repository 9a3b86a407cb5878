"""Semantic Kernel with its own spans; contents are log records, as its docs set them up."""

# /// script
# dependencies = [
#   "semantic-kernel==1.45.0",
#   "opentelemetry-exporter-otlp-proto-http==1.45.2",
# ]
# [tool.capture.semantic_kernel_otel]
# not_in_the_file = ["cache_read_tokens"]
# [tool.capture.semantic_kernel_otel.env]
# SEMANTICKERNEL_EXPERIMENTAL_GENAI_ENABLE_OTEL_DIAGNOSTICS_SENSITIVE = "true"
# [tool.capture.semantic_kernel_no_contents]
# not_in_the_file = ["cache_read_tokens", "messages"]
# [tool.capture.semantic_kernel_no_contents.env]
# SEMANTICKERNEL_EXPERIMENTAL_GENAI_ENABLE_OTEL_DIAGNOSTICS = "true"
# ///

import asyncio
import logging

from openai import AsyncOpenAI
from opentelemetry.sdk._logs import LoggingHandler
from semantic_kernel.agents import ChatCompletionAgent
from semantic_kernel.connectors.ai.open_ai import OpenAIChatCompletion
from semantic_kernel.functions import kernel_function
from shop import MODEL, MODEL_URL, SYSTEM, TASK, logger_provider, tracer_provider
from shop import get_order as look_up
from shop import refund_order as refund


class Shop:
    """The two tools as a plugin."""

    @kernel_function(description="Look up an order.")
    def get_order(self, order_id: str) -> str:
        return look_up(order_id)

    @kernel_function(description="Refund an order.")
    def refund_order(self, order_id: str, amount: int) -> str:
        return refund(order_id, amount)


provider, logs = tracer_provider(), logger_provider()
handler = LoggingHandler(logger_provider=logs)
handler.addFilter(logging.Filter("semantic_kernel"))
logging.getLogger().addHandler(handler)
logging.getLogger().setLevel(logging.INFO)
client = AsyncOpenAI(base_url=f"{MODEL_URL}/v1", api_key="none")
agent = ChatCompletionAgent(
    service=OpenAIChatCompletion(ai_model_id=MODEL, async_client=client),
    name="shop",
    instructions=SYSTEM,
    plugins=[Shop()],
)
print(asyncio.run(agent.get_response(messages=TASK)))
provider.shutdown()
logs.shutdown()
