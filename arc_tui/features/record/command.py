"""`arc record`, `arc listen`: a command recorded exactly, runs as they happen, and how
an agent is made to send them.
"""

from __future__ import annotations

import logging
import shlex
import signal
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from msgspec import Struct

from arc_tui.cli import (
    MORE_THAN_NOTHING,
    console,
    database_path,
    db_option,
    examples,
    json_option,
    print_json,
    print_line,
    require,
    unlock,
    with_options,
)
from arc_tui.config import RecordConfig, read_config
from arc_tui.features.record.live import LOOPBACK, PORT
from arc_tui.places import author, database
from arc_tui.ui.format import count, cut, one_line
from replay.budget import Limits
from replay.errors import ArcError

if TYPE_CHECKING:
    from arc_tui.features.record.live import Written
    from arc_tui.features.record.recording import Recorded
    from replay.stop_order import StopOrder
    from taxonomy.golden.sets import GoldenSet


SHOWN = 5
"""Runs that are told one by one."""

UNUSED = (
    "nothing recorded: the command made no model call through ANTHROPIC_BASE_URL or OPENAI_BASE_URL"
)


NO_CAP = "none"
"""What lifts a cap of the settings."""


class _Cap(click.ParamType[float | str]):
    """A number above 0, a whole one where it counts something; or `none`."""

    name = "number"

    def __init__(self, number: click.ParamType[int] | click.ParamType[float], what: str) -> None:
        self._number = number
        self._what = what

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float | str:
        if value == NO_CAP:
            return NO_CAP
        try:
            return self._number.convert(value, param, ctx)
        except click.BadParameter:
            self.fail(f"'{value}' is neither {self._what} above 0 nor '{NO_CAP}'.", param, ctx)


_WHOLE = _Cap(click.IntRange(min=1), "a whole number")
_ABOVE = _Cap(MORE_THAN_NOTHING, "a number")

_cap_options = with_options(
    click.option("--max-steps", type=_WHOLE, help="Refuse model calls after this many."),
    click.option("--max-tokens", type=_WHOLE, help="Refuse calls once this many are used."),
    click.option("--max-usd", type=_ABOVE, help="Refuse calls once they cost this much."),
    click.option("--max-minutes", type=_ABOVE,
                 help="Refuse calls this long after the first; `none`: no such cap."),
)  # fmt: skip
"""The caps, as `max_*`."""


@click.command(
    context_settings={"allow_interspersed_args": False},
    epilog=examples(
        "arc record -- python agent.py",
        "arc record --task refund --max-steps 40 --max-usd 2 -- python agent.py",
    ),
)
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
@click.option("--task", help="The task; runs of one task are compared.")
@click.option("--variant", help="The version of the agent.")
@click.option("--title", help="A title; default: the first user message.")
@click.option("--label", "labels", multiple=True, metavar="NAME=VALUE", help="A label; repeatable.")
@click.option(
    "--golden",
    type=click.Path(file_okay=False, path_type=Path),
    envvar="ARC_GOLDEN",
    help="The folder of the golden set that the run is measured on (ARC_GOLDEN).",
)
@click.option("--split", is_flag=True, help="Record each conversation as a run of its own.")
@_cap_options
@db_option
def record(
    command: tuple[str, ...],
    task: str | None,
    variant: str | None,
    title: str | None,
    labels: tuple[str, ...],
    golden: Path | None,
    split: bool,
    db: Path | None,
    **caps: float | str | None,
) -> int:
    """Run COMMAND and record its model calls exactly.

    Sets ANTHROPIC_BASE_URL and OPENAI_BASE_URL to a local proxy that forwards everything unchanged.
    `arc` in another terminal shows the run live. The exit code is the command's. Caps count all
    calls of COMMAND: at a cap the next call gets the provider's own kind of error, which its SDK
    raises without a retry; calls in flight finish. `arc stop` refuses new runs.

    Needs the extra `serve`: pip install 'arc-tui[serve]'
    """
    import asyncio

    from arc_tui.features.record import recording
    from replay.formats.source import mended
    from replay.recorder.recording import About
    from replay.trace import GOLDEN
    from replay.written import refuse_halves

    require("arc record", "aiohttp", "multidict", "truststore", "yarl")
    # What the server remarks of a broken connection would land in the command's own output.
    logging.getLogger("aiohttp").addHandler(logging.NullHandler())
    refuse_halves(task, variant, title, *labels)
    stamps = {} if golden is None else {GOLDEN: _intact(golden).golden.stamp}
    about = About(
        title=title,
        task=task,
        variant=variant,
        labels={"command": mended(shlex.join(command)), **dict(map(_label, labels)), **stamps},
    )
    path, settings = database_path(db), read_config()
    rates = {said.model or name: said.prices for name, said in settings.models.items()}
    try:
        done = asyncio.run(
            recording.record(
                path,
                command,
                about,
                split=split,
                caps=_limits(caps, settings.record),
                rates={name: each for name, each in rates.items() if each is not None},
            )
        )
    except recording.CannotRun as error:
        click.echo(f"arc: {one_line(error.message)}", err=True)
        return error.code
    _say(done, ["--db", str(path)] if db else [])
    return done.code


