"""One table of columns: what the app, `arc ls`, `--json` and the help show of a run."""

from __future__ import annotations

import msgspec
from click.testing import CliRunner
from msgspec import structs

from arc_tui.commands import cli
from arc_tui.views.columns import (
    ALWAYS,
    COLUMNS,
    PRINTED,
    SETS,
    SORTED,
    Column,
    described,
    json_of,
    layout,
    mark,
)
from arc_tui.views.runs import NO_RUN
from taxonomy.query.listing import RunRow

ROW = structs.replace(
    NO_RUN,
    trace="d4870ab1c2",
    task="26",
    trial="1",
    outcome="failed",
    steps=12_345,
    duration_ns=90 * 10**9,
    why="amount 40 stands in nothing it saw",
    why_step=7,
)


def test_every_field_of_a_row_has_a_column_in_its_order() -> None:
    fields = RunRow.__struct_fields__
    assert tuple(column.id for column in COLUMNS[: len(fields)]) == fields


def test_json_is_the_row_as_it_is_stored() -> None:
    assert msgspec.to_builtins(json_of(ROW)) == msgspec.to_builtins(ROW)


def test_what_people_see_has_a_heading() -> None:
    shown = {*ALWAYS, *PRINTED, *SORTED, *(column for each in SETS.values() for column in each)}
    assert all(column.heading for column in shown)
    assert all(column.order for column in SORTED)


def test_a_printed_row_and_a_row_of_the_screen_say_the_same() -> None:
    printed = {column.heading: column.printed_cell(ROW) for column in PRINTED}
    assert printed["id"] == "d4870ab1"
    assert printed["steps"] == "12 345"
    assert printed["why"] == "amount 40 stands in nothing it saw · 7"
    assert mark(ROW).plain == "✗"
    cells = layout([ROW], "why").cells(ROW, 80)
    assert {column.heading: cell.strip() for column, cell in cells} == {
        "task": "26",
        "trial": "1",
        "outcome": "failed",
        "steps": printed["steps"],
        "why": printed["why"],
    }


def test_the_variant_stands_in_the_list_where_runs_differ_in_it_once() -> None:
    rows = [structs.replace(ROW, variant=each) for each in ("v4", "v5")]
    cells = layout(rows, "why").cells(rows[0], 80)
    assert [cell.strip() for column, cell in cells if column.id == "variant"] == ["v4"]
    assert "variant" not in [column.id for column in layout(rows[:1], "why").columns]
    assert [column.id for column in layout(rows, "source").columns].count("variant") == 1


def test_a_column_that_says_nothing_of_its_text_shows_its_value() -> None:
    errors = Column(id="errors", heading="errors", means="how many tool calls failed")
    doubled = Column(id="doubled", means="twice", value=lambda row: 2 * row.steps)
    unknown = Column(id="end_ns", means="when it ended")
    assert [each.text_of(ROW) for each in (errors, doubled, unknown)] == ["0", "24690", "–"]


def test_help_says_what_each_column_is() -> None:
    said = CliRunner().invoke(cli, ["help", "columns"]).stdout
    assert all(name in said and means in said for name, _, means in described())
