"""Files made to hurt, in every format: each gives traces or a sentence, and what it gives is stored
and diagnosed like any other.
"""

from __future__ import annotations

import copy
import gzip
import random
import resource
from collections.abc import Callable
from contextlib import suppress
from functools import reduce
from math import isfinite
from operator import getitem
from pathlib import Path
from typing import Any

import msgspec
import pytest
from backports import zstd

from arc_tui import importing
from replay.depth import from_text
from replay.errors import BadTrace
from replay.formats import formats, load
from replay.formats.source import Source, Tally, decode
from replay.store.handle import Store
from taxonomy.judgements.schema import open_ledger
from tests.hostile import HUGE, ODD, SEEDS, SHAPES, long, many, places, put, written

QUICK = 36
"""Places of each format that one hostile value is put in; `-m slow` puts some in all of them."""

BY_TURNS = 6
"""In every place stands each sixth of the values: all of them in six places one after another."""

LARGE_BYTES, MANY, PLACES = 4 << 20, 20_000, 2
MOST_GROWTH_KIB = 1 << 18
"""For a file of 4 MB, or of 20 000 attributes; larger ones are weighed in `tests.faults`."""

NO_JSON = {"report", "sqlite"}


def bear(store: Store, path: Path, data: bytes, name: str) -> importing.FileReport:
    """Import the file as that format. Whatever it holds, it is a report; anything else raises."""
    path.write_bytes(data)
    *_, report = importing.import_paths(store, [path], format=name, replace=True)
    assert isinstance(report, importing.ImportReport)
    (file,) = report.files
    assert file.error is None or file.error.startswith((str(path), "-: span "))
    assert report.exit_code < 3, report.errors
    return file


@pytest.fixture
def store() -> Store:
    return open_ledger(":memory:")


def test_every_format_is_tried() -> None:
    assert {found.NAME for found in formats()} == SEEDS.keys() | NO_JSON


@pytest.mark.slow
@pytest.mark.parametrize("name", SEEDS)
def test_a_value_that_hurts_gives_traces_or_a_sentence(
    name: str, store: Store, tmp_path: Path
) -> None:
    values = SEEDS[name]()
    path = tmp_path / "run.jsonl"
    assert bear(store, path, written(values), name).traces
    chosen = random.Random(name)
    found = list(places(values))
    odd = {**ODD, "2 000 fields": many(2_000), "100 kB": long(100_000)}
    for at in range(QUICK):
        what = list(odd)[at % len(odd)]
        bear(store, path, put(values, chosen.choice(found), odd[what]), name)
    for shape in SHAPES.values():
        bear(store, path, shape(values), name)


@pytest.mark.slow
@pytest.mark.parametrize("name", SEEDS)
def test_a_number_beyond_measure_in_any_field_of_a_number_is_unknown(
    name: str, store: Store, tmp_path: Path
) -> None:
    values, path = SEEDS[name](), tmp_path / "run.jsonl"
    for place in places(values):
        old: object = reduce(getitem, place, values)
        if isinstance(old, bool) or not isinstance(old, (int, float)):
            continue
        for what, number in HUGE.items():
            file = bear(store, path, put(values, place, number), name)
            if name == "arc":  # our own form is read strictly: the line is named
                assert file.traces or f"line {place[0] + 1}: " in str(file.error), (place, what)
            else:
                assert file.traces, (place, what, file.error)
                assert file.error is None


COUNTS = (2**62, 2**63 - 1, 2**63, -1, 1.5, str(2**62), True)
"""What no call can have taken; of the first a column holds one and no sum of two."""


@pytest.mark.parametrize("name", SEEDS)
def test_counts_of_tokens_that_cannot_be_are_unknown(
    name: str, store: Store, tmp_path: Path
) -> None:
    for count in COUNTS:
        values = copy.deepcopy(SEEDS[name]())
        for *way, field in places(values):
            holder: Any = reduce(getitem, way, values)
            old = holder[field]
            is_count = "token" in str(field).lower() or field == "intValue"
            if is_count and type(old) in (int, str) and str(old).isdecimal():
                holder[field] = count
        file = bear(store, tmp_path / "run.jsonl", written(values), name)
        assert file.traces or name == "arc", (count, file.error)
        absurd = "SELECT 1 FROM model_call WHERE input_tokens < 0 OR input_tokens > 1 << 41"
        assert not store.db.execute(absurd).fetchall(), count


