"""One capture: the servers, a script that runs, and what came of it."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import msgspec
from msgspec import Struct

from replay.errors import ArcError
from replay.trace import Json
from tests.captures.expected import Expected, ExpectedCall, ExpectedRun, ExpectedStep
from tests.captures.script import cost_usd
from tests.captures.scripts import FRAMEWORKS, Environment, Framework
from tests.captures.scrubbed import Scrubber
from tests.captures.server import CaptureServers, Post, ServedAnswer

LONGEST_S = 300
NOWHERE = "http://127.0.0.1:9"

TRUTH = (
    "The script makes the agent fail on purpose: the refund is asked for an order that was never"
    " observed (1039), the tool answers with an error, and the last message claims success."
)

_SUFFIXES = {"application/x-protobuf": ".pb", "application/json": ".json"}
_PACKED = {"gzip": ".gz"}


class ToolRun(Struct, frozen=True, kw_only=True):
    """A call of a tool as the tool saw it."""

    name: str
    arguments: dict[str, Json]
    result: Json = None
    error: str | None = None


def capture(chosen: Framework, where: Environment, work: Path) -> tuple[Expected, dict[str, bytes]]:
    """Run the script in an empty folder: what is true of the run, and the files it gave by name.

    Raises ArcError where the script fails or nothing comes of it.
    """
    shop, home = work / "shop", work / "home"
    for each in (shop, home):
        each.mkdir(parents=True)
    calls = work / "calls.jsonl"
    calls.touch()
    with CaptureServers() as servers:
        env = {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "PYTHONPATH": str(FRAMEWORKS),
            "PYTHONDONTWRITEBYTECODE": "1",
            "CAPTURE_MODEL_URL": servers.model.url,
            "CAPTURE_SINK_URL": servers.sink.url,
            "OTEL_EXPORTER_OTLP_ENDPOINT": servers.sink.url,
            "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
            "CAPTURE_CALLS": str(calls),
            "CAPTURE_FOLDER": str(shop),
            # What asks for anything but loopback is refused at once.
            "HTTP_PROXY": NOWHERE,
            "HTTPS_PROXY": NOWHERE,
            "NO_PROXY": "127.0.0.1",
            **chosen.env,
        }
        try:
            said = subprocess.run(
                where.command, cwd=shop, env=env, capture_output=True, text=True, timeout=LONGEST_S
            )
        except subprocess.TimeoutExpired as error:
            raise ArcError(f"{chosen.name}: the script took over {LONGEST_S} s") from error
    if said.returncode:
        raise ArcError(f"{chosen.name}: the script failed: {said.stderr.strip()[-2000:]}")
    ran = [msgspec.json.decode(line, type=ToolRun) for line in calls.read_bytes().splitlines()]
    scrub = Scrubber({str(where.folder): "/home/user/venv", str(shop): "/home/user/shop",
                      str(home): "/home/user", str(FRAMEWORKS): "/home/user/shop"})  # fmt: skip
    files = {name: scrub.file(name, body) for name, body in _files(servers.posts, shop).items()}
    if not files or not servers.served:
        raise ArcError(f"{chosen.name}: {len(servers.served)} answers, {len(files)} files")
    expected = msgspec.json.encode(_expected(chosen, servers.served, ran, tuple(files)))
    return msgspec.json.decode(scrub.text(expected.decode()), type=Expected), files


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
    chosen: Framework, served: list[ServedAnswer], ran: list[ToolRun], files: tuple[str, ...]
) -> Expected:
    """The truth: what was served, and what the tools did with it."""
    left = list(ran)
    steps = tuple(_step(each, left) for each in served)
    calls = [call for step in steps for call in step.calls]
    first = served[0].question
    # What no file holds cannot be compared, and may be another's to publish.
    records_system = not any("system prompt" in each for each in chosen.not_in_the_file)
    costs = [cost_usd(each.question.model, each.turn) for each in served]
    known = [cost for cost in costs if cost is not None]
    return Expected(
        client=chosen.client,
        files=files,
        truth=TRUTH,
        not_in_the_file=chosen.not_in_the_file,
        note=chosen.note,
        runs=(
            ExpectedRun(
                task="Refund my orders 1049 and 1050 please.",
                system=first.system if records_system else None,
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


def _step(served: ServedAnswer, left: list[ToolRun]) -> ExpectedStep:
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


def written(expected: Expected, files: dict[str, bytes], folder: Path) -> None:
    """Put a capture into a folder, in place of what stood there."""
    shutil.rmtree(folder, ignore_errors=True)
    for name, body in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(body)
    text = msgspec.json.format(msgspec.json.encode(expected), indent=1)
    (folder / "expected.json").write_bytes(text + b"\n")