def _limits(given: dict[str, float | str | None], settings: RecordConfig) -> Limits:
    """The caps of the options, of the settings where there is no option."""
    found: dict[str, Any] = {}
    for name, value in given.items():
        chosen = getattr(settings, name) if value is None else value
        found[name] = None if chosen == NO_CAP else chosen
    return Limits(
        calls=found["max_steps"],
        tokens=found["max_tokens"],
        usd=found["max_usd"],
        minutes=found["max_minutes"],
    )


def _intact(folder: Path) -> GoldenSet:
    """The golden set there. Raises ArcError where it is not as it was frozen."""
    from taxonomy.golden.sets import read_set

    found = read_set(folder)
    if not found.intact:
        raise ArcError(f"{folder}: is not as it was frozen", "Try: arc golden check")
    return found


def _label(given: str) -> tuple[str, str]:
    name, equals, value = given.partition("=")
    if not name or not equals:
        raise click.UsageError(f"--label {given!r} is not NAME=VALUE")
    return name, value


def _say(done: Recorded, where: list[str]) -> None:
    """What was recorded, on stderr: stdout is the command's."""
    for written in done.traces[:SHOWN]:
        title = cut(one_line(written.title or "untitled"), 60)
        size = count(written.steps, "step")
        click.echo(f"recorded {written.id[:8]}  {title}: {size}", err=True)
    if len(done.traces) > SHOWN:
        click.echo(f"… and {count(len(done.traces) - SHOWN, 'more run')}", err=True)
    if done.unread:
        click.echo(f"{count(done.unread, 'call')} unreadable", err=True)
    if done.refused:
        more = f"; {done.unrecorded} of them not recorded" if done.unrecorded else ""
        calls = count(done.refused, "call")
        click.echo(f"{calls} refused{more}: {one_line(done.refusal or '')}", err=True)
    if done.trouble is not None:
        click.echo(f"arc: the recording is incomplete: {one_line(done.trouble)}", err=True)
    if not done.traces:
        if done.trouble is None and not (done.unread or done.refused):
            click.echo(UNUSED, err=True)
        return
    after = ["arc", "show", done.traces[0].id[:8]] if len(done.traces) == 1 else ["arc", "ls"]
    click.echo(f"next: {shlex.join([*after, *where])}", err=True)


class StopView(Struct, frozen=True, kw_only=True):
    """Whether recorders of a database are stopped, by whom, when, why; `changed` by this command.

    `stops` is "new runs" or "every call", None where nothing is stopped. After `--off` the order
    that ended stands here.
    """

    database: str
    file: str
    stopped: bool
    changed: bool
    stops: str | None = None
    by: str | None = None
    at_ns: int | None = None
    because: str | None = None
    broken: str | None = None


