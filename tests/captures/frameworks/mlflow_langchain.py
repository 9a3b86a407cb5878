"""LangChain's agent traced by MLflow's autologging, which posts OTLP."""

# /// script
# dependencies = [
#   "mlflow==3.17.2",
#   "langchain==1.4.7",
#   "langchain-openai==1.7.3",
#   "opentelemetry-exporter-otlp-proto-http==1.45.2",
# ]
# [tool.capture.mlflow_langchain]
# not_in_the_file = ["stop reasons of an answer: MLflow writes null for them"]
# ///

import langchain_agent
import mlflow

mlflow.langchain.autolog()
langchain_agent.run(streamed=False)
mlflow.flush_trace_async_logging()
