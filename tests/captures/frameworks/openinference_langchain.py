"""LangChain's agent, streamed, told by OpenInference: by its instrumentation of LangChain, and by
that of the OpenAI client as well."""

# /// script
# dependencies = [
#   "langchain==1.4.7",
#   "langchain-openai==1.7.3",
#   "openai==2.54.0",
#   "openinference-instrumentation-langchain==0.1.80",
#   "openinference-instrumentation-openai==0.1.66",
#   "opentelemetry-exporter-otlp-proto-http==1.45.2",
# ]
# [tool.capture.openinference_langchain]
# not_in_the_file = ["tokens and cost: the client does not ask for a stream's usage"]
# [tool.capture.langchain_told_twice]
# not_in_the_file = ["tokens and cost: the client does not ask for a stream's usage"]
# note = "The client's spans are traces of their own: LangChain's instrumentation sets no context."
# [tool.capture.langchain_told_twice.env]
# TWICE = "1"
# ///

import os

import langchain_agent
from openinference.instrumentation.langchain import LangChainInstrumentor
from openinference.instrumentation.openai import OpenAIInstrumentor
from shop import tracer_provider

provider = tracer_provider()
LangChainInstrumentor().instrument(tracer_provider=provider)
if "TWICE" in os.environ:
    OpenAIInstrumentor().instrument(tracer_provider=provider)
langchain_agent.run()
provider.shutdown()
