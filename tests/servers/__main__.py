"""Pull from a real Phoenix: `python -m tests.servers [--environment FOLDER]`.

Phoenix is installed from the package registry into an environment of its own and serves on
loopback. It is filled with captures of real frameworks and with made-up runs, more than a page of
its list, which come in by another order than they began in; some spans and a trace are annotated.
What `arc pull` brings has to be what `arc import` makes of the server's own export.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from arc_tui import importing
from arc_tui.features.fleet.servers import ServerRequest, pull_from_server
from replay.errors import ArcError
from replay.fleet.stores import FleetStore
from replay.store.rows import TraceRow, trace_rows
from taxonomy.judgements.schema import open_ledger
from tests.bench.peer import installed, protobuf, serving
from tests.database_rows import rows_of
from tests.fleet import corpus
from tests.test_boundaries import ROOT

RUNS = 180
_TRACE_ID = re.compile(rb'"traceId": ?"([0-9a-f]{32})"')
_SPAN_ID = re.compile(rb'((?:spanId|parentSpanId)": ?")[0-9a-f]{4}')
"""Phoenix keeps one span of an id, whatever its trace; those of the made-up runs repeat."""
WHOLE = "whole-run"
"""The name of the annotation of a trace, which an export of spans does not have."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.servers", description=__doc__)
    parser.add_argument("--environment", type=Path, metavar="FOLDER")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        work = Path(made)
        python = installed(chosen.environment or work / "environment")
        with serving(python, work / "phoenix") as (_, port, _):
            url = f"http://127.0.0.1:{port}"
            _fill(url, work)
            wrong = list(_differences(url, work))
    for each in wrong:
        print(f"  {each}")
    return min(len(wrong), 1)


def _fill(url: str, work: Path) -> None:
    made = corpus.write(work / "runs.jsonl", RUNS).read_bytes().splitlines()
    lines = [_SPAN_ID.sub(rb"\g<1>%04x" % number, line) for number, line in enumerate(made)]
    bodies = [protobuf(line) for line in lines]
    bodies += [each.read_bytes() for each in (ROOT / "fixtures/captures").glob("*/otlp/traces.pb")]
    random.Random(5).shuffle(bodies)
    for body in bodies:
        _post(f"{url}/v1/traces", body, "application/x-protobuf")
    spans = _settled(url, {name for line in lines for name in _TRACE_ID.findall(line)})
    said = [
        {
            "span_id": each["context"]["span_id"],
            "name": f"quality-{at}",
            "annotator_kind": ("HUMAN", "LLM", "CODE")[at % 3],
            "result": {"label": "good", "score": at / 100, "explanation": "it is"},
        }
        for at, each in enumerate(spans[:90])
    ]
    trace = {
        "trace_id": spans[0]["context"]["trace_id"],
        "name": WHOLE,
        "annotator_kind": "HUMAN",
        "result": {"label": "pass", "score": 1.0},
    }
    for path, data in (("span_annotations", said), ("trace_annotations", [trace])):
        body = json.dumps({"data": data}).encode()
        _post(f"{url}/v1/{path}?sync=true", body, "application/json")


def _post(url: str, body: bytes, kind: str) -> None:
    asked = urllib.request.Request(url, body, {"Content-Type": kind})
    with urllib.request.urlopen(asked) as answer:
        answer.read()


def _get(url: str) -> Any:
    with urllib.request.urlopen(url) as answer:
        return json.load(answer)


def _settled(url: str, traces: set[bytes]) -> list[dict[str, Any]]:
    """Every span, once those of these traces are there and no more come in. Raises ArcError where
    they never do."""
    before = -1
    for _ in range(60):
        found = list(_pages(f"{url}/v1/projects/default/spans?limit=1000"))
        there = {each["context"]["trace_id"].encode() for each in found}
        if len(found) == before and traces <= there:
            return found
        before = len(found)
        time.sleep(2)
    raise ArcError("Phoenix did not take all spans in within two minutes", "look at its log")


def _pages(url: str) -> Iterator[dict[str, Any]]:
    cursor = ""
    while True:
        page = _get(url + (f"&cursor={cursor}" if cursor else ""))
        yield from page["data"]
        cursor = page["next_cursor"]
        if not cursor:
            return


def _export(url: str, file: Path) -> tuple[int, int]:
    """Write what the server exports; (traces, spans) of it."""
    spans = list(_pages(f"{url}/v1/projects/default/spans?limit=1000"))
    for span in spans:
        name = span["context"]["span_id"]
        path = f"{url}/v1/projects/default/span_annotations?limit=100&span_ids={name}"
        span["annotations"] = list(_pages(path))
    file.write_text(json.dumps({"data": spans, "next_cursor": None}))
    return len({span["context"]["trace_id"] for span in spans}), len(spans)


def _differences(url: str, work: Path) -> Iterator[str]:
    """What is otherwise than it should be, a sentence each."""
    traces, spans = _export(url, work / "export.json")
    with open_ledger(work / "file.db") as store:
        for _ in importing.import_paths(store, [work / "export.json"]):
            pass
    began = time.perf_counter()
    yield from _pulled(url, work / "pulled.db")
    seconds = time.perf_counter() - began
    before = rows_of(work / "pulled.db")
    yield from _pulled(url, work / "pulled.db")
    if rows_of(work / "pulled.db") != before:
        yield "a second pull changed the database"
    mine, theirs = _rows(work / "pulled.db"), _rows(work / "file.db")
    print(
        f"Phoenix: {traces} traces, {spans} spans; {len(mine)} runs pulled in {seconds:.1f} s"
        f" ({len(mine) / seconds:.0f} a second), {len(theirs)} imported from the export"
    )
    if len(mine) != traces:
        yield f"{traces} traces are on the server, {len(mine)} runs were pulled"
    if mine.keys() != theirs.keys():
        yield f"{len(mine.keys() ^ theirs.keys())} runs differ from those of the export"
    for key in mine.keys() & theirs.keys():
        for name in TraceRow.__struct_fields__:
            if name in ("imported_ns", "path"):
                continue
            if getattr(mine[key], name) != getattr(theirs[key], name):
                yield f"run {key[:8]}: another {name} than in the export"
    said = _said(work / "pulled.db")
    if sum(WHOLE in row for row in said) != 1:
        yield "the annotation of a trace was not pulled"
    if [row for row in said if WHOLE not in row] != _said(work / "file.db"):
        yield "the annotations of spans differ from those of the export"


def _pulled(url: str, database: Path) -> Iterator[str]:
    request = ServerRequest(server=FleetStore(url=url), from_ns=0)
    with open_ledger(database) as store:
        *_, report = pull_from_server(store, request, lambda _: None)
    assert isinstance(report, importing.ImportReport)
    yield from report.errors


def _rows(database: Path) -> dict[str, TraceRow]:
    with open_ledger(database) as store:
        return {row.trace: row for row in trace_rows(store, every=True)}


def _said(database: Path) -> list[tuple[object, ...]]:
    return sorted((row[1:] for row in rows_of(database)["source_score"]), key=repr)


if __name__ == "__main__":
    raise SystemExit(main())
