"""A step of a replay in full, and the diff of an edit, as documents. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from arc_tui import format
from arc_tui.views.replay import ReplayRow
from arc_tui.widgets.document import INDENT, Block, Document, Item, value
from arc_tui.widgets.step_diff import marked
from replay.action import Act

BLANK = Block(text="")


def step_page(row: ReplayRow) -> Document:
    """What the edit did, what was recorded, what each arm answered, how far to trust that."""
    return tuple(_step(row))


_MARK_STYLES = {"fixed": "good", "broke": "error", "changed": "candidate"}


def _step(row: ReplayRow) -> Iterator[Item]:
    if row.mark is not None and row.mark != "same":
        style = _MARK_STYLES.get(row.mark, "role")
        yield Block(text=marked(row), style=style, aside=format.one_line(row.edited_why))
        yield BLANK
    yield Block(text="recorded", style="role")
    yield from _said("recorded", row.recorded_calls, row.recorded_text, row.recorded)
    if row.refused is not None:
        yield BLANK
        yield Block(text="not asked", style="candidate")
        yield Block(text=format.plain(row.refused), indent=INDENT)
    if row.control is not None:
        yield BLANK
        yield from _arm("control", row.control_same, row.control_why)
        if not row.control_same:
            yield from _said("control", row.control_calls, row.control_text, row.control)
    if row.edited is not None:
        yield BLANK
        yield from _arm("edited", row.edited_same, row.edited_why)
        if not row.edited_same:
            yield from _said("edited", row.edited_calls, row.edited_text, row.edited)
    yield BLANK
    yield from _trust(row)


def _arm(name: str, same: bool | None, why: str) -> Iterator[Item]:
    """The head of an arm with what sets it apart from the recording."""
    said = "as recorded" if same else format.one_line(why)
    style = "candidate" if same is False else "role"
    yield Block(text=f"{name:<7}", style=style, aside=said)


def _said(key: str, calls: Sequence[Act], text: str, phrase: str) -> Iterator[Item]:
    """An answer in full: its words, then its calls with their arguments."""
    if text:
        yield value(text, key=f"{key} text")
    for place, call in enumerate(calls):
        yield Block(text=format.one_line(call.tool), style="head", indent=INDENT)
        given = call.raw if call.raw is not None else msgspec.json.encode(call.arguments).decode()
        yield value(given, key=f"{key} call {place}", indent=2 * INDENT)
    if not text and not calls:
        yield Block(text=format.plain(phrase), style="quiet", indent=INDENT)


def _trust(row: ReplayRow) -> Iterator[Item]:
    """Fidelity with its reasons, losses, and whether the edited agent would have been here."""
    yield Block(
        text=row.fidelity.value,
        label="fidelity",
        style="quiet",
        aside="; ".join(map(format.one_line, row.reasons)),
    )
    for loss in row.losses:
        yield Block(text=format.plain(loss), label="lost", style="quiet")
    if row.dimmed:
        yield Block(
            text="the edited agent would not have been here: it left the road before",
            label="dimmed",
            style="quiet",
        )


_STYLES = {"+": "good", "-": "error", "@": "role", " ": "quiet"}


def diff_page(lines: Sequence[str]) -> Document:
    """A unified diff, each line as long as it is; or that there is none."""
    if not lines:
        return (Block(text="nothing is changed: control alone is asked", style="quiet"),)
    return tuple(_diff_line(line) for line in lines if not line.startswith("+++ "))


def _diff_line(line: str) -> Block:
    if line.startswith("--- "):
        return Block(text=format.one_line(line[4:]), style="head")
    return Block(text=format.plain(line), style=_STYLES.get(line[:1], ""))
