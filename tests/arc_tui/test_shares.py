"""A file that several read gives what it gives when one reads it, in the same order."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from arc_tui.import_tasks import FileRead, ImportSetup, ReadFile, ReadShare, join_shares
from arc_tui.workers import Lost
from replay import files
from replay.formats.otlp import shares, twins
from replay.formats.otlp.shares import Share
from replay.formats.source import Source
from replay.redact.redactor import Redactor
from replay.store.prepare import Prepared
from tests.replay.otlp_case import hexed, logs, record, span, spans

Line = dict[str, Any] | str
CHAT = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "gpt-4o"}
SETUP = ImportSetup(Redactor(b"key"), None)


def runs(seed: int, many: int = 30) -> list[Line]:
    """Runs that overlap, calls of a client's own traces, spans that come again or have no id, lines
    that are broken, metrics."""
    chance = random.Random(seed)
    told: list[tuple[float, dict[str, Any]]] = []
    for run in range(many):
        ids = (f"{chance.getrandbits(128) | 1:032x}" for _ in range(3))
        trace, own, other = ({"traceId": each} for each in ids)
        root = span(f"a{run}", run * 5, None, {"gen_ai.operation.name": "invoke_agent"}, **trace)
        calls = [
            span(f"{run}.{step}", run * 5 + step, f"a{run}", said(f"{run} {step}"), **trace)
            for step in range(chance.randrange(1, 5))
        ]
        lone = [span(f"l{run}", run * 5, None, said(f"{run} 0"), **own)] if run % 2 else []
        lone += [span(f"o{run}", run, None, said("something else"), **other)] if run % 3 else []
        again = calls[:1] if run % 4 == 0 else []
        nameless = [{**root, "spanId": None, "odd": 1}] if run % 5 == 0 else []
        mixed = [*calls, root, *lone, *again, *nameless]
        told += [(run + chance.random() * 6, each) for each in mixed]
    ended = [each for _, each in sorted(told, key=lambda pair: pair[0])]
    lines: list[Line] = []
    while ended:
        some, ended = ended[:3], ended[3:]
        lines.append(spans(*some))
        if not chance.randrange(8):
            lines.append(chance.choice(["{broken", "", '{"resourceMetrics":[{}]}']))
    return lines


def said(words: str) -> dict[str, Any]:
    asked = [{"role": "user", "parts": [{"type": "text", "content": f"asked {words}"}]}]
    answer = [{"role": "assistant", "parts": [{"type": "text", "content": f"answer {words}"}]}]
    return CHAT | {
        "gen_ai.input.messages": json.dumps(asked),
        "gen_ai.output.messages": json.dumps(answer),
    }


def put(path: Path, lines: list[Line]) -> ReadFile:
    told = [each if isinstance(each, str) else json.dumps(each) for each in lines]
    path.write_text("".join(f"{each}\n" for each in told))
    return ReadFile(source=Source(path), named=True, size=files.size(path))


def alone(task: ReadFile) -> list[object]:
    return comparable(task.run(SETUP))


def shared(task: ReadFile, many: int) -> list[object]:
    parts = (each.run(SETUP) for each in read_by(task, many))
    return comparable(join_shares(task, parts, SETUP))


def read_by(task: ReadFile, many: int) -> list[ReadShare]:
    return [ReadShare(file=task, share=each, of=many) for each in cut(task, many)]


def comparable(given: Iterator[object]) -> list[object]:
    return [repr(each) if isinstance(each, Prepared) else each for each in given]


def cut(task: ReadFile, many: int, parts: int = 3) -> list[Share]:
    """In so many shares, searched for in so many parts."""
    found = [shares.search(task.source, task.size, part, parts) for part in range(parts)]
    return shares.cut(found, task.size, many)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_shares_are_the_same_however_many_search_for_them(seed: int, tmp_path: Path) -> None:
    lines: list[Line] = ["", "  ", *runs(seed), "", "", *runs(seed + 10, 3), ""]
    task = put(tmp_path / "x.jsonl", lines)
    alone = cut(task, 7, 1)
    assert alone
    for parts in (*range(2, 12), task.size // 90):  # of which most are no whole line
        assert cut(task, 7, parts) == alone


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_shares_give_what_the_file_gives(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = put(tmp_path / "x.jsonl", runs(seed))
    for most in (twins.MOST, 3):
        monkeypatch.setattr(twins, "MOST", most)
        whole = alone(task)
        end = whole[-1]
        assert isinstance(end, FileRead)
        assert end.problems
        assert end.counts["traces_of_calls_told_elsewhere"] > 0
        assert end.counts["traces"] > len(whole) - 1 > 30  # some of one call are runs
        for many in (2, 3, 7):
            assert cut(task, many)
            assert shared(task, many) == whole


ESCAPED = json.dumps(spans(span("x", 1, None, CHAT))).replace("traceId", "trace\\u0049d")
TOLD = logs(record("gen_ai.choice", {"session.id": "s"}, None))
ALL_ALONG = [
    spans(*(span(f"{at}{n}", at, None, CHAT, traceId=hexed(str(n), 32)) for n in range(1, 9)))
    for at in range(20)
]


@pytest.mark.parametrize(
    "lines",
    [
        ["{broken", "{again"],
        [*runs(4), ESCAPED],
        [*runs(4), TOLD],
        [*runs(4), spans(span("x", 1, None, CHAT, traceId=None))],
        ALL_ALONG,
    ],
    ids=[
        "no JSON",
        "a field with an escape",
        "log records",
        "a span of no trace",
        "traces side by side",
    ],
)
def test_a_file_whose_traces_are_not_found_or_not_apart_is_read_by_one(
    lines: list[Line], tmp_path: Path
) -> None:
    task = put(tmp_path / "x.jsonl", lines)
    assert cut(task, 7) == []


def test_a_file_whose_traces_are_of_no_agent_is_refused_by_the_same_sentence(
    tmp_path: Path,
) -> None:
    task = put(tmp_path / "x.jsonl", [spans(span("x", 1)), spans(span("y", 2))])
    (end,) = shared(task, 2)
    assert [end] == alone(task)
    assert isinstance(end, FileRead)
    assert end.error is not None


def test_what_is_appended_meanwhile_is_in_no_share(tmp_path: Path) -> None:
    lines = runs(5)
    task = put(tmp_path / "x.jsonl", lines)
    before = shared(task, 3)
    with task.source.path.open("a") as more:
        more.write(json.dumps(lines[0]) + "\n")
    assert cut(task, 3)
    assert shared(task, 3) == before


def test_what_came_before_a_share_that_is_lost_stays(tmp_path: Path) -> None:
    task = put(tmp_path / "x.jsonl", runs(6))
    first, *_ = (each.run(SETUP) for each in read_by(task, 3))
    given = list(join_shares(task, iter([first, iter([Lost(by=9)])]), SETUP))
    assert given[-1] == Lost(by=9)
    assert all(isinstance(each, Prepared) for each in given[:-1])
    assert [repr(each) for each in given[:-1]] == alone(task)[: len(given) - 1]


def test_shares_read_few_lines_twice(tmp_path: Path) -> None:
    """Which lines a share reads is counted: all of a file, and those at the borders again."""
    task = put(tmp_path / "x.jsonl", runs(7, 200))
    read = sum(
        1
        for each in cut(task, 5)
        for number, _, _ in shares._lines(task.source, each.at, task.size, each.after)
        if number <= each.last
    )
    all_lines = sum(1 for _ in shares._lines(task.source, 0, task.size))
    assert all_lines <= read < 1.3 * all_lines
