"""A `model` event decoded: in one piece, but for its long fields, which stay bytes.

A call may repeat the whole conversation, all tools and all that went over the wire; most of it is
the same as in the call before or said elsewhere in the event, and never becomes a value.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw, Struct

from replay.formats.inspect.attachments import Attachments
from replay.formats.inspect.record import parts
from replay.formats.intake import Tally
from replay.trace import Json

_ABSENT = Raw(b"null")


class ModelEvent(Struct):
    """What a model event says; None, or null in bytes, is what it does not say."""

    model: Json = None
    role: Json = None
    requested_model: Json = None
    input_refs: Json = None
    output: Json = None
    error: Json = None
    traceback: Json = None
    cache: Json = None
    retries: Json = None
    attempt: Json = None
    call_id: Json = None
    pending: Json = None
    working_start: Json = None
    working_time: Json = None
    metadata: Json = None
    input: Raw = _ABSENT
    tools: Raw = _ABSENT
    tool_choice: Raw = _ABSENT
    config: Raw = _ABSENT
    call: Raw = _ABSENT
    # known to its node, or of no use
    event: Raw = _ABSENT
    uuid: Raw = _ABSENT
    span_id: Raw = _ABSENT
    timestamp: Raw = _ABSENT
    completed: Raw = _ABSENT
    request_ids: Raw = _ABSENT
    traceback_ansi: Raw = _ABSENT


class _AllKnown(ModelEvent, forbid_unknown_fields=True):
    """A model event without a field that is not understood."""


_all_known = msgspec.json.Decoder(_AllKnown).decode
_NAMES = ModelEvent.__struct_fields__
_VALUES = _NAMES[: _NAMES.index("input")]


def opened(raw: Raw, texts: Attachments, tally: Tally) -> ModelEvent:
    """A model event with its attachments. Raises BadTrace where it cannot be decoded."""
    data = bytes(raw)
    try:
        event: ModelEvent = _all_known(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        event = _piecewise(data, texts, tally)
    if not texts.as_written(data):
        for name in _VALUES:
            setattr(event, name, texts.put_back(getattr(event, name), data))
    return event


def _piecewise(data: bytes, texts: Attachments, tally: Tally) -> ModelEvent:
    """The same with each field decoded by itself: some are unknown, or hold broken text."""
    fields: dict[str, Any] = {}
    for name, raw in (parts(data) or {}).items():
        if name in _VALUES:
            fields[name] = texts.read(raw)
        elif name in _NAMES:
            fields[name] = raw
        else:
            tally.unknown[f"model {name}"] += 1
    return ModelEvent(**fields)
