"""LangChain's agent told by OpenLLMetry's instrumentations, of LangChain and of the OpenAI client;
they record contents unless told not to."""

# /// script
# dependencies = [
#   "langchain==1.4.7",
#   "langchain-openai==1.7.3",
#   "opentelemetry-instrumentation-langchain==0.62.4",
#   "opentelemetry-instrumentation-openai==0.62.4",
#   "opentelemetry-exporter-otlp-proto-http==1.45.2",
# ]
# [tool.capture.openllmetry_langchain]
# ///

from langchain.agents import create_agent
from langchain.agents.middleware import wrap_tool_call
from langchain_core.messages import ToolMessage
from langchain_openai import ChatOpenAI
from opentelemetry.instrumentation.langchain import LangchainInstrumentor
from opentelemetry.instrumentation.openai import OpenAIInstrumentor
from shop import MODEL, MODEL_URL, SYSTEM, TASK, get_order, refund_order, tracer_provider

provider = tracer_provider()
LangchainInstrumentor().instrument(tracer_provider=provider)
OpenAIInstrumentor().instrument(tracer_provider=provider)


@wrap_tool_call
def told(request, handler):
    """The model is told of an error."""
    try:
        return handler(request)
    except ValueError as error:
        return ToolMessage(
            content=f"Error: {error}", tool_call_id=request.tool_call["id"], status="error"
        )


agent = create_agent(
    ChatOpenAI(model=MODEL, base_url=f"{MODEL_URL}/v1", api_key="none"),
    tools=[get_order, refund_order],
    system_prompt=SYSTEM,
    middleware=[told],
    name="shop",
)
print(agent.invoke({"messages": [{"role": "user", "content": TASK}]})["messages"][-1])
provider.shutdown()
