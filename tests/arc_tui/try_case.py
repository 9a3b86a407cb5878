"""The runs of the demo that version 5 of its prompt broke, and those that passed under it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
from click.testing import CliRunner, Result

from arc_tui import importing
from arc_tui.places import fixtures
from replay.edit.changes import Edit, SetSystem
from replay.store.handle import Store
from replay.store.rows import trace_rows
from taxonomy.classes import Attribution, FailureClass
from taxonomy.judgements.schema import open_ledger
from taxonomy.judgements.tags import Tag, put_tag

BROKEN = tuple(f"shop-many-wishes-v5-{trial}" for trial in range(3))
PASSED = ("shop-refund-v5-0", "shop-refund-v5-1", "shop-cancel-v5-0")
OTHERS = ("shop-stock-v4-0", "shop-refund-v1-0", "shop-where-is-it-v1-0", "shop-warranty-v3-0")

V4 = fixtures() / "demo" / "prompts" / "v4.md"
V4_EDIT = Edit(name="v4", changes=(SetSystem(V4.read_text()),))
CLASS = 'class:"hallucinated state"'


def put(path: Path, *more: str) -> dict[str, str]:
    """Those runs in a database; their traces by what the source calls them."""
    with open_ledger(path) as store:
        names = (*BROKEN, *PASSED, *more)
        for _ in importing.import_paths(store, [_file(name) for name in names]):
            pass
        return {row.source_id: row.trace for row in trace_rows(store)}


def _file(name: str) -> Path:
    return fixtures() / "traces" / f"{name}.jsonl"


def tagged(
    store: Store,
    trace: str,
    step: int,
    failure: FailureClass,
    attribution: Attribution | None = None,
) -> None:
    put_tag(
        store,
        Tag(
            trace=trace,
            span=f"span {step}",
            step=step,
            failure=failure,
            by="ann",
            attribution=attribution,
        ),
    )


def invoke(command: click.Command, db: Path, *arguments: str) -> Result:
    """The command on a database; what it raises is raised here."""
    result = CliRunner().invoke(command, ["--db", str(db), *arguments], standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    return result


def as_json(result: Result) -> Any:
    return json.loads(result.stdout)
