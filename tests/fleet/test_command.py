"""`arc fleet`: a store is named, listed and pulled from as its user would."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from msgspec import structs

from arc_tui.commands import cli
from arc_tui.features.fleet import run as fleet_run
from replay.errors import ArcError
from replay.fleet.connection import Bounds, Connection
from replay.fleet.stores import NAME, variable
from replay.store.rows import trace_rows
from taxonomy.fleet.compile import Window
from taxonomy.fleet.failures import ALL_CLASSES, CLASSES
from taxonomy.judgements.schema import open_ledger
from tests.fleet import classes, corpus, exporter
from tests.fleet.conftest import PASSWORD, RUNS, USER, Store, serving

pytestmark = [pytest.mark.process, pytest.mark.slow]

LONG_AGO = ("--since", "2020")


@pytest.fixture(autouse=True)
def _at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARC_CONFIG_DIR", str(tmp_path / "conf"))
    monkeypatch.setenv("ARC_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv(variable("prod"), PASSWORD)


def arc(*words: str, code: int = 0) -> Result:
    found = CliRunner().invoke(cli, words, standalone_mode=False)
    assert found.exception is None, found.exception
    assert (found.return_value or 0) == code
    return found


def refused(*words: str) -> str:
    """The sentence, and nothing on stdout."""
    found = CliRunner().invoke(cli, words, standalone_mode=False)
    assert isinstance(found.exception, ArcError), found.exception
    assert found.stdout == ""
    return str(found.exception)


@pytest.fixture
def prod(fleet: Store) -> Store:
    arc("fleet", "add", "prod", fleet.url("maps"))
    return fleet


def test_a_store_is_named_checked_and_listed(prod: Store, tmp_path: Path) -> None:
    kept = (tmp_path / "conf" / NAME).read_text()
    assert prod.url("maps") in kept
    assert PASSWORD not in kept
    assert "OpenTelemetry exporter (maps)" in arc("fleet", "add", "prod", prod.url("maps")).stdout
    assert arc("fleet", "ls").stdout.splitlines()[1].startswith("prod\t")
    listed = arc("fleet", "ls", "prod", "outcome:failed", *LONG_AGO)
    assert len(listed.stdout.splitlines()) > 2
    assert "OpenTelemetry exporter (maps)" in listed.stderr
    assert "begun 2020-01-01" in listed.stderr
    arc("fleet", "rm", "prod")
    assert "No fleet yet" in arc("fleet", "ls").stderr


@pytest.mark.usefixtures("prod")
def test_a_query_may_say_itself_since_when() -> None:
    listed = arc("fleet", "ls", "prod", "since:2020 outcome:failed")
    assert "begun 2020-01-01" in listed.stderr
    assert listed.stdout == arc("fleet", "ls", "prod", "outcome:failed", *LONG_AGO).stdout
    both = arc("fleet", "ls", "prod", "since:2020", "--since", "2050", "--until", "2051")
    assert "No runs match 'since:2020' in this time" in both.stderr


@pytest.mark.parametrize("database", ["maps", "json", "signoz", "langfuse3", "langfuse4"])
def test_what_was_pulled_is_what_an_import_of_the_file_brings(
    fleet: Store, tmp_path: Path, database: str, request: pytest.FixtureRequest
) -> None:
    name = "local_langfuse" if database.startswith("langfuse") else "local"
    local: Path = request.getfixturevalue(name)
    arc("fleet", "add", "prod", fleet.url(database))
    assert (
        f"prod: {RUNS} runs pulled"
        in arc("fleet", "pull", "prod", *LONG_AGO, "--limit", "0").stdout
    )
    with open_ledger(tmp_path / "data" / "arc.db") as store, open_ledger(local) as other:
        mine = {row.trace: row for row in trace_rows(store)}
        theirs = {row.trace: row for row in trace_rows(other)}
    assert mine.keys() == theirs.keys()  # keys are digests of what is in a trace
    assert {row.path for row in mine.values()} == {"fleet:prod"}
    changed = {"imported_ns", "path"}
    for key, row in mine.items():
        for name in row.__struct_fields__:
            if name not in changed:
                assert getattr(row, name) == getattr(theirs[key], name), name


def test_a_project_of_langfuse_is_kept_with_its_store(fleet: Store, tmp_path: Path) -> None:
    said = refused("fleet", "add", "prod", fleet.url("langfuse3"), "--project", "p-9")
    assert "Langfuse v3 has no runs of a project 'p-9'" in said
    said = refused("fleet", "add", "prod", fleet.url("maps"), "--project", "p-1")
    assert "OpenTelemetry exporter (maps) has no projects" in said
    said = refused("fleet", "add", "prod", fleet.url("maps"), "--langfuse", "3")
    assert (
        "OpenTelemetry exporter (maps) is no Langfuse, and this store is asked for version 3"
        in (said)
    )
    said = refused("fleet", "add", "prod", fleet.url("langfuse3"), "--langfuse", "4")
    assert "there are no tables of Langfuse v4 here, but those of Langfuse v3" in said
    added = arc("fleet", "add", "prod", fleet.url("langfuse3"), "--langfuse", "3", "--json")
    assert json.loads(added.stdout)["dialect"] == "Langfuse v3"
    assert 'langfuse = "3"' in (tmp_path / "conf" / NAME).read_text()
    added = arc("fleet", "add", "prod", fleet.url("langfuse3"), "--project", "p-1", "--json")
    assert json.loads(added.stdout)["dialect"] == "Langfuse v3"
    assert 'project = "p-1"' in (tmp_path / "conf" / NAME).read_text()
    assert arc("fleet", "ls").stdout.splitlines()[1].endswith("\tp-1")
    listed = arc("fleet", "ls", "prod", "label:session=s3", *LONG_AGO)
    assert "(Langfuse v3)" in listed.stderr


def test_a_second_pull_reads_nothing_again(prod: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    rows, blocks = Connection.rows, Connection.blocks

    def asked_rows(self: Connection, sql: str, *more: Any) -> Any:
        asked.append(sql)
        return rows(self, sql, *more)

    def asked_blocks(self: Connection, sql: str, *more: Any) -> Any:
        asked.append(sql)
        return blocks(self, sql, *more)

    monkeypatch.setattr(Connection, "rows", asked_rows)
    monkeypatch.setattr(Connection, "blocks", asked_blocks)
    arc("fleet", "pull", "prod", "tool:refund_order", *LONG_AGO, "--limit", "5")
    assert any("toJSONString(SpanAttributes)" in sql for sql in asked)
    asked.clear()
    again = arc("fleet", "pull", "prod", "tool:refund_order", *LONG_AGO, "--limit", "5")
    assert "0 runs pulled" in again.stdout
    assert "here already" in again.stdout
    assert not any("toJSONString(SpanAttributes)" in sql for sql in asked)


@pytest.mark.parametrize("form", ["maps", "no_lookup"])
def test_older_runs_of_one_second_come_each_once(fleet: Store, form: str) -> None:
    """Sixty runs in three seconds: a table of starts orders them by the second."""
    name = f"burst_{form}"
    fleet.client.command(f"CREATE DATABASE {name}")
    for statement in exporter.tables(f"{name}.otel_traces", lookup=form == "maps"):
        fleet.client.command(statement)
    sooner = f"toUnixTimestamp64Nano(Timestamp) - {corpus.BEGAN_NS}"
    fleet.client.command(
        f"INSERT INTO {name}.otel_traces SELECT * REPLACE (fromUnixTimestamp64Nano(toInt64("
        f"{corpus.BEGAN_NS} + intDiv({sooner}, 1200))) AS Timestamp) FROM {form}.otel_traces"
    )
    arc("fleet", "add", "prod", fleet.url(name))
    began = corpus.BEGAN_NS
    request = fleet_run.FleetRequest(
        fleet="prod", query="", window=Window(began - 10**12, began + 10**12), bounds=Bounds(),
        limit=7,
    )  # fmt: skip
    with open_ledger(":memory:") as store, fleet_run.open_fleet("prod", Bounds()) as opened:
        every = fleet_run.list_open(store, opened, structs.replace(request, limit=None))
        view = fleet_run.list_open(store, opened, request)
        shown = list(view.runs)
        while view.more:
            view = fleet_run.list_older(store, opened, request, shown)
            assert len(view.runs) == 7 or not view.more
            shown += view.runs
    found = [each.run.trace for each in shown]
    assert len(found) == RUNS
    assert sorted(found) == sorted(each.run.trace for each in every.runs)


def test_a_run_that_says_otherwise_now_takes_the_place_of_its_copy_when_asked(
    fleet: Store, tmp_path: Path
) -> None:
    file = corpus.write(tmp_path / "runs.jsonl", 4)
    fleet.fill("told", file)
    other = tmp_path / "other.jsonl"
    said = file.read_text()
    other.write_text(said.replace("claude-sonnet-4-5", "claude-x").replace("gpt-4o-mini", "gpt-x"))
    fleet.fill("retold", other)
    words = ("fleet", "pull", "prod", *LONG_AGO)
    arc("fleet", "add", "prod", fleet.url("told"))
    assert "4 runs pulled" in arc(*words).stdout
    arc("fleet", "add", "prod", fleet.url("retold"))
    assert "here already" in arc(*words).stdout  # as many spans: not read again
    database = tmp_path / "data" / "arc.db"
    with open_ledger(database) as store:
        before = store.db.execute("SELECT count(*) FROM span").fetchone()
        assert not any("-x" in str(row.models) for row in trace_rows(store))
    assert "4 runs pulled" in arc(*words, "--replace").stdout
    with open_ledger(database) as store:
        assert all(str(row.models) in ("claude-x", "gpt-x") for row in trace_rows(store))
        assert store.db.execute("SELECT count(*) FROM span").fetchone() == before
    assert "here already" in arc(*words, "--replace").stdout
    report = json.loads(arc(*words, "--replace", "--json").stdout)
    assert {each["verdict"] for each in report["files"][0]["traces"]} == {"duplicate"}


def test_a_copy_that_is_contradicted_is_refused_with_what_to_do(
    fleet: Store, tmp_path: Path
) -> None:
    file = corpus.write(tmp_path / "runs.jsonl", 1)
    fleet.fill("whole", file)
    lines = [json.loads(line) for line in file.read_text().replace("-4-5", "-x").splitlines()]
    lines[0]["resourceSpans"][0]["scopeSpans"][0]["spans"].pop()
    part = tmp_path / "part.jsonl"
    part.write_text("".join(json.dumps(line) + "\n" for line in lines).replace("mini", "x"))
    fleet.fill("part", part)
    words = ("fleet", "pull", "prod", *LONG_AGO)
    arc("fleet", "add", "prod", fleet.url("part"))
    arc(*words)
    arc("fleet", "add", "prod", fleet.url("whole"))
    said = arc(*words, code=2).stderr
    assert "differs from the stored recording of the same run. Try: --replace" in said
    assert "1 run pulled" in arc(*words, "--replace").stdout


def test_a_pull_that_was_stopped_goes_on_where_it_was(prod: Store, tmp_path: Path) -> None:
    arc("fleet", "pull", "prod", *LONG_AGO, "--limit", "7")
    report = json.loads(arc("fleet", "pull", "prod", *LONG_AGO, "--limit", "0", "--json").stdout)
    assert len(report["files"][0]["traces"]) == RUNS - 7
    with open_ledger(tmp_path / "data" / "arc.db") as store:
        assert len(trace_rows(store)) == RUNS


def test_a_pull_says_what_it_took_the_question_for_and_that_older_runs_match(fleet: Store) -> None:
    arc("fleet", "add", "prod", fleet.url("no_outcome"))
    said = arc("fleet", "pull", "prod", "outcome:failed", *LONG_AGO, "--limit", "1").stderr
    assert "no run in this time has an outcome" in said
    assert "older runs match too; --limit 1 was reached" in said
    every = arc("fleet", "pull", "prod", *LONG_AGO).stderr
    assert "outcome" not in every
    assert "older runs" not in every


def test_a_list_tells_which_runs_are_here(prod: Store) -> None:
    arc("fleet", "pull", "prod", *LONG_AGO, "--limit", "2")
    found: dict[str, Any] = json.loads(
        arc("fleet", "ls", "prod", *LONG_AGO, "--limit", "4", "--json").stdout
    )
    assert [each["local"] is not None for each in found["runs"]] == [True, True, False, False]
    assert found["more"] is True


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("add", "x", "clickhouse://a:secret@host/db"), "the URL holds a password"),
        (("add", "x", "ftp://host"), "begins with clickhouse://"),
        (("add", "x", "clickhouse://host/a/b"), "the name of one database"),
        (("add", "x", "clickhouse://host:many/a"), "not a URL"),
        (("add", "x", "clickhouse:///a"), "names no host"),
        (("add", "x", "clickhouse://host/a?readonly=0"), "takes no options"),
        (("add", "no such/name", "clickhouse://h/a", "--no-check"), "cannot name a store"),
        (("ls", "staging"), "no fleet 'staging'"),
        (("rm", "staging"), "no fleet 'staging'"),
        (("ls", "prod", "--since", "yesterday"), "'yesterday' is no time"),
        (("ls", "prod", "--since", "1d", "--until", "2d"), "since is not before until"),
        (("ls", "prod", "tag:loop"), "tag cannot be asked of this store"),
        (("pull", "prod", "outcom:failed"), "did you mean 'outcome'"),
    ],
)
def test_bad_input_gets_a_sentence(prod: Store, words: tuple[str, ...], said: str) -> None:
    sentence = refused("fleet", *words)
    assert said in sentence
    assert "secret" not in sentence


def test_a_file_of_stores_that_is_none_is_said(tmp_path: Path) -> None:
    (tmp_path / "conf").mkdir()
    for text, said in (
        ("[prod", "invalid TOML"),
        ("[prod]\nurl = 3", "url"),
        ("[prod]\nx = 1", "x"),
    ):
        (tmp_path / "conf" / NAME).write_text(text)
        sentence = refused("fleet", "ls")
        assert NAME in sentence
        assert said in sentence


def test_a_wrong_password_and_a_server_that_is_not_there(
    fleet: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable("prod"), "wrong")
    assert "user or password is wrong" in refused("fleet", "add", "prod", fleet.url("maps"))
    nobody = f"clickhouse+http://{USER}@127.0.0.1:1/maps"
    assert "cannot be reached" in refused("fleet", "add", "prod", nobody)
    assert "No fleet yet" in arc("fleet", "ls").stderr


def test_only_a_certificate_that_is_trusted_is_believed(tmp_path: Path) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("needs openssl")
    made, both = tmp_path / "cert.pem", tmp_path / "both.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
         "-nodes", "-keyout", tmp_path / "key.pem", "-out", made, "-days", "2",
         "-subj", "/CN=arc", "-addext", "subjectAltName=IP:127.0.0.1"],
        check=True, capture_output=True,
    )  # fmt: skip
    both.write_bytes(made.read_bytes() + (tmp_path / "key.pem").read_bytes())
    with serving(tmp_path / "d", "--user", USER, "--password", PASSWORD, "--tls", str(both)) as it:
        url = f"clickhouse://{USER}@127.0.0.1:{it.port}/default"
        assert "its certificate is not trusted" in refused("fleet", "add", "prod", url)
        trusted = refused("fleet", "add", "prod", url, "--ca", str(made))
        assert "no known table of spans in database 'default'" in trusted


def test_nothing_of_the_store_is_left_open(prod: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[bool] = []
    close = Connection.close

    def closing(self: Connection) -> None:
        closed.append(True)
        close(self)

    monkeypatch.setattr(Connection, "close", closing)
    refused("fleet", "ls", "prod", "tag:loop")
    assert closed == [True]
    assert fleet_run.stores_file().name == NAME


def test_the_command_counts_with_intervals_and_names_what_it_leaves_out(
    fleet: Store, cases: Path
) -> None:
    arc("fleet", "add", "prod", fleet.url("class_maps"))
    printed = arc("fleet", "failures", "prod", *LONG_AGO)
    lines = [line.split("\t") for line in printed.stdout.splitlines()]
    counts = {line[0]: line for line in lines}
    loops = sum(each.shows == "loop" for each in classes.CASES)
    assert counts["loop"][1] == str(loops)
    assert "–" in counts["loop"][2]  # the interval
    none = sum(not each.shows for each in classes.CASES)
    assert counts["not explained by these"][1] == str(none)
    labels = {each.label for each in CLASSES}
    assert f"a part of {len(labels)} of {ALL_CLASSES} classes" in printed.stderr
    assert "the step, the evidence" in printed.stderr
    found = json.loads(arc("fleet", "failures", "prod", *LONG_AGO, "--json").stdout)
    assert found["failed"] == len(classes.CASES)
    assert {len(row["traces"]) for row in found["rows"] if row["label"] == "loop"} == {loops}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("staging",), "no fleet 'staging'"),
        (("prod", "tag:loop"), "tag cannot be asked of this store"),
        (("prod", "outcom:failed"), "did you mean 'outcome'"),
        (("prod", "(steps>3"), "("),
        (("prod", "--since", "yesterday"), "'yesterday' is no time"),
    ],
)
def test_what_cannot_be_counted_gets_a_sentence(
    prod: Store, words: tuple[str, ...], said: str
) -> None:
    assert said in refused("fleet", "failures", *words)


def test_no_failed_run_is_said(prod: Store) -> None:
    assert (
        "No failed runs match 'steps>90'"
        in arc("fleet", "failures", "prod", "steps>90", *LONG_AGO).stderr
    )


@pytest.mark.parametrize("form", ["maps", "signoz"])
def test_a_duration_that_no_clock_reaches_costs_no_other_run(fleet: Store, form: str) -> None:
    """An exporter that takes a later start from an earlier end writes nearly 2 ** 64."""
    table, trace, duration = {
        "maps": ("otel_traces", "TraceId", "Duration"),
        "signoz": ("signoz_index_v3", "trace_id", "duration_nano"),
    }[form]
    copy = f"endless_{form}"
    fleet.client.command(f"CREATE DATABASE {copy}")
    fleet.client.command(
        f"CREATE TABLE {copy}.{table} ENGINE = MergeTree ORDER BY tuple() AS"
        f" SELECT * FROM {form}.{table}"
    )
    one = f"SELECT * FROM {copy}.{table} ORDER BY {trace} LIMIT 1"
    for number, value in enumerate((2**64 - 5, 2**63 - 1, 2**63)):
        fleet.client.command(
            f"INSERT INTO {copy}.{table} SELECT * REPLACE (toUInt64({value}) AS {duration},"
            f" 'e{number:015}' AS {'SpanId' if form == 'maps' else 'span_id'}) FROM ({one})"
        )
    arc("fleet", "add", "prod", fleet.url(copy))
    listed = json.loads(arc("fleet", "ls", "prod", *LONG_AGO, "--limit", "0", "--json").stdout)
    assert len(listed["runs"]) == RUNS
    assert max(each["run"]["duration_ns"] for each in listed["runs"]) < 3600 * 10**9
    assert arc("fleet", "ls", "prod", "duration>1h or step.duration>1h", *LONG_AGO).stdout == ""
    pulled = arc("fleet", "pull", "prod", *LONG_AGO, "--limit", "0").stdout
    assert f"prod: {RUNS} runs pulled" in pulled


def test_bytes_that_are_no_text_cost_one_run_of_a_page(fleet: Store, tmp_path: Path) -> None:
    fleet.client.command("CREATE DATABASE no_text")
    fleet.client.command(
        "CREATE TABLE no_text.otel_traces ENGINE = MergeTree ORDER BY tuple() AS"
        " SELECT * FROM maps.otel_traces"
    )
    chats = "SELECT max(TraceId) FROM maps.otel_traces WHERE SpanName LIKE 'chat%'"
    broken = fleet.client.query(chats).result_rows[0][0]
    fleet.client.command(
        "INSERT INTO no_text.otel_traces SELECT * REPLACE ('00000000000000ff' AS SpanId,"
        " mapUpdate(SpanAttributes, map('note', unhex('ff'))) AS SpanAttributes)"
        f" FROM no_text.otel_traces WHERE TraceId = '{broken}' LIMIT 1"
    )
    arc("fleet", "add", "prod", fleet.url("no_text"))
    said = arc("fleet", "pull", "prod", *LONG_AGO, "--limit", "0", "--json").stdout
    (file,) = json.loads(said)["files"]
    assert len(file["traces"]) == RUNS - 1
    assert [each["where"] for each in file["problems"]] == [f"trace {broken}"]
    assert "bytes that are not text" in file["problems"][0]["why"]
    with open_ledger(tmp_path / "data" / "arc.db") as store:
        assert broken not in {row.source_id for row in trace_rows(store)}