@click.command(
    epilog=examples(
        "arc stop --because 'refunds went out twice'", "arc stop --now", "arc stop --off"
    )
)
@click.option("--now", is_flag=True, help="Also refuse the next call of runs under way.")
@click.option("--because", metavar="REASON", help="Why; told to whoever is refused.")
@click.option("--off", is_flag=True, help="Let recorders go on.")
@json_option
@db_option
def stop(now: bool, because: str | None, off: bool, as_json: bool, db: Path | None) -> int:
    """Stop what is recorded: refuse new runs at `arc record`, and let those under way finish.

    Calls in flight always finish and are recorded. Recorders in all processes see the order with
    their next call. It stands in a file beside the database, named like it with .stop at the end:
    to make that file by hand stops every call, as --now does.
    """
    from replay import stop_order as orders

    if off and (now or because is not None):
        raise click.UsageError("--off takes neither --now nor --because")
    if because is not None and not because.strip():
        raise click.UsageError("--because needs a reason")
    path = database_path(db)
    before = orders.stop_order(path)
    if off:
        order = orders.resume(path)
        changed = order is not None
    else:
        order = orders.stop(path, by=author(), because=because, at_once=now)
        changed = order != before
    if as_json:
        found = order or orders.StopOrder(at_once=False)
        stops = "every call" if found.at_once else "new runs"
        print_json(
            StopView(
                database=str(path),
                file=str(orders.stop_file(path)),
                stopped=not off,
                changed=changed,
                stops=stops if order is not None else None,
                by=found.by,
                at_ns=found.at_ns,
                because=found.because,
                broken=found.broken,
            )
        )
        return 0
    if not path.exists():
        click.echo(f"{path}: no such database yet", err=True)
    print_line(console(), _stop_text(path, order, off=off, changed=changed))
    return 0


def _stop_text(path: Path, order: StopOrder | None, *, off: bool, changed: bool) -> str:
    if order is None:
        return f"Recording into {path} was not stopped."
    if off:
        return f"Recording into {path} goes on. It was {order.text}."
    again = "" if changed else "already "
    resume = "arc stop --off"
    if path != database(None):
        resume += f" --db {shlex.quote(str(path))}"
    return f"Recording into {path} is {again}{order.text}. {order.scope} Resume: {resume}"


CLAUDE_CODE = """\
# Claude Code: in the shell that starts it, or under "env" in its settings.json
export CLAUDE_CODE_ENABLE_TELEMETRY=1
export CLAUDE_CODE_ENHANCED_TELEMETRY_BETA=1
export OTEL_TRACES_EXPORTER=otlp
export OTEL_LOGS_EXPORTER=otlp
export OTEL_METRICS_EXPORTER=none
export OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf
export OTEL_EXPORTER_OTLP_ENDPOINT={endpoint}
export OTEL_LOGS_EXPORT_INTERVAL=1000
# prompts, tool arguments and tool results; without these only numbers are sent
export OTEL_LOG_USER_PROMPTS=1
export OTEL_LOG_TOOL_DETAILS=1
export OTEL_LOG_TOOL_CONTENT=1
# to follow a session without telemetry, import its log file:
#   arc import --follow ~/.claude/projects
"""

LANGFUSE = """\
# Langfuse's SDK, Python 3 or JavaScript 4 and later: any keys do, no Langfuse is needed
export LANGFUSE_BASE_URL={endpoint}
export LANGFUSE_HOST={endpoint}
export LANGFUSE_PUBLIC_KEY=pk-lf-arc
export LANGFUSE_SECRET_KEY=sk-lf-arc
"""

LANGSMITH = """\
# LangGraph and LangChain by LangSmith's SDK: pip install 'langsmith[otel]'; any key does
export LANGSMITH_TRACING=true
export LANGSMITH_OTEL_ENABLED=true
export LANGSMITH_OTEL_ONLY=true
export LANGSMITH_ENDPOINT={endpoint}
export LANGSMITH_API_KEY=arc
"""

PHOENIX = """\
# OpenInference by Phoenix's package: pip install arize-phoenix-otel, and in the program
#   from phoenix.otel import register
#   register(protocol="http/protobuf", auto_instrument=True)
export PHOENIX_COLLECTOR_ENDPOINT={endpoint}/v1/traces
"""

GENERIC = """\
# any agent with an OpenTelemetry SDK that exports over OTLP
export OTEL_TRACES_EXPORTER=otlp
export OTEL_LOGS_EXPORTER=otlp
export OTEL_METRICS_EXPORTER=none
export OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf
export OTEL_EXPORTER_OTLP_ENDPOINT={endpoint}
export OTEL_BSP_SCHEDULE_DELAY=1000
# messages, where the instrumentation follows the GenAI conventions
export OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=true
# (LiteLLM wants SPAN_ONLY there, and other packages of their own: see docs/sources)
"""

PYTHON = """\
# Python: pip install opentelemetry-sdk opentelemetry-exporter-otlp-proto-http
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

provider = TracerProvider()
provider.add_span_processor(
    BatchSpanProcessor(
        OTLPSpanExporter(endpoint="{endpoint}/v1/traces"), schedule_delay_millis=1000
    )
)
trace.set_tracer_provider(provider)
"""

