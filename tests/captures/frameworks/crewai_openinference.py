"""CrewAI told by OpenInference's two instrumentations, of CrewAI and of the OpenAI client, as its
docs set them up."""

# /// script
# dependencies = [
#   "crewai==1.15.30",
#   "openinference-instrumentation-crewai==1.1.21",
#   "openinference-instrumentation-openai==0.1.66",
# ]
# [tool.capture.crewai_openinference]
# ///

import os

os.environ["CREWAI_DISABLE_TELEMETRY"] = "true"
os.environ["CREWAI_TRACING_ENABLED"] = "false"

from crewai import LLM, Agent, Crew, Task
from crewai.tools import tool
from openinference.instrumentation.crewai import CrewAIInstrumentor
from openinference.instrumentation.openai import OpenAIInstrumentor
from shop import MODEL, MODEL_URL, SYSTEM, TASK, get_order, refund_order, tracer_provider

provider = tracer_provider()
CrewAIInstrumentor().instrument(tracer_provider=provider)
OpenAIInstrumentor().instrument(tracer_provider=provider)
agent = Agent(
    role="Shop agent",
    goal="Serve the shop's customers.",
    backstory=SYSTEM,
    llm=LLM(model=f"openai/{MODEL}", base_url=f"{MODEL_URL}/v1", api_key="none"),
    tools=[tool("get_order")(get_order), tool("refund_order")(refund_order)],
)
task = Task(description=TASK, expected_output="What was refunded.", agent=agent)
print(Crew(agents=[agent], tasks=[task]).kickoff())
provider.shutdown()
