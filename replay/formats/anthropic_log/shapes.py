"""Does a JSON value stand in a log of the Messages API, and in nobody else's?"""

from __future__ import annotations

import re

from replay.formats.anthropic_log import stream
from replay.formats.fields import listed, obj, word
from replay.trace import Json


def is_record(value: Json) -> bool:
    """Does this JSON value stand in a log of the Messages API?"""
    if not isinstance(value, dict):
        return False
    if isinstance(value.get("custom_id"), str):
        params = obj(value.get("params"))
        return _ended(obj(value.get("result")).get("type")) or "messages" in params
    if isinstance(value.get("request"), dict):
        return _is_call(value["request"], value)
    if value.get("type") == stream.STARTS:
        return isinstance(value.get("message"), dict)
    return value.get("type") == "message" and _is_message(value)


def _ended(kind: Json) -> bool:
    return kind in ("succeeded", "errored", "canceled", "expired")


def _is_call(request: dict[str, Json], pair: dict[str, Json]) -> bool:
    url = word(request.get("url"))
    body = obj(request.get("body")) if "body" in request or url else request
    if url is not None and not re.search(r"anthropic|/messages|/model/", url):
        return False
    response = obj(pair.get("response"))
    if "choices" in response or "output" in response:  # another provider's answer
        return False
    if url is not None and "anthropic" in url:  # also what is no call of a model: it is skipped
        return True
    if not isinstance(body.get("messages"), list) or "response" not in pair:
        return False
    answered = _is_message(response) or response.get("type") == "error" or "status_code" in response
    return answered or (not response and "max_tokens" in body)


def _is_message(body: dict[str, Json]) -> bool:
    return body.get("role") == "assistant" and bool(listed(body.get("content")) or "usage" in body)
