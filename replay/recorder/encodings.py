"""What do the bytes of a body say, in whatever they were packed?

A body goes over the wire as its sender packed it; only the copy that is kept is unpacked. Brotli
needs a package that may not be there.
"""

from __future__ import annotations

import sys
import zlib
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any

MOST_BYTES = 256 * 1024 * 1024
"""No body of a model's API comes near; one that unpacks to more is taken for an attack."""

_CHUNK = 1 << 20


class Packed(Exception):
    """A body that cannot be unpacked, and why in a few words."""


def can_brotli() -> bool:
    """Is the package there that unpacks Brotli?"""
    return find_spec("brotli") is not None


def unpacked(body: bytes, encoding: str) -> bytes:
    """The body as it was before `encoding`, the value of its Content-Encoding header.

    What was packed may break off: what came is unpacked. Raises Packed where it cannot be.
    """
    steps = [each.strip().lower() for each in encoding.split(",")]
    for step in reversed(steps):
        if step in ("", "identity"):
            continue
        unpack = _UNPACKERS.get(step)
        if unpack is None:
            raise Packed(f"is packed as {step!r}, which is not known")
        body = unpack(body)
    return body


def _zlib(body: bytes) -> bytes:
    for bits in (zlib.MAX_WBITS | 32, -zlib.MAX_WBITS):  # deflate comes with and without a header
        unpacking = zlib.decompressobj(wbits=bits)
        try:
            found = unpacking.decompress(body, MOST_BYTES + 1)
        except zlib.error:
            continue
        return _bounded(found)
    raise Packed("is not packed as its header says")


def _zstd(body: bytes) -> bytes:
    name = "compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd"
    zstd = import_module(name)
    unpacking = zstd.ZstdDecompressor()
    try:
        return _bounded(bytes(unpacking.decompress(body, MOST_BYTES + 1)))
    except zstd.ZstdError as error:
        raise Packed("is not packed as its header says") from error


def _brotli(body: bytes) -> bytes:
    if not can_brotli():
        raise Packed("is packed with Brotli; the package brotli would unpack it")
    brotli: Any = import_module("brotli")
    unpacking = brotli.Decompressor()
    found = bytearray()
    try:
        for at in range(0, len(body), _CHUNK):
            found += unpacking.process(body[at : at + _CHUNK])
            _bounded(found)
    except brotli.error as error:
        raise Packed("is not packed as its header says") from error
    return bytes(found)


def _bounded(found: bytes | bytearray) -> bytes:
    if len(found) > MOST_BYTES:
        raise Packed(f"is more than {MOST_BYTES >> 20} MiB unpacked")
    return bytes(found)


_UNPACKERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": _zlib,
    "x-gzip": _zlib,
    "deflate": _zlib,
    "zstd": _zstd,
    "br": _brotli,
}
