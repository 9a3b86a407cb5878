"""`python -m tests.readme`: writes the generated tables of the README, each between its marks.

Commands come from the command line, keys from the bindings of the screens, classes and shapes from
their tables, formats from the importers, JSON columns from the structs. A test fails when the file
lags behind.
"""

from __future__ import annotations

import json
import tempfile
import types
import typing
from collections.abc import Callable, Iterable
from pathlib import Path

import click
import msgspec
from click.testing import CliRunner

from arc_tui import importing
from arc_tui.commands import cli
from arc_tui.features.doctor import never_checked
from arc_tui.features.imports.command import HEAD, build_formats
from arc_tui.places import fixtures
from replay.edit.changes import EFFORTS, ROLES, Change
from replay.edit.files import KINDS
from replay.store.rows import StepRow
from taxonomy.classes import CLASSES, SHAPES
from taxonomy.judgements.schema import open_ledger
from taxonomy.judgements.tags import TagRow
from taxonomy.query.listing import RunRow
from tests import tutorial
from tests.bench.calibration_results import markdown, shipped
from tests.faults import reached
from tests.spoken import command_at, every_command

README = Path(__file__).resolve().parents[1] / "README.md"


def commands() -> str:
    """A row a command: how it is called, what it does."""
    rows = [("`arc [FILE…]`", "imports the files if any are named, opens the app")]
    for words in every_command():
        command = command_at(words)
        if isinstance(command, click.Group):
            continue
        pieces = " ".join(_shown(command.collect_usage_pieces(click.Context(command))))
        text = (command.help or "").split("\n\n")[0].replace("\n", " ")
        rows.append((f"`arc {' '.join(words)} {pieces}`".replace(" `", "`"), text))
    return _table(("command", "does"), rows)


def _shown(pieces: Iterable[str]) -> list[str]:
    return [piece for piece in pieces if piece != "[OPTIONS]"]


def keys() -> str:
    """A row a key of each screen."""
    from arc_tui.app import ArcApp
    from arc_tui.features.bisect import screen as bisect
    from arc_tui.features.bisect import widgets
    from arc_tui.features.bisect_steps import widgets as steps_list
    from arc_tui.features.bisect_steps.screen import StepsScreen
    from arc_tui.features.calibration import screen
    from arc_tui.features.compare import widgets as compare_list
    from arc_tui.features.compare.screen import CompareScreen
    from arc_tui.features.cost.screen import CostScreen
    from arc_tui.features.edit_test.screen import EditTestScreen
    from arc_tui.features.failures import widgets as failure_bars
    from arc_tui.features.failures import widgets as failure_runs
    from arc_tui.features.failures.screen import FailuresScreen
    from arc_tui.features.free.screen import FreeScreen, StubBox
    from arc_tui.features.help import screen as help_
    from arc_tui.features.probes import screen as probing
    from arc_tui.features.replay import screen as replay
    from arc_tui.features.runs import screen as runs
    from arc_tui.features.settings import screen as setting_lists
    from arc_tui.features.settings import screen as settings
    from arc_tui.features.trace import keys, span_tree, tag_picker
    from arc_tui.tour import GuidedTour
    from arc_tui.ui import list as lists

    found = []
    for where, bindings in (
        ("everywhere", ArcApp.BINDINGS),
        ("everywhere", GuidedTour.BINDINGS),
        ("lists", lists.RowList.BINDINGS),
        ("runs", runs.RunsScreen.BINDINGS),
        ("trace", keys.KEYS),
        ("tagging queue", keys.QUEUE_KEYS),
        ("tag a step", tag_picker.TagPicker.BINDINGS),
        ("span tree", span_tree.SpanTree.BINDINGS),
        ("compare", CompareScreen.BINDINGS),
        ("compare, steps", compare_list.CompareList.BINDINGS),
        ("money", CostScreen.BINDINGS),
        ("failures", FailuresScreen.BINDINGS),
        ("failures, bars", failure_bars.FailureBars.BINDINGS),
        ("failures, runs", failure_runs.FailureRuns.BINDINGS),
        ("try an edit", EditTestScreen.BINDINGS),
        ("calibration", screen.CalibrationScreen.BINDINGS),
        ("bisect", bisect.BisectScreen.BINDINGS),
        ("bisect, versions", widgets.BisectList.BINDINGS),
        ("which step", StepsScreen.BINDINGS),
        ("which step, list", steps_list.StepsList.BINDINGS),
        ("probe", probing.ProbeScreen.BINDINGS),
        ("replay", replay.ReplayScreen.BINDINGS),
        ("free replay", FreeScreen.BINDINGS),
        ("stub", StubBox.BINDINGS),
        ("settings", settings.SettingsScreen.BINDINGS),
        ("settings, themes", setting_lists.ThemeList.BINDINGS),
        ("help", help_.HelpScreen.BINDINGS),
    ):
        for binding in bindings:
            assert not isinstance(binding, tuple)
            shown = binding.key_display or binding.key.replace(",", " ")
            found.append((where, f"`{shown}`", binding.tooltip or binding.description))
    return _table(("where", "key", "does"), found)


