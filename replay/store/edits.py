"""What users add: edits by their content, and supplements where a source was silent (`arc
attach`).
"""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path

import msgspec
from msgspec import Struct, structs

from replay import digests
from replay.digests import encode
from replay.edit.changes import Change, Edit
from replay.errors import ArcError, BadEdit, NotFound
from replay.store.handle import Store, now_ns
from replay.trace import (
    NO_SYSTEM,
    NO_TOOLS,
    Fidelity,
    Level,
    Message,
    ModelCall,
    Tool,
)

_SHORT = 8
"""Characters of a digest, after the name of its algorithm, that a list shows."""


class KeptEdit(Struct, frozen=True, kw_only=True):
    """A stored edit, for a list. `replays` counts the kept replays that used it."""

    name: str
    digest: str
    changes: tuple[Change, ...]
    thread: str | None
    added_ns: int
    replays: int

    @property
    def short(self) -> str:
        return short(self.digest)

    @property
    def edit(self) -> Edit:
        return Edit(name=self.name, changes=self.changes, thread=self.thread)


def short(digest: str) -> str:
    """The beginning of a digest, as lists show it and `find` takes it."""
    return digest.partition(":")[2][:_SHORT]


def save(store: Store, edit: Edit) -> Edit:
    """Keep an edit and return it as kept: its secrets masked, under the name it first had."""
    kept = mask(store, edit)
    digest = kept.digest
    with store.writing() as db:
        db.execute(
            "INSERT OR IGNORE INTO edit VALUES (?, ?, ?, ?)",
            (digest, kept.name, _body(kept), now_ns()),
        )
    return find(store, digest)


def mask(store: Store, edit: Edit) -> Edit:
    """An edit with its secrets masked, as it would be kept."""
    return msgspec.convert(store.redactor.value(msgspec.to_builtins(edit)), Edit)


def find(store: Store, name: str) -> Edit:
    """The edit of that name, digest, or beginning of a digest, with its algorithm or without.

    A name goes before a beginning of a digest. Raises NotFound where there is none, ArcError
    with their digests where there are several.
    """
    found = _named(store, name) or _begun(store, name)
    if len(found) > 1:
        digests = ", ".join(short(digest) for digest in found)
        raise ArcError(f"{name!r} matches {len(found)} edits", f"Try: one of {digests}")
    if not found:
        near = get_close_matches(name, [each for each, _ in names(store)])
        raise NotFound("edit", name, near, hint="Try: arc edit list")
    return next(iter(found.values()))


def combined_edit(store: Store, system: Path | None, changes: tuple[str, ...]) -> Edit | None:
    """The edit that `--system FILE` and every `--edit FILE|NAME` make together, None for none."""
    from replay.edit.editor import merge_edits
    from replay.edit.files import from_files  # what reads needs none of what edits

    parts = [from_files(system, [])]
    for each in changes:
        file = Path(each)
        stored = not file.exists() and file.suffix != ".toml"
        parts.append(find(store, each) if stored else from_files(None, [file]))
    return merge_edits([part for part in parts if part is not None])


def edit_named(store: Store, word: str) -> Edit:
    """The edit a person means: a file with a system prompt, a TOML file with changes, or the name
    of one that is kept. Raises BadEdit and NotFound."""
    from replay.edit.files import from_files

    file = Path(word).expanduser()
    if file.is_file():
        toml = file.suffix == ".toml"
        edit = from_files(None, [file]) if toml else from_files(file, [])
        assert edit is not None
        return edit
    try:
        return find(store, word)
    except NotFound as none:
        if file.suffix in (".toml", ".md", ".txt"):
            raise BadEdit(f"no file and no saved edit {word!r}") from none
        raise


def _named(store: Store, name: str) -> dict[str, Edit]:
    rows = store.db.execute(
        "SELECT digest, body FROM edit WHERE digest = ? OR name = ? ORDER BY digest", (name, name)
    )
    return {row[0]: msgspec.json.decode(row[1], type=Edit) for row in rows}


def _begun(store: Store, beginning: str) -> dict[str, Edit]:
    if not beginning:
        return {}
    rows = store.db.execute(
        "SELECT digest, body FROM edit WHERE substr(digest, 1, ?) = ?"
        " OR substr(digest, instr(digest, ':') + 1, ?) = ? ORDER BY digest",
        (len(beginning), beginning, len(beginning), beginning),
    )
    return {row[0]: msgspec.json.decode(row[1], type=Edit) for row in rows}


