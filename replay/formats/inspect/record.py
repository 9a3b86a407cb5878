"""A sample as it stands in its log: its fields, and its long lists as bytes until their turn.

A sample may be half a gigabyte of events of which one at a time is looked at, so that decoding
all of them would cost many times their size. What is decoded here is what a header needs.
"""

from __future__ import annotations

import re
from typing import Any, TypeAlias

import msgspec
from msgspec import Raw, Struct

from replay.depth import TOO_DEEP
from replay.errors import BadTrace
from replay.formats import intake
from replay.trace import Json

Parts: TypeAlias = dict[str, Raw]
"""An object whose fields are still bytes."""

_LONG = {
    "events", "transcript", "events_data", "message_pool", "attachments", "messages",
    "error_retries", "store", "timelines",
}  # fmt: skip
"""Fields that stay bytes. The store is the sum of its events' changes, timelines repeat spans."""

_SHORT = {
    "id", "epoch", "input", "choices", "target", "description", "sandbox", "files", "setup",
    "output", "score", "scores", "metadata", "model_usage", "role_usage", "model_fallbacks",
    "started_at", "completed_at", "total_time", "working_time", "uuid", "invalidation", "error",
    "limit", "turn_count", "token_limit", "token_limit_type", "token_limit_usage",
    "message_limit", "time_limit", "message_refs", "call_pool",
}  # fmt: skip


_parts = msgspec.json.Decoder(Parts).decode
_entries = msgspec.json.Decoder(list[Raw]).decode
_REFUSED = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class Record(Struct, frozen=True, eq=False, kw_only=True):
    """A sample. `pool` holds the messages that model events name by their places, `attachments`
    the texts that stand elsewhere; `strange` are names of fields that are not understood."""

    fields: dict[str, Any]
    events: list[Raw]
    pool: list[Raw]
    messages: list[Raw]
    attachments: dict[str, Raw]
    retries: list[Raw]
    strange: tuple[str, ...]

    def let_go(self) -> None:
        """Frees the bytes of a sample that has been read, while what was read is still stored."""
        for entries in (self.events, self.pool, self.messages, self.retries):
            entries.clear()
        self.attachments.clear()


def whole(data: bytes | Raw, path: str, where: str) -> Record:
    """The sample that a document is. Raises BadTrace where it is none."""
    found = parts(data)
    if found is None:
        found = parts(acceptable(data, path, where))
    if found is None:
        raise BadTrace(path, where, "is not an object")
    oldest = parts(found.get("transcript")) or {}
    pools = parts(found.get("events_data")) or {}
    return made(
        found,
        path,
        where,
        events=entries(found.get("events")) or entries(oldest.get("events")),
        pool=entries(pools.get("messages")) or entries(found.get("message_pool")),
        messages=entries(found.get("messages")),
        attachments={
            **(parts(oldest.get("content")) or {}),
            **(parts(found.get("attachments")) or {}),
        },
    )


def made(
    found: Parts,
    path: str,
    where: str,
    *,
    events: list[Raw],
    pool: list[Raw],
    messages: list[Raw],
    attachments: dict[str, Raw],
) -> Record:
    """A record of these fields and lists. Raises BadTrace where a field cannot be decoded."""
    fields = {name: plain(raw, path, where) for name, raw in found.items() if name not in _LONG}
    return Record(
        fields=fields,
        events=events,
        pool=pool,
        messages=messages,
        attachments=attachments,
        retries=entries(found.get("error_retries")),
        strange=tuple(found.keys() - _LONG - _SHORT),
    )


# --- bytes


def parts(raw: bytes | Raw | None) -> Parts | None:
    """The fields of an object, None for anything else."""
    try:
        return _parts(raw) if raw is not None else None
    except _REFUSED:
        return None


def entries(raw: bytes | Raw | None) -> list[Raw]:
    """The entries of a list, [] for anything else."""
    try:
        return _entries(raw) if raw is not None else []
    except _REFUSED:
        return []


def plain(raw: bytes | Raw, path: str, where: str) -> Json:
    """The value of some JSON. Raises BadTrace where it is none, or nested too deeply."""
    return intake.decode(bytes(raw), path, where)


# --- numbers that are none

_MOST_MENDED = 32
_BROKEN_AT = re.compile(r"invalid character \(byte (\d+)\)")
_NO_NUMBER = re.compile(rb"NaN|Infinity")


def acceptable(data: bytes | Raw, path: str, where: str) -> bytes | Raw:
    """The document as one that can be looked into piece by piece.

    Inspect writes NaN for a score that is none, which JSON has no word for. A few of them are
    replaced where they stand; a document that is odd in other ways is decoded and written anew.
    Raises BadTrace where it is no JSON.
    """
    mended = data
    for _ in range(_MOST_MENDED):
        try:
            _whole(mended)
            return mended
        except RecursionError as error:
            raise BadTrace(path, where, TOO_DEEP) from error
        except msgspec.DecodeError as error:
            broken = _BROKEN_AT.search(str(error))
            if broken is None:
                break
            nulled = _nulled(bytes(mended), int(broken[1]))
            if nulled is None:
                break
            mended = nulled
    return msgspec.json.encode(intake.decode(bytes(data), path, where))


_whole = msgspec.json.Decoder(Raw).decode


def _nulled(data: bytes, at: int) -> bytes | None:
    """The document with null for the NaN or infinity at a place, None where none is there."""
    found = _NO_NUMBER.match(data, at)
    if found is None:
        return None
    start = at - 1 if data[at - 1 : at] == b"-" else at
    return data[:start] + b"null" + data[found.end() :]