def classes() -> str:
    """The failure classes as the tag picker shows them."""
    rows = [(f"`{c.key}` {c.name}", c.definition, c.cause, c.fix) for c in CLASSES]
    return _table(("class", "definition", "usual cause", "first fix"), rows)


def shapes() -> str:
    """The shapes of a run."""
    return _table(
        ("shape", "means", "try first"), [(s.name, s.definition, s.first) for s in SHAPES]
    )


def changes() -> str:
    """The kinds of change an edit file may hold, with their keys."""
    rows = []
    for name, kind in KINDS.items():
        keys = " ".join(f"`{each.encode_name}`" for each in msgspec.structs.fields(kind))
        rows.append((f"`{name}`", keys, _in_a_file(kind)))
    return _table(("`kind`", "keys", "does"), rows)


def _in_a_file(kind: type[Change]) -> str:
    """The first paragraph about a kind of change, in the words of a file."""
    text = " ".join((kind.__doc__ or "").split("\n\n")[0].split())
    text = text.replace(" (`target` in a file)", "")
    for each in msgspec.structs.fields(kind):
        text = text.replace(f"`{each.name}`", f"`{each.encode_name}`")
    for name, words in (("ROLES", ROLES), ("EFFORTS", EFFORTS)):
        text = text.replace(f"`{name}`", ", ".join(words))
    return text


def calibrated() -> str:
    """What `arc calibrate` says of each shared label set."""
    found = shipped()
    assert found is not None
    return markdown(found)


def localised() -> str:
    """The candidates on label sets they were not fitted on, fold by fold, beside the baselines."""
    found = json.loads((fixtures() / "localiser.json").read_text())
    rows = [
        (name, guesser["name"], *(_rated(guesser["over_all"][each]) for each in HIT))
        for name, of in found["sets"].items()
        for guesser in of["guessers"]
        if name in found["fitted_on"] and guesser["name"] in GUESSERS
    ]
    return _table(("labels", "guess", "exact", "± 1", "± 3", "top 3"), rows)


HIT = ("exact", "within_1", "within_3", "top_3")
GUESSERS = {"localiser, held out", "first finding", "published rule"}


def _rated(found: dict[str, float]) -> str:
    return f"{found['value']:.2f} ({found['low']:.2f}–{found['high']:.2f})"


def inputs() -> str:
    """The formats that are read."""
    return _table(HEAD, [(f"`{row.name}`", *row.cells[1:]) for row in build_formats()])


def query() -> str:
    """What can be asked of a run."""
    from taxonomy.query.fields import described

    rows = [(name, f"`{example}`", runs) for name, example, runs in described()]
    return _table(("field", "for example", "the runs"), rows)


def faults() -> str:
    """What the trials of `tests.faults` last reached; a promise that was broken says so."""
    rows = [
        (
            row.promise,
            row.trial,
            row.figure if row.kept else f"**broken: {row.figure}**",
            part.measured,
        )
        for part in reached().values()
        for row in part.rows
    ]
    return _table(("promised", "tried", "reached", "on"), rows)


