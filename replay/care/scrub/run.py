"""Today's rules over a whole database, in one transaction, and then the end of the old bytes.

Killed before its end, the database is as it was; killed after it, the next run erases what is
left in the file. The first part goes over what stands beside the recordings: edits, supplements,
answers, notes, replays.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import suppress

import msgspec
from msgspec import Struct

from replay import digests
from replay.care import prune
from replay.care.scrub import content, spans
from replay.care.scrub.content import (
    KEPT,
    PLAIN,
    STORE,
    Digests,
    Masks,
    Places,
    damaged,
    ids,
    move,
    remembering,
)
from replay.care.scrub.spans import Row, masked, rekey
from replay.compare.rules import Rules
from replay.digests import canonical
from replay.edit.changes import Edit
from replay.errors import ArcError
from replay.free.recorded_results import Terms
from replay.free.result import FreeCore
from replay.free.run import FreeRunner
from replay.kept import stubs_of_trace
from replay.locked.row import Models
from replay.locked.run import Core, run_again
from replay.models.cached import Answered, Cached
from replay.store import answers as stored_answers
from replay.store import environments, read, text_index
from replay.store.connection import dicts
from replay.store.handle import Store, now_ns

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
        now = digests.digest("supplement", after["system"] or "", after["tools"] or "")
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
    assert kept.edit == edit, "a replay does not match its edit"
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
    return run_again(kept, trace, edit, Models(control, edited))


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
            found = stored_answers.get(store, now, kept.server)
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


class Masked(Struct, frozen=True, kw_only=True):
    """How many places of a table a rule masked."""

    table: str
    rule: str
    places: int


class Scrubbed(Struct, frozen=True, kw_only=True):
    """What was masked, or would be where `done` is False.

    `merged` rows of content say what others do now and went into them. Of the stored answers
    `rekeyed` got the key of their request as it is now; `untold` are those of which it cannot be
    told what they were asked, of a database in which something was masked: where that changed, they
    are asked for again. `unfinished` imports were dropped. `copies` are files beside the database
    that may hold the old texts; `tables` of other programs were not looked at.
    """

    done: bool
    masked: tuple[Masked, ...]
    merged: int
    rekeyed: int
    untold: int
    unfinished: int
    erased: bool = False
    copies: tuple[str, ...] = ()
    tables: tuple[str, ...] = ()

    @property
    def places(self) -> int:
        return sum(each.places for each in self.masked)


class _Undo(Exception):
    """Ends a transaction that was only tried."""


def scrub(
    store: Store,
    judgements: Places,
    *,
    known: Places = STORE,
    prompts: Sequence[Edit] = (),
    dry: bool = False,
) -> Scrubbed:
    """Mask all that a database holds by the rules of its redactor.

    `judgements` are further tables of plain rows, `known` all tables that are ours. `prompts` are
    edits that the database does not keep and under which steps were asked: versions of a bisection.
    With `dry` everything is done and taken back.

    Raises StoreBusy where another process is in the way, StoreDamaged where something that would
    change is not what was written, StoreUnusable. Then nothing was changed; but a reader can keep
    old bytes in the log, which StoreBusy says too.
    """
    _ = store.redactor  # its key may have to be made, which is a transaction of its own
    found: list[Scrubbed] = []
    try:
        with prune.removing(store):
            found.append(_Work(store, judgements, known, prompts).run())
            if dry:
                raise _Undo
    except _Undo:
        return found[0]
    erased = prune.unerased(store)
    if erased:
        prune.erase(store)
    return msgspec.structs.replace(found[0], done=True, erased=erased)


class _Work:
    """One scrubbing under way, within its transaction."""

    def __init__(
        self, store: Store, judgements: Places, known: Places, prompts: Sequence[Edit]
    ) -> None:
        self._store = store
        self._db = store.db
        self._judgements = judgements
        self._known = known
        self._prompts = {f"prompt {at}": edit for at, edit in enumerate(prompts)}
        self._masks = Masks(store.redactor, self._is_trace)

    def run(self) -> Scrubbed:
        db, masks = self._db, self._masks
        unfinished = self._drop_unfinished()
        with remembering(db):
            content.find(db, masks)
            touched = set(filter(self._is_trace, self._touched()))
            merged = self._rewrite(touched)
            rekeyed, untold = self._answers()
        if masks.found or unfinished:
            text_index.refill(db)
            prune.mark_unerased(db)
        counts = sorted(masks.found.items())
        return Scrubbed(
            done=False,
            masked=tuple(
                Masked(table=table, rule=rule, places=many) for (table, rule), many in counts
            ),
            merged=merged,
            rekeyed=rekeyed,
            untold=untold if masks.found else 0,
            unfinished=unfinished,
            copies=tuple(map(str, prune.copies_beside(self._store.path))),
            tables=tuple(self._unknown_tables()),
        )

    def _drop_unfinished(self) -> int:
        """Rows of imports that never came to an end. One that is under way elsewhere knows rows
        that may go now: it must begin again, and does when its trace is gone."""
        if self._db.execute("SELECT 1 FROM trace WHERE NOT complete").fetchone() is None:
            return 0
        return prune.remove(self._db, (), unfinished_before_ns=now_ns()).unfinished

    def _rewrite(self, touched: set[str]) -> int:
        """Everything, in the order in which one follows from the other; how many rows of content
        went into others."""
        db, store, masks = self._db, self._store, self._masks
        was = kept_edits(db)
        moved = edits(db, masks)

        def edits_before(key: str) -> spans.Edits:
            """What may have been asked of a trace whose answers have other keys now."""
            changed: spans.Edits = {digest: was[digest] for digest in moved}
            return {"": None, **was, **self._prompts} if key in touched else changed

        concerned = sorted(touched) if not moved else self._traces()
        spans.before(store, concerned, edits_before)
        supplements(db, masks)
        content.write(db)
        spans.write(db, masks)
        merged = content.drop(db)
        spans.sum_masked(db)
        answers(db, masks)
        now = kept_edits(db)
        edits_now = {digest: now[moved.get(digest, digest)] for digest in was}
        spans.after(store, {"": None, **edits_now, **self._prompts})
        plain(db, masks, {"stub": PLAIN["stub"]})
        write(store, masks, touched)
        for table, texts in self._judgements.items():
            if texts.derived:
                db.execute(f"DELETE FROM {table} WHERE trace IN ({_CHANGED}) AND {texts.derived}")
        plain(db, masks, {**PLAIN, **self._judgements})
        changed = db.execute(f"SELECT id FROM trace WHERE key IN ({_CHANGED}) AND complete")
        environments.fill(db, [row for (row,) in changed.fetchall()])
        environments.forget_unused(db)
        return merged

    # --- which traces

    def _is_trace(self, key: str) -> bool:
        found = self._db.execute("SELECT 1 FROM trace WHERE key = ?", (key,))
        return found.fetchone() is not None

    def _traces(self) -> list[str]:
        return [row[0] for row in self._db.execute("SELECT key FROM trace WHERE complete")]

    def _touched(self) -> Iterator[str]:
        """The traces whose requests hold something that is to be masked, before any is."""
        db = self._db
        yield from (row[0] for row in db.execute(_TOUCHED))
        unseen = Masks(self._store.redactor, self._is_trace)  # counted when they are written
        yield from supplemented(db, unseen)
        for (params,) in db.execute("SELECT DISTINCT params FROM model_call").fetchall():
            if params is not None and unseen.json("model_call", params) != params:
                yield from (row[0] for row in db.execute(_WITH_PARAMS, (params,)))
        stubs = db.execute("SELECT trace_key, arguments, result, tool FROM stub").fetchall()
        for key, *texts in stubs:
            if any(unseen.json_or_text("stub", text) != text for text in texts):
                yield key

    # --- what is told of it

    def _answers(self) -> tuple[int, int]:
        """(answers under another key than before, answers to unknown requests)."""
        (rekeyed,) = self._db.execute(
            "SELECT count(1) FROM answer"
            " WHERE substr(key, instr(key, ':') + 1) IN (SELECT now FROM moved_digest)"
        ).fetchone()
        (untold,) = self._db.execute(
            "SELECT count(1) FROM answer"
            " WHERE substr(key, instr(key, ':') + 1) NOT IN (SELECT now FROM moved_digest)"
            " AND key NOT IN (SELECT key FROM asked)"
            f" AND (server, key) NOT IN ({prune.RESTS})"
        ).fetchone()
        return rekeyed, untold

    def _unknown_tables(self) -> Iterator[str]:
        found = self._db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        own = (*self._known, *self._judgements)
        return (row[0] for row in found if row[0] not in own and not row[0].startswith("sqlite_"))


_CHANGED = "SELECT t.key FROM trace t JOIN moved_trace m ON m.id = t.id"

_TOUCHED = """
SELECT t.key FROM trace t WHERE t.complete AND (
  EXISTS (SELECT 1 FROM message_step e JOIN moved_message m ON m.id = e.message
    WHERE e.trace = t.id)
  OR EXISTS (SELECT 1 FROM span s JOIN model_call c ON c.span = s.id
    JOIN moved_toolset m ON m.id = c.toolset WHERE s.trace = t.id))
"""

_WITH_PARAMS = """
SELECT DISTINCT t.key FROM trace t JOIN span s ON s.trace = t.id
JOIN model_call c ON c.span = s.id WHERE t.complete AND c.params = ?
"""
