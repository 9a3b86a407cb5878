"""`manifest.json`: what a bundle says of itself, and which of its members are as they were written.

It is read first. The versions of the engine decide whether the rest can be understood at all; then
each member is read, no further than it may be long, and held against its SHA-256.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Mapping
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta, Struct

from replay import canon
from replay.bundle.archive import Archive, BadBundle
from replay.bundle.results import ENGINES
from replay.errors import ArcError

FORMAT = "arc-bundle/1"
NAME = "manifest.json"

MAX_MANIFEST_BYTES = 64 * 1024
MAX_MEMBER_BYTES = 1024 * 1024 * 1024

T = TypeVar("T")


class Member(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How long a member is, and its sum."""

    bytes: Annotated[int, Meta(ge=0, le=MAX_MEMBER_BYTES)]
    sha256: str


class Manifest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`digest` is the result's, `content` that of the spans of the trace."""

    format: str
    engine: dict[str, Any]
    trace: str
    content: str
    digest: str
    members: dict[str, Member]


class _Versions(Struct):
    """As much of any manifest as says whether the rest can be understood."""

    format: str
    engine: dict[str, Any]


def member(data: bytes) -> Member:
    """A member as the manifest lists it."""
    return Member(bytes=len(data), sha256=hashlib.sha256(data).hexdigest())


def encoded(manifest: Manifest) -> bytes:
    """The manifest as it is written, for people to read."""
    return msgspec.json.format(canon.encode(manifest), indent=2) + b"\n"


def opened(archive: Archive) -> Manifest:
    """The manifest of an archive that this engine can run again. Raises BadBundle."""
    data = archive.read(NAME, MAX_MANIFEST_BYTES)
    versions = value(data, NAME, _Versions)
    if versions.format != FORMAT:
        raise BadBundle(f"is {versions.format}, this arc reads {FORMAT}", "upgrade arc")
    theirs = versions.engine
    ours = ENGINES.get(str(theirs.get("result")), {"result": " or ".join(ENGINES)})
    for name in dict.fromkeys((*ours, *theirs)):
        if theirs.get(name) != ours.get(name):
            raise BadBundle(
                f"was made by an engine of {name} {theirs.get(name)}, this one has"
                f" {ours.get(name)}",
                "only the engine that made it comes to the same digest",
            )
    return value(data, NAME, Manifest)


def members(
    archive: Archive, manifest: Manifest, known: Collection[str]
) -> Iterator[tuple[str, bytes]]:
    """The other members by name. Raises BadBundle naming one that is not as the manifest says,
    or not `known`."""
    for name in dict.fromkeys((*archive.names, *manifest.members)):
        if name == NAME:
            continue
        if name not in known:
            raise BadBundle(f"{name!r} is nothing that a bundle holds")
        if name not in manifest.members:
            raise BadBundle(f"{name} is not in the manifest")
        told = manifest.members[name]
        data = archive.read(name, told.bytes)
        if member(data) != told:
            raise BadBundle(f"{name} is not what was written: its SHA-256 differs")
        yield name, data


def value(data: bytes, name: str, type_: type[T]) -> T:
    """JSON bytes as a value. Raises BadBundle with the name."""
    try:
        return msgspec.json.decode(data, type=type_)
    except (msgspec.DecodeError, RecursionError, ArcError) as error:
        raise BadBundle(f"{name} cannot be read: {error}") from error


def optional(members: Mapping[str, bytes], name: str, type_: type[T]) -> T | None:
    """The value of a member, None where the bundle has none of that name."""
    return value(members[name], name, type_) if name in members else None
