"""Which traces must the rules look at again?"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from replay.store.handle import Store
from taxonomy.judgements import diagnoses
from taxonomy.judgements.diagnoses import diagnosis, undiagnosed
from taxonomy.judgements.schema import open_ledger
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
    with open_ledger(path) as opened:
        yield opened


def test_a_diagnosis_of_the_trace_as_it_is_stands(store: Store) -> None:
    assert undiagnosed(store) == []


def test_one_by_other_rules_is_made_again(
    store: Store, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(diagnoses, "engine_version", lambda: "arc rules of tomorrow")
    assert undiagnosed(store) == [key]


def test_one_that_rests_on_a_score_is_made_again_once_that_counts_no_more(
    store: Store, key: str
) -> None:
    said = diagnosis(store, key)
    assert said is not None
    diagnoses.keep(store, said, {}, until_ns=100)
    assert undiagnosed(store, at_ns=99) == []
    assert undiagnosed(store, at_ns=100) == [key]
    diagnoses.keep(store, said, {})
    assert undiagnosed(store, at_ns=100) == []
