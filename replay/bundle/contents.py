"""What stands in a bundle: the values of a replay as named members of one zip file, and back.

`manifest.json` says what the bundle is and which members are as they were written.
"""

from __future__ import annotations

import hashlib
import io
import struct
import zipfile
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Annotated, Any, TypeAlias, TypeVar

import msgspec
from msgspec import Meta, Struct, field, structs, to_builtins

from replay import convert, digests, effects
from replay.compare import actions
from replay.convert import API
from replay.edit.changes import Edit
from replay.errors import ArcError
from replay.formats import arc
from replay.formats.source import BytesSource, Tally
from replay.free import recorded_results
from replay.free import result as free_run
from replay.free.recorded_results import BARE, Stub, Terms
from replay.free.result import FreeCore
from replay.locked import run
from replay.locked.row import RANGE
from replay.locked.run import Core
from replay.store import answers, edits
from replay.store.answers import Answer
from replay.store.edits import Supplement, supplement_of
from replay.store.handle import Store
from replay.store.read import content_digest, recorded
from replay.trace import Batch, Effect

TRACE = "trace.arc.jsonl"
SUPPLEMENT = "supplement.json"
EDIT = "edit.json"
ADDED = "added.json"
ANSWERS = "answers.jsonl"
RESULT = "result.json"
ARMS = "arms.json"

ALWAYS = (TRACE, ANSWERS, RESULT)
KNOWN = (TRACE, SUPPLEMENT, EDIT, ADDED, ANSWERS, RESULT, ARMS)


class Added(Struct, frozen=True, kw_only=True):
    """What the user added to the tape of a free replay: the stubs that were used, and what they
    said of tools by name."""

    stubs: tuple[Stub, ...] = ()
    effects: dict[str, Effect] = field(default_factory=dict)


