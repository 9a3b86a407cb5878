"""Strands Agents with its own spans, contents in span events, streamed: over the OpenAI wire,
and over Anthropic's."""

# /// script
# dependencies = ["strands-agents[openai,anthropic,otel]==1.62.0"]
# [tool.capture.strands_otel]
# [tool.capture.strands_anthropic]
# [tool.capture.strands_anthropic.env]
# ANTHROPIC = "1"
# [tool.capture.strands_otel_latest]
# [tool.capture.strands_otel_latest.env]
# OTEL_SEMCONV_STABILITY_OPT_IN = "gen_ai_latest_experimental,gen_ai_tool_definitions"
# ///

import os

from shop import MODEL, MODEL_URL, SYSTEM, TASK, get_order, refund_order, tracer_provider
from strands import Agent, tool
from strands.models.anthropic import AnthropicModel
from strands.models.openai import OpenAIModel

provider = tracer_provider()
if "ANTHROPIC" in os.environ:
    model = AnthropicModel(
        client_args={"base_url": MODEL_URL, "api_key": "none"},
        model_id="claude-haiku-4-5",
        max_tokens=1000,
    )
else:
    model = OpenAIModel(
        client_args={"base_url": f"{MODEL_URL}/v1", "api_key": "none"}, model_id=MODEL
    )
agent = Agent(
    name="shop",
    model=model,
    system_prompt=SYSTEM,
    tools=[tool(get_order), tool(refund_order)],
    callback_handler=None,
)
print(agent(TASK))
provider.shutdown()
