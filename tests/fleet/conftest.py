"""ClickHouse with the runs of a made-up agent, and a database here with the same runs."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from arc_tui import importing
from replay.fleet.connection import Bounds, Connection
from replay.fleet.stores import address_of
from taxonomy.judgements.schema import open_ledger
from tests.fleet import classes, corpus, exporter, failing, langfuse

RUNS = 60
BAD = 12
USER, PASSWORD = "reader", "it's \\secret"


class Store(NamedTuple):
    """A server: its port, and a client that may write."""

    port: int
    client: Any

    def url(self, database: str, user: str = USER) -> str:
        return f"clickhouse+http://{user}@127.0.0.1:{self.port}/{database}"

    def connect(self, database: str, bounds: Bounds | None = None) -> Connection:
        return Connection("prod", address_of(self.url(database)), PASSWORD, bounds or Bounds())

    def fill(self, database: str, file: Path, **form: Any) -> None:
        """The rows of a file in a database of its own."""
        self.client.command(f"CREATE DATABASE {database}")
        for statement in exporter.tables(f"{database}.otel_traces", **form):
            self.client.command(statement)
        self.insert(f"{database}.otel_traces", exporter.rows(file, json=form.get("json", False)))

    def fill_langfuse(
        self, database: str, tables: Iterable[str], rows: dict[str, list[dict[str, Any]]]
    ) -> None:
        """The rows of Langfuse's tables in a database of its own."""
        self.client.command(f"CREATE DATABASE {database}")
        for statement in tables:
            self.client.command(statement)
        for table, each in rows.items():
            self.insert(f"{database}.{table}", each)

    def insert(self, table: str, rows: Iterable[dict[str, Any]]) -> None:
        block = b"\n".join(map(msgspec.json.encode, rows))
        self.client.raw_insert(table, insert_block=block, fmt="JSONEachRow")


@contextmanager
def serving(folder: Path, *more: str) -> Iterator[Store]:
    import clickhouse_connect

    command = [sys.executable, "-m", "tests.fleet.server", str(folder), *more]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        port = int(process.stdout.readline())
        try:
            if "--tls" in more:
                yield Store(port, None)
                return
            client = clickhouse_connect.get_client(
                host="127.0.0.1", port=port, username=USER, password=PASSWORD
            )
            yield Store(port, client)
            client.close()
        finally:
            process.stdin.close()
            process.wait(30)


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return corpus.write(tmp_path_factory.mktemp("fleet") / "runs.jsonl", RUNS)


@pytest.fixture(scope="session")
def exported(made: Path) -> list[dict[str, Any]]:
    """The same runs as Langfuse's API answers them."""
    return list(langfuse.exports(made))


@pytest.fixture(scope="session")
def fleet(
    tmp_path_factory: pytest.TempPathFactory, made: Path, exported: list[dict[str, Any]]
) -> Iterator[Store]:
    """A database a form of the exporter's table, each with the same runs; one without outcomes."""
    folder = tmp_path_factory.mktemp("clickhouse")
    with serving(folder / "data", "--user", USER, "--password", PASSWORD) as store:
        store.fill("maps", made)
        store.fill("json", made, json=True)
        store.fill("no_lookup", made, lookup=False)
        store.client.command("CREATE DATABASE signoz")
        for statement in exporter.signoz_tables("signoz.signoz_index_v3"):
            store.client.command(statement)
        store.insert("signoz.signoz_index_v3", exporter.signoz_rows(made))
        store.fill_langfuse(
            "langfuse3", langfuse.tables_v3("langfuse3"), langfuse.rows_v3(exported)
        )
        store.fill_langfuse(
            "langfuse4", langfuse.tables_v4("langfuse4"), langfuse.rows_v4(exported)
        )
        without = corpus.write(folder / "without.jsonl", 12, outcomes=False)
        store.fill("no_outcome", without)
        store.client.command("CREATE DATABASE other")
        store.client.command("CREATE TABLE other.clicks (At DateTime, Who String) ENGINE = Memory")
        yield store


@pytest.fixture(scope="session")
def local(tmp_path_factory: pytest.TempPathFactory, made: Path) -> Path:
    """The same runs, imported."""
    return imported(tmp_path_factory.mktemp("local") / "arc.db", made)


@pytest.fixture(scope="session")
def local_langfuse(
    tmp_path_factory: pytest.TempPathFactory, exported: list[dict[str, Any]]
) -> Path:
    """The same, imported from what Langfuse's API answers."""
    folder = tmp_path_factory.mktemp("local_langfuse")
    agents = [trace for trace in exported if len(trace["observations"]) > 1]
    (folder / "traces.jsonl").write_bytes(b"\n".join(map(msgspec.json.encode, agents)))
    return imported(folder / "arc.db", folder / "traces.jsonl")


def imported(path: Path, *files: Path) -> Path:
    """A database with the runs of these files."""
    with open_ledger(path) as store:
        for _ in importing.import_paths(store, files):
            pass
    return path


@pytest.fixture(scope="session")
def cases(fleet: Store, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The runs of every class in each form, beside the file they came from."""
    file = classes.write(tmp_path_factory.mktemp("classes") / "runs.jsonl")
    fleet.fill("class_maps", file)
    fleet.fill("class_json", file, json=True)
    fleet.client.command("CREATE DATABASE class_signoz")
    for statement in exporter.signoz_tables("class_signoz.signoz_index_v3"):
        fleet.client.command(statement)
    fleet.insert("class_signoz.signoz_index_v3", exporter.signoz_rows(file))
    return file


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs to scan, some of which fail."""
    path = corpus.write(tmp_path_factory.mktemp("scanned") / "runs.jsonl", RUNS)
    return failing.write(path, BAD)


@pytest.fixture(scope="session")
def scanned(fleet: Store, runs: Path) -> Store:
    """A database with these runs."""
    fleet.fill("scanned", runs)
    return fleet
