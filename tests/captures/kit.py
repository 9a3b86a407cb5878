"""One capture: an environment, the servers, the script, and what came of it.

A script's head names what it needs (as `pip` and `uv` read it), and the captures that it makes,
each with the settings it is made with and what its client does not record:

    # /// script
    # dependencies = ["strands-agents[openai,otel]==1.62.0"]
    # [tool.capture.strands_otel]
    # env = {OTEL_SEMCONV_STABILITY_OPT_IN = "gen_ai_latest_experimental"}
    # not_in_the_file = ["stop reasons"]
    # ///
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import msgspec
from msgspec import Struct

from replay.errors import ArcError
from replay.trace import Json
from tests.captures.expected import Expected, ExpectedCall, ExpectedRun, ExpectedStep
from tests.captures.script import cost_usd
from tests.captures.scrubbed import Scrubber
from tests.captures.server import CaptureServers, Post, Served

FRAMEWORKS = Path(__file__).parent / "frameworks"
LONGEST_S = 300

TRUTH = (
    "The script makes the agent fail on purpose: the refund is asked for an order that was never"
    " observed (1039), the tool answers with an error, and the last message claims success."
)

_HEAD = re.compile(r"^# /// script\n((?:#.*\n)*?)# ///$", re.M)
_SUFFIXES = {"application/x-protobuf": ".pb", "application/json": ".json"}
_PACKED = {"gzip": ".gz"}


class Framework(Struct, frozen=True, kw_only=True):
    """A capture to be made: its script, and what the script's head says of it."""

    name: str
    path: Path
    dependencies: tuple[str, ...]
    env: dict[str, str] = {}
    not_in_the_file: tuple[str, ...] = ()
    note: str = ""


class Ran(Struct, frozen=True, kw_only=True):
    """A call of a tool as the tool saw it."""

    name: str
    arguments: dict[str, Json]
    result: Json = None
    error: str | None = None


def frameworks() -> dict[str, Framework]:
    """Every capture that the scripts can make, by name."""
    return {each.name: each for path in sorted(FRAMEWORKS.glob("*.py")) for each in _of(path)}


def _of(path: Path) -> list[Framework]:
    found = _HEAD.search(path.read_text())
    if found is None:
        return []
    head = tomllib.loads(re.sub(r"^# ?", "", found[1], flags=re.M))
    common = {"path": path, "dependencies": head["dependencies"]}
    return [
        msgspec.convert({"name": name, **common, **said}, Framework)
        for name, said in head["tool"]["capture"].items()
    ]


