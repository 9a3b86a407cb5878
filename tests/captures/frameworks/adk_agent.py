"""An agent of Google's ADK over Gemini's wire; a tool that fails returns a status."""

import asyncio
import os

import shop
from google.adk.agents import Agent
from google.adk.runners import InMemoryRunner
from google.genai import types

os.environ["GOOGLE_API_KEY"] = "none"
os.environ["GOOGLE_GEMINI_BASE_URL"] = shop.MODEL_URL


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


def run() -> None:
    asyncio.run(_events())


async def _events() -> None:
    runner = InMemoryRunner(agent=agent, app_name="shop")
    session = await runner.session_service.create_session(app_name="shop", user_id="customer")
    message = types.Content(role="user", parts=[types.Part(text=shop.TASK)])
    async for event in runner.run_async(
        user_id="customer", session_id=session.id, new_message=message
    ):
        print(event.content)
