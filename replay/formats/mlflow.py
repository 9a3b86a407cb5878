"""MLflow's traces as JSON, one a file or one a line.

The span of such a trace is that of MLflow's database (`replay.formats.sqlite`), so a trace that is
read from both is one trace.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from replay.errors import BadTrace
from replay.formats.common import known, listed, number, obj, word
from replay.formats.otlp.records import RawSpan
from replay.formats.services.records import readable, records, usd, values
from replay.formats.services.traces import agent_of, made_of, root_of, spans, title_of
from replay.formats.source import Head, Source, Tally
from replay.formats.sqlite.mlflow import INPUTS, hexed, raw
from replay.trace import Batch, Header, Json, Level, SourceScore

NAME = "mlflow"
TITLE = "MLflow (traces as JSON, one a file or one a line)"
FILES = ".json, .jsonl"
FIDELITY: tuple[Level, ...] = (Level.EXACT, Level.REBUILT, Level.PARTIAL, Level.NONE)
LACKS = "what the instrumentation left out: often the tools"

_INFO = (rb'"info"\s*:\s*\{', rb'"(?:trace_id|request_id)"\s*:', rb'"(?:mlflow\.[\w.]+|spans)"\s*:')


def sniff(head: Head) -> bool:
    return head.starts(b"{", b"[") and head.has(*_INFO)


def read(source: Source, tally: Tally) -> Iterator[Batch]:
    """One trace a record. Raises BadTrace where there is none."""
    found: set[str] = set()
    for where, value in values(source, tally):
        for record in records(value, "traces"):
            info, data = obj(record.get("info")), obj(readable(record.get("data")))
            name = word(info.get("trace_id")) or word(info.get("request_id"))
            if name is None or not isinstance(data.get("spans"), list):
                tally.problem(where, "is no trace with an id and spans")
            elif name in found:
                tally.problem(where, f"trace {name} stands in the file twice; it is read once")
            else:
                found.add(name)
                yield _batch(name, info, data["spans"], source.display, tally)
    if not found:
        raise BadTrace(source.display, "", "holds no trace with an id and spans")


def _batch(name: str, info: dict[str, Any], given: list[Json], path: str, tally: Tally) -> Batch:
    raws: list[RawSpan] = []
    for each in given:
        where = f"span {obj(each).get('name')}"
        raws += made_of(obj(each), where, lambda span: raw(span, name), tally)
    found = spans(raws, tally)
    tags = _words(info.get("tags"))
    metadata = _words(info.get("trace_metadata") or info.get("request_metadata"))
    said = [obj(each) for each in listed(info.get("assessments"))]
    gold = {_name(each): _value(each) for each in said if "expectation" in each}
    root = root_of(raws)
    header = Header(
        format=NAME,
        source_id=name,
        path=path,
        title=title_of(
            found,
            root.attributes.get(INPUTS) if root is not None else None,
            tags.get("mlflow.traceName") or name,
        ),
        agent=agent_of(found),
        labels={
            **{key: value for key, value in tags.items() if not key.startswith("mlflow.")},
            **known(
                session=metadata.get("mlflow.trace.session"),
                user=metadata.get("mlflow.trace.user"),
                run=metadata.get("mlflow.sourceRun"),
                model=metadata.get("mlflow.modelId"),
            ),
        },
        reference={"expectations": gold} if gold else None,
        reported_cost_usd=usd(obj(readable(metadata.get("mlflow.trace.cost"))).get("total_cost")),
    )
    scores = tuple(_score(each) for each in said if "expectation" not in each)
    tally.counts["assessments"] += len(said)
    return Batch(header=header, spans=found, scores=scores, last=True)


def _words(given: Json) -> dict[str, str]:
    """Keys and values, of an object or of a list of pairs as older versions wrote them."""
    pairs = [(obj(each).get("key"), obj(each).get("value")) for each in listed(given)]
    items = [*obj(given).items(), *pairs]
    return {key: text for key, value in items if isinstance(key, str) and (text := word(value))}


def _name(said: dict[str, Any]) -> str:
    return word(said.get("assessment_name")) or word(said.get("name")) or "assessment"


def _value(said: dict[str, Any]) -> Json:
    held = obj(said.get("feedback")) or obj(said.get("expectation"))
    inner = held.get("value", obj(held.get("serialized_value")).get("value"))
    return readable(inner) if "serialized_value" in held else inner


def _score(said: dict[str, Any]) -> SourceScore:
    """An assessment: a number or a truth value scores, a text labels."""
    value = _value(said)
    source, error = obj(said.get("source")), obj(obj(said.get("feedback")).get("error"))
    shown = str(value).lower() if isinstance(value, bool) else value
    return SourceScore(
        name=_name(said),
        by=word(source.get("source_type")) or "source",
        span=hexed(said.get("span_id")),
        value=number(value),
        label=shown if isinstance(shown, str) else None,
        explanation=word(said.get("rationale")) or word(error.get("error_message")),
    )
