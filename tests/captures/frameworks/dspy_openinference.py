"""DSPy's ReAct told by OpenInference. Its calls of tools stand in texts."""

# /// script
# dependencies = [
#   "dspy==3.4.1",
#   "openinference-instrumentation-dspy==0.1.48",
#   "opentelemetry-exporter-otlp-proto-http==1.45.2",
# ]
# [tool.capture.dspy_openinference]
# not_in_the_file = [
#   "which answer asked for a call: the program reads calls out of texts",
#   "tokens, cost and stop reasons",
# ]
# ///

import dspy
from openinference.instrumentation.dspy import DSPyInstrumentor
from shop import MODEL, MODEL_URL, SYSTEM, TASK, get_order, refund_order, tracer_provider

provider = tracer_provider()
DSPyInstrumentor().instrument(tracer_provider=provider)
dspy.configure(
    lm=dspy.LM(f"openai/{MODEL}", api_base=f"{MODEL_URL}/v1", api_key="none", cache=False)
)
agent = dspy.ReAct(
    dspy.Signature("task -> answer", SYSTEM), tools=[get_order, refund_order], max_iters=3
)
print(agent(task=TASK).answer)
provider.shutdown()
