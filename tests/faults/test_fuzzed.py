"""Changed files in every format: a few hundred every day by chance, very many by the branches that
are taken where it is asked for."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from replay.formats import formats
from tests.faults import fuzzed
from tests.faults.mutations import MOST_BYTES, mutated

EVERYDAY = 16
"""Inputs of each format."""


@pytest.fixture(scope="module")
def seeds(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[bytes]]:
    return fuzzed.seeds_of(tmp_path_factory.mktemp("seeds"), real=False)


@pytest.mark.slow
def test_every_format_has_seeds_that_are_read(
    seeds: dict[str, list[bytes]], tmp_path: Path
) -> None:
    assert seeds.keys() == {each.NAME for each in formats()}
    for name, given in seeds.items():
        found = fuzzed.by_chance(name, given, tmp_path, 0, seed=1)
        assert given
        assert (found.inputs, found.crashes, found.hangs) == (0, {}, {})


@pytest.mark.slow
def test_changed_files_are_read_or_refused_in_words(
    seeds: dict[str, list[bytes]], tmp_path: Path
) -> None:
    for name, given in seeds.items():
        found = fuzzed.by_chance(name, given, tmp_path / name, EVERYDAY, seed=7)
        assert (found.inputs, found.crashes, found.hangs) == (EVERYDAY, {}, {})


def test_a_reader_that_crashes_or_dawdles_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = fuzzed.Target("chat", tmp_path)
    monkeypatch.setattr(target, "_read", lambda: [][0])
    target(b"x")
    assert [said.split()[0] for said in target.crashes] == ["IndexError"]
    assert (tmp_path / "crash-0").read_bytes() == b"x"
    monkeypatch.setattr(target, "_timed", lambda data: 0.6)
    target(b"x")
    assert [said.split()[0] for said in target.hangs] == ["0.6"]


@pytest.mark.slow
def test_the_same_chance_makes_the_same_files(seeds: dict[str, list[bytes]]) -> None:
    for given in seeds.values():
        once, again = ([mutated(given[0], random.Random(at)) for at in range(20)] for _ in "ab")
        assert once == again
        assert len(set(once)) > 15
        assert max(map(len, once)) <= MOST_BYTES


@pytest.mark.slow
@pytest.mark.minutes
def test_very_many_changed_files() -> None:
    assert [row.figure for row in fuzzed.rows(60.0) if not row.kept] == []
