"""Which traces must the rules look at again?"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from replay.store import Store
from taxonomy import ledger
from taxonomy.ledger import diagnoses
from tests.arc_tui.sample import FAILED, HEALTHY, header, put
from tests.build import step, trace


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "arc.db"


@pytest.fixture
def key(path: Path) -> str:
    return put(path, header("1", "0", FAILED), trace([step("One.")]).spans, HEALTHY)


@pytest.fixture
def store(path: Path, key: str) -> Iterator[Store]:
    with ledger.open_ledger(path) as opened:
        yield opened


def test_a_diagnosis_of_the_trace_as_it_is_stands(store: Store) -> None:
    assert ledger.undiagnosed(store) == []


def test_one_by_other_rules_is_made_again(
    store: Store, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(diagnoses, "ENGINE", "arc rules of tomorrow")
    assert ledger.undiagnosed(store) == [key]


def test_one_that_rests_on_a_score_is_made_again_once_that_counts_no_more(
    store: Store, key: str
) -> None:
    said = ledger.diagnosis(store, key)
    assert said is not None
    ledger.keep(store, said, {}, until_ns=100)
    assert ledger.undiagnosed(store, at_ns=99) == []
    assert ledger.undiagnosed(store, at_ns=100) == [key]
    ledger.keep(store, said, {})
    assert ledger.undiagnosed(store, at_ns=100) == []
