"""ToolBench answers: a file of queries by id, each with a tree of turns; one trace a query.

A tool turn holds what the model called and what came back, in one (`turns`). The path to the final
answer is the thread; where the search turned back, the branches it left are kept beside it
(`tree`). Evaluation files cut every message at a hundred characters: what is cut is marked, and
its step's request counts as not recorded. How a run ended is its own word (`Finish`), not a
verdict.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from replay.errors import BadTrace
from replay.formats.chat import cut, tool
from replay.formats.fields import known, listed, obj, word
from replay.formats.intake import Head, Source, Tally
from replay.formats.normal import derived_id
from replay.formats.toolbench.tree import leaf_of_answer, nodes, path_to
from replay.formats.toolbench.turns import CUT, Teller, alternatives, finish
from replay.trace import AgentSpan, Batch, Header, Level, Outcome, Tool

NAME = "toolbench"
TITLE = "ToolBench answers"
FILES = ".json"
FIDELITY = (Level.REBUILT, Level.PARTIAL, Level.NONE)
LACKS = "mostly the system prompt; evaluation files cut every message"

_FIELDS = {"query", "available_tools", "answer"}
_ANSWER = {"method", "total_steps", "final_answer", "answer_details"}


def sniff(head: Head) -> bool:
    return head.starts(b"{") and head.has(rb'"query"\s*:', rb'"available_tools"\s*:\s*\[')


def read(source: Source, tally: Tally) -> Iterator[Batch]:
    """One trace a query. Raises BadTrace where the document holds no answer by query id."""
    document = source.document()
    runs = document if isinstance(document, dict) else {}
    if not any(isinstance(run, dict) and "answer" in run for run in runs.values()):
        raise BadTrace(source.display, "", "holds no `answer` under a query id")
    for item, run in runs.items():
        if not isinstance(run, dict) or not isinstance(run.get("answer"), dict):
            tally.problem(f"#{item}", "has no answer")
            continue
        yield _run(item, run, source, tally)


def _run(item: str, run: dict[str, Any], source: Source, tally: Tally) -> Batch:
    answer = obj(run.get("answer"))
    for name in (run.keys() - _FIELDS) | (answer.keys() - _ANSWER):
        tally.unknown[name] += 1
    query, final = word(run.get("query")), word(answer.get("final_answer"))
    found = nodes(listed(answer.get("answer_details")))
    path = path_to(leaf_of_answer(found, final))
    tally.counts["traces"] += 1
    tally.counts["total_steps"] += len(found)
    tally.counts["tool_messages"] += sum(node.role == "tool" for node in found)
    root = derived_id(NAME, item, msgspec.json.encode([query, answer]).decode())
    teller = Teller(root=root, tools=_tools(run), query=query, final=final, tally=tally)
    for node in path:
        teller.tell(node)
    teller.close()
    agent = AgentSpan(
        id=root,
        name=word(answer.get("method")) or "agent",
        time_quality="none",
        extra=known(method=answer.get("method"), total_steps=answer.get("total_steps")),
    )
    header = Header(
        format=NAME,
        source_id=root,
        item=item,
        path=source.display,
        title=_title(query),
        task=item,
        variant=word(answer.get("method")),
        outcome=_outcome(finish(path, final)),
        labels={"recorded": CUT} if teller.cut else {},
    )
    return Batch(
        header=header, spans=(agent, *teller.spans(), *alternatives(found, path, root)), last=True
    )


def _tools(run: dict[str, Any]) -> tuple[Tool, ...] | None:
    declared = run.get("available_tools")
    return tuple(map(tool, declared)) if isinstance(declared, list) else None


def _outcome(ended: str | None) -> Outcome:
    """The run's own word: giving up is failing; an answer may be right or wrong."""
    if ended is None:
        return Outcome()
    gave_up = ended.startswith("give_up")
    return Outcome(status="failed" if gave_up else "unknown", value=ended, by="Finish")


def _title(query: str | None) -> str | None:
    lines = query.strip().splitlines() if query else []
    return cut(lines[0]) if lines else None
