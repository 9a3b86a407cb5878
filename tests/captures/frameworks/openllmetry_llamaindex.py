"""LlamaIndex's agent, streamed, told by OpenLLMetry's instrumentations, of LlamaIndex and of the
OpenAI client."""

# /// script
# dependencies = [
#   "llama-index-core==0.14.25",
#   "llama-index-llms-openai==0.8.3",
#   "opentelemetry-instrumentation-llamaindex==0.62.4",
#   "opentelemetry-instrumentation-openai==0.62.4",
#   "opentelemetry-exporter-otlp-proto-http==1.45.2",
# ]
# [tool.capture.openllmetry_llamaindex]
# ///

import asyncio

from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.tools import FunctionTool
from llama_index.llms.openai import OpenAI
from opentelemetry.instrumentation.llamaindex import LlamaIndexInstrumentor
from opentelemetry.instrumentation.openai import OpenAIInstrumentor
from shop import MODEL, MODEL_URL, SYSTEM, TASK, get_order, refund_order, tracer_provider

provider = tracer_provider()
LlamaIndexInstrumentor().instrument(tracer_provider=provider)
OpenAIInstrumentor().instrument(tracer_provider=provider)


async def main() -> None:
    agent = FunctionAgent(
        name="shop",
        system_prompt=SYSTEM,
        llm=OpenAI(model=MODEL, api_base=f"{MODEL_URL}/v1", api_key="none"),
        tools=[FunctionTool.from_defaults(get_order), FunctionTool.from_defaults(refund_order)],
        streaming=False,
    )
    print(await agent.run(TASK))


asyncio.run(main())
provider.shutdown()
