"""What is done about a failure: who owns it, how it is rolled back, what guards against it.

A team writes it down in `playbook.toml`, a table a class, by the keys that `[owners]` of the
settings takes (`taxonomy.owners`): a class, a class with its sub-label, or an attribution:

    ["bad args"]
    owner = "tools team"
    rollback = "Pin prompt v7 and deploy it."
    guard = "Check arguments against the schema before each call."

There is one notion of an owner: one that a playbook names is an owner like those of the settings,
and takes the place of theirs for the same key. What a sub-label lacks its class says. None where
nothing is written: a rollback is never guessed.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import TypeVar

from msgspec import Struct, structs

from replay.errors import ArcError
from taxonomy.classes import Attribution, FailureClass, class_label
from taxonomy.owners import BadOwner, Owners, owner_key

NAME = "playbook.toml"

Key = TypeVar("Key")


class BadPlaybook(ArcError):
    """A playbook that cannot be used; the message names the file and the key."""


class Entry(Struct, frozen=True, kw_only=True):
    """What is written for a key; None is not written."""

    owner: str | None = None
    rollback: str | None = None
    guard: str | None = None


FIELDS = Entry.__struct_fields__


class Playbook(Struct, frozen=True, kw_only=True):
    """The entries by what they are for. `file` is where they stand, None where there is no file."""

    file: str | None = None
    by_attribution: dict[Attribution, Entry] = {}
    by_label: dict[str, Entry] = {}

    def of(
        self,
        failure: FailureClass,
        sub: str | None = None,
        attribution: Attribution | None = None,
    ) -> Entry:
        """What is written for a failure, each field from the nearest entry that has it."""
        if attribution is not None and attribution is not Attribution.AGENT:
            return self.by_attribution.get(attribution, Entry())
        found = [
            self.by_label.get(class_label(failure, sub)),
            self.by_label.get(failure.value),
            self.by_attribution.get(Attribution.AGENT),
        ]
        known: dict[str, str] = {}
        for entry in filter(None, found):
            written = {name: value for name, value in structs.asdict(entry).items() if value}
            known = written | known
        return Entry(**known)

    def owners(self, others: Owners) -> Owners:
        """The owners of the playbook, and `others` where it names none."""
        return Owners(
            by_attribution=others.by_attribution | _owners(self.by_attribution),
            by_label=others.by_label | _owners(self.by_label),
        )


NO_PLAYBOOK = Playbook()


def _owners(entries: Mapping[Key, Entry]) -> dict[Key, str]:
    return {key: each.owner for key, each in entries.items() if each.owner is not None}


def read_playbook(file: Path) -> Playbook:
    """The playbook in a file. Raises BadPlaybook."""
    import tomllib  # most have none: the app is to be drawn first

    try:
        table = tomllib.loads(file.read_text("utf-8"))
    except OSError as error:
        raise BadPlaybook(f"{file}: cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadPlaybook(f"{file}: invalid TOML: {error}") from error
    by_attribution: dict[Attribution, Entry] = {}
    by_label: dict[str, Entry] = {}
    for name, given in table.items():
        try:
            key = owner_key(name)
        except BadOwner as error:
            raise BadPlaybook(f"{file}: {error.message}", error.hint) from error
        entry = _entry(file, name, given)
        if key in by_attribution or key in by_label:
            raise BadPlaybook(f"{file}: {name!r} stands there twice")
        if isinstance(key, Attribution):
            by_attribution[key] = entry
        else:
            by_label[key] = entry
    return Playbook(file=str(file), by_attribution=by_attribution, by_label=by_label)


def _entry(file: Path, name: str, given: object) -> Entry:
    known = f"known: {', '.join(FIELDS)}"
    if not isinstance(given, dict):
        raise BadPlaybook(f"{file}: {name!r} is no table", known)
    for field, value in given.items():
        if field not in FIELDS:
            near = get_close_matches(field, FIELDS, n=1)
            meant = f", did you mean {near[0]!r}?" if near else ""
            raise BadPlaybook(f"{file}: [{name}] unknown key {field!r}{meant}", known)
        if not isinstance(value, str) or not value.strip():
            raise BadPlaybook(f"{file}: [{name}] {field} is no text", 'Try: "…"')
    if not given:
        raise BadPlaybook(f"{file}: [{name}] is empty", known)
    return Entry(**{field: value.strip() for field, value in given.items()})