def names(store: Store) -> list[tuple[str, str]]:
    """(name, digest) of every edit, the latest first."""
    return [
        (row[0], row[1])
        for row in store.db.execute("SELECT name, digest FROM edit ORDER BY added_ns DESC, digest")
    ]


def listed(store: Store) -> list[KeptEdit]:
    """Every edit with how often it was tried, the latest first."""
    rows = store.db.execute(
        "SELECT digest, body, added_ns,"
        " (SELECT count(*) FROM replay WHERE replay.edit = edit.digest)"
        " FROM edit ORDER BY added_ns DESC, digest"
    )
    return [_kept(*row) for row in rows]


def _kept(digest: str, body: str, added_ns: int, replays: int) -> KeptEdit:
    edit = msgspec.json.decode(body, type=Edit)
    return KeptEdit(
        name=edit.name,
        digest=digest,
        changes=edit.changes,
        thread=edit.thread,
        added_ns=added_ns,
        replays=replays,
    )


def rename(store: Store, digest: str, name: str) -> Edit:
    """The edit of that digest under another name; what it changes, and its digest, stay.

    Raises NotFound where there is none, BadEdit for a blank name.
    """
    if not name.strip():
        raise BadEdit("an edit needs a name")
    with store.writing() as db:
        row = db.execute("SELECT body FROM edit WHERE digest = ?", (digest,)).fetchone()
        if row is None:
            raise NotFound("edit", digest)
        edit = msgspec.json.decode(row[0], type=Edit)
        renamed = structs.replace(edit, name=store.redactor.value(name))
        db.execute(
            "UPDATE edit SET name = ?, body = ? WHERE digest = ?",
            (renamed.name, _body(renamed), digest),
        )
    return renamed


def _body(edit: Edit) -> str:
    return encode(msgspec.to_builtins(edit)).decode()


SKETCHED = "tools inferred from the calls"


class Supplement(Struct, frozen=True, kw_only=True):
    """A system prompt, tool definitions, or both; `sketched` when derived from the calls seen."""

    name: str
    system: str | None = None
    tools: tuple[Tool, ...] | None = None
    sketched: bool = False


def attach(store: Store, trace: str, supplement: Supplement) -> str:
    """Put a supplement beside a trace, over an earlier one; returns its digest."""
    redact = store.redactor
    system = redact.text(supplement.system) if supplement.system is not None else None
    tools = supplement.tools
    values = None if tools is None else redact.value([digests.tool_value(tool) for tool in tools])
    body = None if values is None else digests.encode(values).decode()
    digest = digests.digest("supplement", system or "", body or "")
    with store.writing() as db:
        db.execute(
            "INSERT OR IGNORE INTO supplement VALUES (?, ?, ?, ?, ?, ?)",
            (digest, supplement.name, system, body, int(supplement.sketched), now_ns()),
        )
        db.execute(
            "INSERT INTO trace_supplement VALUES (?, ?)"
            " ON CONFLICT (trace_key) DO UPDATE SET supplement = excluded.supplement",
            (trace, digest),
        )
    return digest


def supplement_of(store: Store, trace: str) -> Supplement | None:
    """The supplement beside a trace, None where there is none."""
    row = store.db.execute(
        "SELECT name, system, tools, sketched FROM supplement"
        " WHERE digest = (SELECT supplement FROM trace_supplement WHERE trace_key = ?)",
        (trace,),
    ).fetchone()
    if row is None:
        return None
    tools = None if row[2] is None else msgspec.json.decode(row[2], type=tuple[Tool, ...])
    return Supplement(name=row[0], system=row[1], tools=tools, sketched=bool(row[3]))


def supplied(call: ModelCall, added: Supplement) -> ModelCall:
    """The call with the supplement where its request is silent, and the fidelity that leaves."""
    request, reasons = call.request, list(call.fidelity.reasons)
    used = False
    if request.system is None and added.system is not None:
        body = {"role": "system", "content": added.system}
        request = structs.replace(request, system=Message(dialect="anthropic", body=body))
        reasons, used = [r for r in reasons if r != NO_SYSTEM], True
    if request.tools is None and added.tools is not None:
        request = structs.replace(request, tools=added.tools)
        reasons, used = [r for r in reasons if r != NO_TOOLS], True
        if added.sketched:
            reasons.append(SKETCHED)
    if not used:
        return call
    level = Level.PARTIAL if reasons else Level.SUPPLIED
    fidelity = Fidelity(level=level, reasons=(*reasons, f"supplied by {added.name}"))
    return structs.replace(call, request=request, fidelity=fidelity)
