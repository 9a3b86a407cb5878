"""Is a value of one thing used for another? A call changes a thing by a value that its own record
contradicts and another thing's record holds: order 1047 is refunded with the total of order
1045.

Narrow on purpose: both records must come from the same tool and name their thing, and the value,
by the same fields; a value that anybody told, or that any record of the thing holds, is passed
over.
"""

from __future__ import annotations

from collections.abc import Iterator

from taxonomy.classes import FailureClass
from taxonomy.evidence.context_index import number
from taxonomy.evidence.reading import Act, called, leaves, mutates
from taxonomy.evidence.value_origins import SMALLEST_AMOUNT, Record, Records, Thing
from taxonomy.findings import Evidence, Finding
from taxonomy.rules.rule import Rule, RuleContext

NAME = "another's value"


def find(case: RuleContext) -> Iterator[Finding]:
    """The first call of each tool that does so; none where the run passed."""
    if case.reading.passed:
        return
    records = Records(case.reading)
    seen: set[str] = set()
    for act in case.reading.acts:
        found = next(_mixed(case, records, act), None) if act.name not in seen else None
        if found is not None:
            seen.add(act.name)
            yield found


def _mixed(case: RuleContext, records: Records, act: Act) -> Iterator[Finding]:
    things = records.named_by(act) if mutates(act.span) is not False else []
    if len(things) != 1:
        return
    own = records.of(things[0], act.step)
    for _, value in leaves(act.span.arguments):
        digits = _amount(value)
        if (
            digits is None
            or _was_named(case, act.step, digits)
            or any(_holds(r, digits) for r in own)
        ):
            continue
        others = [r for r in records.all if r.act.step < act.step and _is_other(r, things[0])]
        for mine in reversed(own):
            for other in reversed(others):
                for field in _holds(other, digits) if other.act.name == mine.act.name else ():
                    if field in mine.fields:
                        yield _finding(act, mine, other, field)


def _is_other(record: Record, thing: Thing) -> bool:
    return record.thing.name == thing.name and record.thing.value != thing.value


def _amount(value: object) -> str | None:
    """A number in one spelling, None for what is none or too small to be told apart."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    digits = number(str(value))
    return digits if digits is not None and float(digits) >= SMALLEST_AMOUNT else None


def _holds(record: Record, digits: str) -> list[str]:
    """The fields of a record that hold a number."""
    return [path for path, leaf in record.fields.items() if _amount(leaf) == digits]


def _was_named(case: RuleContext, step: int, digits: str) -> bool:
    """Did a prompt or a person name the number, anywhere before?"""
    return any(
        digits in {number(word.strip(".,:;!?")) for word in source.text.split()}
        for source in case.index.sources
        if source.span is None and source.visible <= step
    )


def _finding(act: Act, own: Record, other: Record, field: str) -> Finding:
    wrong, right = other.fields[field], own.fields[field]
    return Finding(
        failure=FailureClass.BAD_ARGS,
        step=act.step,
        span=act.span.id,
        why=f"{act.name} for {own.thing} uses the {field} of {other.thing.value}",
        rule=NAME,
        evidence=(called(act), _shown(own, field, right), _shown(other, field, wrong)),
    )


def _shown(record: Record, field: str, value: object) -> Evidence:
    return Evidence(
        role="observed",
        text=f"{record.thing}: {field} {value}",
        step=record.act.step,
        span=record.act.span.id,
        place=record.act.name,
    )


RULE = Rule(name=NAME, find=find, shown="answer", against="sources")