def columns() -> str:
    """The JSON columns of the three documented views."""
    rows = []
    for view, struct in (("trace_summary", RunRow), ("steps", StepRow), ("failures", TagRow)):
        hints = typing.get_type_hints(struct)
        fields = ", ".join(
            f"`{each.encode_name}` {_type(hints[each.name])}"
            for each in msgspec.structs.fields(struct)
        )
        rows.append((f"`{view}`", fields))
    return _table(("view", "columns"), rows)


RUN, PROMPT = "shop-many-wishes-v5-0", "fixtures/demo/prompts/v4.md"
TRIAL = ("replay", RUN, "--system", PROMPT)


def tour() -> str:
    """The loop on one bundled run."""
    return _printed(("diagnose", RUN), TRIAL)


def free_tour() -> str:
    """The same run, let go on off the tape."""
    return _printed((*TRIAL, "--free", "--step", "4"))


def bisect_tour() -> str:
    """Which of three prompts broke it, at which step, and whether the older one mends the others
    of its class."""
    older, newer = PROMPT.replace("v4", "v3"), PROMPT.replace("v4", "v5")
    return _printed(
        ("bisect", "versions", RUN, older, PROMPT, newer),
        ("bisect", "steps", RUN, "--confirm"),
        ("try", PROMPT, "--on", "class:hallucinated"),
        traces="",
    )


def _printed(*commands: tuple[str, ...], traces: str = f"{RUN}.jsonl") -> str:
    """What was typed, and what was really printed, of these of the bundled traces."""
    lines = []
    with tempfile.TemporaryDirectory(prefix="arc-tour-") as folder:
        db = Path(folder) / "demo.db"
        with open_ledger(db) as store:
            list(importing.import_paths(store, [fixtures() / "traces" / traces]))
        for words in commands:
            given = [_bundled(word) for word in words]
            found = CliRunner().invoke(cli, ["--db", str(db), *given], standalone_mode=False)
            said = found.stdout.replace(f" --db {db}", "").rstrip().splitlines()
            lines += [f"$ arc {' '.join(words)}", *said, ""]
    return "\n".join(["```", *(line.rstrip() for line in lines[:-1]), "```"])


def _bundled(word: str) -> str:
    """Where a file of the fixtures lies, also in a wheel."""
    name = word.removeprefix("fixtures/")
    return word if name == word else str(fixtures() / name)


def _type(hint: object) -> str:
    if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
        known = [each for each in typing.get_args(hint) if each is not types.NoneType]
        return f"{_type(known[0])}?"
    if typing.get_origin(hint) is typing.Literal:
        return "text"
    if typing.get_origin(hint) is tuple:
        return "list"
    names = {int: "int", float: "real", str: "text", bool: "bool"}
    return names.get(hint, "text") if isinstance(hint, type) else "text"


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join(
        f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in lines
    )


BLOCKS: dict[str, Callable[[], str]] = {
    "tour": tour,
    "free tour": free_tour,
    "bisect tour": bisect_tour,
    "commands": commands,
    "keys": keys,
    "classes": classes,
    "query": query,
    "shapes": shapes,
    "formats": inputs,
    "columns": columns,
    "changes": changes,
    "never checked": never_checked,
    "calibration": calibrated,
    "faults": faults,
    "localiser": localised,
}


def rendered(text: str) -> str:
    """The README with every generated block as it should be."""
    for name, block in BLOCKS.items():
        start, end = f"<!-- {name} -->", f"<!-- /{name} -->"
        if start not in text or end not in text:
            raise ValueError(f"README.md has no block {start} … {end}")
        before, _, rest = text.partition(start)
        after = rest.partition(end)[2]
        text = f"{before}{start}\n{block()}\n{end}{after}"
    return tutorial.rendered(text)


if __name__ == "__main__":
    README.write_text(rendered(README.read_text()))
