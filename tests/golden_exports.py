"""Run the exports of a golden set by the tools they are for: `python -m tests.golden_exports`.

Each tool is installed in an environment of its own, asks a scripted model on loopback, and what it
wrote is read back by `arc import`: every run has to have the task, the outcome and the version of
the set. `--environments FOLDER` keeps the environments there.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from arc_tui.features.golden.export import export_set
from replay.store.handle import Store
from replay.store.rows import TraceRow, trace_rows
from taxonomy.golden.sets import GoldenSet, golden_of, read_set
from tests.openai_servers import Body, OpenaiApi, Said, call, said
from tests.spoken import spoken

INSPECT = ("inspect-ai==0.3.285", "openai>=3.57,<4")
PROMPTFOO = ("promptfoo@0.121.20",)
RIGHT, WRONG = "scripted-right", "scripted-wrong"
PROXY = "http://127.0.0.1:9"
"""What asks for anything but loopback is refused at once."""

MANY_WISHES = "shop-many-wishes-v5-0"
REFUND = {
    "order_id": "1039",
    "reason": "And the Orbit Headphones of order 1039 crackle, so please refund that one.",
}
CANCEL = {"order_id": "1055", "reason": "Please also cancel order 1055, I took the wrong one."}


class Outcome(Struct, frozen=True, order=True):
    """What is known of a run that was read back."""

    task: str
    trial: str
    outcome: str
    golden: str


def model(body: Body) -> Said:
    """The shop's agent, right or wrong by the model's name; and a judge, where one is asked."""
    chat = body["messages"]
    whole = json.dumps(chat)
    if "BEGIN DATA" in whole or "GRADE:" in whole:  # Inspect's judge
        return said("It is so. GRADE: C" if "polite" in whole else "GRADE: I")
    if "rubric" in whole.lower():  # promptfoo's
        return said(json.dumps({"pass": True, "score": 1.0, "reason": "it is"}))
    right = body["model"] == RIGHT
    user = [each["content"] for each in chat if each["role"] == "user"]
    done = sum(each["role"] == "tool" for each in chat)
    if "1039" in user[0]:
        if done == 0:
            return said("", call("refund_order", amount=12900 if right else 7500, **REFUND))
        if len(user) == 2 and done == 1:
            return said("", call("cancel_order", **CANCEL))
        return said("Done.")
    if done == 0 and right:
        return said("", call("get_order", order_id="1042"))
    return said("Your refund is on its way; 30 days." if right else "I cannot tell.")


def make_set(folder: Path) -> GoldenSet:
    """A set of three tasks of the bundled runs, in a database beside it: gold actions, a predicate
    with an answer and a judge's item, and a rule."""
    fixtures = Path(__file__).parents[1] / "fixtures"
    for words in (
        ("import", str(fixtures / "traces")),
        ("gold", "import", str(fixtures / "demo" / "gold.jsonl")),
        ("golden", "add", MANY_WISHES, "-k", "2"),
        ("golden", "add", "shop-stock-v4-0", "-k", "1", "--check", "judge:Is it {{polite}}?",
         "--check", "predicate:tool=get_order and args.order_id=1042 and not tool=refund_order",
         "--check", "regex:[0-9]+ days"),
        ("golden", "add", "shop-warranty-v3-0", "-k", "1"),
    ):  # fmt: skip
        done = spoken(*words, cwd=folder)
        assert done.code == 0, done.err
    return read_set(folder / "golden")


def run(
    command: Sequence[str], api: OpenaiApi, cwd: Path, codes: Sequence[int] = (0,), **env: str
) -> str:
    """What a command prints; its environment holds nothing of this one's but the path."""
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(cwd),
        "PYTHONDONTWRITEBYTECODE": "1",
        "OPENAI_API_KEY": "sk-scripted",
        "OPENAI_BASE_URL": f"{api.base_url}/v1",
        "HTTP_PROXY": PROXY,
        "HTTPS_PROXY": PROXY,
        "NO_PROXY": "127.0.0.1",
        "no_proxy": "127.0.0.1",
        **env,
    }
    done = subprocess.run(
        command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=500, check=False
    )
    words = f"{done.stdout}\n{done.stderr}"
    assert done.returncode in codes, f"{command[0]}: code {done.returncode}\n{words[-4000:]}"
    return words


def same(found: list[Outcome], wanted: list[Outcome]) -> None:
    assert found == wanted, f"read back {found}, not {wanted}"


def read_back(folder: Path, *paths: Path) -> list[Outcome]:
    """What `arc import` makes of what a tool wrote."""
    db = folder / "back.db"
    done = spoken("--db", str(db), "import", *map(str, paths), cwd=folder)
    assert done.code == 0, done.err
    with Store.open(db) as store:
        rows = trace_rows(store)
    db.unlink()
    return sorted(map(_outcome, rows))


def _outcome(row: TraceRow) -> Outcome:
    golden = golden_of(row)
    return Outcome(
        row.task or "", row.trial or "", row.outcome, golden.stamp if golden else "no stamp"
    )


def expected(golden: str, *rows: tuple[str, str, str]) -> list[Outcome]:
    return sorted(Outcome(*row, golden) for row in rows)


