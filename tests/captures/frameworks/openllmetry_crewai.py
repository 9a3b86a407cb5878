"""CrewAI told by OpenLLMetry's instrumentations, of CrewAI and of the OpenAI client."""

# /// script
# dependencies = [
#   "crewai==1.15.30",
#   "opentelemetry-instrumentation-crewai==0.62.4",
#   "opentelemetry-instrumentation-openai==0.62.4",
# ]
# [tool.capture.openllmetry_crewai]
# ///

import crew
from opentelemetry.instrumentation.crewai import CrewAIInstrumentor
from opentelemetry.instrumentation.openai import OpenAIInstrumentor
from shop import tracer_provider

provider = tracer_provider()
CrewAIInstrumentor().instrument(tracer_provider=provider)
OpenAIInstrumentor().instrument(tracer_provider=provider)
crew.run()
provider.shutdown()
