"""The command line. `arc WORD` is a command, else an existing file, else a did-you-mean.

Results go to stdout, everything else to stderr. Each command lives in the module of its family
and is loaded when it is called: `arc ls` imports neither Textual nor the SDK.
"""

from __future__ import annotations

import errno
import io
import os
import sys
import traceback
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from arc_tui import __version__
from arc_tui.exit_codes import BUG, INTERRUPTED, USER_ERROR
from replay import files
from replay.errors import ArcError, Stopped


class Lazy(click.Group):
    """A group whose commands stand in `places`, as `module:name` by their word, in the order of its
    help."""

    def __init__(self, *args: Any, places: Mapping[str, str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.places = places

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return list(self.places)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        place = self.places.get(cmd_name)
        if place is None:
            return None
        module, _, name = place.partition(":")
        command = getattr(import_module(module), name)
        assert isinstance(command, click.Command)
        return command


def _group(help_: str, places: Mapping[str, str]) -> Lazy:
    """A command of commands; alone it prints what it holds."""
    return Lazy(help=help_, places=places, no_args_is_help=True)


TAG = _group(
    "Failure tags of people, and the suggestions of rules, judges and agents.",
    {
        "add": "arc_tui.features.tagging:add",
        "rm": "arc_tui.features.tagging:remove",
        "undo": "arc_tui.features.tagging:undo",
        "list": "arc_tui.features.tagging:list_",
    },
)
EXPERIMENT = _group(
    "Call the model again with one thing changed.",
    {
        "probe": "arc_tui.features.probes.command:probe",
        "paraphrase": "arc_tui.features.paraphrase.command:paraphrase",
        "inject-error": "arc_tui.features.error_injection.command:inject_error",
    },
)
BISECT = _group(
    "Find the version, hunk or step at which a run breaks.",
    {
        "versions": "arc_tui.features.bisect.command:versions",
        "hunks": "arc_tui.features.bisect.command:hunks",
        "steps": "arc_tui.features.bisect_steps.command:steps",
        "recovery": "arc_tui.features.bisect.command:recovery",
    },
)
EDIT = _group(
    "Edits that were tried: list them, print one as a file.",
    {
        "list": "arc_tui.features.edit_test.command:list_edits",
        "show": "arc_tui.features.edit_test.command:show_edit",
    },
)
GOLD = _group(
    "What a run of a task should do and say, to hold runs against.",
    {
        "import": "arc_tui.features.gold:import_",
        "list": "arc_tui.features.gold:list_",
        "rm": "arc_tui.features.gold:remove",
    },
)
GOLDEN = _group(
    "Golden tasks: a frozen set made of runs, to measure changes on.",
    {
        "add": "arc_tui.features.golden.command:add",
        "check": "arc_tui.features.golden.command:check",
        "list": "arc_tui.features.golden.command:list_",
        "export": "arc_tui.features.golden.command:export",
        "rm": "arc_tui.features.golden.command:remove",
    },
)
FLEET = _group(
    "Trace stores of a team, in ClickHouse: list their runs, copy runs from them.",
    {
        "add": "arc_tui.features.fleet.command:add",
        "failures": "arc_tui.features.fleet.failures:failures",
        "ls": "arc_tui.features.fleet.command:ls",
        "pull": "arc_tui.features.fleet.command:pull",
        "rm": "arc_tui.features.fleet.command:remove",
        "scan": "arc_tui.features.fleet.scan_command:scan",
    },
)
BUNDLE = _group(
    "Replays as portable files.",
    {"verify": "arc_tui.features.database.recover:verify_replay"},
)
DB = _group(
    "Manage the database: backup, recovery, masking, retention, encryption.",
    {
        "verify": "arc_tui.features.database.recover:verify",
        "backup": "arc_tui.features.database.command:backup",
        "export": "arc_tui.features.database.command:export",
        "import": "arc_tui.features.database.command:import_",
        "recover": "arc_tui.features.database.recover:recover",
        "scrub": "arc_tui.features.database.command:scrub",
        "prune": "arc_tui.features.database.prune:prune",
        "encrypt": "arc_tui.features.database.command:encrypt",
        "decrypt": "arc_tui.features.database.command:decrypt",
        "rekey": "arc_tui.features.database.command:rekey",
    },
)

SECTIONS: dict[str, dict[str, str]] = {
    "Look": {
        "open": "arc_tui.open:open_",
        "demo": "arc_tui.open:demo",
        "ls": "arc_tui.features.runs.command:ls",
        "search": "arc_tui.features.runs.command:find",
        "show": "arc_tui.features.trace.command:show",
        "brief": "arc_tui.features.trace.command:brief",
        "diagnose": "arc_tui.features.trace.command:diagnose",
        "compare": "arc_tui.features.compare.command:compare",
        "report": "arc_tui.reports:report",
    },
    "Tag": {
        "tag": "arc_tui.commands:TAG",
        "review": "arc_tui.features.tagging:review",
        "label": "arc_tui.features.calibration.label_command:label",
    },
    "Replay": {
        "replay": "arc_tui.joint_commands:replay",
        "bisect": "arc_tui.commands:BISECT",
        "try": "arc_tui.features.edit_test.command:try_",
        "suggest": "arc_tui.features.edit_test.suggest.command:suggest",
        "experiment": "arc_tui.commands:EXPERIMENT",
        "edit": "arc_tui.commands:EDIT",
        "bundle": "arc_tui.commands:BUNDLE",
    },
    "Measure": {
        "audit": "arc_tui.features.audit.command:audit",
        "failures": "arc_tui.features.failures.command:pareto",
        "stats": "arc_tui.features.stats.command:stats",
        "cost": "arc_tui.features.cost.command:cost",
        "gate": "arc_tui.joint_commands:gate",
        "drift": "arc_tui.features.drift.command:drift",
        "judge": "arc_tui.features.judge.command:score",
        "calibrate": "arc_tui.features.calibration.command:calibrate",
        "gold": "arc_tui.commands:GOLD",
        "golden": "arc_tui.commands:GOLDEN",
    },
    "Capture": {
        "import": "arc_tui.features.imports.command:import_",
        "record": "arc_tui.features.record.command:record",
        "listen": "arc_tui.features.record.command:listen",
        "pull": "arc_tui.features.fleet.command:pull_from",
        "attach": "arc_tui.features.imports.command:attach",
        "stop": "arc_tui.features.record.command:stop",
    },
    "Admin": {
        "db": "arc_tui.commands:DB",
        "config": "arc_tui.features.settings.command:config",
        "doctor": "arc_tui.features.doctor:doctor",
        "fleet": "arc_tui.commands:FLEET",
        "serve": "arc_tui.serve.command:serve",
        "mcp": "arc_tui.mcp.command:mcp",
        "help": "arc_tui.features.help.command:help_",
        "completion": "arc_tui.features.help.command:completion",
    },
}
"""Where each command stands, by its word, in the order of `arc --help`."""

COMMANDS: dict[str, str] = {
    word: place for places in SECTIONS.values() for word, place in places.items()
}


class Commands(Lazy):
    """A word that is no command may be a file."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, places in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(word, self._first_sentence(ctx, word)) for word in places])

    def _first_sentence(self, ctx: click.Context, word: str) -> str:
        command = self.get_command(ctx, word)
        assert command is not None
        return command.get_short_help_str(limit=200)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        word = args[0]
        if word not in COMMANDS and (word == "-" or Path(word).exists()):
            return "open", self.get_command(ctx, "open"), args
        if word not in COMMANDS:
            raise click.UsageError(_no_command(word))
        name, command, rest = super().resolve_command(ctx, args)
        if command is None or all(each.type is not click.UNPROCESSED for each in command.params):
            _refuse_halves(rest)
        return name, command, rest


def _refuse_halves(words: list[str]) -> None:
    """A word that is not UTF-8 may be the name of a file, and nothing else."""
    from replay.written import refuse_halves

    refuse_halves(*(word for word in words if not os.path.exists(word)))


def _no_command(word: str) -> str:
    from difflib import get_close_matches

    near = get_close_matches(word, COMMANDS, n=1, cutoff=0.5)
    hint = f"Did you mean `arc {near[0]}`?" if near else "Try: arc --help"
    return f"'{word}' is neither a command nor a file. {hint}"


@click.group(
    cls=Commands,
    places=COMMANDS,
    invoke_without_command=True,
    epilog="\b\nExamples:\n  arc demo --headless\n  arc import traces/",
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.option(
    "--db",
    type=click.Path(dir_okay=False, path_type=Path),
    envvar="ARC_DB",
    help="The database (ARC_DB, else the platform's data folder).",
)
@click.version_option(__version__, prog_name="arc")
@click.pass_context
def cli(ctx: click.Context, db: Path | None) -> None:
    """Debug runs of LLM agents: find the step where a run broke, edit its prompt, replay it, and
    measure whether the edit fixes the failure.

    `arc` opens the app; `arc FILE…` imports the files first. No runs yet? Try: arc demo
    """
    ctx.obj = db
    if ctx.invoked_subcommand != "doctor":  # which says what was left
        files.sweep()
    if ctx.invoked_subcommand is None:
        command = cli.get_command(ctx, "open")
        assert command is not None
        ctx.invoke(command)


def main() -> None:
    """The entry point: runs a command and turns what went wrong into a sentence and a code."""
    _take_any_output()
    output = sys.stdout
    try:
        code = cli.main(standalone_mode=False)
        sys.stdout.flush()
    except Stopped as stopped:
        _say(stopped.message, stopped.hint)
        sys.exit(INTERRUPTED)
    except ArcError as error:
        sys.exit(_say(error.message, error.hint))
    except click.exceptions.Abort:
        sys.exit(INTERRUPTED)
    except click.ClickException as error:
        sys.exit(_say(error.format_message()))
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except SystemExit as ended:
        # The reader of a pipe had enough: rich says so, and click takes the output away.
        if sys.stdout is output and not isinstance(ended.__context__, BrokenPipeError):
            raise
        sys.exit(0)
    except BrokenPipeError:
        _drop_output()
        sys.exit(0)
    except OSError as error:
        if error.errno not in _CANNOT_PRINT or error.filename is not None:
            _report_bug()
            sys.exit(BUG)
        _drop_output()
        sys.exit(_say(f"cannot print the result: {error.strerror}"))
    except Exception as error:  # the last resort: a bug is reported as one
        from replay.store.trouble import unusable

        damaged = unusable(error, None)
        if damaged is not None:
            sys.exit(_say(damaged.message, damaged.hint))
        _report_bug()
        sys.exit(BUG)
    sys.exit(code if isinstance(code, int) else 0)


_CANNOT_PRINT = {errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EBADF, errno.EFBIG}
"""What a full or broken output says, where no file is named."""


def _take_any_output() -> None:
    """Printing never fails for a sign that an encoding lacks, nor for a stream that is closed."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _drop_output() -> None:
    """What is still to be printed at the end of the process goes nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _report_bug() -> None:
    from arc_tui.ui.format import plain
    from replay.redact.redactor import Redactor

    click.echo(plain(Redactor(b"").text(traceback.format_exc())), nl=False, err=True)


def _say(message: str, hint: str = "") -> int:
    from arc_tui.ui.format import one_line

    click.echo(f"arc: {one_line(message)}", err=True)
    if hint:
        click.echo(f"     {one_line(hint)}", err=True)
    return USER_ERROR