def by_pytest(found: GoldenSet, folder: Path) -> None:
    """Right and wrong agents; the judge's item and the rule leave a test skipped."""
    out = folder / "pytest"
    export_set(found, "pytest", out)
    stamp = found.golden.stamp
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(out)]
    for name, wished, ended in ((RIGHT, "passed", "unknown"), (WRONG, "failed", "failed")):
        runs = folder / f"pytest-{name}"
        with OpenaiApi(model) as api:
            codes = (0,) if name == RIGHT else (1,)
            words = run(command, api, folder, codes, GOLDEN_MODEL=name, GOLDEN_RUNS=str(runs))
        counts = "2 passed, 2 skipped" if name == RIGHT else "3 failed, 1 skipped"
        assert counts in words, words
        same(
            read_back(folder, runs),
            expected(
                stamp,
                ("many-wishes", "1", wished),
                ("many-wishes", "2", wished),
                ("stock", "1", ended),
                ("warranty", "1", "unknown"),
            ),
        )


def by_promptfoo(found: GoldenSet, folder: Path, environments: Path) -> None:
    """The same by its own assertions; the item by its own judge; the rule's task is left out."""
    bin_ = _npm(environments / "promptfoo", PROMPTFOO) / "promptfoo"
    out = folder / "promptfoo"
    export_set(found, "promptfoo", out)
    for name in (RIGHT, WRONG):
        runs, results = folder / f"promptfoo-{name}", folder / f"{name}.json"
        command = [str(bin_), "eval", "--no-cache", "-c", str(out / "promptfooconfig.json"),
                   "-o", str(results), "--grader", "openai:chat:judge", "-j", "1"]  # fmt: skip
        with OpenaiApi(model) as api:
            codes = (0,) if name == RIGHT else (100,)
            run(command, api, folder, codes, GOLDEN_MODEL=name, GOLDEN_RUNS=str(runs),
                PROMPTFOO_PYTHON=sys.executable, PROMPTFOO_DISABLE_TELEMETRY="1",
                PROMPTFOO_DISABLE_UPDATE="1", PROMPTFOO_CONFIG_DIR=str(folder))  # fmt: skip
        said_ = json.loads(results.read_text())["results"]["results"]
        assert [each["success"] for each in said_] == [name == RIGHT] * 3, said_
        items = [part["assertion"]["value"] for each in said_
                 for part in each["gradingResult"]["componentResults"]
                 if part["assertion"]["type"] == "llm-rubric"]  # fmt: skip
        assert all("{{polite}}" in item or "{{'{'}}" in item for item in items), items
        wished = "passed" if name == RIGHT else "failed"
        same(
            read_back(folder, runs),
            expected(
                found.golden.stamp,
                ("many-wishes", "1", wished),
                ("many-wishes", "2", wished),
                ("stock", "1", "unknown" if name == RIGHT else "failed"),
            ),
        )


def by_inspect(found: GoldenSet, folder: Path, environments: Path) -> None:
    """Graded with the judge; the sample with a rule alone is left unscored."""
    bin_ = _venv(environments / "inspect", INSPECT) / "inspect"
    out = folder / "inspect"
    export_set(found, "inspect", out)
    for name in (RIGHT, WRONG):
        logs = folder / f"logs-{name}"
        command = [str(bin_), "eval", "golden_tasks.py", "--model", f"openai-api/scripted/{name}",
                   "--model-role", f"grader=openai-api/scripted/{name}", "--log-dir", str(logs),
                   "-M", "strict_tools=false", "--display", "plain"]  # fmt: skip
        with OpenaiApi(model) as api:
            run(command, api, out, SCRIPTED_API_KEY="sk-scripted",
                SCRIPTED_BASE_URL=f"{api.base_url}/v1")  # fmt: skip
        wished = "passed" if name == RIGHT else "failed"
        same(
            read_back(folder, logs),
            expected(
                found.golden.stamp,
                ("many-wishes", "1", wished),
                ("many-wishes", "2", wished),
                ("stock", "1", wished),
                ("warranty", "1", "unknown"),
            ),
        )


def _venv(folder: Path, needs: Sequence[str]) -> Path:
    if not (folder / "done").exists():
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "-q"]
        subprocess.run([*pip, *needs], check=True)
        (folder / "done").touch()
    return folder / "bin"


def _npm(folder: Path, needs: Sequence[str]) -> Path:
    if not (folder / "done").exists():
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "package.json").write_text('{"private": true}')
        command = ["npm", "install", "--silent", "--no-audit", "--no-fund", *needs]
        subprocess.run(command, cwd=folder, check=True)
        (folder / "done").touch()
    return folder / "node_modules" / ".bin"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.golden_exports", description=__doc__)
    parser.add_argument("--environments", type=Path, metavar="FOLDER")
    parser.add_argument("tools", nargs="*", default=["pytest", "promptfoo", "inspect"])
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as unkept:
        environments = (chosen.environments or Path(unkept)).absolute()
        tools: dict[str, Any] = {
            "pytest": lambda found, folder: by_pytest(found, folder),
            "promptfoo": lambda found, folder: by_promptfoo(found, folder, environments),
            "inspect": lambda found, folder: by_inspect(found, folder, environments),
        }
        for name in chosen.tools:
            with tempfile.TemporaryDirectory() as work:
                tools[name](make_set(Path(work)), Path(work))
            print(f"{name}: every run graded and read back", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
