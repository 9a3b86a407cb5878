"""`arc fleet`, `arc pull`: trace stores of a team: name one, list its runs, copy runs from it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource
from msgspec import structs

from arc_tui.cli import (
    Fn,
    console,
    database_path,
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

if TYPE_CHECKING:
    from arc_tui.features.fleet.run import FleetRequest
    from replay.fleet.stores import FleetStore
    from taxonomy.judgements.scans import Scan


def window_options(command: Fn) -> Fn:
    """What is asked of a store and what one query may take: `query`, `since`, `until`,
    `max_seconds`, `max_read`; beside them `as_json`."""
    return with_options(
        click.argument("query", nargs=-1),
        click.option(
            "--since",
            default="7d",
            show_default=True,
            help="Runs begun since: 12h, 7d or a day; or since:… in QUERY.",
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


def question_options(command: Fn) -> Fn:
    """The same, with `limit` and `db`."""
    return window_options(limit_option(db_option(command)))


def fleet_request(name: str, asked: dict[str, Any]) -> FleetRequest:
    """The options of `question_options` or `window_options` as one request. Raises ArcError."""
    from arc_tui.features.fleet.run import FleetRequest, read_window, window_of
    from replay.fleet.connection import Bounds

    query = " ".join(asked["query"])
    window = read_window(asked["since"], asked["until"] or "")
    given = click.get_current_context().get_parameter_source
    if not any(given(option) is ParameterSource.COMMANDLINE for option in ("since", "until")):
        window = window_of(query, window)  # a query may say itself since when
    return FleetRequest(
        fleet=name,
        query=query,
        window=window,
        bounds=Bounds(seconds=asked["max_seconds"], bytes_read=asked["max_read"] * 1_000_000_000),
        limit=asked.get("limit") or None,
    )


replace_option = click.option(
    "--replace", is_flag=True, help="Read runs that are here again; replace one that differs."
)


def server_options(command: Fn) -> Fn:
    """How a store is reached: `server`, `allow_http`, `ca`."""
    return with_options(
        click.option(
            "--server",
            type=click.Choice(["phoenix", "langfuse", "langsmith"]),
            help="The product behind the URL; found by asking it otherwise.",
        ),
        click.option("--allow-http", is_flag=True, help="A server may be without encryption."),
        click.option(
            "--ca",
            type=click.Path(exists=True, dir_okay=False, path_type=Path),
            help="Trust the certificates in this file too.",
        ),
    )(command)


def _server(server: str | None, allow_http: bool, ca: Path | None, url: str = "") -> FleetStore:
    """The options of `server_options` as a store."""
    from replay.fleet.stores import FleetStore

    trusted = None if ca is None else str(ca.absolute())
    return FleetStore(url=url, ca=trusted, server=server or "", allow_http=allow_http)


@click.command(
    epilog=examples(
        "arc fleet add prod clickhouse://reader@clickhouse.example.com:8443/otel --password",
        "arc fleet add test clickhouse://reader@clickhouse.example.com/otel --no-check",
        "arc fleet add phoenix https://phoenix.example.com --server phoenix --no-check",
    )
)
@click.argument("name")
@click.argument("url")
@click.option("--password", is_flag=True, help="Ask for the password; it goes to the keyring.")
@click.option("--service", "services", multiple=True, help="Only runs of this service; repeatable.")
@click.option("--project", metavar="ID", help="Only runs of this project of Langfuse.")
@click.option(
    "--langfuse",
    type=click.Choice(["3", "4"]),
    help="Ask the tables of this version of Langfuse, where both have runs.",
)
@server_options
@click.option("--no-check", is_flag=True, help="Keep it without connecting.")
@json_option
def add(
    name: str,
    url: str,
    password: bool,
    services: tuple[str, ...],
    project: str | None,
    langfuse: str | None,
    no_check: bool,
    as_json: bool,
    **how: Any,
) -> int:
    """Name a trace store in ClickHouse, or a server of traces.

    URL is clickhouse://USER@HOST:PORT/DATABASE, by TLS, with a verified certificate;
    clickhouse+http:// is without encryption. Use a user that may only read. Or it is the https://
    address of a Phoenix, Langfuse or LangSmith server, for `arc pull`. The password, or the key of
    the server (of Langfuse the public key, a colon and the secret key), is asked for, or stands in
    ARC_FLEET_NAME_PASSWORD; it is never written to a file.

    A store in ClickHouse and --password need the extra `fleet`: pip install 'arc-tui[fleet]'
    """
    from arc_tui.features.fleet.run import stores_file
    from replay.fleet.stores import (
        address_of,
        check_name,
        is_server,
        keep_password,
        keep_store,
        server_url,
    )

    check_name(name)
    as_server = is_server(url)
    if as_server and (services or project or langfuse):
        raise ArcError(
            "--service, --project and --langfuse are for stores in ClickHouse",
            "Try: arc pull NAME --project PROJECT",
        )
    if not as_server and (how["server"] or how["allow_http"]):
        raise ArcError(
            "--server and --allow-http are for servers of traces", "Try: a URL with https://"
        )
    at = server_url(url, allow_http=how["allow_http"]) if as_server else str(address_of(url))
    store = structs.replace(
        _server(url=at, **how), services=services, project=project, langfuse=langfuse
    )
    if password:
        require("a password in the keyring", "keyring", extra="fleet")
        what = "key" if as_server else "password"
        keep_password(name, click.prompt(f"{what} of {store.url}", hide_input=True, err=True))
    found = None
    if not no_check:
        store, found = _check_server(name, store) if as_server else _check_store(name, store)
    keep_store(stores_file(), name, store)
    if as_json:
        print_json({"name": name, "url": store.url, "dialect": found})
    else:
        what = f": {found}" if found else ", not checked"
        then = "arc pull" if as_server else "arc fleet ls"
        click.echo(f"kept {name}{what}. Try: {then} {name} --since 1d")
    return 0


def _check_store(name: str, store: FleetStore) -> tuple[FleetStore, str]:
    """(the store, which dialect it speaks). Raises ArcError."""
    from arc_tui.features.fleet.run import open_fleet
    from replay.fleet.connection import Bounds

    with open_fleet(name, Bounds(), store) as fleet:
        return store, fleet.dialect.title


def _check_server(name: str, store: FleetStore) -> tuple[FleetStore, str]:
    """(the server with its product, which that is and how many projects it has). Raises
    ArcError."""
    from arc_tui.features.fleet.servers import check_server

    product, title, projects = check_server(name, store)
    return (
        structs.replace(store, server=product),
        f"{title}, {format.count(projects, 'project')}",
    )


@click.command(epilog=examples("arc fleet rm prod", "arc fleet rm test --keep-findings"))
@click.argument("name")
@click.option("--keep-findings", is_flag=True, help="Keep what scans of the store found.")
@click.option("--yes", is_flag=True, help="Do not ask before findings are forgotten.")
@json_option
@db_option
def remove(name: str, keep_findings: bool, yes: bool, as_json: bool, db: Path | None) -> int:
    """Forget a trace store, its password and what scans of it found.

    Runs pulled from it stay, and so does a table that a scan wrote with --into.
    """
    from arc_tui.features.fleet.run import stores_file
    from replay.fleet.stores import drop_store, find_store, read_stores
    from taxonomy.judgements import scans

    is_named = name in read_stores(stores_file())
    kept: list[scans.Scan] = []
    if not keep_findings and database_path(db).exists():
        with open_store(db) as store:
            kept = scans.scans_of(store, name)
            if kept and not yes:
                _ask_to_forget(name, _findings_text(kept))
            if kept:
                scans.forget_scans(store, name)
    if is_named:
        drop_store(stores_file(), name)
    elif not kept:
        find_store(stores_file(), name)  # says which there are
    if as_json:
        runs, findings = sum(each.runs for each in kept), sum(each.findings for each in kept)
        print_json({"name": name, "scans": len(kept), "runs": runs, "findings": findings})
    else:
        click.echo(f"forgot {name}" + (f", and {_findings_text(kept)}" if kept else ""))
    return 0


def _findings_text(kept: list[Scan]) -> str:
    """What scans kept."""
    findings = format.count(sum(each.findings for each in kept), "finding")
    return f"{findings} of {format.count(sum(each.runs for each in kept), 'scanned run')}"


def _ask_to_forget(name: str, found: str) -> None:
    """Raises ArcError where nobody can be asked or the answer is no."""
    keep = f"Try: arc fleet rm {name} --keep-findings"
    if not sys.stdin.isatty():
        raise ArcError(f"{found} would be forgotten with {name}", f"{keep}, or --yes")
    if not click.confirm(f"Forget {found} too?", err=True):
        raise ArcError("nothing was forgotten", keep)


@click.command(
    epilog=examples("arc fleet ls", "arc fleet ls prod 'outcome:failed tool:search' --since 7d")
)
@click.argument("name", required=False)
@question_options
def ls(name: str | None, as_json: bool, db: Path | None, **asked: Any) -> int:
    """List the newest runs of a store; without NAME, the stores.

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
        print_line(err, f"No runs{words} in this time. Try: an earlier --since")
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
            ["name", "url", "services", "project"],
            [
                [name, each.url, ", ".join(each.services), each.project or ""]
                for name, each in sorted(known.items())
            ],
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
@replace_option
@question_options
def pull(name: str, replace: bool, as_json: bool, db: Path | None, **asked: Any) -> int:
    """Copy runs of a store here: masked, indexed and diagnosed.

    A run that is here already is not read again, so the command can be stopped and given again.
    With --replace each is read again, and the copy here goes where the store says otherwise.

    Needs the extra `fleet`: pip install 'arc-tui[fleet]'
    """
    from arc_tui.features.fleet.run import pull as pull_runs
    from arc_tui.features.fleet.text import pulled_lines

    request, err = fleet_request(name, asked), console(err=True)
    with open_store(db) as store:
        work = pull_runs(store, request, lambda note: print_line(err, note, "dim"), replace=replace)
        report = drain_import(work)
    if as_json:
        print_json(report)
        return report.exit_code
    for line in pulled_lines(name, report):
        print_line(console(), line)
    for error in report.errors:
        print_line(err, f"arc: {error}", "red")
    return report.exit_code