class FurtherArm(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An edit that was replayed beside the same control, and what it came to."""

    edit: Edit
    result: Core


class Bundle(Struct, frozen=True, eq=False, kw_only=True):
    """Everything a replay rests on, and what it came to.

    `tape` is the trace as it was recorded, `content` the digest of its spans in the database,
    `supplement` what was attached to it. `answers` are those that were used, by their keys. `arms`
    are the further ones of a replay of several edits.
    """

    tape: Batch
    content: str
    supplement: Supplement | None
    edit: Edit | None
    added: Added | None
    answers: tuple[Answer, ...]
    result: Result
    arms: tuple[FurtherArm, ...] = ()

    @property
    def results(self) -> tuple[Result, ...]:
        """What every arm came to, the first one's before the further ones'."""
        return (self.result, *(arm.result for arm in self.arms))


class _AnswerLine(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    key: str
    server: str
    model: str
    sample: Annotated[int, Meta(ge=0, le=2**63 - 1)]
    source: str
    body: dict[str, Any]


_LINE = tuple(each.name for each in structs.fields(_AnswerLine))


# --- out of a database


def gathered(
    store: Store, result: Result, terms: Terms = BARE, arms: Sequence[Core] = ()
) -> Bundle:
    """What a replay rests on; `terms` are those of a free one, `arms` the further ones of a locked.

    Raises NotFound where its trace or its edit is not stored, BadBundle where an answer is not
    stored any more.
    """
    masked = _mask(store, result)
    further = tuple(_arm(store, _mask(store, each)) for each in arms)
    results = (masked, *(arm.result for arm in further))
    wanted = keys(*results)
    found: dict[str, Answer] = {}
    for server in servers(*results):
        found |= answers.get_all(store, wanted, server)
    gone = next((place for key, place in wanted.items() if key not in found), None)
    if gone is not None:
        raise BadBundle(f"a response of {gone} is no longer stored", "Try: arc replay TRACE")
    return Bundle(
        tape=recorded(store, masked.trace),
        content=content_digest(store, masked.trace),
        supplement=supplement_of(store, masked.trace),
        edit=edits.find(store, masked.edit) if masked.edit is not None else None,
        added=_added(store, masked, terms),
        answers=tuple(found[key] for key in sorted(found)),
        result=masked,
        arms=further,
    )


R = TypeVar("R", bound="Result")


def _mask(store: Store, result: R) -> R:
    return msgspec.convert(store.redactor.value(to_builtins(result)), type(result))


def _arm(store: Store, result: Core) -> FurtherArm:
    assert result.edit is not None, "a further arm has an edit"
    return FurtherArm(edit=edits.find(store, result.edit), result=result)


def _added(store: Store, result: Result, terms: Terms) -> Added | None:
    used = stubs_used(result)
    stubs = tuple(stub for stub in terms.stubs if stub.digest in used)
    if not stubs and not terms.effects:
        return None
    added = Added(stubs=stubs, effects=dict(sorted(terms.effects.items())))
    return msgspec.convert(store.redactor.value(to_builtins(added)), Added)


# --- into members


def encoded(bundle: Bundle) -> dict[str, bytes]:
    """The members by name, in the order they are written."""
    header = structs.replace(bundle.tape.header, path=None)
    members = {TRACE: b"".join(arc.write([structs.replace(bundle.tape, header=header)]))}
    beside = {SUPPLEMENT: bundle.supplement, EDIT: bundle.edit, ADDED: bundle.added}
    members |= {name: digests.encode(each) for name, each in beside.items() if each is not None}
    members[ANSWERS] = b"".join(digests.encode(_line(each)) + b"\n" for each in bundle.answers)
    members[RESULT] = bundle.result.encoded()
    if bundle.arms:
        members[ARMS] = digests.encode(bundle.arms)
    said = Manifest(
        format=FORMAT,
        engine=engine_of(bundle.result),
        trace=bundle.result.trace,
        content=bundle.content,
        digest=bundle.result.digest,
        members={name: member(data) for name, data in members.items()},
    )
    return {NAME: encoded_manifest(said), **members}


def _line(answer: Answer) -> _AnswerLine:
    return _AnswerLine(**{name: getattr(answer, name) for name in _LINE})


# --- and back


def decoded(archive: Archive) -> Bundle:
    """The contents of an archive. Raises BadBundle naming the member that is not as the manifest
    says, or that does not fit the result; BadTrace where the trace cannot be read."""
    said = opened(archive)
    members = dict(manifest_members(archive, said, KNOWN))
    missing = next((name for name in ALWAYS if name not in members), None)
    if missing is not None:
        raise BadBundle(f"{missing} is missing")
    bundle = Bundle(
        tape=_tape(members[TRACE]),
        content=said.content,
        supplement=optional(members, SUPPLEMENT, Supplement),
        edit=optional(members, EDIT, Edit),
        added=optional(members, ADDED, Added),
        answers=tuple(_answers(members[ANSWERS])),
        result=value(members[RESULT], RESULT, TYPES[said.engine["result"]]),
        arms=optional(members, ARMS, tuple[FurtherArm, ...]) or (),
    )
    for name, fits in (*_fits(bundle, said, members[RESULT]), *_arms_fit(bundle, said, members)):
        if not fits:
            raise BadBundle(f"{name} does not match the rest of the bundle")
    return bundle


def _fits(bundle: Bundle, said: Manifest, written: bytes) -> Iterator[tuple[str, bool]]:
    """Members, and whether they belong to this result."""
    result, edit = bundle.result, bundle.edit
    yield RESULT, result.encoded() == written and engine_of(result) == said.engine
    yield RESULT, (result.digest, result.trace) == (said.digest, said.trace)
    yield RESULT, can_be_run(result)
    yield EDIT, result.edit == (edit.digest if edit is not None else None)
    yield ANSWERS, [answer.key for answer in bundle.answers] == sorted(keys(*bundle.results))
    yield ANSWERS, all(answer.server in servers(*bundle.results) for answer in bundle.answers)


def _arms_fit(
    bundle: Bundle, said: Manifest, members: Mapping[str, bytes]
) -> Iterator[tuple[str, bool]]:
    """The further arms, and whether they belong to this replay."""
    if ARMS not in members:
        return
    yield ARMS, bool(bundle.arms) and digests.encode(bundle.arms) == members[ARMS]
    for arm in bundle.arms:
        yield ARMS, isinstance(bundle.result, Core) and engine_of(arm.result) == said.engine
        yield ARMS, (arm.result.trace, arm.result.edit) == (said.trace, arm.edit.digest)
        yield ARMS, can_be_run(arm.result)


def _answers(data: bytes) -> Iterator[Answer]:
    for number, line in enumerate(data.splitlines(), 1):
        found = value(line, f"line {number} of {ANSWERS}", _AnswerLine)
        yield Answer(**structs.asdict(found))


def _tape(data: bytes) -> Batch:
    try:
        found = list(arc.read(BytesSource(data, TRACE), Tally()))
    except RecursionError as error:
        raise BadBundle(f"{TRACE} is nested too deeply to be read") from error
    if len(found) != 1:
        raise BadBundle(f"{TRACE} contains {len(found)} traces")
    return found[0]


Result: TypeAlias = Core | FreeCore

TYPES: dict[str, type[Core] | type[FreeCore]] = {
    run.FORMAT: Core,
    free_run.FORMAT: FreeCore,
}
"""The type of a result by its format."""

_BOTH = {
    "canon": digests.SCHEMA,
    "api": API,
    "convert": convert.VERSION,
    "rules": actions.VERSION,
}
ENGINES: dict[str, dict[str, Any]] = {
    run.FORMAT: {"result": run.FORMAT, **_BOTH},
    free_run.FORMAT: {
        "result": free_run.FORMAT,
        **_BOTH,
        "tape": recorded_results.VERSION,
        "effects": effects.VERSION,
    },
}
"""By format: the versions of all that its digest depends on."""

_MAX_RANGES = 10**9


def servers(*results: Result) -> set[str]:
    """Whose answers results rest on."""
    edited = {found.edited_server for found in results if isinstance(found, Core)}
    return {found.server for found in results} | edited


def engine_of(found: Result) -> dict[str, Any]:
    """The versions a result says it was made by."""
    said = {"result": found.format, **_BOTH, "api": found.api, "rules": found.rules}
    if isinstance(found, FreeCore):
        return {**said, "tape": found.tape, "effects": found.effects}
    return said


def keys(*results: Result) -> dict[str, str]:
    """The key of every answer that was used, each with the place it was first used at."""
    named: dict[str, str] = {}
    for found in results:
        for key, place in _uses(found):
            named.setdefault(key, place)
    return named


def _uses(found: Result) -> Iterator[tuple[str, str]]:
    if isinstance(found, FreeCore):
        for index, step in enumerate(found.steps):
            if step.key is not None:
                yield step.key, f"answer {index}"
        return
    for row in found.rows:
        for answer in (*row.control, *row.edited):
            yield answer.key, f"step {row.step}"


def stubs_used(found: Result) -> set[str]:
    """The digests of the stubs that answered a call; a locked replay needs none."""
    if isinstance(found, Core):
        return set()
    return {use.stub for step in found.steps for use in step.uses if use.stub is not None}


def can_be_run(found: Result) -> bool:
    """Are its terms such as a replay can have had?"""
    if isinstance(found, FreeCore):
        return 0 <= found.sample < _MAX_RANGES * RANGE and found.start >= 0
    ascend = list(found.levels) == sorted(set(found.levels)) != []
    bounded = all(0 < level <= RANGE for level in found.levels)
    return ascend and bounded and 0 <= found.range < _MAX_RANGES


MAX_FILE_BYTES = 256 * 1024 * 1024
MAX_MEMBERS = 16

_ENTRY = b"PK\x01\x02"
"""What an entry of a zip's directory begins with."""

_TIME = (1980, 1, 1, 0, 0, 0)
_UNIX, _OWNER_ONLY = 3, 0o100600 << 16
_ENCRYPTED = 0x1
_BROKEN = (zipfile.BadZipFile, zlib.error, struct.error, EOFError, ValueError, NotImplementedError)
"""What reading a broken zip may raise."""


class BadBundle(ArcError):
    """A bundle that cannot be read, written or run again; the message names the member."""


def packed(members: Mapping[str, bytes]) -> bytes:
    """A zip of the members, in their order."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as made:
        for name, data in members.items():
            entry = zipfile.ZipInfo(name, _TIME)
            entry.create_system, entry.external_attr = _UNIX, _OWNER_ONLY
            made.writestr(entry, data, zipfile.ZIP_DEFLATED, compresslevel=9)
    return out.getvalue()


class Archive:
    """A zip opened for reading. Raises BadBundle where it is none, or holds too much."""

    def __init__(self, data: bytes) -> None:
        # A directory of a million entries is small on disk and large in memory: count, then parse.
        if data.count(_ENTRY) > 2 * MAX_MEMBERS:
            raise BadBundle("too many files for a bundle")
        try:
            self._zip = zipfile.ZipFile(io.BytesIO(data))
        except _BROKEN as error:
            raise BadBundle("not a bundle: not a complete zip file") from error
        self.names = tuple(entry.filename for entry in self._zip.infolist())
        twice = next((name for name in self.names if self.names.count(name) > 1), None)
        if twice is not None:
            raise BadBundle(f"{twice} occurs twice")

    def read(self, name: str, limit_bytes: int) -> bytes:
        """A member that is no larger than the limit, however small it is packed."""
        if name not in self.names:
            raise BadBundle(f"{name} is missing")
        entry = self._zip.getinfo(name)
        plain = entry.compress_type in (zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED)
        if entry.flag_bits & _ENCRYPTED or not plain:
            raise BadBundle(f"{name} is encrypted, or compressed by an unsupported method")
        try:
            with self._zip.open(entry) as stream:
                data = stream.read(limit_bytes + 1)
        except _BROKEN as error:
            raise BadBundle(f"{name} is damaged: cannot be unpacked") from error
        if len(data) > limit_bytes:
            raise BadBundle(f"{name} is larger than the limit of {limit_bytes} bytes")
        return data


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


def encoded_manifest(manifest: Manifest) -> bytes:
    """The manifest as it is written, for people to read."""
    return msgspec.json.format(digests.encode(manifest), indent=2) + b"\n"


def opened(archive: Archive) -> Manifest:
    """The manifest of an archive that this engine can run again. Raises BadBundle."""
    data = archive.read(NAME, MAX_MANIFEST_BYTES)
    versions = value(data, NAME, _Versions)
    if versions.format != FORMAT:
        raise BadBundle(
            f"format {versions.format} is not supported: this arc reads {FORMAT}",
            "Try: a newer arc",
        )
    theirs = versions.engine
    ours = ENGINES.get(str(theirs.get("result")), {"result": " or ".join(ENGINES)})
    for name in dict.fromkeys((*ours, *theirs)):
        if theirs.get(name) != ours.get(name):
            raise BadBundle(
                f"was made by an engine with {name} {theirs.get(name)}, this one has"
                f" {ours.get(name)}",
                "Only an engine of the same version gives the same digest",
            )
    return value(data, NAME, Manifest)


def manifest_members(
    archive: Archive, manifest: Manifest, known: Collection[str]
) -> Iterator[tuple[str, bytes]]:
    """The other members by name. Raises BadBundle naming one that is not as the manifest says,
    or not `known`."""
    for name in dict.fromkeys((*archive.names, *manifest.members)):
        if name == NAME:
            continue
        if name not in known:
            raise BadBundle(f"{name!r} is not part of a bundle")
        if name not in manifest.members:
            raise BadBundle(f"{name} is not in the manifest")
        told = manifest.members[name]
        data = archive.read(name, told.bytes)
        if member(data) != told:
            raise BadBundle(f"{name} was changed: its SHA-256 differs")
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
