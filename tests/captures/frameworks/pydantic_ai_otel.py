"""Pydantic AI with its own instrumentation; it records contents unless told not to."""

# /// script
# dependencies = [
#   "pydantic-ai-slim[openai]==2.68.0",
#   "opentelemetry-sdk==1.45.2",
#   "opentelemetry-exporter-otlp-proto-http==1.45.2",
# ]
# [tool.capture.pydantic_ai_otel]
# ///

from pydantic_ai import Agent, InstrumentationSettings, ModelRetry
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
from shop import MODEL, MODEL_URL, SYSTEM, TASK, get_order, refund_order, tracer_provider

provider = tracer_provider()
model = OpenAIChatModel(MODEL, provider=OpenAIProvider(base_url=f"{MODEL_URL}/v1", api_key="none"))
agent = Agent(
    model,
    name="shop",
    instructions=SYSTEM,
    tools=[get_order],
)


agent.instrument = InstrumentationSettings(tracer_provider=provider)


@agent.tool_plain(name="refund_order")
def refund(order_id: str, amount: int) -> str:
    """Refund an order; the model is told of an error and may try again."""
    try:
        return refund_order(order_id, amount)
    except ValueError as error:
        raise ModelRetry(str(error)) from error


print(agent.run_sync(TASK).output)
provider.shutdown()
