"""What stands beside the recordings under today's rules: edits, supplements, answers, notes,
replays.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import suppress

import msgspec

from replay import digests as canon
from replay.care import prune
from replay.care.scrub.content import KEPT, Digests, Masks, Places, damaged, ids, move
from replay.care.scrub.spans import Row, masked, rekey
from replay.compare.rules import Rules
from replay.digests import canonical
from replay.edit.changes import Edit
from replay.errors import ArcError
from replay.free.recorded_results import Terms
from replay.free.result import FreeCore
from replay.free.run import FreeRunner
from replay.kept import stubs_of_trace
from replay.locked import run
from replay.locked.row import Models, Sampling
from replay.locked.run import Core, core
from replay.models.cached import Answered, Cached
from replay.store import answers as answers_store
from replay.store import read
from replay.store.connection import dicts
from replay.store.handle import Store

OWN_SETTINGS = ("redact_key", prune.UNERASED)
"""What arc keeps in the notes for itself."""


# --- edits and supplements


def edits(db: sqlite3.Connection, masks: Masks) -> dict[str, str]:
    """Mask every edit; the digests of those that changed what they do, by the ones they had."""
    moved: dict[str, str] = {}
    for row in ids(db, "edit", "rowid"):
        was, name, body = db.execute(
            "SELECT digest, name, body FROM edit WHERE rowid = ?", (row,)
        ).fetchone()
        new_name, new_body = masks.text("edit", name), masks.json("edit", body)
        if (name, body) == (new_name, new_body):
            continue
        edit, after = _edit(body), _edit(new_body)
        if edit.digest != was:
            raise damaged(f"edit {was}")
        if after.digest != was:
            moved[was] = after.digest
        move(db, was, after.digest)
        taken = db.execute(
            "SELECT 1 FROM edit WHERE digest = ? AND rowid <> ?", (after.digest, row)
        ).fetchone()
        if taken is not None:
            db.execute("DELETE FROM edit WHERE rowid = ?", (row,))
        else:
            db.execute(
                "UPDATE edit SET digest = ?, name = ?, body = ? WHERE rowid = ?",
                (after.digest, new_name, new_body, row),
            )
        db.execute("UPDATE replay SET edit = ? WHERE edit = ?", (after.digest, was))
    return moved


def kept_edits(db: sqlite3.Connection) -> dict[str, Edit]:
    """Every edit by its digest."""
    return {digest: _edit(body) for digest, body in db.execute("SELECT digest, body FROM edit")}


def _edit(body: str) -> Edit:
    try:
        return msgspec.json.decode(body, type=Edit)
    except msgspec.DecodeError as error:
        raise damaged("an edit") from error


def supplements(db: sqlite3.Connection, masks: Masks) -> None:
    """Mask every supplement; of two that become the same one stays."""
    for row, changed in _changing_supplements(db, masks):
        after = {**row, **changed}
        now = canon.digest("supplement", after["system"] or "", after["tools"] or "")
        move(db, row["digest"], now)
        of = (now, row["digest"])
        db.execute("UPDATE trace_supplement SET supplement = ? WHERE supplement = ?", of)
        db.execute(
            "UPDATE OR REPLACE supplement SET digest = ?, name = ?, system = ?, tools = ?"
            " WHERE rowid = ?",
            (now, after["name"], after["system"], after["tools"], row["id"]),
        )


def supplemented(db: sqlite3.Connection, masks: Masks) -> Iterator[str]:
    """The traces beside which a supplement stands that is to be masked."""
    for row, _ in _changing_supplements(db, masks):
        of = db.execute(
            "SELECT trace_key FROM trace_supplement WHERE supplement = ?", (row["digest"],)
        )
        yield from (each[0] for each in of.fetchall())


def _changing_supplements(db: sqlite3.Connection, masks: Masks) -> Iterator[tuple[Row, Row]]:
    for rowid in ids(db, "supplement", "rowid"):
        found = db.execute("SELECT rowid AS id, * FROM supplement WHERE rowid = ?", (rowid,))
        row = next(dicts(found), None)
        changed = row and masked(masks, "supplement", KEPT["supplement"], row, rowid)
        if row and changed:
            yield row, changed


# --- answers


def answers(db: sqlite3.Connection, masks: Masks) -> None:
    """Mask every answer. Its key is that of a request, which `requests` knows."""
    for rowid in ids(db, "answer", "rowid"):
        row = next(dicts(db.execute("SELECT * FROM answer WHERE rowid = ?", (rowid,))), None)
        changed = row and masked(masks, "answer", KEPT["answer"], row, rowid)
        if row and changed:
            _write(db, "answer", rowid, changed)
            server = changed.get("server", row["server"])
            db.execute("INSERT OR IGNORE INTO moved_answer VALUES (?, ?)", (server, row["key"]))


# --- rows that each stand for themselves


def plain(db: sqlite3.Connection, masks: Masks, places: Places) -> None:
    """Mask every row of some tables, and give every digest in them as it is now. Of two rows that
    become the same the later one stays."""
    digests = Digests(db)
    for table, texts in places.items():
        columns = [*texts.text, *texts.json]
        columns += [name for name, why in texts.ours.items() if name == "content"]
        if not columns:
            continue
        names = ", ".join(columns)
        for rowid in ids(db, table, "rowid"):
            found = db.execute(f"SELECT {names} FROM {table} WHERE rowid = ?", (rowid,)).fetchone()
            if found is None:
                continue  # it became the same as one before it
            row = dict(zip(columns, found, strict=True))
            if table == "setting" and row["name"] in OWN_SETTINGS:
                continue
            after = {**row, **_masked_plain(masks, table, places, row, rowid)}
            after = {
                name: digests.now(value) if isinstance(value, str) else value
                for name, value in after.items()
            }
            changed = {name: value for name, value in after.items() if value != row[name]}
            if changed:
                _write(db, table, rowid, changed)


def _masked_plain(masks: Masks, table: str, places: Places, row: Row, rowid: int) -> Row:
    if table == "setting":  # a note, or a plain word
        return {
            "name": masks.text(table, str(row["name"])),
            "value": masks.json_or_text(table, str(row["value"])),
        }
    changed = masked(masks, table, places[table], row, rowid)
    if table == "stub" and "arguments" in changed:  # found again by this form of them
        changed["arguments"] = canonical(msgspec.json.decode(changed["arguments"]))
    return changed


def _write(db: sqlite3.Connection, table: str, rowid: int, values: Row) -> None:
    names = ", ".join(f"{name} = ?" for name in values)
    db.execute(f"UPDATE OR REPLACE {table} SET {names} WHERE rowid = ?", [*values.values(), rowid])


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
            _replays_write(store, masks, row, kind, said, edit, traces)


_REPLAY = "SELECT kind, core, edit FROM replay WHERE id = ?"


def _replays_write(
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
    trace, edit = read.load(store, kept.trace), _replays_edit(store.db, kept.edit)
    control = edited = Cached(store, kept.model, server=kept.server)
    if kept.edited_model is not None:
        edited = Cached(store, kept.edited_model, server=kept.edited_server)
    counts = {row.step: max(len(row.control), len(row.edited)) for row in kept.rows}
    sampling = Sampling(levels=kept.levels, range=kept.range, counts=counts)
    models, rules = Models(control, edited), Rules(kept.paths)
    going = run.replay(trace, edit, models, sampling=sampling, steps=kept.steps, rules=rules)
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
            found = answers_store.get(store, now, kept.server)
            if found is None:
                break
            going.go(Answered(now, found.body))


def _begun(store: Store, kept: FreeCore, edit: str | None) -> FreeRunner:
    known = stubs_of_trace(store, kept.trace)
    return FreeRunner(
        read.load(store, kept.trace),
        _replays_edit(store.db, edit),
        Cached(store, kept.model, server=kept.server),
        Terms(stubs=known, allow_stale=kept.allow_stale, effects=kept.yours),
        start=kept.start,
        sample=kept.sample,
        max_steps=kept.limit,
        rules=Rules(kept.paths),
    )


def _replays_edit(db: sqlite3.Connection, digest: str | None) -> Edit | None:
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
