"""Asking the test server without the SDK: what it cannot send, and what it would hide."""

from __future__ import annotations

import http.client
import json
from typing import Any

from tests.messages_api import BATCHES, MESSAGES, VERSION, Body, MessagesApi

HEADERS = {"authorization": "Bearer local", "anthropic-version": VERSION}


def exchange(
    api: MessagesApi,
    path: str,
    body: Any = None,
    *,
    method: str | None = None,
    headers: dict[str, str] | None = None,
) -> tuple[int, dict[str, str], bytes]:
    """Status, headers and raw body of one request; GET where there is nothing to send.

    A body of bytes goes out as it is.
    """
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    host = api.base_url.removeprefix("http://")
    connection = http.client.HTTPConnection(host, timeout=300)
    try:
        connection.request(
            method or ("GET" if body is None else "POST"),
            path,
            None if body is None else raw,
            HEADERS if headers is None else headers,
        )
        reply = connection.getresponse()
        return reply.status, {n.lower(): v for n, v in reply.getheaders()}, reply.read()
    finally:
        connection.close()


def call(api: MessagesApi, path: str, body: Any = None, **beside: Any) -> tuple[int, Body]:
    """Status and JSON of one request."""
    status, _, raw = exchange(api, path, body, **beside)
    return status, json.loads(raw)


def ask(api: MessagesApi, body: Body, *betas: str) -> tuple[int, Body]:
    """Ask for a message."""
    return call(api, MESSAGES, body, headers={**HEADERS, "anthropic-beta": ",".join(betas)})


def send_batch(api: MessagesApi, items: dict[str, Body]) -> Body:
    """The new batch of some params by their custom_id."""
    requests = [{"custom_id": name, "params": params} for name, params in items.items()]
    status, made = call(api, BATCHES, {"requests": requests})
    assert status == 200, made
    return made


def results_of(api: MessagesApi, items: dict[str, Body]) -> dict[str, Body]:
    """The results of a batch by custom_id, in the order they came."""
    path = f"{BATCHES}/{send_batch(api, items)['id']}"
    while call(api, path)[1]["processing_status"] != "ended":
        pass
    lines = exchange(api, f"{path}/results")[2].decode().splitlines()
    return {each["custom_id"]: each["result"] for each in map(json.loads, lines)}
