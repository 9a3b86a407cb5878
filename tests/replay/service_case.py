"""Exports of tracing services written to a file and read again, as they are and made odd."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from replay.formats import Format, load, sniff
from replay.formats.source import Source, Tally
from replay.trace import Batch
from tests.replay.foreign_case import stored

Value = dict[str, Any]

USER = {"role": "user", "content": "Where is W123?"}
SYSTEM = {"role": "system", "content": "Be brief."}
CALL = {"id": "call_1", "type": "function",
        "function": {"name": "get_order", "arguments": '{"id": 7}'}}  # fmt: skip
ASKS = {"role": "assistant", "content": None, "tool_calls": [CALL]}
TOLD = {"role": "tool", "tool_call_id": "call_1", "content": "shipped"}
SAYS = {"role": "assistant", "content": "It shipped."}
TOOL = {"type": "function", "function": {"name": "get_order", "parameters": {"type": "object"}}}


def at(second: float) -> str:
    return f"2026-11-20T10:00:{second:06.3f}Z"


def written(path: Path, *values: Any) -> Path:
    """One value a line, or the document where there is but one."""
    text = (
        json.dumps(values[0], indent=1) if len(values) == 1 else "\n".join(map(json.dumps, values))
    )
    path.write_text(text)
    return path


def read(path: Path, format: Format) -> tuple[list[Batch], Tally]:
    """The traces of a file that its format has to claim."""
    tally = Tally()
    source = Source(path)
    assert sniff(source) is format
    return list(load(source, tally)), tally


def survives(path: Path, format: Format, *values: Any) -> None:
    """What was made odd gives traces, each span once, or a sentence."""
    text = "\n".join(map(json.dumps, values))
    path.write_text(text)
    for trace in stored(path, format):
        assert len({span.id for span in trace.spans}) == len(trace.spans)


def survives_cut(path: Path, format: Format, size: int, *values: Any) -> None:
    """The same of a file that ends anywhere."""
    path.write_text("\n".join(map(json.dumps, values))[:size])
    stored(path, format)
