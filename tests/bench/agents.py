"""How long a coding agent waits for `arc mcp`, beside what the SDK takes to be imported."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from arc_tui import importing
from arc_tui.places import fixtures
from taxonomy.judgements.schema import open_ledger
from tests.bench.measure import Row, compare, python

RUN = "shop-many-wishes-v5-0"
SDK = "import mcp.server.lowlevel, mcp.server.stdio"
HELLO = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "bench", "version": "1"},
}


def rows(folder: Path) -> Iterator[Row]:
    """The first answer of a new process: of the server itself, and of a tool."""
    database = folder / "agents.db"
    with open_ledger(database) as store:
        for _ in importing.import_paths(store, [fixtures() / "traces" / f"{RUN}.jsonl"]):
            pass
    for what, given in (("list_runs", {}), ("brief", {"run": RUN})):
        found = compare(_first_answer(database, what, given), python(SDK), 7)
        yield Row(
            f"arc mcp, new process to the first answer of {what}",
            str(found),
            "import of its SDK, goal < 1.5×",
        )


def _first_answer(database: Path, tool: str, given: dict[str, Any]) -> Callable[[], object]:
    """A new server that is asked at once; over when the answer is there."""

    def message(number: int | None, method: str, params: dict[str, Any]) -> bytes:
        made = {"jsonrpc": "2.0", "method": method, "params": params}
        return json.dumps(made if number is None else {"id": number, **made}).encode() + b"\n"

    said = message(1, "initialize", HELLO) + message(None, "notifications/initialized", {})
    said += message(2, "tools/call", {"name": tool, "arguments": given})

    def run() -> object:
        with subprocess.Popen(
            [sys.executable, "-m", "arc_tui", "--db", str(database), "mcp"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        ) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(said)
            process.stdin.flush()
            process.stdout.readline()
            answer = json.loads(process.stdout.readline())
            assert answer["id"] == 2
            process.stdin.close()  # it ends with its input
            return answer

    return run