NODE = """\
// Node: npm install @opentelemetry/sdk-node @opentelemetry/exporter-trace-otlp-proto
import {{ OTLPTraceExporter }} from '@opentelemetry/exporter-trace-otlp-proto';
import {{ NodeSDK }} from '@opentelemetry/sdk-node';

const sdk = new NodeSDK({{
  traceExporter: new OTLPTraceExporter({{ url: '{endpoint}/v1/traces' }}),
}});
sdk.start();
process.on('beforeExit', () => sdk.shutdown());
"""

SETUPS = {
    "claude-code": CLAUDE_CODE,
    "env": GENERIC,
    "langfuse": LANGFUSE,
    "langsmith": LANGSMITH,
    "node": NODE,
    "phoenix": PHOENIX,
    "python": PYTHON,
}
"""Settings by the agent they are for; `{endpoint}` is where `arc listen` listens."""

ALL, FOR_AGENTS = "all", "skill"


@click.command(epilog=examples("arc listen", "arc listen --setup claude-code"))
@click.option(
    "--port", type=click.IntRange(0, 65535), default=PORT, show_default=True,
    help="The port on 127.0.0.1; 0 picks a free one.",
)  # fmt: skip
@click.option(
    "--setup", type=click.Choice([*SETUPS, FOR_AGENTS, ALL]),
    help="Print the settings that make an agent send its traces here, then exit; `skill`: a"
    " SKILL.md by which a coding agent asks arc.",
)  # fmt: skip
@db_option
def listen(port: int, setup: str | None, db: Path | None) -> int:
    """Receive traces over OTLP/HTTP while agents run, until ctrl-c.

    `arc` in another terminal shows them live. `eval "$(arc listen --setup claude-code)"` makes
    Claude Code send them from this shell.

    Needs the extra `serve`: pip install 'arc-tui[serve]'
    """
    if setup is not None:
        print_setup(setup, port)
        return 0
    import asyncio

    require("arc listen", "aiohttp")
    path = database_path(db)
    unlock(path)
    received = _ReceivedTraces(path)
    asyncio.run(_listen(path, port, received))
    received.say_end()
    return 0


async def _listen(path: Path, port: int, received: _ReceivedTraces) -> None:
    import asyncio

    from arc_tui.features.record import listening

    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for each in (signal.SIGINT, signal.SIGTERM):
        with suppress(NotImplementedError):  # where loops know no signals, ctrl-c ends it at once
            loop.add_signal_handler(each, stop.set)
    await listening.listen(
        path, port=port, ready=received.say_ready, report=received.say, stop=stop
    )


class _ReceivedTraces:
    """What was received, told as it comes: traces on stdout, the rest on stderr."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._out = console()
        self._traces: dict[str, Written] = {}

    def say_ready(self, port: int) -> None:
        click.echo(f"listening on http://{LOOPBACK}:{port}, writing {self._path}", err=True)
        click.echo(
            "`arc listen --setup AGENT` prints an agent's settings · `arc` shows the runs · ctrl-c"
            " stops",
            err=True,
        )

    def say(self, written: Written) -> None:
        name = cut(one_line(written.title or "untitled"), 60)
        if written.state == "refused":
            click.echo(f"arc: {one_line(written.why)}", err=True)
            return
        self._traces[written.id] = written
        size = f"{count(written.steps, 'step')}, {count(written.spans, 'span')}"
        if written.state == "begun":
            self._out.print(f"● {written.id[:8]}  {name}", soft_wrap=True)
        elif written.state == "over":
            self._out.print(f"✓ {written.id[:8]}  {name}: {size}", soft_wrap=True)

    def say_end(self) -> None:
        spans = sum(written.spans for written in self._traces.values())
        click.echo(
            f"{count(len(self._traces), 'trace')}, {count(spans, 'span')} received", err=True
        )


def print_setup(agent: str, port: int) -> None:
    """What makes an agent send its traces here, of every kind for `all`; or what tells a coding
    agent how to ask about runs."""
    if agent == FOR_AGENTS:
        from arc_tui.features.record.skill import SKILL

        click.echo(SKILL, nl=False)
        return
    chosen = list(SETUPS) if agent == ALL else [agent]
    endpoint = f"http://{LOOPBACK}:{port}"
    click.echo("\n".join(SETUPS[each].format(endpoint=endpoint) for each in chosen), nl=False)
