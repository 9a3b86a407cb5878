"""What every script shares: the task, the two tools, and a tracer that posts to the sink.

The tools write down what they really returned, which is the truth of a capture.
"""

import json
import os
from typing import Any

SYSTEM = "You are a shop agent. Look up an order before you refund it."
TASK = "Refund my orders 1049 and 1050 please."
MODEL = "gpt-4o-mini"
MODEL_URL = os.environ["CAPTURE_MODEL_URL"]
SINK_URL = os.environ["CAPTURE_SINK_URL"]

ORDERS = {
    "1049": {"order_id": "1049", "status": "shipped", "total_cents": 4250},
    "1050": {"order_id": "1050", "status": "delivered", "total_cents": 990},
}


def get_order(order_id: str) -> str:
    """Look up an order.

    Args:
        order_id: the order's number
    """
    if order_id not in ORDERS:
        raise _failed("get_order", {"order_id": order_id}, order_id)
    found = json.dumps(ORDERS[order_id])
    _note("get_order", {"order_id": order_id}, result=found)
    return found


def refund_order(order_id: str, amount: int) -> str:
    """Refund an order.

    Args:
        order_id: the order's number
        amount: in cents
    """
    given = {"order_id": order_id, "amount": amount}
    if order_id not in ORDERS:
        raise _failed("refund_order", given, order_id)
    _note("refund_order", given, result="refunded")
    return "refunded"


def tracer_provider(service: str = "shop") -> Any:
    """A provider that posts to the sink, one request a run; flush it with `shutdown`."""
    from opentelemetry import trace
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    provider = TracerProvider(resource=Resource({"service.name": service}))
    exporter = OTLPSpanExporter(endpoint=f"{SINK_URL}/v1/traces")
    provider.add_span_processor(BatchSpanProcessor(exporter, schedule_delay_millis=600_000))
    trace.set_tracer_provider(provider)
    return provider


def logger_provider(service: str = "shop") -> Any:
    """The same for log records."""
    from opentelemetry._logs import set_logger_provider
    from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
    from opentelemetry.sdk._logs import LoggerProvider
    from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
    from opentelemetry.sdk.resources import Resource

    provider = LoggerProvider(resource=Resource({"service.name": service}))
    exporter = OTLPLogExporter(endpoint=f"{SINK_URL}/v1/logs")
    provider.add_log_record_processor(
        BatchLogRecordProcessor(exporter, schedule_delay_millis=600_000)
    )
    set_logger_provider(provider)
    return provider


def tools_json() -> list[dict[str, Any]]:
    """The two tools as the OpenAI chat API takes them."""
    text, number = {"type": "string"}, {"type": "integer"}
    return [
        _tool("get_order", "Look up an order.", {"order_id": text}),
        _tool("refund_order", "Refund an order.", {"order_id": text, "amount": number}),
    ]


def _tool(name: str, description: str, fields: dict[str, Any]) -> dict[str, Any]:
    schema = {"type": "object", "properties": fields, "required": list(fields)}
    function = {"name": name, "description": description, "parameters": schema}
    return {"type": "function", "function": function}


def _failed(name: str, arguments: dict[str, Any], order_id: str) -> ValueError:
    said = f"no such order: {order_id}"
    _note(name, arguments, error=said)
    return ValueError(said)


def _note(name: str, arguments: dict[str, Any], **came: str) -> None:
    line = json.dumps({"name": name, "arguments": arguments, **came})
    with open(os.environ["CAPTURE_CALLS"], "a") as file:
        file.write(line + "\n")
