"""What a resolved task costs, as recorded and routed: the article's example, and the unknown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from replay.trace import Outcome
from taxonomy.stats.routing import assume, compare_resolved, measure, per_resolved
from tests.arc_tui.sample import header, put
from tests.build import call, step
from tests.spoken import Spoken, spoken
from tests.taxonomy.waste_case import paid, usage

MECHANICAL, DECISIONS = 14, 6

PRICES = """
[models.small]
prices = { input = 0.15, output = 0.60, cache_read = 0.015 }

[models.free]
provider = "openai"
"""


@pytest.fixture
def db(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run of the article's size: 20 steps of 12 000 tokens in, 60 % of them cached, 700 out, at
    $3 and $15; and five of its variant's runs, of which three passed."""
    settings = tmp_path / "settings"
    settings.mkdir()
    (settings / "config.toml").write_text(PRICES)
    monkeypatch.setenv("ARC_CONFIG_DIR", str(settings))
    parts = [step(call("get_file", n=at)) for at in range(MECHANICAL)]
    parts += [step(call("write_file", n=at)) for at in range(DECISIONS)]
    run = paid(parts, [usage(12_000, 700, read=7_200)] * len(parts))
    path = tmp_path / "arc.db"
    for at, status in enumerate(("failed", "passed", "passed", "failed", "passed", "unknown")):
        outcome = Outcome(status=status)  # type: ignore[arg-type]
        put(path, header(f"task {at}", "0", outcome, variant="v4"), run.spans)
    return path


def cost(db: Path, *words: str) -> Spoken:
    return spoken("--db", str(db), "cost", "last", *words, cwd=db.parent)


def resolved(db: Path, *words: str) -> dict[str, Any]:
    said = cost(db, *words, "--json")
    assert said.code == 0, said.err
    found: dict[str, Any] = json.loads(said.out)["resolved"]
    return found


def lines(said: Spoken) -> list[str]:
    """The section of a resolved task."""
    assert said.code == 0, said.err
    return [line.strip() for line in said.out.partition("a resolved task\n")[2].splitlines()]


ROUTED = ("--route", "small", "--where", "read-only", "--resolution", ".65")


class TestTheArticlesExample:
    def test_all_frontier(self, db: Path) -> None:
        found = resolved(db, "--resolution", ".65", "--runs-per-month", "10000")["recorded"]
        assert found["run_usd"] == pytest.approx([0.5412, 0.5412])
        assert found["resolved_usd"] == pytest.approx([0.8326, 0.8326], abs=1e-4)
        assert found["month_usd"] == pytest.approx([5412, 5412])
        assert lines(cost(db, "--resolution", ".65", "--runs-per-month", "10000")) == [
            "as recorded: $0.54 a run · $0.83 a resolved task · $5 412 a month of 10 000 runs"
            " · resolution .65 assumed"
        ]

    def test_routed_and_resolution_held(self, db: Path) -> None:
        found = resolved(db, *ROUTED, "--routed-resolution", ".6")
        assert found["routed"]["run_usd"][0] == pytest.approx(0.1798, abs=1e-4)
        assert found["routed"]["resolved_usd"][0] == pytest.approx(0.30, abs=1e-3)
        assert found["verdict"] == "pays"
        assert found["break_even"][0] == pytest.approx(0.216, abs=1e-3)
        assert lines(cost(db, *ROUTED, "--routed-resolution", ".6"))[1:3] == [
            "routed: $0.18 to $0.19 a run · $0.30 to $0.32 a resolved task · resolution .60"
            " assumed",
            "Routing pays: $0.30 to $0.32 a resolved task against $0.83 · resolution assumed:"
            " measure it before you route.",
        ]

    def test_the_page_of_the_docs_shows_what_is_printed(self, db: Path) -> None:
        words = (*ROUTED, "--routed-resolution", ".60", "--runs-per-month", "10000")
        page = Path("docs/guide/cost.md").read_text()
        assert "\n  ".join(["a resolved task", *lines(cost(db, *words))]) in page

    def test_routed_and_resolution_collapsed(self, db: Path) -> None:
        """A third of the cost of a run, and dearer all the same."""
        found = resolved(db, *ROUTED, "--routed-resolution", ".2")
        assert found["routed"]["resolved_usd"][0] == pytest.approx(0.90, abs=2e-3)
        assert found["verdict"] == "does not pay"
        assert (
            "Routing does not pay: $0.90 to" in cost(db, *ROUTED, "--routed-resolution", ".2").out
        )


