"""The events of a stream, from its bytes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from replay.errors import BadTrace
from replay.formats.intake import decode


def events(body: bytes) -> Iterator[dict[str, Any]]:
    """The JSON objects of a stream of server-sent events; what is none (`[DONE]`) is left out.

    Lines end where the protocol says: the text of an answer may hold what Unicode calls the end
    of a line.
    """
    for line in body.splitlines():
        if not line.startswith(b"data:"):
            continue
        try:
            event = decode(line[5:], "", "")
        except BadTrace:
            continue
        if isinstance(event, dict):
            yield event


def looks_streamed(body: bytes) -> bool:
    """Is this a stream whatever its header says?"""
    return body.lstrip()[:6].startswith((b"event:", b"data:"))
