"""LangChain's agent told by Langfuse's callback, posted to Langfuse's own path."""

# /// script
# dependencies = ["langfuse==5.0.4", "langchain==1.4.7", "langchain-openai==1.7.3"]
# [tool.capture.langfuse_langchain]
# not_in_the_file = ["stop reasons of a generation: they stand in what the node above returned"]
# [tool.capture.langfuse_langchain.env]
# LANGFUSE_PUBLIC_KEY = "pk-lf-none"
# LANGFUSE_SECRET_KEY = "sk-lf-none"
# LANGFUSE_FLUSH_AT = "500"
# LANGFUSE_FLUSH_INTERVAL = "600"
# ///

import os

from shop import SINK_URL

os.environ["LANGFUSE_BASE_URL"] = os.environ["LANGFUSE_HOST"] = SINK_URL

import langchain_agent
from langfuse import get_client
from langfuse.langchain import CallbackHandler

get_client()
langchain_agent.run(streamed=False, callbacks=[CallbackHandler()])
get_client().shutdown()
