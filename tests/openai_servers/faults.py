"""What can go wrong between a client and OpenAI's APIs, under the names tests call it by."""

from __future__ import annotations

import json

from tests.messages_api.faults import FAULTS as OF_MESSAGES
from tests.messages_api.faults import Fault
from tests.openai_servers.shape import Refused

CHAT = "/v1/chat/completions"
RESPONSES = "/v1/responses"
"""Paths a fault can be limited to."""

_KINDS = {401: "invalid_request_error", 403: "invalid_request_error", 429: "requests"}


def error(status: int, message: str, kind: str | None = None, code: str | None = None) -> str:
    """An error as OpenAI words it."""
    default = "server_error" if status >= 500 else "invalid_request_error"
    return json.dumps(
        Refused(message, None, code, status, kind or _KINDS.get(status, default)).body
    )


def _fault(status: int, message: str, code: str | None = None, **headers: str) -> Fault:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    kind = "insufficient_quota" if code == "insufficient_quota" else None
    return Fault(status=status, headers=named, body=error(status, message, kind, code))


_BUSY = "Rate limit reached for gpt-test in organization org-test on requests per min (RPM)"
_LIMITED = "rate_limit_exceeded"
_ANTHROPIC = json.dumps(
    {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-test",
        "content": [{"type": "text", "text": "Done."}],
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 9, "output_tokens": 2},
    }
)
_AS_THERE = (
    "web page", "web page called JSON", "bad gateway", "truncated", "reset", "slow",
    "stream error", "stream dropped", "stream closed", "stream ends early",
    "stream ends in arguments", "stream ends in an event",
)  # fmt: skip

FAULTS: dict[str, Fault] = {
    **{name: OF_MESSAGES[name] for name in _AS_THERE},
    "busy for a second": _fault(429, _BUSY, _LIMITED, retry_after="1"),
    "busy for milliseconds": _fault(429, _BUSY, _LIMITED, retry_after_ms="250"),
    "busy, do not retry": _fault(429, _BUSY, _LIMITED, x_should_retry="false"),
    "no quota": _fault(
        429,
        "You exceeded your current quota, please check your plan and billing details.",
        "insufficient_quota",
    ),
    "server error": _fault(500, "The server had an error while processing your request."),
    "overloaded": _fault(503, "The engine is currently overloaded, please try again later."),
    "bad request": _fault(400, "scripted"),
    "no key": _fault(401, "Incorrect API key provided: local.", "invalid_api_key"),
    "too large": _fault(413, "Request too large."),
    "wrong shape": Fault(body='{"object": "chat.completion"}'),
    "anthropic body": Fault(body=_ANTHROPIC),
}
"""Every way we know of, one of each."""