class TestMeasured:
    def test_without_a_share_it_is_that_of_the_variant_with_its_interval(self, db: Path) -> None:
        found = resolved(db, "--route", "small")
        measured = found["recorded"]["resolution"]
        assert (measured["value"], measured["assumed"], measured["of"]) == (
            0.6,
            False,
            "variant=v4",
        )
        assert measured["rate"]["n"] == 5
        low, high = found["recorded"]["bounds"]
        assert low == pytest.approx(0.5412 / measured["rate"]["high"])
        assert high == pytest.approx(0.5412 / measured["rate"]["low"])
        assert "resolution .60 (.23–.88) measured on 5 runs of variant=v4" in cost(
            db, "--route", "small"
        ).out  # fmt: skip

    def test_of_the_routed_agent_nothing_is_guessed(self, db: Path) -> None:
        found = resolved(db, "--route", "small")
        assert found["routed"]["resolution"]["value"] is None
        assert found["routed"]["resolved_usd"] is None
        assert found["verdict"] == "unknown"
        said = cost(db, "--route", "small").out
        assert "– a resolved task · resolution unknown" in said
        assert "Whether routing pays is unknown: no resolution of the routed agent." in said
        assert "Try: --routed-resolution .6, or a QUERY to measure it on" in said

    def test_it_is_measured_on_the_runs_of_a_query(self, db: Path) -> None:
        found = resolved(db, *ROUTED, "--routed-resolution", 'task="task 1" or task="task 0"')
        assert found["routed"]["resolution"]["value"] == 0.5
        assert found["verdict"] == "not shown"

    def test_a_model_without_a_price_has_no_routed_figures(self, db: Path) -> None:
        said = cost(db, "--route", "no-such-model", "--resolution", ".65")
        assert said.code == 0
        assert "No step has a known price for both models." in said.out
        assert "resolved task" not in said.out

    def test_without_any_of_it_nothing_is_said(self, db: Path) -> None:
        assert "a resolved task" not in cost(db).out


class TestRefused:
    @pytest.mark.parametrize(
        ("words", "why"),
        [
            (("--resolution", "65"), "'65' is not a share over 0 and up to 1, nor a query"),
            (("--resolution", "65%"), "'65%' is not a share"),
            (("--resolution", "0"), "'0' is not a share"),
            (("--resolution", "nan"), "'nan' is not a share"),
            (("--resolution", "variant=none"), "no run matches 'variant=none'"),
            (("--resolution", "outcome:unknown"), "1 run of 'outcome:unknown', none with an"),
            (("--resolution", "cost>"), "cost"),
            (("--routed-resolution", ".5"), "--routed-resolution needs --route"),
            (("--runs-per-month", "0"), "Invalid value for '--runs-per-month'"),
        ],
    )  # fmt: skip
    def test_what_is_no_resolution(self, db: Path, words: tuple[str, ...], why: str) -> None:
        said = cost(db, *words)
        assert said.code == 2
        assert why in said.err


class TestFigures:
    def test_overlapping_ranges_decide_nothing(self) -> None:
        found = compare_resolved(1.0, (0.4, 1.2), (assume(0.5), assume(0.5)))
        assert found.verdict == "not shown"

    def test_nothing_resolved_has_no_upper_bound(self) -> None:
        assert per_resolved((1.0, 1.0), measure([], "x"), None).resolved_usd is None
        found = compare_resolved(1.0, (0.4, 0.4), (assume(0.5), measure([], "x")))
        assert found.verdict == "unknown"

    def test_a_dearer_model_cannot_pay(self, db: Path) -> None:
        found = compare_resolved(1.0, (3.0, 3.0), (assume(0.5), assume(1.0)))
        assert found.break_even == (1.5, 1.5)
        assert found.verdict == "does not pay"
        said = cost(db, "--route", "claude-opus-4-1", "--resolution", ".65").out
        assert "It cannot pay at any resolution." in said
