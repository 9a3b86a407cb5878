"""A plain loop traced by MLflow's SDK (autologging and decorators), which posts OTLP."""

# /// script
# dependencies = [
#   "mlflow==3.17.2",
#   "openai==2.54.0",
#   "opentelemetry-exporter-otlp-proto-http==1.45.2",
# ]
# [tool.capture.mlflow_otlp]
# ///

import chat_loop
import mlflow
from shop import TASK

mlflow.openai.autolog()


@mlflow.trace(name="shop", span_type="AGENT")
def shop(task: str) -> str:
    return chat_loop.run(wrap=mlflow.trace(span_type="TOOL"))


print(shop(TASK))
mlflow.flush_trace_async_logging()