def environment(chosen: Framework, folder: Path) -> Path:
    """The python of an environment with what the script needs; made where there is none.

    Raises ArcError with pip's last words where it cannot be installed.
    """
    digest = hashlib.sha256(repr(chosen.dependencies).encode()).hexdigest()[:12]
    venv = folder / f"{chosen.path.stem}-{digest}"
    python, done = venv / "bin" / "python", venv / "done"
    if not done.exists():
        shutil.rmtree(venv, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", venv], check=True)
        pip = [str(python), "-m", "pip", "install", "-q", *chosen.dependencies]
        said = subprocess.run(pip, capture_output=True, text=True)
        if said.returncode:
            last = "; ".join(said.stderr.strip().splitlines()[-3:])
            raise ArcError(f"{chosen.name}: cannot be installed: {last}")
        done.touch()
    return python


def capture(chosen: Framework, python: Path, work: Path) -> tuple[Expected, dict[str, bytes]]:
    """Run the script in an empty folder: what is true of the run, and the files it gave by name.

    Raises ArcError where the script fails or nothing comes of it.
    """
    shop, home = work / "shop", work / "home"
    for each in (shop, home):
        each.mkdir(parents=True)
    calls = work / "calls.jsonl"
    calls.touch()
    with CaptureServers() as servers:
        said = subprocess.run(
            [python, chosen.path],
            cwd=shop,
            env={
                "PATH": os.environ["PATH"],
                "HOME": str(home),
                "PYTHONPATH": str(FRAMEWORKS),
                "PYTHONDONTWRITEBYTECODE": "1",
                "CAPTURE_MODEL_URL": servers.model.url,
                "CAPTURE_SINK_URL": servers.sink.url,
                "CAPTURE_CALLS": str(calls),
                "CAPTURE_FOLDER": str(shop),
                "NO_PROXY": "127.0.0.1",
                **chosen.env,
            },
            capture_output=True,
            text=True,
            timeout=LONGEST_S,
        )
    if said.returncode:
        raise ArcError(f"{chosen.name}: the script failed: {said.stderr.strip()[-2000:]}")
    ran = [msgspec.json.decode(line, type=Ran) for line in calls.read_bytes().splitlines()]
    scrub = Scrubber({str(python.parents[1]): "/home/user/venv", str(shop): "/home/user/shop",
                      str(home): "/home/user", str(FRAMEWORKS): "/home/user/shop"})  # fmt: skip
    files = {name: scrub.file(name, body) for name, body in _files(servers.posts, shop).items()}
    if not files or not servers.served:
        raise ArcError(f"{chosen.name}: {len(servers.served)} answers, {len(files)} files")
    return _expected(chosen, python, servers.served, ran, tuple(files)), files


def _files(posts: list[Post], shop: Path) -> dict[str, bytes]:
    """What was posted, a file a body, and what the script left in its folder."""
    kept = [each for each in posts if not each.path.endswith("/metrics")]
    found: dict[str, bytes] = {}
    for signal in dict.fromkeys(each.path.rpartition("/")[2] for each in kept):
        own = [each for each in kept if each.path.rpartition("/")[2] == signal]
        for at, each in enumerate(own):
            number = f"-{at + 1}" if len(own) > 1 else ""
            suffix = _SUFFIXES[each.content_type] + _PACKED.get(each.encoding or "", "")
            found[f"otlp/{signal}{number}{suffix}"] = each.body
    for path in sorted(shop.rglob("*")):
        if path.is_file():
            found[path.relative_to(shop).as_posix()] = path.read_bytes()
    return found


def _expected(
    chosen: Framework, python: Path, served: list[Served], ran: list[Ran], files: tuple[str, ...]
) -> Expected:
    """The truth: what was served, and what the tools did with it."""
    left = list(ran)
    steps = tuple(_step(each, left) for each in served)
    calls = [call for step in steps for call in step.calls]
    first = served[0].question
    costs = [cost_usd(each.question.model, each.turn) for each in served]
    known = [cost for cost in costs if cost is not None]
    return Expected(
        client=_client(chosen, python),
        files=files,
        truth=TRUTH,
        not_in_the_file=chosen.not_in_the_file,
        note=chosen.note,
        runs=(
            ExpectedRun(
                task="Refund my orders 1049 and 1050 please.",
                system=first.system,
                model=first.model,
                model_steps=len(steps),
                tool_calls=len(calls),
                tool_errors=sum(call.error is not None for call in calls),
                input_tokens=sum(step.input_tokens for step in steps),
                output_tokens=sum(step.output_tokens for step in steps),
                cache_read_tokens=sum(step.cache_read_tokens for step in steps),
                cost_usd=round(sum(known), 9) if len(known) == len(costs) else None,
                final_answer=steps[-1].text,
                outcome=None,
                steps=steps,
            ),
        ),
    )


def _step(served: Served, left: list[Ran]) -> ExpectedStep:
    turn = served.turn
    calls = []
    for call in turn.calls:
        found = next(
            (
                each
                for each in left
                if call.name.endswith(each.name) and call.arguments == each.arguments
            ),
            None,
        )
        if found is None:
            raise ArcError(f"the tool never saw {call.name}({call.arguments})")
        left.remove(found)
        calls.append(
            ExpectedCall(
                id=None if served.prefix is None else served.prefix + call.id,
                name=call.name,
                arguments=call.arguments,
                result=found.result,
                error=found.error,
            )
        )
    return ExpectedStep(
        input_tokens=turn.input_tokens,
        output_tokens=turn.output_tokens,
        cache_read_tokens=turn.cache_read_tokens,
        stop=served.stop,
        text=turn.text,
        calls=tuple(calls),
    )


def _client(chosen: Framework, python: Path) -> str:
    """The script's dependencies with the versions that ran."""
    code = (
        "import sys, importlib.metadata as m;"
        "print(*(f'{n} {m.version(n)}' for n in sys.argv[1:]), sep=', ')"
    )
    plain = [re.split(r"[\[=<>~!]", each)[0].strip() for each in chosen.dependencies]
    said = subprocess.run([python, "-c", code, *plain], capture_output=True, text=True, check=True)
    return said.stdout.strip()


def written(expected: Expected, files: dict[str, bytes], folder: Path) -> None:
    """Put a capture into a folder, in place of what stood there."""
    shutil.rmtree(folder, ignore_errors=True)
    for name, body in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(body)
    text = msgspec.json.format(msgspec.json.encode(expected), indent=1)
    (folder / "expected.json").write_bytes(text + b"\n")
