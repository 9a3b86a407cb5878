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

import crew
from openinference.instrumentation.crewai import CrewAIInstrumentor
from openinference.instrumentation.openai import OpenAIInstrumentor
from shop import tracer_provider

provider = tracer_provider()
CrewAIInstrumentor().instrument(tracer_provider=provider)
OpenAIInstrumentor().instrument(tracer_provider=provider)
crew.run()
provider.shutdown()
