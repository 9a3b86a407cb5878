"""What can go wrong between a client and the API, each under the name tests call it by."""

from __future__ import annotations

import json
import re

from msgspec import Struct

STREAM_CUTS = frozenset({"error", "dropped", "closed", "end", "in tool", "in event"})
"""The breaks that only a stream can show."""


class Fault(Struct, frozen=True, kw_only=True):
    """What goes wrong with one request.

    `status` with `headers` and `body` answers so; otherwise `cut` names how the exchange breaks:
    "reset" the connection, "truncated" body, "slow" (until the server is left), and for a stream
    "error" event, connection "dropped" by RST or "closed" in between, a clean "end" before the last
    event, an end "in tool" arguments or "in event", the last one half sent. `path` is a pattern of
    the paths it may befall.
    """

    status: int = 200
    headers: dict[str, str] = {}
    body: str | None = None
    cut: str = ""
    path: str = ".*"

    def befalls(self, path: str) -> bool:
        return re.fullmatch(self.path, path) is not None

    @property
    def sent(self) -> str:
        """The body that goes out in place of an answer."""
        return self.body or error(_KINDS.get(self.status, "api_error"), "scripted")


MESSAGES = "/v1/messages"
BATCHES = "/v1/messages/batches"
ONE_BATCH = "/v1/messages/batches/[^/]+"
BATCH_RESULTS = "/v1/messages/batches/[^/]+/results"
"""Paths a fault can be limited to."""

_KINDS = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    422: "invalid_request_error",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}


def error(kind: str, said: str) -> str:
    """An error as the API words it."""
    return json.dumps({"type": "error", "error": {"type": kind, "message": said}})


_OPENAI = json.dumps(
    {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "model": "gpt-4o",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "Done."},
                "finish_reason": "stop",
            }
        ],
        "usage": {"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 11},
    }
)

FAULTS: dict[str, Fault] = {
    "busy for a second": Fault(status=429, headers={"retry-after": "1"}),
    "busy for milliseconds": Fault(status=429, headers={"retry-after-ms": "250"}),
    "busy until a date": Fault(
        status=429, headers={"retry-after": "Sun, 09 Sep 2001 01:46:43 GMT"}
    ),
    "busy, do not retry": Fault(status=429, headers={"x-should-retry": "false"}),
    "overloaded": Fault(status=529),
    "server error": Fault(status=500),
    "bad gateway": Fault(status=502, body="<html>Bad gateway</html>"),
    "bad request": Fault(status=400),
    "too large": Fault(status=413),
    "no key": Fault(status=401),
    "web page": Fault(body="<html>Sign in</html>"),
    "web page called JSON": Fault(
        body="<html>Sign in</html>", headers={"content-type": "application/json"}
    ),
    "wrong shape": Fault(body='{"type": "message"}'),
    "openai body": Fault(body=_OPENAI),
    "truncated": Fault(cut="truncated"),
    "reset": Fault(cut="reset"),
    "slow": Fault(cut="slow"),
    "stream error": Fault(cut="error"),
    "stream dropped": Fault(cut="dropped"),
    "stream closed": Fault(cut="closed"),
    "stream ends early": Fault(cut="end"),
    "stream ends in arguments": Fault(cut="in tool"),
    "stream ends in an event": Fault(cut="in event"),
}
"""Every way we know of, one of each. 1 000 000 000 seconds is three before the date."""
