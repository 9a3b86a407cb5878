"""A replay in one file, to be run again elsewhere: what it saw, and what it came to.

A bundle holds the masked trace, what was attached to it, the edit, the answers that were used and
the result. Run again from the file alone, offline, the result has to come out with the same
digest: then it follows from this evidence under these rules. The sums in the manifest find damage;
nothing in a bundle shows who made it, or that the answers are a model's.

`contents` is the file and what stands in it; here it is written, read and run again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct, structs

from replay import files
from replay.bundle import contents
from replay.bundle.contents import TRACE, Added, BadBundle, Bundle, Result, gathered
from replay.compare.rules import Rules
from replay.convert import body_key
from replay.edit.changes import Edit
from replay.errors import RequestRefused
from replay.free import run as free
from replay.free.recorded_results import BARE, Terms
from replay.free.result import FreeCore
from replay.locked.row import Models
from replay.locked.run import Core, run_again
from replay.models.cached import Cached
from replay.plan import plans
from replay.providers import WireName
from replay.store import answers, edits
from replay.store.edits import attach
from replay.store.handle import Store
from replay.store.read import content_digest, load
from replay.store.write import Writer
from replay.trace import Trace

__all__ = [
    "BadBundle",
    "Bundle",
    "Result",
    "Verified",
    "gathered",
    "kept_models",
    "read",
    "rerun",
    "restore",
    "verify",
    "write",
]


def write(
    store: Store, result: Result, file: Path, terms: Terms = BARE, arms: Sequence[Core] = ()
) -> Verified:
    """Write a replay to `file`, in place of what is there; readable by its owner alone.

    `terms` are those of a free replay, `arms` the further ones of a locked replay. The same replay
    gives the same bytes. It is run again from them first: no bundle is written that could not be
    verified.

    Raises NotFound where its trace or edit is not stored, BadBundle where it cannot be run again
    (an answer is gone, the trace was completed since) or the file cannot be written.
    """
    data = contents.packed(contents.encoded(gathered(store, result, terms, arms)))
    found = rerun(contents.decoded(contents.Archive(data)))
    if not found.same:
        why = next(each for arm in found.arms for each in arm.differs)
        raise BadBundle(
            f"cannot bundle: the replay is not reproducible any more ({why})",
            "Try: arc replay TRACE, then bundle that",
        )
    _put(file, data)
    return found


def read(file: Path) -> Bundle:
    """The contents of a bundle, every sum in it checked.

    Raises BadBundle naming the member that is wrong; BadTrace where the trace cannot be read.
    """
    try:
        size_bytes = file.stat().st_size
        if size_bytes > contents.MAX_FILE_BYTES:
            raise BadBundle(f"is larger than {contents.MAX_FILE_BYTES >> 20} MiB")
        return contents.decoded(contents.Archive(file.read_bytes()))
    except OSError as error:
        raise BadBundle(f"{file}: cannot be read: {error.strerror}") from error
    except BadBundle as error:
        raise BadBundle(f"{file}: {error.message}", error.hint) from error


def verify(file: Path) -> Verified:
    """Run the replay of a bundle again from the file alone. Raises as `read` does."""
    bundle = read(file)
    try:
        return rerun(bundle)
    except BadBundle as error:
        raise BadBundle(f"{file}: {error.message}", error.hint) from error


def _put(file: Path, data: bytes) -> None:
    """Whole or not at all: a file beside it takes its name."""
    try:
        files.put(BytesIO(data), file)  # of mode 0600
    except OSError as error:
        raise BadBundle(f"{file}: cannot be written: {error.strerror}") from error


# --- run again

_UNSAID = "the model rejected it"
"""Where the result does not say why."""


class Verified(Struct, frozen=True, kw_only=True):
    """What was run again, and what it came to.

    `digest` is what the bundle says, `found` what came out. `differs` says in which places the
    results differ; it is empty where they are the same. `levels` are the samples of a request,
    `answers` how many were used; `declined` counts the requests that were taken as declined
    because the result says so. `others` are the further arms, run again with it.
    """

    kind: Literal["locked", "free"]
    trace: str
    title: str | None
    edit: str | None
    model: str
    edited_model: str | None
    server: str
    levels: tuple[int, ...]
    answers: int
    declined: int
    digest: str
    found: str
    differs: tuple[str, ...] = ()
    others: tuple[Verified, ...] = ()

    @property
    def arms(self) -> tuple[Verified, ...]:
        """Every arm, this one first."""
        return (self, *self.others)

    @property
    def same(self) -> bool:
        return all(arm.digest == arm.found for arm in self.arms)


def rerun(bundle: Bundle) -> Verified:
    """Run the replay of a bundle again, offline and from its contents alone.

    Raises BadBundle where the trace is not that of the result, BadEdit and NotFound where the
    result could not have come of it.
    """
    with Store.open(":memory:") as store:
        trace, edit = restore(store, bundle)
        first = _run_arm(store, bundle, trace, edit, bundle.result)
        others = [
            _run_arm(store, bundle, trace, edits.save(store, arm.edit), arm.result)
            for arm in bundle.arms
        ]
    return structs.replace(first, others=tuple(others))


def _run_arm(
    store: Store, bundle: Bundle, trace: Trace, edit: Edit | None, kept: Result
) -> Verified:
    """One arm, run again."""
    declining = _Declining()
    made: Result
    if isinstance(kept, FreeCore):
        made = _run(kept, trace, edit, bundle.added or Added(), _model(store, kept, declining))
    else:
        declining.said = _refusals(kept, trace, edit)
        made = run_again(kept, trace, edit, _models(store, kept, declining), least=1)
    return Verified(
        kind="free" if isinstance(kept, FreeCore) else "locked",
        trace=trace.id,
        title=trace.header.title,
        edit=edit.name if edit is not None else None,
        model=kept.model,
        edited_model=kept.edited_model if isinstance(kept, Core) else None,
        server=kept.server,
        levels=kept.levels if isinstance(kept, Core) else (1,),
        answers=len(contents.keys(kept)),
        declined=declining.asked,
        digest=kept.digest,
        found=made.digest,
        differs=tuple(differences(kept, made)),
    )


def restore(store: Store, bundle: Bundle) -> tuple[Trace, Edit | None]:
    """The contents of a bundle in a database. All of it is masked, and masking changes nothing
    that is: the digests of the trace show that. Raises BadBundle where they do not."""
    writer = Writer(store)
    key = writer.finish(writer.write(bundle.tape)).id
    if (key, content_digest(store, key)) != (bundle.result.trace, bundle.content):
        raise BadBundle(f"{TRACE} is not the trace that was replayed")
    if bundle.supplement is not None:
        attach(store, key, bundle.supplement)
    with store.writing():
        for each in bundle.answers:
            answers.put(
                store,
                each.key,
                model=each.model,
                sample=each.sample,
                body=each.body,
                source=each.source,
                server=each.server,
            )
    edit = edits.save(store, bundle.edit) if bundle.edit is not None else None
    return load(store, key), edit


# --- the replays, under the terms of their results


def kept_models(store: Store, kept: Core, trace: Trace, edit: Edit | None) -> Models:
    """Who answers in a replay that is run again: what is stored, and where the result says that a
    request was declined, nobody."""
    declining = _Declining()
    declining.said = _refusals(kept, trace, edit)
    return _models(store, kept, declining)


def _models(store: Store, kept: Core, declining: _Declining) -> Models:
    control = edited = _model(store, kept, declining)
    if kept.edited_model is not None:
        edited = Cached(store, kept.edited_model, declining, server=kept.edited_server)
    return Models(control, edited)


def _run(kept: FreeCore, trace: Trace, edit: Edit | None, added: Added, model: Cached) -> FreeCore:
    *_, last = free.run(
        trace,
        edit,
        model,
        Terms(stubs=added.stubs, effects=added.effects, allow_stale=kept.allow_stale),
        start=kept.start,
        sample=kept.sample,
        max_steps=kept.limit,
        rules=Rules(kept.paths),
    )
    return last.core()


def _model(store: Store, kept: Result, declining: _Declining) -> Cached:
    return Cached(store, kept.model, declining, server=kept.server)


# --- requests that were declined


class _Declining:
    """A model that declines whatever was not answered, in the words in which it was declined:
    `said`, by the key of a request's first sample, which stands for all of them."""

    name = "declining"

    def __init__(self) -> None:
        self.asked = 0
        self.said: dict[str, str] = {}

    def complete(self, body: dict[str, Any], sample: int) -> dict[str, Any]:
        del sample  # what is declined once is declined always
        self.asked += 1
        wires: tuple[WireName, ...] = ("responses",) if "input" in body else ("messages", "chat")
        known = (self.said.get(body_key(body, 0, wire)) for wire in wires)
        raise RequestRefused(next(filter(None, known), _UNSAID))


