"""ATIF, Harbor's trajectory format, versions 1.0 to 1.8: one trace a trajectory.

A trajectory is one document, so it is held whole. It goes on in the file its
`continued_trajectory_ref` names; the totals of a continuation include what came before. Sub-
agents stand in the document itself (1.7), in files beside it, or next to it in a bundle
`{parent, child…}`. Files are looked for in the folder of the main one and nowhere else.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from replay.errors import BadTrace
from replay.formats.atif import thread
from replay.formats.atif.steps import Entry, input_message
from replay.formats.atif.thread import Document, Family, SpanBuilder, agent_span, period
from replay.formats.chat import title_line
from replay.formats.common import count, derived_id, known, obj, usd, word
from replay.formats.source import Head, Source, Tally
from replay.messages import text
from replay.trace import Batch, Header, Json, Level

NAME = "atif"
TITLE = "ATIF trajectories (Harbor)"
FILES = ".json"
FIDELITY = (Level.REBUILT, Level.PARTIAL)
LACKS = "usually the system prompt and the tools; the context after a compaction"
VERIFIED = "real files"

_KNOWN = re.compile(r"ATIF-v1\.[0-8](\.\d+)?")
_FIELDS = {
    "schema_version", "session_id", "trajectory_id", "agent", "steps", "notes", "final_metrics",
    "continued_trajectory_ref", "extra", "subagent_trajectories",
}  # fmt: skip


def sniff(head: Head) -> bool:
    return head.starts(b"{") and head.has(rb'"schema_version"\s*:\s*"ATIF-v')


def part_of(path: Path) -> Path | None:
    """The file of the trajectory that a continuation or a sub-agent's file is read with."""
    return thread.main_document(path)


def read(source: Source, tally: Tally) -> Iterator[Batch]:
    """The one trace of a file. Raises BadTrace where it contains no trajectory."""
    family = Family(source, tally)
    main = family.main
    root = _source_id(main)
    teller = SpanBuilder(root, family, tally)
    last = main
    try:
        for document in _chain(family):
            _check(document, tally)
            teller.build(document)
            last = document
        for document in family.rest():
            teller.adopt(document)
    except RecursionError as error:  # in arguments that stand as text
        raise BadTrace(source.display, "", "is nested too deeply to be read") from error
    spans = (agent_span(main, root, teller.entries), *teller.spans())
    totals = obj(last.raw.get("final_metrics"))
    _count(totals, tally)
    start, end = period(teller.entries)
    header = Header(
        format=NAME,
        source_id=root,
        path=source.display,
        title=_title(teller.entries),
        agent=word(main.agent.get("name")),
        labels=known(version=word(main.agent.get("version"))),
        reported_cost_usd=usd(totals.get("total_cost_usd")),
        start_ns=start,
        end_ns=end,
    )
    yield Batch(header=header, spans=spans, last=True)


def _chain(family: Family) -> Iterator[Document]:
    """The main document and those that continue it."""
    document: Document | None = family.main
    while document is not None:
        yield document
        document = family.next_of(document)


def _check(document: Document, tally: Tally) -> None:
    version = str(document.raw.get("schema_version"))
    if _KNOWN.fullmatch(version) is None:
        tally.problem("schema_version", f"{version} is newer than arc supports; read as 1.8")
    for name in document.raw.keys() - _FIELDS:
        tally.unknown[f"trajectory {name}"] += 1


def _count(totals: dict[str, Any], tally: Tally) -> None:
    """What the trajectory says it comes to."""
    tally.counts["traces"] += 1
    for name, value in totals.items():
        total = count(value) if name != "total_cost_usd" else None
        if total is not None:
            tally.counts[name] += total


def _source_id(main: Document) -> str:
    """The session's id, the trajectory's, or a digest of everything up to the first answer."""
    own = word(main.raw.get("session_id")) or word(main.raw.get("trajectory_id"))
    if own is not None:
        return own
    opening: list[Json] = []
    for step in main.steps:
        opening.append(step)
        if obj(step).get("source") == "agent":
            break
    return derived_id(msgspec.json.encode([main.agent, opening]).decode())


def _title(found: list[Entry]) -> str | None:
    """The first line the user wrote."""
    prompt = next((entry for entry in found if entry.source == "user"), None)
    return title_line(text(input_message(prompt))) if prompt else None
