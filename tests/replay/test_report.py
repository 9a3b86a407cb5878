"""Pages of `arc report` as a format: their runs come back, and what is broken is a sentence."""

from __future__ import annotations

import base64
import gzip
import random
from contextlib import suppress
from pathlib import Path

import pytest

from replay.errors import BadTrace
from replay.formats import arc, load, report
from replay.formats.report import GENERATOR, EmbeddedRun, embed
from replay.formats.source import BytesSource, Source, Tally
from replay.trace import Batch
from tests.replay.test_store import batch, spans

LINES = b"".join(arc.write([batch(*spans()), batch(*spans(), source_id="run-2")]))
HEAD = f"<!doctype html>\n<html>\n<head>\n{GENERATOR}\n</head>\n".encode()
FOOT = b"\n<script>run()</script>\n</html>\n"


def page(lines: bytes = LINES, *held: EmbeddedRun) -> bytes:
    return HEAD + embed(held, lines) + FOOT


def read(data: bytes, folder: Path) -> tuple[list[Batch], Tally]:
    file, tally = folder / "run.html", Tally()
    file.write_bytes(data)
    return list(load(Source(file), tally)), tally


def test_the_runs_of_a_page_come_back(tmp_path: Path) -> None:
    found, tally = read(page(), tmp_path)
    assert b"".join(arc.write(found)) == LINES
    assert (tally.counts["traces"], tally.problems) == (2, [])


def test_what_was_masked_is_named(tmp_path: Path) -> None:
    held = EmbeddedRun(
        trace="f" * 16, recorded="sha256:1", digest="sha256:2", masked=("m1", "</script>")
    )
    _, tally = read(page(LINES, held), tmp_path)
    (problem,) = tally.problems
    assert problem.where == "trace ffffffff"
    assert problem.why == "masked in the report, in spans m1, </script>"


def test_other_html_is_not_a_report(tmp_path: Path) -> None:
    with pytest.raises(BadTrace, match="not in a known format"):
        read(b"<!doctype html>\n<title>notes</title>", tmp_path)


PACKED = base64.b64encode(gzip.compress(LINES, mtime=0))
BROKEN = {
    "holds no run": HEAD + FOOT,
    "is truncated inside": page()[: -len(FOOT) - 20],
    "begins a second list": page() + embed((), LINES),
    "cannot be unpacked: Not a gzipped": page().replace(PACKED, b"QUJDRA=="),
    "cannot be unpacked: ": page().replace(PACKED, PACKED[:-8]),
    "is not arc-report/1": page().replace(b'id="arc-runs">[', b'id="arc-runs">{'),
    "is not arc/1": page(b'{"kind": "nothing"}\n'),
}


@pytest.mark.parametrize("said", BROKEN)
def test_a_broken_page_is_a_sentence(said: str, tmp_path: Path) -> None:
    with pytest.raises(BadTrace, match=said):
        read(BROKEN[said], tmp_path)


@pytest.mark.slow
def test_a_page_that_unpacks_to_far_too_much_is_refused(tmp_path: Path) -> None:
    bomb = gzip.compress(b"\0" * (80 << 20), 9)
    assert len(bomb) * 500 < 80 << 20
    with pytest.raises(BadTrace, match="far more than a run"):
        read(page().replace(PACKED, base64.b64encode(bomb)), tmp_path)


def test_a_byte_that_is_turned_round_anywhere_is_a_run_or_a_sentence() -> None:
    chosen, data = random.Random("report"), page()
    for _ in range(300):
        turned = bytearray(data)
        turned[chosen.randrange(len(HEAD), len(data))] ^= 1 << chosen.randrange(8)
        with suppress(BadTrace):
            list(report.read(BytesSource(bytes(turned), "x"), Tally()))
