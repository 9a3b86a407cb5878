"""Questions as trees, the text of them, and what they mean of a row in hand: the plain way, to hold
the compiled one against."""

from __future__ import annotations

import operator
import re
from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st
from msgspec import structs

from taxonomy.judgements.tags import TagRow
from taxonomy.query.language import And, Asks, Node, Not, Or, Says, Word
from taxonomy.query.listing import RunRow

# --- as text


def written(node: Node) -> str:
    """A tree as a person would type it."""
    match node:
        case Word(text):
            return text
        case Says(text):
            return _quoted(text)
        case Asks(field, compared, value, quoted):
            return f"{field}{compared}{_quoted(value) if quoted else value}"
        case Not(part):
            return f"not {_inner(part)}"
        case And(parts):
            return " ".join(map(_inner, parts))
        case Or(parts):
            return " or ".join(written(p) if isinstance(p, And) else _inner(p) for p in parts)


def _inner(node: Node) -> str:
    return f"({written(node)})" if isinstance(node, And | Or) else written(node)


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def placeless(node: Node) -> Node:
    """The tree without the places its terms were read at."""
    match node:
        case Not(part):
            return Not(placeless(part))
        case And(parts) | Or(parts):
            return type(node)(tuple(map(placeless, parts)))
        case _:
            return structs.replace(node, at=0)


def trees(leaves: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    """Trees of these terms; neither `and` nor `or` stands directly in its like."""
    return st.recursive(
        leaves,
        lambda inner: st.one_of(
            inner.map(Not),
            st.lists(inner, min_size=2, max_size=3).map(lambda parts: And(tuple(parts))),
            st.lists(inner, min_size=2, max_size=3).map(lambda parts: Or(tuple(parts))),
        ),
        max_leaves=8,
    )


# --- what it means


def holds(node: Node, row: RunRow, said: Sequence[TagRow], tools: Sequence[tuple[str, bool]],
          spoken: str) -> bool:  # fmt: skip
    """Does a run fulfil a question? `said` are all words on it, `tools` its calls with whether they
    failed, `spoken` everything in it."""
    known = (row, said, tools, spoken)
    match node:
        case Not(part):
            return not holds(part, *known)
        case And(parts):
            return all(holds(part, *known) for part in parts)
        case Or(parts):
            return any(holds(part, *known) for part in parts)
        case Says(text):
            return re.search(rf"\b{re.escape(text.lower())}", spoken.lower()) is not None
        case Word(text):
            columns = (
                row.title,
                row.task,
                row.trial,
                row.variant,
                row.agent,
                row.models,
                row.outcome,
                row.why,
                row.source_id,
                row.format,
                row.path,
                row.shape,
            )
            return row.trace.startswith(text.lower()) or any(
                _has(column, text) for column in columns
            )  # fmt: skip
        case Asks():
            return _asked(node, *known)


def _has(column: str | None, text: str, *, whole: bool = False, quoted: bool = False) -> bool:
    if column is None:
        return False
    pattern = re.escape(text) if quoted else ".*".join(map(re.escape, text.split("*")))
    whole = whole or ("*" in text and not quoted)
    find = re.fullmatch if whole else re.search
    return find(pattern, column, re.IGNORECASE | re.DOTALL) is not None


_UNITS = {"": 1.0, "k": 1e3, "c": 0.01, "s": 1.0, "m": 60.0}


def _number(text: str) -> float:
    unit = text.lstrip("0123456789.")
    return float(text[: len(text) - len(unit)]) * _UNITS[unit]


def _compared(value: float | None, complete: bool, asked: Asks) -> bool:
    if asked.value == "unknown":
        return value is None or not complete
    if value is None:
        return False
    limit = _number(asked.value)
    compare = {">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le}
    return (complete or asked.operator in (">", ">=")) and bool(
        compare.get(asked.operator, operator.eq)(value, limit)
    )


def _asked(
    asked: Asks, row: RunRow, said: Sequence[TagRow], tools: Sequence[tuple[str, bool]], spoken: str
) -> bool:
    value = asked.value
    match asked.field:
        case "task" | "trial" | "title" | "variant" | "why" as name:
            column: Any = getattr(row, name)
            if not value:
                return not column
            if asked.operator == "=":
                return bool(column == value)
            return _has(column, value, quoted=asked.quoted)
        case "outcome":
            return row.outcome.startswith(value)
        case "cost":
            return _compared(row.cost_usd, row.cost_complete, asked)
        case "steps":
            return _compared(row.steps, True, asked)
        case "duration":
            took_ns = row.duration_ns
            return _compared(None if took_ns is None else took_ns / 1e9, True, asked)
        case "tool":
            return any(_has(name, value, whole=True) for name, _ in tools)
        case "tool.error":
            return any(bad and (not value or _has(name, value, whole=True)) for name, bad in tools)
        case "tag":
            return any(each.failure.startswith(value) for each in said)
        case "tagged":
            return any(each.failure.startswith(value) and each.accepted for each in said)
        case "class":
            if value == "untagged":
                return not said
            return bool(said) and said[0].failure.startswith(value)
        case "attribution":
            return any(each.attribution == value for each in said)
        case "warned":
            return bool(row.warnings) == (value == "yes")
        case _:
            raise AssertionError(asked)
