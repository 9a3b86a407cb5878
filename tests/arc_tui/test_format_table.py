"""What the importers say of themselves, and what they say they did not understand."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from arc_tui.features.imports.command import (
    HEAD,
    MEANS,
    UnknownField,
    build_formats,
    import_,
    spots,
    unknown_fields,
)
from arc_tui.importing import FileReport
from replay import formats
from replay.errors import BadTrace
from replay.formats import Format
from replay.formats.source import Source, Tally
from replay.trace import Level, ModelCall
from tests.replay.test_otlp_files import binary
from tests.shared import DATA, needs_shared

MOST_FILES = 12
MOST_BYTES = 2_000_000


def test_every_format_says_what_it_reads_and_how_well_it_can_be_replayed() -> None:
    rows = build_formats()
    assert [row.name for row in rows] == [each.NAME for each in formats.formats()]
    for row in rows:
        assert all(row.cells), row.name
        assert list(row.fidelity) == sorted(set(row.fidelity), key=lambda level: level.rank)
    assert {level for row in rows for level in row.fidelity} <= set(MEANS)
    assert set(MEANS) == set(Level)


def modules(importer: Format) -> list[Path]:
    path = Path(str(formats.__file__)).parent / importer.__name__.rpartition(".")[2]  # type: ignore[attr-defined]
    return [path.with_suffix(".py")] if not path.is_dir() else [*path.rglob("*.py")]


def given_in(path: Path) -> Iterator[Level]:
    """The levels that the code of a module gives, what it says of itself aside."""
    for statement in ast.parse(path.read_text()).body:
        target = statement.targets[0] if isinstance(statement, ast.Assign) else None
        target = statement.target if isinstance(statement, ast.AnnAssign) else target
        if target is not None and ast.unparse(target) == "FIDELITY":
            continue
        for node in ast.walk(statement):
            if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "Level":
                yield Level[node.attr]


@pytest.mark.parametrize("importer", tuple(formats.formats()), ids=lambda importer: importer.NAME)
def test_no_level_that_an_importer_gives_is_missing_from_its_row(importer: Format) -> None:
    given = {level for path in modules(importer) for level in given_in(path)}
    if importer.NAME == "tau-bench":  # its calls are told by the importer of chats
        given = {Level.PARTIAL}
    if importer.NAME == "chat":
        assert given == {Level.REBUILT, Level.PARTIAL}
    assert given <= set(importer.FIDELITY)


@pytest.mark.data
@needs_shared
def test_real_files_are_known_as_well_as_their_row_says() -> None:
    """No call is at another level than the row names, and the best one is not an empty promise."""
    seen: dict[str, set[Level]] = {}
    files: dict[str, int] = {}
    for path in sorted(DATA.rglob("*")):
        if not path.is_file() or path.stat().st_size > MOST_BYTES:
            continue
        source = Source(path)
        try:
            importer = formats.sniff(source)
            if importer is None or files.get(importer.NAME, 0) == MOST_FILES:
                continue
            files[importer.NAME] = files.get(importer.NAME, 0) + 1
            for batch in formats.load(source, Tally(), format=importer):
                levels = {span.fidelity.level for span in batch.spans if type(span) is ModelCall}
                assert levels <= set(importer.FIDELITY), path
                seen.setdefault(importer.NAME, set()).update(levels)
        except BadTrace:
            continue
    assert len(seen) > 8
    for name in ("inspect", "otlp", "anthropic", "claude-code", "atif", "mini-swe-agent"):
        assert formats.named(name).FIDELITY[0] in seen[name], name


def test_the_list_of_formats_prints_the_table_and_as_json_the_same() -> None:
    printed = CliRunner().invoke(import_, ["--list-formats"], standalone_mode=False)
    head, *rows = printed.stdout.splitlines()
    assert [head.index(title) for title in HEAD] == sorted(head.index(title) for title in HEAD)
    assert [row.split()[0] for row in rows] == [each.name for each in build_formats()]
    assert all(f"{level} " in printed.stderr for level in Level)
    given = ["--list-formats", "--json"]
    told = json.loads(CliRunner().invoke(import_, given, standalone_mode=False).stdout)
    assert [tuple(row["fidelity"]) for row in told] == [each.fidelity for each in build_formats()]


def report(path: str, format: str, **unknown: int) -> FileReport:
    return FileReport(path=path, format=format, unknown=unknown)


def test_unknown_fields_are_counted_over_all_files_and_name_the_first() -> None:
    found = unknown_fields(
        [
            report("a", "codex", mood=1, hat=2),
            report("b", "atif", mood=7),
            report("c", "codex", mood=4),
            FileReport(path="d", error="is broken"),
        ]
    )
    assert found == (
        UnknownField(format="atif", field="mood", count=7, files=1, example="b"),
        UnknownField(format="codex", field="mood", count=5, files=2, example="a"),
        UnknownField(format="codex", field="hat", count=2, files=1, example="a"),
    )


def test_in_protobuf_an_attribute_has_the_byte_where_it_begins(tmp_path: Path) -> None:
    path = tmp_path / "spans.pb"
    path.write_bytes(binary())
    found = spots(path, ["attribute pad", "attribute padding"])
    place = int(found["attribute pad"].removeprefix("byte "))
    assert path.read_bytes()[place : place + 3] == b"pad"
    assert found.keys() == {"attribute pad"}


def taken_in(folder: Path, *words: str) -> Result:
    arguments = ["--db", str(folder / "arc.db"), "--unknown", *words]
    return CliRunner().invoke(import_, arguments, standalone_mode=False)


def session(path: Path, **more: object) -> Path:
    record = {
        "sessionId": path.stem, "uuid": "a", "parentUuid": None, "type": "assistant",
        "timestamp": "2026-01-02T10:00:00Z",
        "message": {"role": "assistant", "id": "m", "content": [{"type": "text", "text": "Hi."}]},
    }  # fmt: skip
    path.write_text(json.dumps(record | more) + "\n")
    return path


def test_import_unknown_lists_what_was_met_and_not_understood(tmp_path: Path) -> None:
    first = session(tmp_path / "a.jsonl", mood="fine", hat="on\x1b[2J")
    second = session(tmp_path / "b.jsonl", mood="bad")
    done = taken_in(tmp_path, str(first), str(second))
    rows = [line.split(maxsplit=5) for line in done.stdout.splitlines()[1:]]
    assert rows == [
        ["claude-code", "mood", "2", "2", str(first), "line 1: mood"],
        ["claude-code", "hat", "1", "1", str(first), "line 1: hat"],
    ]
    assert "2 unknown fields" in done.stderr
    told = json.loads(taken_in(tmp_path, str(second), "--json").stdout)
    assert [(each["field"], each["count"]) for each in told] == [("mood", 1)]


def test_import_unknown_says_that_all_was_understood_and_what_could_not_be_read(
    tmp_path: Path,
) -> None:
    done = taken_in(tmp_path, str(session(tmp_path / "a.jsonl")), str(tmp_path / "absent.jsonl"))
    assert done.stdout == ""
    assert "no unknown fields" in done.stderr
    assert "absent.jsonl: cannot be read" in done.stderr
    assert done.return_value == 2


def test_a_field_is_spotted_where_it_stands_first(tmp_path: Path) -> None:
    by_line = tmp_path / "a.jsonl"
    records = [{"b": {"mood": 1}}, "no object", {"type": "odd", "hat": 1, "c": [{"mood": 2}]}]
    by_line.write_text("\n".join([*map(json.dumps, records), '{"broken": ']))
    fields = ["step mood", "hat", "type odd", "absent", "line without a type"]
    assert spots(by_line, fields) == {
        "step mood": "line 1: b.mood",
        "hat": "line 3: hat",
        "type odd": "line 3: type",
    }
    document = tmp_path / "b.json"
    document.write_text(json.dumps({"deep": [{}, {"mood": 1}], "mood": 2}, indent=1))
    assert spots(document, ["mood"]) == {"mood": "mood"}
    assert spots(tmp_path / "absent", ["mood"]) == {}
    (tmp_path / "c.pb").write_bytes(bytes(range(256)))
    assert spots(tmp_path / "c.pb", ["mood"]) == {}


@given(
    st.recursive(
        st.none() | st.text(max_size=3),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(["type", "x", "y", "z"]), inner, max_size=3)
        ),
    )
)
def test_a_spot_is_where_the_field_is(tmp_path_factory: pytest.TempPathFactory, value: Any) -> None:
    path = tmp_path_factory.mktemp("spots") / "a.json"
    path.write_text(json.dumps(value))
    text = path.read_text()
    for name, place in spots(path, ["x", "y"]).items():
        assert place.startswith("line 1: ")
        assert place.endswith((name, "type"))
    found = spots(path, ["x"])
    assert ("x" in found) == ('"x":' in text or '"type": "x"' in text)
