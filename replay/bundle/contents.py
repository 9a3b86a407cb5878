"""What stands in a bundle: the values of a replay as named members, and back.

Everything that reaches a member is masked. Costs and the path of the source stay behind: they
belong to the machine, not to the replay.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, BinaryIO

from msgspec import Meta, Struct, convert, field, structs, to_builtins

from replay import canon
from replay.bundle import manifest, results
from replay.bundle.archive import Archive, BadBundle
from replay.bundle.manifest import Manifest
from replay.bundle.results import TYPES, Result, engine_of, keys, servers, stubs_used
from replay.edit import Edit
from replay.formats import arc
from replay.formats.intake import Source, Tally
from replay.free.stub import Stub
from replay.free.tape import BARE, Terms
from replay.store import Store, answers, edits
from replay.store.answers import Answer
from replay.store.read import content_digest, recorded
from replay.store.supplements import Supplement, supplement_of
from replay.trace import Batch, Effect

TRACE = "trace.arc.jsonl"
SUPPLEMENT = "supplement.json"
EDIT = "edit.json"
ADDED = "added.json"
ANSWERS = "answers.jsonl"
RESULT = "result.json"

ALWAYS = (TRACE, ANSWERS, RESULT)
KNOWN = (TRACE, SUPPLEMENT, EDIT, ADDED, ANSWERS, RESULT)


class Added(Struct, frozen=True, kw_only=True):
    """What the user added to the tape of a free replay: the stubs that were used, and what they
    said of tools by name."""

    stubs: tuple[Stub, ...] = ()
    effects: dict[str, Effect] = field(default_factory=dict)


class Bundle(Struct, frozen=True, eq=False, kw_only=True):
    """Everything a replay rests on, and what it came to.

    `tape` is the trace as it was recorded, `content` the digest of its spans in the database,
    `supplement` what was attached to it. `answers` are those that were used, by their keys.
    """

    tape: Batch
    content: str
    supplement: Supplement | None
    edit: Edit | None
    added: Added | None
    answers: tuple[Answer, ...]
    result: Result


class _AnswerLine(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    key: str
    server: str
    model: str
    sample: Annotated[int, Meta(ge=0, le=2**63 - 1)]
    source: str
    body: dict[str, Any]


_LINE = tuple(each.name for each in structs.fields(_AnswerLine))


# --- out of a database


def gathered(store: Store, result: Result, terms: Terms = BARE) -> Bundle:
    """What a replay rests on; `terms` are those of a free one.

    Raises NotFound where its trace or its edit is not stored, BadBundle where an answer is not
    stored any more.
    """
    masked = convert(store.redactor.value(to_builtins(result)), type(result))
    wanted = keys(masked)
    found: dict[str, Answer] = {}
    for server in servers(masked):
        found |= answers.get_all(store, wanted, server)
    gone = next((place for key, place in wanted.items() if key not in found), None)
    if gone is not None:
        raise BadBundle(f"an answer of {gone} is not stored any more", "replay it again")
    return Bundle(
        tape=recorded(store, masked.trace),
        content=content_digest(store, masked.trace),
        supplement=supplement_of(store, masked.trace),
        edit=edits.find(store, masked.edit) if masked.edit is not None else None,
        added=_added(store, masked, terms),
        answers=tuple(found[key] for key in sorted(found)),
        result=masked,
    )


def _added(store: Store, result: Result, terms: Terms) -> Added | None:
    used = stubs_used(result)
    stubs = tuple(stub for stub in terms.stubs if stub.digest in used)
    if not stubs and not terms.effects:
        return None
    added = Added(stubs=stubs, effects=dict(sorted(terms.effects.items())))
    return convert(store.redactor.value(to_builtins(added)), Added)


# --- into members


def encoded(bundle: Bundle) -> dict[str, bytes]:
    """The members by name, in the order they are written."""
    header = structs.replace(bundle.tape.header, path=None)
    members = {TRACE: b"".join(arc.write([structs.replace(bundle.tape, header=header)]))}
    beside = {SUPPLEMENT: bundle.supplement, EDIT: bundle.edit, ADDED: bundle.added}
    members |= {name: canon.encode(each) for name, each in beside.items() if each is not None}
    members[ANSWERS] = b"".join(canon.encode(_line(each)) + b"\n" for each in bundle.answers)
    members[RESULT] = bundle.result.encoded()
    said = Manifest(
        format=manifest.FORMAT,
        engine=engine_of(bundle.result),
        trace=bundle.result.trace,
        content=bundle.content,
        digest=bundle.result.digest,
        members={name: manifest.member(data) for name, data in members.items()},
    )
    return {manifest.NAME: manifest.encoded(said), **members}


def _line(answer: Answer) -> _AnswerLine:
    return _AnswerLine(**{name: getattr(answer, name) for name in _LINE})


# --- and back


def decoded(archive: Archive) -> Bundle:
    """The contents of an archive. Raises BadBundle naming the member that is not as the manifest
    says, or that does not fit the result; BadTrace where the trace cannot be read."""
    said = manifest.opened(archive)
    members = dict(manifest.members(archive, said, KNOWN))
    missing = next((name for name in ALWAYS if name not in members), None)
    if missing is not None:
        raise BadBundle(f"{missing} is missing")
    bundle = Bundle(
        tape=_tape(members[TRACE]),
        content=said.content,
        supplement=manifest.optional(members, SUPPLEMENT, Supplement),
        edit=manifest.optional(members, EDIT, Edit),
        added=manifest.optional(members, ADDED, Added),
        answers=tuple(_answers(members[ANSWERS])),
        result=manifest.value(members[RESULT], RESULT, TYPES[said.engine["result"]]),
    )
    for name, fits in _fits(bundle, said, members[RESULT]):
        if not fits:
            raise BadBundle(f"{name} does not fit the rest of the bundle")
    return bundle


def _fits(bundle: Bundle, said: Manifest, written: bytes) -> Iterator[tuple[str, bool]]:
    """Members, and whether they belong to this result."""
    result, edit = bundle.result, bundle.edit
    yield RESULT, result.encoded() == written and engine_of(result) == said.engine
    yield RESULT, (result.digest, result.trace) == (said.digest, said.trace)
    yield RESULT, results.can_be_run(result)
    yield EDIT, result.edit == (edit.digest if edit is not None else None)
    yield ANSWERS, [answer.key for answer in bundle.answers] == sorted(keys(result))
    yield ANSWERS, all(answer.server in servers(result) for answer in bundle.answers)


def _answers(data: bytes) -> Iterator[Answer]:
    for number, line in enumerate(data.splitlines(), 1):
        found = manifest.value(line, f"line {number} of {ANSWERS}", _AnswerLine)
        yield Answer(**structs.asdict(found))


class _Bytes(Source):
    """A source that is no file."""

    def __init__(self, data: bytes) -> None:
        super().__init__(Path(TRACE))
        self._data = data

    def open(self) -> BinaryIO:
        return io.BytesIO(self._data)


def _tape(data: bytes) -> Batch:
    try:
        found = list(arc.read(_Bytes(data), Tally()))
    except RecursionError as error:
        raise BadBundle(f"{TRACE} is nested too deeply to be read") from error
    if len(found) != 1:
        raise BadBundle(f"{TRACE} holds {len(found)} traces")
    return found[0]
