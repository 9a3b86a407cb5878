"""LangChain's agent with the two tools, streamed."""

from langchain.agents import create_agent
from langchain.agents.middleware import wrap_tool_call
from langchain_core.messages import ToolMessage
from langchain_openai import ChatOpenAI
from shop import MODEL, MODEL_URL, SYSTEM, TASK, get_order, refund_order


@wrap_tool_call
def told(request, handler):
    """The model is told of an error."""
    try:
        return handler(request)
    except ValueError as error:
        return ToolMessage(
            content=f"Error: {error}", tool_call_id=request.tool_call["id"], status="error"
        )


def run(*, streamed: bool = True, callbacks=()) -> None:
    agent = create_agent(
        ChatOpenAI(model=MODEL, base_url=f"{MODEL_URL}/v1", api_key="none", streaming=streamed),
        tools=[get_order, refund_order],
        system_prompt=SYSTEM,
        middleware=[told],
        name="shop",
    )
    asked = {"messages": [{"role": "user", "content": TASK}]}
    print(agent.invoke(asked, config={"callbacks": list(callbacks)})["messages"][-1])
