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

import langchain_agent
from opentelemetry.instrumentation.langchain import LangchainInstrumentor
from opentelemetry.instrumentation.openai import OpenAIInstrumentor
from shop import tracer_provider

provider = tracer_provider()
LangchainInstrumentor().instrument(tracer_provider=provider)
OpenAIInstrumentor().instrument(tracer_provider=provider)
langchain_agent.run(streamed=False)
provider.shutdown()