SIDECARS: dict[str, Callable[[bytes], bytes]] = {
    "result.json": lambda number: b'{"verifier_result": {"rewards": {"reward": %s}}}' % number,
    "reward.txt": lambda number: number,
    "index.jsonl": lambda number: b'{"file": "run.jsonl", "reward": %s}' % number,
}


@pytest.mark.parametrize("beside", SIDECARS)
def test_a_reward_beyond_measure_is_unknown(beside: str, store: Store, tmp_path: Path) -> None:
    for number in HUGE.values():
        (tmp_path / beside).write_bytes(SIDECARS[beside](number))
        assert bear(store, tmp_path / "run.jsonl", written(SEEDS["atif"]()), "atif").traces
    found = store.db.execute("SELECT DISTINCT outcome_value FROM trace_summary").fetchall()
    assert all(value is None or isfinite(float(value)) for (value,) in found)


def test_whole_numbers_of_any_length_are_read_or_unknown() -> None:
    for digits in (1, 20, 153, 154, 155, 307, 308, 309, 310, 463, 4_300, 4_301, 9_000):
        for sign in ("", "-"):
            for before in ("[", f"[{'x' * 100!r}, ".replace("'", '"'), f"[{'1' * 200}, "):
                text = f"{before}{sign}{'7' * digits}]".encode()
                *_, read = decode(text, "x", "")
                assert read == (int(sign + "7" * digits) if digits <= 308 else None)
                with suppress(msgspec.DecodeError):
                    assert from_text(text)[-1] == read


def _packed(packer: Callable[[bytes], bytes], at: int) -> bytes:
    """A packed file with a byte turned round."""
    data = bytearray(packer(random.Random(1).randbytes(40_000).hex().encode()))
    data[at] ^= 0xFF
    return bytes(data)


FOUND: dict[str, Callable[[], bytes]] = {
    "a length of 2^64": lambda: b"\xff" * 9 + b"\x01" + b"x" * 40,
    "a gzip broken inside": lambda: _packed(gzip.compress, 11),
    "a zstd broken inside": lambda: _packed(zstd.compress, 5),
    "a kind that is an object": lambda: b'{"session_id": "s", "type": {}, "uuid": "u"}\n',
}
"""What a fuzzer found: files that are in any format's way, because each has to look at them."""


@pytest.mark.parametrize("what", FOUND)
def test_what_was_found_once_is_a_sentence(what: str, tmp_path: Path) -> None:
    path = tmp_path / "run"
    path.write_bytes(FOUND[what]())
    with pytest.raises(BadTrace):
        list(load(Source(path), Tally()))
    for found in formats():
        with suppress(BadTrace):
            list(load(Source(path), Tally(), format=found))


def test_an_agent_s_own_words_for_its_environment_are_kept(store: Store, tmp_path: Path) -> None:
    (run,) = SEEDS["swe-agent"]()
    data = written([{**run, "info": {**run["info"], "environment": "mine"}}])
    assert bear(store, tmp_path / "run.traj", data, "swe-agent").traces


def test_a_block_of_text_without_a_text_is_kept(store: Store, tmp_path: Path) -> None:
    data = written(SEEDS["openinference"]())
    named = b'llm.input_messages.1.message.content"'
    odd = b'llm.input_messages.1.message.contents.0.message_content.other"'
    assert named in data
    path = tmp_path / "run.json"
    assert bear(store, path, data.replace(named, odd), "openinference").traces


@pytest.mark.slow
@pytest.mark.parametrize("name", SEEDS)
def test_values_that_hurt_in_every_place(name: str, store: Store, tmp_path: Path) -> None:
    values, path = SEEDS[name](), tmp_path / "run.jsonl"
    for at, place in enumerate(places(values)):
        for odd in list(ODD.values())[at % BY_TURNS :: BY_TURNS]:
            bear(store, path, put(values, place, odd), name)


@pytest.mark.slow
@pytest.mark.parametrize("name", SEEDS)
def test_what_is_large_is_borne_in_bounded_memory(name: str, store: Store, tmp_path: Path) -> None:
    values = SEEDS[name]()
    chosen = random.Random(name)
    found = list(places(values))
    for odd in (long(LARGE_BYTES), many(MANY)):
        for _ in range(PLACES):
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            bear(store, tmp_path / "run.jsonl", put(values, chosen.choice(found), odd), name)
            grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
            assert grown < MOST_GROWTH_KIB
