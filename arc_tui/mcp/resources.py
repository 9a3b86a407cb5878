"""What can be read whole: a run, and each of its steps, by an address that answers name."""

from __future__ import annotations

import re

from msgspec import Struct

from arc_tui.mcp.answers import PAGE_CHARS, fence, short, window
from arc_tui.mcp.questions import run_row, step_document, step_of, step_uri
from arc_tui.mcp.session import Call, Session
from arc_tui.ui import format
from replay.errors import NotFound
from replay.store.handle import Store
from taxonomy.query.filter import without_tasks
from taxonomy.query.listing import held_out_note, run_order, runs_at

RUN = "arc://run/{run}"
STEP = "arc://run/{run}/step/{step}"
REST = "arc://run/{run}/step/{step}/from/{offset}"

TEMPLATES = {
    RUN: ("run", "The brief of a run, as the tool `brief` gives it, and all of its lines."),
    STEP: ("step", f"The whole text of a step, its first {PAGE_CHARS} characters."),
    REST: ("rest of a step", "The same from a character on; each part names the next."),
}
"""By address: its name, and what it holds."""

LISTED = 20
"""Runs that are listed, the newest: all others are found by `list_runs`."""

_ADDRESS = re.compile(r"arc://run/([^/]+)(?:/step/(\d{1,9})(?:/from/(\d{1,12}))?)?")


class Resource(Struct, frozen=True, kw_only=True):
    """A run in a list: only what is arc's own to say of it."""

    uri: str
    name: str
    description: str


def list_newest(session: Session, under_way: Call) -> list[Resource]:
    """The newest runs."""
    with session.turn(under_way), session.store(under_way) as store:
        seen = without_tasks(held_out_note(store).hidden)
        rows = runs_at(store, run_order(store, seen, limit=LISTED, newest=True))
    return [
        Resource(
            uri=RUN.format(run=short(row.trace)),
            name=f"run {short(row.trace)}",
            description=f"{row.outcome}, {format.count(row.steps, 'step')}",
        )
        for row in rows
    ]


def read(session: Session, under_way: Call, address: str) -> str:
    """The text of a resource. Raises NotFound for an address of another form, a run or a step that
    is not there."""
    found = _ADDRESS.fullmatch(address)
    if found is None:
        raise NotFound("resource", address, hint=f"Try: {RUN}, {STEP} or {REST}")
    name, number, offset = found.groups()
    with session.turn(under_way), session.store(under_way) as store:
        if number is None:
            return _run(store, name)
        return _step(store, name, int(number), int(offset or 0))


def _run(store: Store, name: str) -> str:
    from arc_tui.views.brief import brief_text

    row = run_row(store, name)
    says = f"Run {short(row.trace)}. Its steps: {step_uri(row.trace, 0)} to {row.steps - 1}."
    return f"{says}\n\n{fence(brief_text(store, row.trace, commands=False))}"


def _step(store: Store, name: str, number: int, offset: int) -> str:
    row = run_row(store, name)
    text = step_document(step_of(store, row, number))
    part, end = window(text, offset, PAGE_CHARS)
    says = (
        f"Run {short(row.trace)}, step {number}: characters {format.number(offset)} to"
        f" {format.number(end)} of {format.number(len(text))}."
    )
    if end < len(text):
        says += f" The next part: {step_uri(row.trace, number, end)}."
    return f"{says}\n\n{fence(part)}"
