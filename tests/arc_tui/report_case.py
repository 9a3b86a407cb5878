"""Runs for reports: of any length, and with texts that would like to be more than text."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from click.testing import CliRunner

from arc_tui import importing
from arc_tui.commands import cli
from replay.formats import arc
from replay.trace import (
    AgentSpan,
    AnySpan,
    Batch,
    Context,
    Fidelity,
    Header,
    Level,
    Message,
    ModelCall,
    Observation,
    Outcome,
    Request,
    Response,
    ToolCall,
    Usage,
    extend,
)
from taxonomy.judgements.schema import open_ledger
from tests.browser import Page

SECOND = 1_000_000_000

HOSTILE = (
    "</script><script>document.title = 'taken'</script><!-- <img src=x onerror=\"document.title="
    "'taken'\"> ]]> \u2028\u2029 \u202egnp.exe\u202c &lt;b&gt; {{7*7}} javascript:alert(1)"
    ' <a href="https://example.com/">x</a> <script>'
)


def said(role: str, *content: dict[str, object]) -> Message:
    return Message(dialect="anthropic", body={"role": role, "content": list(content)})


def text(words: str) -> dict[str, object]:
    return {"type": "text", "text": words}


def run_of(steps: int, *, words: str = "", result: str = "", name: str = "long") -> Batch:
    """A failed run with a call in each step, each request going on from the one before."""
    system = said("system", text(f"You serve a shop. {words}"))
    context: Context | None = extend(None, [said("user", text(f"Find the lost order. {words}"))])
    spans: list[AnySpan] = [AgentSpan(id="root", name=f"shop {words}")]
    for at in range(steps):
        given = {"order": at, "note": words or f"place {at} of the shelf"}
        if words:  # names that JavaScript and Python do not sort alike by themselves
            given |= {
                name: f"{name} {at} {'.' * 90}" for name in ("10", "9", "\uffee", "\U0001d4b3")
            }
        call: dict[str, object] = {
            "type": "tool_use",
            "id": f"c{at}",
            "name": "get_order",
            "input": given,
        }
        answer = said("assistant", text(f"I look at place {at}. {words}"), call)
        told = result or json.dumps({"order": at, "state": "not here", "shelf": f"row {at * 7919}"})
        back: dict[str, object] = {"type": "tool_result", "tool_use_id": f"c{at}", "content": told}
        seen = said("user", back)
        spans += [
            ModelCall(
                id=f"m{at}",
                name="chat",
                parent="root",
                start_ns=2 * at * SECOND,
                end_ns=(2 * at + 1) * SECOND,
                request=Request(model="model-x", system=system, tools=(), context=context),
                response=Response(message=answer, stop="tool"),
                usage=Usage(input_tokens=100 + 10 * at, output_tokens=20),
                fidelity=Fidelity(level=Level.EXACT),
            ),
            ToolCall(
                id=f"t{at}",
                name="get_order",
                parent="root",
                start_ns=(2 * at + 1) * SECOND,
                end_ns=(2 * at + 2) * SECOND,
                call_id=f"c{at}",
                asked_by=f"m{at}",
                arguments=given,
                observation=Observation(message=seen, block=0),
                effect="read",
            ),
        ]
        context = extend(context, [answer, seen])
    header = Header(
        format="chat",
        source_id=name,
        task=name,
        title=f"the lost order {words}",
        outcome=Outcome(status="failed"),
    )
    return Batch(header=header, spans=tuple(spans), last=True)


def stored(folder: Path, *batches: Batch) -> Path:
    """A database with these runs, judged by the rules."""
    source, database = folder / "runs.jsonl", folder / "arc.db"
    source.write_bytes(b"".join(arc.write(batches)))
    with open_ledger(database) as store:
        for _ in importing.import_paths(store, [source]):
            pass
    return database


def arc_says(database: Path, *words: str, code: int = 0) -> str:
    """What a command prints."""
    made = CliRunner().invoke(cli, ["--db", str(database), *words], catch_exceptions=False)
    assert made.exit_code == code, made.output
    return made.stdout


async def opened(page: Page, file: Path, anchor: str = "") -> float:
    """Open a report and wait until it can be used; how many seconds that took in the browser."""
    await page.say("Page.navigate", url=f"{file.as_uri()}{anchor}")
    ready = (
        "document.documentElement.dataset.ready === 'yes' && "
        "document.querySelector('.detail h2') !== null && performance.now()"
    )
    async with asyncio.timeout(120):
        while not (taken := await page.value(ready)):
            await asyncio.sleep(0.02)
    return float(taken) / 1000
