"""What stands beside the tape under today's rules: edits, supplements, answers, notes, words."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

import msgspec

from replay import canon
from replay.edit import Edit
from replay.store import prune
from replay.store.read import dicts
from replay.store.scrub.content import damaged
from replay.store.scrub.masks import Masks
from replay.store.scrub.moved import Digests, ids, move
from replay.store.scrub.places import KEPT, Places
from replay.store.scrub.tape import Row, masked

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
        changed["arguments"] = canon.canonical(msgspec.json.decode(changed["arguments"]))
    return changed


def _write(db: sqlite3.Connection, table: str, rowid: int, values: Row) -> None:
    names = ", ".join(f"{name} = ?" for name in values)
    db.execute(f"UPDATE OR REPLACE {table} SET {names} WHERE rowid = ?", [*values.values(), rowid])
