"""What the pages say that the code says too: the generated blocks, by the name of their marks.

Commands come from the command line, keys from the bindings of the screens, classes and shapes from
their tables, formats from the importers, JSON columns from the structs.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import click
import msgspec
from textual.keys import KEY_NAME_REPLACEMENTS, key_to_character

from arc_tui import config, exit_codes
from arc_tui.commands import SECTIONS, cli
from arc_tui.features.doctor import never_checked, never_checked_openai
from arc_tui.features.imports.command import HEAD, build_formats
from arc_tui.features.settings.view import build_settings
from arc_tui.mcp.tools import TOOLS
from arc_tui.views.columns import described as described_columns
from replay.edit.changes import ROLES, Change
from replay.edit.files import KINDS
from replay.providers import EFFORTS
from replay.store.rows import StepRow
from taxonomy.classes import CLASSES, SHAPES
from taxonomy.judgements.tags import TagRow
from taxonomy.query.listing import RunRow
from tests.bench import counts, kept, precision_results
from tests.bench import gate as gate_bench
from tests.bench import layers as layers_bench
from tests.bench.calibration_results import markdown, shipped
from tests.bench.fit_results import folds_markdown, gains_markdown, shipped_fit, signs_markdown
from tests.faults import reached
from tests.licences import licences
from tests.spoken import command_at, every_command


def commands() -> str:
    """A row a command, section by section: its name, which leads to its options, what it does."""
    rows = []
    for title, words, command in _listed():
        name = f"[`arc {' '.join(words)}`](#{'-'.join(('arc', *words))})"
        rows.append((title, name, _first_paragraph(command)))
    return _table(("", "command", "does"), rows)


def options() -> str:
    """A section a command: how it is called, what it does, its options and examples."""
    return "\n\n".join(_section(words, command) for _, words, command in _listed())


def _listed() -> Iterator[tuple[str, tuple[str, ...], click.Command]]:
    """(the title of its section, its words, itself) of every command that is no group."""
    titles = {word: title for title, places in SECTIONS.items() for word in places}
    for words in every_command():
        command = command_at(words)
        if not isinstance(command, click.Group):
            yield titles[words[0]], words, command


def _section(words: tuple[str, ...], command: click.Command) -> str:
    name = " ".join(("arc", *words))
    root = click.Context(cli, terminal_width=96, **cli.context_settings)
    context = click.Context(command, info_name=name, parent=root)
    text = command.get_help(context).removeprefix("Usage: ")
    lines = [line.rstrip() for line in text.splitlines()]
    return "\n".join((f"### {name}", "", "```text", *lines, "```"))


def _first_paragraph(command: click.Command) -> str:
    return (command.help or "").split("\n\n")[0].replace("\n", " ")


def keys() -> str:
    """A table of keys a screen, a list or a dialog; what has keys is found by its bindings."""
    from arc_tui.ui.keymap import bound, by_place

    found: dict[str, list[tuple[str, ...]]] = {where: [] for where in KEYS_FIRST}
    for each in by_place(bound().values()):
        shown = " ".join(map(_character, each.keys))
        found.setdefault(each.where, []).append((f"`{shown}`", each.does, f"`{each.id}`"))
    return "\n\n".join(
        f"## {where.capitalize()}\n\n{_table(('key', 'does', 'id'), rows)}"
        for where, rows in found.items()
    )


KEYS_FIRST = ("everywhere", "a list", "runs", "the list of runs", "a run")


def _character(key: str) -> str:
    """`?` for `question_mark`; what writes nothing, such as `space` or `escape`, keeps its name."""
    long = next((long for long, short in KEY_NAME_REPLACEMENTS.items() if short == key), key)
    written = key_to_character(long) or ""
    return written if written.isprintable() and not written.isspace() and written else key


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
    """The gain over the best naive guess of each source, and what is stated."""
    return gains_markdown(shipped_fit())


def localiser_folds() -> str:
    """Every fold of the localiser."""
    return folds_markdown(shipped_fit())


def localiser_signs() -> str:
    """What each sign of the localiser is worth."""
    return signs_markdown(shipped_fit())


def inputs() -> str:
    """The formats that are read."""
    return _table(HEAD, [(f"`{row.name}`", *row.cells[1:]) for row in build_formats()])


def query() -> str:
    """What can be asked of a run."""
    from taxonomy.query.fields import described

    rows = [(name, f"`{example}`", runs) for name, example, runs in described()]
    return _table(("field", "for example", "the runs"), rows)


def query_rules() -> str:
    """How the terms of a query are written and joined."""
    from taxonomy.query.fields import RULES

    return _table(("written", "means"), [(f"`{written}`", means) for written, means in RULES])


def codes() -> str:
    """The exit codes of every command."""
    return _table(("code", "means"), [(f"`{c}`", says) for c, says in exit_codes.MEANINGS.items()])


def variables() -> str:
    """The variables of the environment that are read, and what each is for."""
    found = build_settings(Path("none.toml")).settings
    rows = [(f"`{each.name}`", each.means) for each in found if each.name.isupper()]
    return _table(("variable", "is"), rows)


def settings_file() -> str:
    """The file of settings as `arc config --init` makes it."""
    return f"```toml\n{config.TEMPLATE.strip()}\n```"


def run_columns() -> str:
    """What a list shows of a run."""
    rows = [(f"`{name}`", heading, means) for name, heading, means in described_columns()]
    return _table(("in `--json`", "in a list", "is"), rows)


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
    tables = []
    for view, struct in (("trace_summary", RunRow), ("steps", StepRow), ("failures", TagRow)):
        hints = typing.get_type_hints(struct)
        fields = [
            (f"`{each.encode_name}`", _type(hints[each.name]))
            for each in msgspec.structs.fields(struct)
        ]
        tables.append(f"### {view}\n\n{_table(('column', 'type'), fields)}")
    return "\n\n".join(tables)


def mcp_tools() -> str:
    """What `arc mcp` offers."""
    head = ("tool", "arguments", "does")
    return _table(
        head,
        (
            (
                f"`{tool.name}`" + (" (with `--allow-spend`)" if tool.spends else ""),
                ", ".join(f"`{name}`" for name in tool.schema["properties"]),
                tool.description,
            )
            for tool in TOOLS
        ),
    )


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


def licence_table() -> str:
    """A row a package that comes with `arc`."""
    rows = [
        (f"`{name}`", licence, f"`[{extra}]`" if extra else "")
        for name, (licence, extra) in licences().items()
    ]
    return _table(("package", "licence", "extra"), rows)


BLOCKS: dict[str, Callable[[], str]] = {
    "mcp tools": mcp_tools,
    "calibration": calibrated,
    "precision": lambda: precision_results.tables(precision_results.shipped()),
    "changes": changes,
    "classes": classes,
    "columns": columns,
    "counts": counts.markdown,
    "commands": commands,
    "exit codes": codes,
    "faults": faults,
    "gate": lambda: gate_bench.tables(gate_bench.shipped()),
    "layers": lambda: layers_bench.tables(layers_bench.shipped()),
    "formats": inputs,
    "keys": keys,
    "licences": licence_table,
    "localiser": localised,
    "localiser folds": localiser_folds,
    "localiser signs": localiser_signs,
    "never checked": never_checked,
    "never checked openai": never_checked_openai,
    "options": options,
    "query": query,
    "query rules": query_rules,
    "run columns": run_columns,
    "settings file": settings_file,
    "shapes": shapes,
    "speed": kept.markdown,
    "variables": variables,
}
"""Each stands between `<!-- NAME -->` and `<!-- /NAME -->` on one page."""
