"""`arc drift` as a person calls it, and `arc import --pin`: what is said, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from arc_tui.views.runs import run_rows as shown_rows
from taxonomy.held_out import hold
from taxonomy.judgements.schema import open_ledger
from taxonomy.query.listing import run_rows
from tests.arc_tui.drift_case import NEW, OLD, lookup, put_drift, put_variant, spans_of
from tests.spoken import Spoken, spoken

OLD_NEW = ("variant=old", "variant=new")


@pytest.fixture
def db(tmp_path: Path) -> Path:
    return tmp_path / "arc.db"


def drift(db: Path, *words: str) -> Spoken:
    return spoken("--db", str(db), "drift", *(words or OLD_NEW), cwd=db.parent)


def flat(said: Spoken) -> str:
    return " ".join(said.out.split())


class TestDifferences:
    def test_each_is_named_with_the_runs_that_show_it(self, db: Path) -> None:
        said = drift(put_drift(db))
        assert said.code == 0, said.err
        assert said.out.startswith("The environments differ beyond chance: 7 differences.")
        for row in (
            "tool refund_order removed 12/12 0/12",
            "tool get_order argument order_id renamed to number 12/12 12/12",
            "model that answered m-2026-01 → m-2026-03 12/12 12/12",
            "version of the agent 1.2 → 1.3 12/12 12/12",
            "pin index docs-2026-01 → docs-2026-03 12/12 12/12",
            "results of get_order key status removed 12/12 0/12",
            "results of get_order key state added 0/12 12/12",
        ):
            assert row in flat(said)

    def test_equal_environments_have_none_and_their_pass_rates_stand_beside(self, db: Path) -> None:
        put_variant(db, "old", OLD, passed=2)
        said = drift(put_variant(db, "new", OLD))
        assert said.out.startswith("No difference between the environments, as far as they are")
        assert "equal environments 12/12 1.00 (.61–1.00) 6/12 .50 (.25–.75) -.50" in flat(said)
        assert "unequal environments" not in said.out

    def test_part_of_a_group_may_have_the_other_environment(self, db: Path) -> None:
        put_variant(db, "old", OLD)
        put_variant(db, "moved", NEW, tasks=2)
        put_variant(db, "new", NEW)
        words = ("variant=old or variant=moved", "variant=new")
        found = json.loads(drift(db, *words, "--json").out)["drift"]
        assert (found["runs"], found["in_equal"], found["in_unequal"]) == (
            [16, 12], [4, 12], [12, 0],
        )  # fmt: skip
        assert "unequal environments 6/12 .50 (.25–.75) – –" in flat(drift(db, *words))

    def test_few_runs_are_said_to_be_few(self, db: Path) -> None:
        said = drift(put_drift(db, tasks=1, trials=1))
        assert said.out.startswith("Inconclusive: ")
        assert "in too few runs to tell from chance" in said.out
        assert "tool refund_order removed 1/1 0/1 1 (few runs)" in flat(said)
        assert "Not enough results to tell: 2 keys or types of results" in flat(said)

    def test_what_is_not_recorded_is_unknown_and_never_a_difference(self, db: Path) -> None:
        put_variant(db, "old", OLD, labels={"pin.index": "x"})
        said = drift(put_variant(db, "new", spans_of({"id": "1", "status": "sent"}, None, None)))
        assert said.out.startswith("No difference")
        assert "tools (12 of 12 runs of A, 0 of 12 of B)" in flat(said)
        assert "Neither tools, models, versions nor pins recorded: 0 of 12 runs of A, 12" in flat(
            said
        )

    def test_no_pins_anywhere_is_said_last_but_how_it_is_decided(self, db: Path) -> None:
        put_variant(db, "old", OLD)
        said = drift(put_variant(db, "new", OLD))
        assert "Cannot be told, because no run records it: another version of the agent" in flat(
            said
        )
        assert "a changed index, snapshot or data set." in flat(said)

    def test_a_tool_that_is_offered_without_any_is_no_unknown(self, db: Path) -> None:
        put_variant(db, "old", spans_of({"id": "1"}, (lookup("id"),), "m"))
        said = drift(put_variant(db, "new", spans_of({"id": "1"}, (), "m")))
        assert "tool get_order removed 12/12 0/12" in flat(said)

    def test_the_exit_code_is_1_only_where_that_is_asked_for(self, db: Path) -> None:
        put_drift(db)
        assert drift(db, *OLD_NEW, "--exit-code").code == 1
        assert drift(db, "variant=old trial=0", "variant=old trial=1", "--exit-code").code == 0


class TestRefusals:
    @pytest.mark.parametrize(
        ("words", "said"),
        [
            (("variant=none", "variant=new"), "A: no run matches 'variant=none'"),
            (("variant=old", "cost>"), "B: missing value"),
            (("variant=old", "trial=0"), "6 runs are in both A and B"),
        ],
    )
    def test_groups_that_cannot_be_compared(
        self, db: Path, words: tuple[str, str], said: str
    ) -> None:
        found = drift(put_drift(db), *words)
        assert (found.code, found.out) == (2, "")
        assert said in found.err

    def test_held_out_runs_are_left_out_unless_they_are_wanted(self, db: Path) -> None:
        put_drift(db)
        with open_ledger(db) as store:
            held = hold(store, run_rows(store))
        many = 2 * len(held.tasks)
        assert many
        assert f"A variant=old · {12 - many} runs" in flat(drift(db))
        assert "A variant=old · 12 runs" in flat(drift(db, *OLD_NEW, "--include-held-out"))


CHAT = [
    {"role": "user", "content": "Where is order 1099?"},
    {"role": "assistant", "content": "On its way."},
]


class TestPins:
    def pinned(self, db: Path, toml: str, *words: str) -> Spoken:
        (db.parent / "pins.toml").write_text(toml)
        (db.parent / "chat.json").write_text(json.dumps(CHAT))
        return spoken(
            "--db", str(db), "import", "chat.json", "--pin", "pins.toml", *words, cwd=db.parent
        )

    def test_a_file_of_pins_labels_the_runs_and_a_query_finds_them(self, db: Path) -> None:
        said = self.pinned(db, 'index = "docs-2026-11"\n[image]\ntools = 3\n')
        assert said.code == 0, said.err
        with open_ledger(db) as store:
            (row,) = shown_rows(store, "label:pin.index=docs-2026-11")
        assert json.loads(row.labels) == {"pin.index": "docs-2026-11", "pin.image.tools": "3"}
        shown = spoken("--db", str(db), "show", "last", cwd=db.parent)
        assert "pins: image.tools = 3, index = docs-2026-11" in shown.out

    def test_a_second_import_adds_pins_and_changes_none(self, db: Path) -> None:
        self.pinned(db, 'index = "a"\n')
        self.pinned(db, 'index = "b"\nimage = "c"\n')
        with open_ledger(db) as store:
            (row,) = run_rows(store)
        assert json.loads(row.labels) == {"pin.index": "a", "pin.image": "c"}

    @pytest.mark.parametrize(
        ("toml", "said"),
        [
            ("index = ", "pins.toml: cannot be read as TOML"),
            ("", "pins.toml: pins nothing"),
            ('"a b" = 1', "pins.toml: 'a b' cannot name a pin"),
            ("index = [1, 2]", "pins.toml: the value of 'index' cannot be a pin"),
            ('[docs]\nindex = "a\\nb"', "pins.toml: the value of 'docs.index' cannot be a pin"),
            ('index = ""', "pins.toml: the value of 'index' cannot be a pin"),
        ],
    )
    def test_a_file_that_pins_nothing_is_refused_and_nothing_imported(
        self, db: Path, toml: str, said: str
    ) -> None:
        found = self.pinned(db, toml)
        assert found.code == 2
        assert said in found.err
        with open_ledger(db) as store:
            assert run_rows(store) == ()

    def test_a_check_imports_nothing_and_takes_no_pins(self, db: Path) -> None:
        assert "--pin" in self.pinned(db, "index = 1", "--check").err