@click.command(
    "pull",
    epilog=examples(
        "arc pull https://phoenix.example.com --project support --since 1d",
        "arc pull prod-langfuse --since 2026-11-20 --until 2026-11-21 --limit 0",
    ),
)
@click.argument("target", metavar="URL|NAME")
@click.option("--project", help="The project by its name or id; needed where there are several.")
@click.option(
    "--since", default="7d", show_default=True, help="Runs begun since: 12h, 7d or a day."
)
@click.option("--until", help="Runs begun before: 12h (ago), 7d or a day; default: no end.")
@replace_option
@server_options
@limit_option
@json_option
@db_option
def pull_from(
    target: str,
    project: str | None,
    since: str,
    until: str | None,
    replace: bool,
    limit: int,
    as_json: bool,
    db: Path | None,
    **how: Any,
) -> int:
    """Copy runs of a Phoenix, Langfuse or LangSmith server: masked, indexed and diagnosed.

    The newest first. NAME is one that `arc fleet add` keeps; its key comes from the keyring or
    ARC_FLEET_NAME_PASSWORD. For a URL the key is in the product's own variables: PHOENIX_API_KEY,
    LANGFUSE_PUBLIC_KEY and LANGFUSE_SECRET_KEY, LANGSMITH_API_KEY. Nothing is written to the
    server. The command can be stopped and given again: what is here is not copied twice. With
    --replace each run is read again, and the copy here goes where the server says otherwise.
    """
    from arc_tui.features.fleet.run import read_window
    from arc_tui.features.fleet.servers import ServerRequest, pull_from_server, server_named
    from arc_tui.features.fleet.text import pulled_lines

    window = read_window(since, until or "")
    name, server = server_named(target, _server(**how))
    request = ServerRequest(
        server=server,
        store=name,
        project=project,
        from_ns=window.from_ns,
        until_ns=None if until is None else window.until_ns,
        limit=limit or None,
        replace=replace,
    )
    err = console(err=True)
    with open_store(db) as store:
        work = pull_from_server(store, request, lambda note: print_line(err, note, "dim"))
        report = drain_import(work)
    if as_json:
        print_json(report)
        return report.exit_code
    for line in pulled_lines(request.name, report):
        print_line(console(), line)
    for error in report.errors:
        print_line(err, f"arc: {error}", "red")
    return report.exit_code
