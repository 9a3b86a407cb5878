"""One table of columns: what the app, `arc ls`, `--json` and the help show of a run."""

from __future__ import annotations

import msgspec
from click.testing import CliRunner
from msgspec import structs

from arc_tui.commands import cli
from arc_tui.views.columns import (
    COLUMNS,
    PRINTED,
    SETS,
    SHOWN,
    SORTED,
    Column,
    described,
    json_of,
    layout,
    mark,
    sorted_by,
)
from arc_tui.views.runs import NO_RUN
from replay.trace import Level
from taxonomy.query.listing import RunRow

ROW = structs.replace(
    NO_RUN,
    trace="d4870ab1c2",
    task="26",
    trial="1",
    outcome="failed",
    steps=12_345,
    duration_ns=90 * 10**9,
    why="amount 40 not found in context",
    why_step=7,
)


def test_every_field_of_a_row_has_a_column_in_its_order() -> None:
    fields = RunRow.__struct_fields__
    assert tuple(column.id for column in COLUMNS[: len(fields)]) == fields


def test_json_begins_with_the_row_as_it_is_stored() -> None:
    stored = COLUMNS[: len(RunRow.__struct_fields__)]
    assert msgspec.to_builtins(json_of(ROW, stored)) == msgspec.to_builtins(ROW)


def test_what_people_see_has_a_heading() -> None:
    shown = {*PRINTED, *SHOWN, *SORTED}
    assert all(column.heading for column in shown)
    assert {column for each in SETS.values() for column in each} <= {*SHOWN}
    assert all(column.order for column in SORTED)


def test_a_printed_row_and_a_row_of_the_screen_say_the_same() -> None:
    printed = {column.heading: column.printed_cell(ROW) for column in PRINTED}
    assert printed["id"] == "d4870ab1"
    assert printed["steps"] == "12 345"
    assert printed["why"] == "step 7 · amount 40 not found in context"
    assert mark(ROW).plain == "✗"
    cells = layout([ROW], "why", 80).cells(ROW)
    assert {column.heading: cell.strip() for column, cell in cells} == {
        "task": "26",
        "steps": printed["steps"],
        "time": printed["time"],
        "trial": "1",
        "why": printed["why"],
    }


def test_the_variant_stands_in_the_list_where_runs_differ_in_it_once() -> None:
    rows = [structs.replace(ROW, variant=each) for each in ("v4", "v5")]
    cells = layout(rows, "why", 80).cells(rows[0])
    assert [cell.strip() for column, cell in cells if column.id == "variant"] == ["v4"]
    long = [structs.replace(each, why=f"{each.why} " * 2) for each in rows]
    assert "variant" not in [column.id for column in layout(long[:1], "why", 80).columns]
    assert [column.id for column in layout(rows, "source", 80).columns].count("variant") == 1


def headings(rows: list[RunRow], width: int, chosen: str = "why") -> list[str]:
    return [column.heading for column, _ in layout(rows, chosen, width).cells(None)]


V1 = structs.replace(ROW, trial="0", variant="v1", why=f"{ROW.why} " * 2)
V2 = structs.replace(V1, trace="e", variant="v2", outcome="passed", why=None)
OTHER = structs.replace(V1, task="27", variant="v3")


def test_variant_and_trial_stand_where_runs_of_a_task_differ_in_them() -> None:
    assert headings([V1, OTHER], 74) == ["task", "why"]
    assert headings([V1, V2], 74) == ["task", "variant", "why"]
    again = structs.replace(V1, trace="f", trial="1")
    assert headings([V1, again], 74) == ["task", "trial", "why"]


def test_a_column_that_adds_nothing_to_any_row_is_left_out() -> None:
    assert "outcome" not in headings([V1, V2], 200)
    scored = structs.replace(V1, outcome_value="0.4")
    assert "outcome" in headings([scored, V2], 200)
    assert "cost" not in headings([V1], 200)
    assert headings([V2], 40) == ["task", "trial", "variant", "steps", "time"]
    assert headings([], 200) == []


def test_a_wider_line_has_more_columns_and_a_narrow_one_keeps_the_reason() -> None:
    priced = structs.replace(V1, cost_usd=0.5, models="sonnet", trial=None)
    assert headings([priced], 74) == ["task", "why"]
    assert headings([priced], 108) == ["task", "steps", "cost", "time", "why"]
    assert headings([priced], 152) == ["task", "variant", "steps", "cost", "time", "model", "why"]
    for width in range(30, 200):
        found = layout([priced, V2], "why", width)
        assert sum(found.widths) + 2 * (len(found.widths) - 1) <= width
        if width >= 60:
            assert found.widths[-1] >= width // 2


def test_a_very_narrow_line_keeps_the_reason_before_what_tells_runs_apart() -> None:
    again = [V1, structs.replace(V2, trial="1")]
    assert headings(again, 60) == ["task", "trial", "variant", "why"]
    assert headings(again, 48) == ["task", "trial", "why"]
    assert headings(again, 36) == ["task", "why"]


def test_the_source_of_runs_has_columns_of_its_own() -> None:
    recorded = structs.replace(V1, models="sonnet", fidelity=Level.EXACT, title="a refund")
    assert headings([recorded], 44, "source") == ["task", "variant", "model", "fidelity", "title"]


def test_the_longest_name_gives_way_to_the_reason() -> None:
    named = structs.replace(V1, task="a task with quite a long name", models="sonnet")
    name, why = layout([named], "why", 60).cells(named)
    assert name[1].endswith("…")
    assert len(why[1]) == 30


def test_sorted_by_outcome_failed_is_first_and_unknown_last() -> None:
    warned = structs.replace(V2, trace="w", warnings=("used an id it never got",))
    unknown = structs.replace(V2, trace="u", outcome="unknown")
    rows = [V2, unknown, warned, V1]
    outcome = next(column for column in SORTED if column.id == "outcome")
    assert sorted_by(rows, outcome, reverse=False) == [V1, warned, V2, unknown]
    assert sorted_by(rows, outcome, reverse=True) == [V2, warned, V1, unknown]


def test_a_column_that_says_nothing_of_its_text_shows_its_value() -> None:
    errors = Column(id="errors", heading="errors", means="how many tool calls failed")
    doubled = Column(id="doubled", means="twice", value=lambda row: 2 * row.steps)
    unknown = Column(id="end_ns", means="when it ended")
    assert [each.text_of(ROW) for each in (errors, doubled, unknown)] == ["0", "24690", "–"]


def test_help_says_what_each_column_is() -> None:
    said = CliRunner().invoke(cli, ["help", "columns"]).stdout
    assert all(name in said and means in said for name, _, means in described())
