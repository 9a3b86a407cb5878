"""`arc fleet`: trace stores of a team: name one, list its runs, copy runs from it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from arc_tui.cli import (
    Fn,
    console,
    db_option,
    drain_import,
    examples,
    json_option,
    limit_option,
    open_store,
    print_json,
    print_line,
    print_list,
    require,
    with_options,
)
from arc_tui.ui import format
from replay.errors import ArcError
from taxonomy.fleet.compile import Window
from taxonomy.query.values import SPANS_NS, moment, number

if TYPE_CHECKING:
    from arc_tui.features.fleet.run import FleetRequest


def _when(text: str, now_ns: int) -> int:
    """A moment, as a day or as time before now. Raises ArcError."""
    named = moment(text)
    if named is not None:
        return named.from_ns
    ago = number(text, {unit: worth for unit, worth in SPANS_NS.items() if unit})
    if ago is None:
        raise ArcError(f"'{text}' is no time", "Try: 7d, 12h, 2026-11-20 or 2026-11-20T09:30")
    return now_ns - int(ago)


def _window(since: str, until: str | None) -> Window:
    """The stretch of time that is asked for. Raises ArcError where it has no length."""
    now = time.time_ns()
    window = Window(_when(since, now), now if until is None else _when(until, now))
    if window.from_ns >= window.until_ns:
        raise ArcError("--since is not before --until", "Try: --since 7d")
    return window


def question_options(command: Fn) -> Fn:
    """Those of `window_options` for a list of runs; beside them `limit` and `db`."""
    return with_options(window_options, limit_option, db_option)(command)


def window_options(command: Fn) -> Fn:
    """What is asked of a store and what one query may take: `query`, `since`, `until`,
    `max_seconds`, `max_read`; beside them `as_json`."""
    return with_options(
        click.argument("query", nargs=-1),
        click.option(
            "--since", default="7d", show_default=True, help="Runs begun since: 12h, 7d or a day."
        ),
        click.option("--until", help="Runs begun before: 12h (ago), 7d or a day; default: now."),
        click.option(
            "--max-seconds",
            type=click.IntRange(1, 3600),
            default=30,
            show_default=True,
            help="A query may take so long.",
        ),
        click.option(
            "--max-read",
            type=click.IntRange(1),
            metavar="GB",
            default=20,
            show_default=True,
            help="A query may read so many GB.",
        ),
        json_option,
    )(command)


def fleet_request(name: str, asked: dict[str, Any]) -> FleetRequest:
    """The options of `question_options` or `window_options` as one request. Raises ArcError."""
    from arc_tui.features.fleet.run import FleetRequest
    from replay.fleet.connection import Bounds

    require("arc fleet", *_NEEDS, extra="fleet")
    return FleetRequest(
        fleet=name,
        query=" ".join(asked["query"]),
        window=_window(asked["since"], asked["until"]),
        bounds=Bounds(seconds=asked["max_seconds"], bytes_read=asked["max_read"] * 1_000_000_000),
        limit=asked.get("limit") or None,
    )


_NEEDS = ("clickhouse_connect",)


@click.command(
    epilog=examples(
        "arc fleet add prod clickhouse://reader@clickhouse.example.com:8443/otel --password",
        "arc fleet add test clickhouse://reader@clickhouse.example.com/otel --no-check",
    )
)
@click.argument("name")
@click.argument("url")
@click.option("--password", is_flag=True, help="Ask for the password; it goes to the keyring.")
@click.option("--service", "services", multiple=True, help="Only runs of this service; repeatable.")
@click.option(
    "--ca",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Trust the certificates in this file too.",
)
@click.option("--no-check", is_flag=True, help="Keep it without connecting.")
@json_option
def add(
    name: str,
    url: str,
    password: bool,
    services: tuple[str, ...],
    ca: Path | None,
    no_check: bool,
    as_json: bool,
) -> int:
    """Name a trace store in ClickHouse, so that it can be listed and pulled from.

    URL is clickhouse://USER@HOST:PORT/DATABASE, by TLS, with a verified certificate;
    clickhouse+http:// is without encryption. Use a user that may only read. The password is asked
    for, or stands in ARC_FLEET_NAME_PASSWORD; it is never written to a file.

    Needs the extra `fleet`: pip install 'arc-tui[fleet]'
    """
    from arc_tui.features.fleet.run import open_fleet, stores_file
    from replay.fleet.connection import Bounds
    from replay.fleet.stores import FleetStore, address_of, keep_password, keep_store

    store = FleetStore(
        url=str(address_of(url)),
        services=services,
        ca=None if ca is None else str(ca.absolute()),
    )
    if password:
        require("a password in the keyring", "keyring", extra="fleet")
        keep_password(name, click.prompt(f"password of {store.url}", hide_input=True, err=True))
    dialect = None
    if not no_check:
        require("arc fleet", *_NEEDS, extra="fleet")
        with open_fleet(name, Bounds(), store) as fleet:
            dialect = fleet.dialect.title
    keep_store(stores_file(), name, store)
    if as_json:
        print_json({"name": name, "url": store.url, "dialect": dialect})
    else:
        found = f": {dialect}" if dialect else ", not checked"
        click.echo(f"kept {name}{found}. Try: arc fleet ls {name} --since 1d")
    return 0


@click.command(epilog=examples("arc fleet rm prod", "arc fleet rm test"))
@click.argument("name")
def remove(name: str) -> int:
    """Forget a trace store and its password; runs pulled from it stay."""
    from arc_tui.features.fleet.run import stores_file
    from replay.fleet.stores import drop_store

    drop_store(stores_file(), name)
    click.echo(f"forgot {name}")
    return 0


@click.command(
    epilog=examples("arc fleet ls", "arc fleet ls prod 'outcome:failed tool:search' --since 7d")
)
@click.argument("name", required=False)
@question_options
def ls(name: str | None, as_json: bool, db: Path | None, **asked: Any) -> int:
    """List runs of a trace store, the newest first; without NAME, the stores.

    QUERY is as for `arc ls`. What a store cannot tell is refused, never left out. A run is not
    copied: `arc fleet pull` does that.

    Needs the extra `fleet`: pip install 'arc-tui[fleet]'
    """
    if name is None:
        return _list_stores(as_json)
    from arc_tui.features.fleet.run import list_fleet
    from arc_tui.features.fleet.text import HEADINGS, cells, notes, summary

    request = fleet_request(name, asked)
    with open_store(db) as store:
        view = list_fleet(store, request)
    if as_json:
        print_json(view)
        return 0
    err = console(err=True)
    if view.runs:
        print_list(console(), HEADINGS, [cells(each) for each in view.runs])
    else:
        words = f" match '{format.one_line(view.query)}'" if view.query else ""
        print_line(err, f"No runs{words} since {asked['since']}. Try: an earlier --since")
    print_line(err, summary(view))
    for note in notes(view):
        print_line(err, note, "dim")
    return 0


def _list_stores(as_json: bool) -> int:
    from arc_tui.features.fleet.run import stores_file
    from replay.fleet.stores import read_stores

    known = read_stores(stores_file())
    if as_json:
        print_json(known)
    elif known:
        print_list(
            console(),
            ["name", "url", "services"],
            [[name, each.url, ", ".join(each.services)] for name, each in sorted(known.items())],
        )
    else:
        click.echo("No fleet yet. Try: arc fleet add NAME URL", err=True)
    return 0


@click.command(
    epilog=examples(
        "arc fleet pull prod 'outcome:failed' --since 1d --limit 100",
        "arc fleet pull prod tool.error:search --since 2026-11-20 --until 2026-11-21",
    )
)
@click.argument("name")
@question_options
def pull(name: str, as_json: bool, db: Path | None, **asked: Any) -> int:
    """Copy runs of a trace store into the database: masked, indexed and diagnosed.

    A run that is here already is not read again, so the command can be stopped and given again.

    Needs the extra `fleet`: pip install 'arc-tui[fleet]'
    """
    from arc_tui.features.fleet.run import pull as pull_runs
    from arc_tui.features.fleet.text import pulled_lines

    request, err = fleet_request(name, asked), console(err=True)
    with open_store(db) as store:
        work = pull_runs(store, request, lambda note: print_line(err, note, "dim"))
        report = drain_import(work)
    if as_json:
        print_json(report)
        return report.exit_code
    for line in pulled_lines(name, report):
        print_line(console(), line)
    for error in report.errors:
        print_line(err, f"arc: {error}", "red")
    return report.exit_code
