"""A step of a replay in full, and the diff of an edit, as documents. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import structs

from arc_tui.experiments.call_blocks import call_blocks
from arc_tui.experiments.locked_view import ArmRow, Given, ReplayRow, mark_words
from arc_tui.ui import format
from arc_tui.ui.diff import changed_words
from arc_tui.ui.document import INDENT, Block, Document, Item, value
from replay.action import Act
from replay.locked.verdict import Verdict, percent
from replay.statistics import ALPHA

BLANK = Block(text="")


def step_page(row: ReplayRow, verdict: Verdict | None = None) -> Document:
    """What the edit did, what was recorded, what each arm answered, how far to trust that.

    `verdict` holds the test at the break, where the row is that of the break.
    """
    return arms_page([("edited", row, verdict)])


def arms_page(arms: Sequence[tuple[str, ReplayRow, Verdict | None]]) -> Document:
    """A step in every arm, each by its name: control once, then what each edit did."""
    return tuple(_step(arms))


_MARK_STYLES = {"fixed": "good", "broke": "error", "changed": "candidate"}


def _step(arms: Sequence[tuple[str, ReplayRow, Verdict | None]]) -> Iterator[Item]:
    (_, row, verdict), *others = arms
    if not others:
        found = tuple(_found(row, verdict))
        yield from found
        if found:
            yield BLANK
    yield Block(text="recorded", style="role")
    yield from _response("recorded", row.recorded_calls, row.recorded_text, row.recorded)
    if row.refused is not None:
        yield BLANK
        yield from _skipped("skipped", row.refused)
    if row.control is not None:
        yield BLANK
        yield from _arm("control", row.control, row)
    for name, each, said in arms:
        if each.edited is not None:
            yield BLANK
            yield from _arm(name, each.edited, each)
        if others:
            yield from _found(each, said)
        if each.edited_refused is not None:
            yield BLANK
            yield from _skipped(f"{name}  skipped", each.edited_refused)
    yield BLANK
    yield from _trust(row)


def _found(row: ReplayRow, verdict: Verdict | None) -> Iterator[Item]:
    """The mark with what the edit does instead, and the tests behind it."""
    broken = verdict.at_break_test if verdict is not None and row.at_break else None
    if row.mark is not None and (row.mark != "same" or row.p is not None):
        why = row.edited.usual.why if row.edited is not None else ""
        style = _MARK_STYLES.get(row.mark, "role")
        yield Block(text=mark_words(row), style=style, aside=format.one_line(why))
    if row.p is None:
        return
    if broken is not None and broken.control_n and broken.edited_n:
        shown = (
            f"in {broken.edited}/{broken.edited_n} edited,"
            f" {broken.control}/{broken.control_n} control"
        )
        held = verdict.at_break_effect if verdict is not None else None
        said = f"{shown} ({format.one_line(broken.detector)}); {_chance(broken.p, held)}"
        yield Block(text=said, label="failure", style="quiet")
    yield Block(text=_chance(row.p, row.effect), label="divergence", style="quiet")


def _chance(p: float, beyond: bool | None = None) -> str:
    """A p-value in words. Beside other tests it may take more than ALPHA: `beyond` says so."""
    held = p <= ALPHA if beyond is None else beyond
    return f"{'significant' if held else 'not significant'}, p = {p:.2g}"


def _skipped(title: str, why: str) -> Iterator[Item]:
    yield Block(text=title, style="candidate")
    yield Block(text=format.plain(why), indent=INDENT)


def _arm(name: str, arm: ArmRow, row: ReplayRow) -> Iterator[Item]:
    """Every different response of an arm, its words that were not recorded marked; of several
    samples, how often it diverges."""
    one = arm.counts.total <= 1
    style = "candidate" if arm.usual.same is False else "role"
    yield Block(text=f"{name:<7}", style=style, aside=_sets_apart(arm.usual) if one else _rate(arm))
    for place, given in enumerate(arm.answers):
        if not one:
            times = f"{format.number(given.times)} ×"
            yield Block(text=times, style="head", indent=INDENT, aside=_sets_apart(given))
        if not given.same:
            key = f"{name} {place}"
            said = _response(key, given.calls, given.text, given.phrase, 1 if one else 2)
            beside = tuple(_response(key, row.recorded_calls, row.recorded_text, row.recorded))
            yield from (_with_recorded(item, beside) for item in said)


def _rate(arm: ArmRow) -> str:
    """How often an arm diverges, with its interval, and how many samples are unclear."""
    found = arm.counts
    said = f"diverges in {found.diverges} of {found.decided}: {percent(found.divergence)}"
    others = [
        f"{format.number(times)} {what}"
        for times, what in ((found.reworded, "reworded"), (found.unclear, "unclear"))
        if times
    ]
    return "; ".join([said, *others])


def _sets_apart(given: Given) -> str:
    """What sets an answer apart from the recording."""
    why = format.one_line(given.why)
    return "; ".join(filter(None, ("as recorded", why))) if given.same else why


def _response(
    key: str, calls: Sequence[Act], text: str, phrase: str, depth: int = 1
) -> Iterator[Item]:
    """An answer in full: its words, then its calls with their arguments."""
    indent = depth * INDENT
    if text:
        yield value(text, key=f"{key} text", indent=indent)
    for place, call in enumerate(calls):
        yield from call_blocks(call, f"{key} call {place}", indent)
    if not text and not calls:
        yield Block(text=format.plain(phrase), style="quiet", indent=indent)


def _with_recorded(item: Item, recorded: Sequence[Item]) -> Item:
    """A text with the words marked in which it differs from what was recorded in its place."""
    if not isinstance(item, Block) or not item.key:
        return item
    other = next(
        (each for each in recorded if isinstance(each, Block) and each.key == item.key), None
    )
    if other is None:
        return item
    return structs.replace(item, strong=changed_words(other.text, item.text)[1])


def _trust(row: ReplayRow) -> Iterator[Item]:
    """Fidelity with its reasons, losses, and whether the edited arm diverged before."""
    masked = f", {row.masked} masked" if row.masked else ""
    yield Block(
        text=f"{row.fidelity.value}{masked}",
        label="fidelity",
        style="quiet",
        aside="; ".join(map(format.one_line, row.reasons)),
    )
    for loss in row.losses:
        yield Block(text=format.plain(loss), label="lost", style="quiet")
    if row.dimmed:
        yield Block(
            text="after divergence, not counted",
            label="dimmed",
            style="quiet",
        )
