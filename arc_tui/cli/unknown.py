"""`arc import --unknown`: the fields that importers met and did not understand."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct, structs

from arc_tui.cli.common import console, print_table
from arc_tui.format import count, number, one_line
from arc_tui.jobs.importing import FileReport
from arc_tui.jobs.spotting import spots


class UnknownField(Struct, frozen=True, kw_only=True):
    """A field (or a kind of record) that a format has no meaning for, as the importer names it:
    how often it was met, in how many files, the first of these, and where it stands first in that
    (None where that is not known: the file is no JSON, or went by)."""

    format: str
    field: str
    count: int
    files: int
    example: str
    at: str | None = None


def unknown_fields(files: Iterable[FileReport]) -> tuple[UnknownField, ...]:
    """The fields of all files together, by format, the most frequent first."""
    found: dict[tuple[str, str], UnknownField] = {}
    for file in files:
        for field, times in file.unknown.items():
            key = (file.format or "", field)
            known = found.get(key) or UnknownField(
                format=key[0], field=field, count=0, files=0, example=file.path
            )
            found[key] = structs.replace(known, count=known.count + times, files=known.files + 1)
    return tuple(sorted(found.values(), key=lambda each: (each.format, -each.count, each.field)))


def spotted(found: tuple[UnknownField, ...]) -> tuple[UnknownField, ...]:
    """The same with their places, each example looked through once."""
    fields: dict[str, list[str]] = {}
    for each in found:
        fields.setdefault(each.example, []).append(each.field)
    places = {example: spots(Path(example), names) for example, names in fields.items()}
    return tuple(structs.replace(each, at=places[each.example].get(each.field)) for each in found)


def print_unknown(found: tuple[UnknownField, ...]) -> None:
    """As a table; how many there are goes to stderr."""
    if found:
        rows = [
            [one_line(each.format), one_line(each.field), number(each.count), number(each.files),
             one_line(each.example), one_line(each.at)]
            for each in found
        ]  # fmt: skip
        print_table(console(), ["format", "field", "count", "files", "for example", "at"], rows)
    said = f"{count(len(found), 'field')} not understood" if found else "every field was understood"
    console(err=True).print(said)
