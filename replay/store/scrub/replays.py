"""Replays that are kept: each becomes what it comes to with the answers and the trace as they are.

A free run goes where its answers lead it: it is walked again, on what is stored, and every request
on its way tells the key of its answer. Then each replay is run again with nobody to ask. What hung
on a masked value it cannot tell any more, and says so.
"""

from __future__ import annotations

import sqlite3
from contextlib import suppress

import msgspec

from replay.compare.rules import Rules
from replay.edit import Edit
from replay.errors import ArcError
from replay.free.result import FreeCore
from replay.free.run import Going
from replay.free.tape import Terms
from replay.locked import run as locked
from replay.locked.result import Core, core
from replay.locked.row import Models
from replay.locked.sampling import Sampling
from replay.models.cached import Answered, Cached
from replay.store import Store, answers, read, stubs
from replay.store.scrub.masks import Masks
from replay.store.scrub.moved import Digests, ids
from replay.store.scrub.requests import rekey


def write(store: Store, masks: Masks, traces: set[str]) -> None:
    """Walk every free run again, then write every replay that rests on something that changed.

    `traces` are those of which something changed that a request or a stub is made of.
    """
    db = store.db
    for row in ids(db, "replay"):
        kind, said, edit = db.execute(_REPLAY, (row,)).fetchone()
        if kind == "free":
            _walk(store, msgspec.json.decode(said, type=FreeCore), edit, traces)
    for row in ids(db, "replay"):
        found = db.execute(_REPLAY, (row,)).fetchone()
        if found is not None:  # else it became the same as one before it
            kind, said, edit = found
            _write(store, masks, row, kind, said, edit, traces)


_REPLAY = "SELECT kind, core, edit FROM replay WHERE id = ?"


def _write(
    store: Store,
    masks: Masks,
    row: int,
    kind: str,
    said: str,
    edit: str | None,
    traces: set[str],
) -> None:
    db = store.db
    after = Digests(db).now(masks.json("replay", said))
    kept = _read(kind, after)
    if after == said and kept.trace not in traces:
        return
    assert kept.edit == edit, "a replay and its edit have parted"
    with suppress(ArcError):  # what cannot be run again stays as it was told
        made = _locked(store, kept) if isinstance(kept, Core) else _free(store, kept)
        if _keys(made) == _keys(kept):
            kept = made
    # Of two that become the same, as where one secret took the place of another, one is enough.
    db.execute(
        "UPDATE OR REPLACE replay SET digest = ?, model = ?, core = ? WHERE id = ?",
        (kept.digest, kept.model, kept.encoded().decode(), row),
    )


def _read(kind: str, said: str) -> Core | FreeCore:
    if kind == "free":
        return msgspec.json.decode(said, type=FreeCore)
    return msgspec.json.decode(said, type=Core)


def _keys(kept: Core | FreeCore) -> list[str | None]:
    """The answers it rests on."""
    if isinstance(kept, FreeCore):
        return [step.key for step in kept.steps]
    return [each.key for row in kept.rows for each in (*row.control, *row.edited)]


# --- run again


def _locked(store: Store, kept: Core) -> Core:
    """The same replay on what is stored, as often. Raises OfflineMiss where something is not."""
    trace, edit = read.load(store, kept.trace), _edit(store.db, kept.edit)
    control = edited = Cached(store, kept.model, server=kept.server)
    if kept.edited_model is not None:
        edited = Cached(store, kept.edited_model, server=kept.edited_server)
    counts = {row.step: max(len(row.control), len(row.edited)) for row in kept.rows}
    sampling = Sampling(levels=kept.levels, range=kept.range, counts=counts)
    models, rules = Models(control, edited), Rules(kept.paths)
    going = locked.replay(trace, edit, models, sampling=sampling, steps=kept.steps, rules=rules)
    found = {result.step: result for result in going}
    return core(
        trace, edit, models, found.values(), sampling=sampling, steps=kept.steps, rules=rules
    )


def _free(store: Store, kept: FreeCore) -> FreeCore:
    """The same run on what is stored. Raises OfflineMiss where something is not."""
    going = _begun(store, kept, kept.edit)
    model = Cached(store, kept.model, server=kept.server)
    while not going.over:
        ask = going.wanted
        going.go(None if ask is None else model.answer(*ask))
    return going.made.core()


def _walk(store: Store, kept: FreeCore, edit: str | None, traces: set[str]) -> None:
    """Go the way of a free run again: its answers get the keys of what is asked on it now."""
    db = store.db
    if kept.trace not in traces and not _moved(db, kept, edit):
        return
    with suppress(ArcError):  # a run that cannot begin any more, or not go on
        going = _begun(store, kept, edit)
        for step in kept.steps:
            ask = None if going.over else going.wanted
            if ask is None or step.key is None:
                break
            now = ask.sent.key(ask.sample)
            rekey(db, step.key, now)
            found = answers.get(store, now, kept.server)
            if found is None:
                break
            going.go(Answered(now, found.body))


def _begun(store: Store, kept: FreeCore, edit: str | None) -> Going:
    known = stubs.of_trace(store, kept.trace)
    return Going(
        read.load(store, kept.trace),
        _edit(store.db, edit),
        Cached(store, kept.model, server=kept.server),
        Terms(stubs=known, allow_stale=kept.allow_stale, effects=kept.yours),
        start=kept.start,
        sample=kept.sample,
        max_steps=kept.limit,
        rules=Rules(kept.paths),
    )


def _edit(db: sqlite3.Connection, digest: str | None) -> Edit | None:
    found = db.execute("SELECT body FROM edit WHERE digest = ?", (digest,)).fetchone()
    return None if found is None else msgspec.json.decode(found[0], type=Edit)


def _moved(db: sqlite3.Connection, kept: FreeCore, edit: str | None) -> bool:
    """Is its edit another one, or an answer that it rests on?"""
    if edit != kept.edit:
        return True
    keys = [step.key for step in kept.steps if step.key is not None]
    found = db.execute(
        "SELECT 1 FROM moved_answer WHERE key IN (SELECT value FROM json_each(?))",
        (msgspec.json.encode(keys).decode(),),
    )
    return found.fetchone() is not None
