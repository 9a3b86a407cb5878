"""`arc help`: a command's help, how runs are asked for, or what a list shows of them.
`arc completion`: what a shell needs to complete words and run ids.
"""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class
from rich.text import Text

from arc_tui import exit_codes
from arc_tui.cli import console, examples, print_line, print_table
from arc_tui.views import columns
from taxonomy.query import fields


@click.command("help", epilog=examples("arc help query", "arc help bisect steps"))
@click.argument("topic", nargs=-1)
def help_(topic: tuple[str, ...]) -> int:
    """How a command is used, or a topic: query, columns, exit-codes."""
    if len(topic) == 1 and topic[0] in TOPICS:
        TOPICS[topic[0]]()
        return 0
    context = click.get_current_context().find_root()
    for word in topic:
        group = context.command
        command = group.get_command(context, word) if isinstance(group, click.Group) else None
        if command is None:
            raise click.UsageError(
                f"no command '{' '.join(topic)}', and no topic but {', '.join(TOPICS)}"
            )
        context = click.Context(command, info_name=word, parent=context)
    click.echo(context.get_help())
    if not topic:
        click.echo(f"\nTopics of `arc help`: {', '.join(TOPICS)}.")
    return 0


def _query() -> None:
    out = console()
    out.print("QUERY selects runs: outcome:failed tag:loop cost>0.5 (a or not b)")
    out.print("In a shell, quote the whole query: arc ls 'cost>0.5 tag:\"wrong tool\"'\n")
    print_table(out, ["written", "means"], [[Text(a), Text(b)] for a, b in fields.RULES])
    out.print("")
    print_table(
        out,
        ["field", "for example", "the runs"],
        [[Text(name), Text(example), Text(means)] for name, example, means in fields.described()],
    )


def _columns() -> None:
    out = console()
    out.print("The columns of a run: in `arc ls --json`, and their headings in a list\n")
    print_table(out, ["in --json", "in a list", "what it is"], list(columns.described()))


def _exit_codes() -> None:
    for code, means in exit_codes.MEANINGS.items():
        print_line(console(), f"{code:>3}  {means}")


TOPICS = {"query": _query, "columns": _columns, "exit-codes": _exit_codes}

SHELLS = ("bash", "zsh", "fish")


@click.command(epilog=examples("arc completion bash", "arc completion fish"))
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> None:
    """Print what makes a shell complete commands, options and run ids.

    \b
    bash: echo 'eval "$(arc completion bash)"' >> ~/.bashrc
    zsh:  echo 'eval "$(arc completion zsh)"' >> ~/.zshrc
    fish: arc completion fish > ~/.config/fish/completions/arc.fish
    """
    root = click.get_current_context().find_root()
    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(root.command, {}, "arc", "_ARC_COMPLETE").source())