def _refusals(kept: Core, trace: Trace, edit: Edit | None) -> dict[str, str]:
    rows = {row.step: row for row in kept.rows}
    said: dict[str, str] = {}
    if not any(row.refused or row.edited_refused for row in kept.rows):
        return said
    for plan in plans(trace, edit, kept.model, rows.keys(), edited_model=kept.edited_model):
        row = rows[plan.step.index]
        if row.refused is not None and plan.refusal is None:
            said[plan.control.sent.key(0)] = row.refused
        if row.edited_refused is not None:
            said[plan.edited.sent.key(0)] = row.edited_refused
    return said


_PARTS = {"control": "the control samples", "edited": "the edited samples"}


def differences(kept: Result, made: Result) -> Iterator[str]:
    """A phrase for every place where a result differs from the one that was kept."""
    if type(kept) is not type(made):
        yield "the replay's terms"
        return
    held_in = "steps" if isinstance(kept, FreeCore) else "rows"
    yield from (f"its {part}" for part in _parts(kept, made) if part != held_in)
    before, after = _places(kept), _places(made)
    for place in dict.fromkeys((*before, *after)):
        if place not in before or place not in after:
            yield f"{place}, in only one of them"
        else:
            yield from (f"{place}: {part}" for part in _parts(before[place], after[place]))


def _places(found: Result) -> Mapping[str, Struct]:
    if isinstance(found, FreeCore):
        return {f"answer {index}": step for index, step in enumerate(found.steps)}
    return {f"step {row.step}": row for row in found.rows}


def _parts(kept: Struct, made: Struct) -> Iterator[str]:
    for each in structs.fields(kept):
        if getattr(kept, each.name) != getattr(made, each.name):
            yield _PARTS.get(each.name, each.name)
