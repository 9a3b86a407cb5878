"""Google's ADK with its own spans, over Gemini's wire; a tool that fails returns a status."""

# /// script
# dependencies = [
#   "google-adk==2.13.0",
#   "opentelemetry-exporter-otlp-proto-http==1.44.0",
# ]
# [tool.capture.google_adk_otel]
# [tool.capture.google_adk_otel.env]
# OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT = "SPAN_ONLY"
# [tool.capture.google_adk_old_schema]
# [tool.capture.google_adk_old_schema.env]
# ADK_TELEMETRY_SCHEMA_VERSION_OPT_IN = "1"
# [tool.capture.google_adk_no_contents]
# not_in_the_file = ["messages", "words of errors"]
# ///

import asyncio
import os

import shop
from google.adk.agents import Agent
from google.adk.runners import InMemoryRunner
from google.genai import types

os.environ["GOOGLE_API_KEY"] = "none"
os.environ["GOOGLE_GEMINI_BASE_URL"] = shop.MODEL_URL

provider = shop.tracer_provider()


def refund_order(order_id: str, amount: int) -> dict:
    """Refund an order.

    Args:
        order_id: the order's number
        amount: in cents
    """
    try:
        return {"status": "success", "report": shop.refund_order(order_id, amount)}
    except ValueError as error:
        return {"status": "error", "error_message": str(error)}


agent = Agent(
    name="shop",
    model="gemini-2.5-flash",
    instruction=shop.SYSTEM,
    tools=[shop.get_order, refund_order],
)


async def main() -> None:
    runner = InMemoryRunner(agent=agent, app_name="shop")
    session = await runner.session_service.create_session(app_name="shop", user_id="customer")
    message = types.Content(role="user", parts=[types.Part(text=shop.TASK)])
    async for event in runner.run_async(
        user_id="customer", session_id=session.id, new_message=message
    ):
        print(event.content)


asyncio.run(main())
provider.shutdown()
