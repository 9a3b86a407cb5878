"""`arc pull` from servers on loopback that speak the published APIs, as its user would."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from threading import Event
from typing import Any, NamedTuple

import pytest
from click.testing import CliRunner, Result

from arc_tui import importing
from arc_tui.commands import cli
from arc_tui.features.fleet import command, servers
from arc_tui.importing import ImportReport, Progress
from replay.errors import ArcError
from replay.fleet.stores import NAME, variable
from replay.servers import connection
from replay.servers.products import PRODUCTS
from replay.store.rows import TraceRow, trace_rows
from taxonomy.judgements.schema import open_ledger
from tests.database_rows import rows_of
from tests.replay.test_langsmith import LINES
from tests.servers.loopback import (
    KEYS,
    Answered,
    Fault,
    LangfuseServer,
    LangSmithServer,
    Loopback,
    PhoenixServer,
    Record,
    serving,
)
from tests.shared import DATA, needs_shared
from tests.test_boundaries import ROOT

pytestmark = pytest.mark.slow

CAPTURE = ROOT / "fixtures" / "captures" / "phoenix_rest" / "spans.json"
LONG_AGO = ("--since", "2020", "--limit", "0")
SECRETS = ("px-5ecret", "sk-lf-5ecret", "lsv2_5ecret")


@pytest.fixture(autouse=True)
def _at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARC_CONFIG_DIR", str(tmp_path / "conf"))
    monkeypatch.setenv("ARC_DATA_DIR", str(tmp_path / "data"))
    for name, key in KEYS.items():
        for each, part in zip(PRODUCTS[name].VARIABLES, key.split(":"), strict=True):
            monkeypatch.setenv(each, part)


def arc(*words: str, code: int = 0) -> Result:
    found = CliRunner().invoke(cli, words, standalone_mode=False)
    assert found.exception is None, found.exception
    assert (found.return_value or 0) == code, found.output
    assert not any(secret in found.output for secret in SECRETS)
    return found


def refused(*words: str) -> str:
    """The sentence, and nothing on stdout."""
    found = CliRunner().invoke(cli, words, standalone_mode=False)
    assert isinstance(found.exception, ArcError), found.output
    assert found.stdout == ""
    said = f"{found.exception} {found.exception.hint}"
    assert not any(secret in said for secret in SECRETS)
    assert "\x1b" not in said
    return said


# --- runs on servers


def phoenix_traces(count: int) -> list[list[Record]]:
    """What a real Phoenix gave of a run, and runs made of it with ids and times of their own."""
    text = CAPTURE.read_text()
    found = []
    for number in range(count):
        spans = json.loads(text)["data"]
        for span in spans:
            for field in ("start_time", "end_time"):
                later = datetime.fromisoformat(span[field]) + timedelta(minutes=number)
                span[field] = later.isoformat()
            context = span["context"]
            context["trace_id"] = f"{number:02x}{context['trace_id'][2:]}"
            context["span_id"] = f"{number:02x}{context['span_id'][2:]}"
            if span["parent_id"]:
                span["parent_id"] = f"{number:02x}{span['parent_id'][2:]}"
        found.append(spans[::-1])  # as they came in; the API gives the latest first
    return found


def langfuse_traces() -> list[Record]:
    """Real traces of many frameworks, as Langfuse's own server gave them."""
    found = {}
    for file in sorted((DATA / "langfuse" / "chatml").glob("*.trace.json")):
        document = json.loads(file.read_text())
        held = {n: document["trace"].get(n) or [] for n in ("observations", "scores")}
        trace = {**document["trace"], **held}
        trace["observations"] = trace["observations"] or document["observations"]
        found[trace["id"]] = trace
    return list(found.values())


def langsmith_traces(count: int) -> list[list[Record]]:
    found = []
    for number in range(count):
        text = json.dumps(LINES[:-1]).replace('"root"', f'"root-{number}"')
        text = text.replace("Zroot", f"Zroot-{number}").replace("T10:00", f"T10:{number:02}")
        found.append([{**each, "session_name": None} for each in json.loads(text)])
    return found


class Filled(NamedTuple):
    """A server with runs, how many, and its own export of them."""

    server: Loopback
    runs: int
    export: Path


def phoenix(folder: Path) -> Filled:
    """Traces came in by another order than they began in."""
    traces = phoenix_traces(8)
    spans = [span for at in (3, 0, 7, 1, 2, 6, 5, 4) for span in traces[at]]
    server = PhoenixServer({"support": spans})
    said = spans[0]["context"]["span_id"]
    server.annotations = [
        {"id": f"A{at}", "name": name, "annotator_kind": "HUMAN", "span_id": said,
         "result": {"label": "good", "score": 1.0, "explanation": "yes"}}
        for at, name in enumerate(("polite", "right", "short", "kind"))
    ]  # fmt: skip
    export = folder / "export.json"
    data = [{**each, "annotations": server.annotations[::-1]}
            if each["context"]["span_id"] == said else each for each in spans[::-1]]  # fmt: skip
    export.write_text(json.dumps({"data": data, "next_cursor": None}))
    return Filled(server, 8, export)


def langfuse(folder: Path) -> Filled:
    traces = langfuse_traces()
    export = folder / "export.jsonl"
    export.write_text("\n".join(map(json.dumps, traces)))
    return Filled(LangfuseServer(traces), len(traces), export)


def langsmith(folder: Path) -> Filled:
    traces = langsmith_traces(8)
    runs = [run for at in (3, 0, 7, 1, 2, 6, 5, 4) for run in traces[at]]
    server = LangSmithServer({"support": runs, "other": []}, page=2)
    server.feedback = [{**LINES[-1], "run_id": "root-2", "trace_id": "root-2"}]
    export = folder / "export.jsonl"
    export.write_text("\n".join(map(json.dumps, [*runs, *server.feedback])))
    return Filled(server, 8, export)


MAKERS: dict[str, Callable[[Path], Filled]] = {
    "phoenix": phoenix,
    "langfuse": langfuse,
    "langsmith": langsmith,
}
EACH = [
    pytest.param("phoenix"),
    pytest.param("langfuse", marks=needs_shared),
    pytest.param("langsmith"),
]
DETAILS = {"phoenix": "/spans", "langfuse": "/traces/", "langsmith": "/runs/query"}


@contextmanager
def filled(name: str, folder: Path) -> Iterator[Filled]:
    made = MAKERS[name](folder)
    with serving(made.server):
        yield made


def here(path: Path) -> dict[str, TraceRow]:
    with open_ledger(path) as store:
        return {row.trace: row for row in trace_rows(store, every=True)}


def database(tmp_path: Path) -> Path:
    return tmp_path / "data" / "arc.db"


def same_rows(mine: dict[str, TraceRow], theirs: dict[str, TraceRow]) -> None:
    assert mine.keys() == theirs.keys()  # keys are digests of what is in a trace
    for key, row in mine.items():
        for name in row.__struct_fields__:
            if name not in ("imported_ns", "path"):
                assert getattr(row, name) == getattr(theirs[key], name), name


def every_score(path: Path) -> list[tuple[object, ...]]:
    """What was said of runs, without the number of the run, which depends on their order."""
    return sorted((row[1:] for row in rows_of(path)["source_score"]), key=repr)


def pull(made: Filled, *more: str, code: int = 0) -> Result:
    named = () if "--project" in more else ("--project", "support")
    return arc("pull", made.server.url, *LONG_AGO, *named, *more, code=code)


@pytest.mark.parametrize("product", EACH)
def test_what_was_pulled_is_what_an_import_of_the_export_brings(
    product: str, tmp_path: Path
) -> None:
    with filled(product, tmp_path) as made:
        said = pull(made)
        assert f"{made.runs} runs pulled" in said.stdout
        assert PRODUCTS[product].TITLE in said.stderr
        other = tmp_path / "file.db"
        with open_ledger(other) as store:
            for _ in importing.import_paths(store, [made.export]):
                pass
        mine = here(database(tmp_path))
        same_rows(mine, here(other))
        assert {row.path for row in mine.values()} == {f"fleet:{made.server.url}"}
        assert every_score(database(tmp_path)) == every_score(other) != []


def test_no_more_runs_are_said_to_be_here_than_were_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[tuple[int, int]] = []

    def drain(work: Iterator[Progress | ImportReport]) -> ImportReport:
        for event in work:
            if isinstance(event, ImportReport):
                return event
            told.append((event.done, event.traces))
        raise AssertionError

    monkeypatch.setattr(servers, "TOGETHER", 3)
    monkeypatch.setattr(command, "drain_import", drain)
    with filled("phoenix", tmp_path) as made:
        assert "8 runs pulled" in pull(made).stdout
    assert told[:8] == [(0, 1), (0, 2), (0, 3), (3, 4), (3, 5), (3, 6), (6, 7), (6, 8)]


@pytest.mark.parametrize("product", EACH)
def test_a_second_pull_changes_nothing(product: str, tmp_path: Path) -> None:
    with filled(product, tmp_path) as made:
        pull(made)
        before = rows_of(database(tmp_path))
        said = pull(made)
        assert "0 runs pulled; what matches is here already" in said.stdout
        assert rows_of(database(tmp_path)) == before


def test_a_run_with_as_many_spans_as_are_listed_is_not_read_again(tmp_path: Path) -> None:
    roots = [spans[0] for spans in phoenix_traces(4) if spans[0]["span_kind"] != "LLM"]
    roots = roots or [
        span for spans in phoenix_traces(4) for span in spans if span["parent_id"] is None
    ]
    server = PhoenixServer({"support": roots[:3]})
    with serving(server):
        assert "3 runs pulled" in arc("pull", server.url, *LONG_AGO).stdout
        server.projects["support"].append(roots[3])
        later = {**roots[0], "parent_id": roots[0]["context"]["span_id"]}
        later["context"] = {**roots[0]["context"], "span_id": "ff" * 8}
        server.projects["support"].append(later)
        server.asked.clear()
        arc("pull", server.url, *LONG_AGO)
    assert sum(path.endswith("/spans") for path in server.asked) == 2  # a new one, and one grew
    assert sorted(row.spans for row in here(database(tmp_path)).values() if row.preferred) == [
        1, 1, 1, 2,
    ]  # fmt: skip


@pytest.mark.process
@pytest.mark.parametrize("product", EACH)
@pytest.mark.parametrize("share", [0.3, 0.6, 0.95])
def test_a_pull_whose_process_is_killed_goes_on_with_nothing_lost_or_twice(
    product: str, share: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, killed = tmp_path / "whole.db", tmp_path / "killed.db"
    monkeypatch.setattr(servers, "TOGETHER", 3)
    with filled(product, tmp_path) as made:
        pull(made, "--db", str(whole))
        requests = len(made.server.asked)
        kill_at(made, int(requests * share), killed)
        before = here(killed) if killed.exists() else {}
        assert len(before) < made.runs
        assert before or share < 0.5
        made.server.asked.clear()
        said = pull(made, "--db", str(killed))
        assert f"{made.runs - len(before)} runs pulled" in said.stdout.replace("run p", "runs p")
    same_rows(here(killed), here(whole))
    assert every_score(killed) == every_score(whole)
    names = ("span", "step", "message", "suggestion", "diagnosis")
    counts = [[len(rows_of(each)[name]) for name in names] for each in (killed, whole)]
    assert counts[0] == counts[1]


def kill_at(made: Filled, request: int, database: Path) -> None:
    """A pull whose process is killed while it waits for the answer to this request."""
    answer, waits, goes_on, asked = made.server.answer, Event(), Event(), count()

    def held(*what: Any) -> Answered:
        if next(asked) == request:
            waits.set()
            goes_on.wait(60)
        return answer(*what)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(made.server, "answer", held)
        words = [made.server.url, *LONG_AGO, "--project", "support", "--db", str(database)]
        command = [sys.executable, "-m", "tests.servers.pull_process", *words]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
            assert waits.wait(60)
            process.kill()
        goes_on.set()


@pytest.mark.parametrize("product", ["phoenix", "langsmith"])
def test_a_run_that_says_otherwise_now_takes_the_place_of_its_copy_when_asked(
    product: str, tmp_path: Path
) -> None:
    with filled(product, tmp_path) as made:
        pull(made)
        before = {(row.source_id, row.spans) for row in here(database(tmp_path)).values()}
        server: Any = made.server
        told = json.dumps(server.projects).replace("gpt-", "retold-")
        server.projects = json.loads(told.replace("claude-", "retold-"))
        said = pull(made, "--replace")
        found = here(database(tmp_path)).values()
        assert f"{made.runs} runs pulled" in said.stdout
        assert {(row.source_id, row.spans) for row in found} == before
        assert all(str(row.models).startswith("retold-") for row in found)
        assert "here already" in pull(made, "--replace").stdout


@pytest.mark.parametrize("product", EACH)
@pytest.mark.parametrize("kind", ["429", "500", "503", "cut", "half"])
def test_what_a_busy_server_fails_is_asked_again(
    product: str, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "BACKOFF_S", 0.0)
    with filled(product, tmp_path) as made:
        made.server.faults = [
            Fault(".*(traces|query|sessions)", kind), Fault(".*/projects", kind),
            Fault(f".*{DETAILS[product]}.*", kind), Fault(".*(annotations|feedback)", kind),
        ]  # fmt: skip
        assert f"{made.runs} runs pulled" in pull(made).stdout
        assert len(made.server.faults) < 4


@pytest.mark.parametrize("product", EACH)
def test_a_pull_that_was_broken_off_keeps_what_it_has_and_goes_on(
    product: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "BACKOFF_S", 0.0)
    path = f".*{DETAILS[product]}.*"
    with filled(product, tmp_path) as made:
        at = {"phoenix": 7, "langfuse": 5, "langsmith": 9}[product]
        answer, many = made.server.answer, 0

        def tiring(method: str, asked: str, *more: Any) -> Any:
            nonlocal many
            many += DETAILS[product] in asked
            if many == at and DETAILS[product] in asked:
                made.server.faults = [Fault(path, "500", 50)]
            return answer(method, asked, *more)

        monkeypatch.setattr(made.server, "answer", tiring)
        said = pull(made, code=2)
        assert "was asked 5 times: it answered 500" in said.stderr
        had = here(database(tmp_path))
        assert 0 < len(had) < made.runs
        made.server.faults = []
        pull(made)
        assert len(here(database(tmp_path))) == made.runs
        assert had.keys() <= here(database(tmp_path)).keys()


@pytest.mark.parametrize(
    ("product", "kind"), [("phoenix", "422"), ("langsmith", "400"), ("langsmith", "404")]
)
def test_a_list_that_lost_its_place_is_asked_from_there(
    product: str, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with filled(product, tmp_path) as made:
        answer = made.server.answer
        lost = 0

        def forgetful(method: str, path: str, query: Any, body: Any) -> Any:
            nonlocal lost
            with_cursor = "cursor" in query or (body and "cursor" in body)
            if with_cursor and lost < 2:
                lost += 1
                return Answered(int(kind), {"detail": "cursor expired"})
            return answer(method, path, query, body)

        monkeypatch.setattr(made.server, "answer", forgetful)
        if product == "phoenix":
            made.server.page = 5  # a trace's spans fit; its annotations and projects too
        pull(made)
        assert len(here(database(tmp_path))) == made.runs
        assert lost == 2 or product == "phoenix"


@needs_shared
def test_a_version_4_of_langfuse_gives_the_same_runs(tmp_path: Path) -> None:
    traces = langfuse_traces()
    with serving(LangfuseServer(traces, page=7)) as three:
        arc("pull", three.url, *LONG_AGO, "--db", str(tmp_path / "three.db"))
    with serving(LangfuseServer(traces, page=7, version=4)) as four:
        arc("pull", four.url, *LONG_AGO, "--db", str(tmp_path / "four.db"))
        before = rows_of(tmp_path / "four.db")
        arc("pull", four.url, *LONG_AGO, "--db", str(tmp_path / "four.db"))
        assert rows_of(tmp_path / "four.db") == before
    old = {row.source_id: row for row in here(tmp_path / "three.db").values()}
    new = {row.source_id: row for row in here(tmp_path / "four.db").values()}
    assert old.keys() == new.keys()
    for name, row in old.items():
        for field in ("steps", "spans", "calls", "errors", "input_tokens", "output_tokens"):
            assert getattr(row, field) == getattr(new[name], field), (name, field)


def test_a_server_of_ones_own_and_one_that_knows_no_details(tmp_path: Path) -> None:
    made = langsmith(tmp_path)
    assert isinstance(made.server, LangSmithServer)
    made.server.prefix, made.server.knows_details = "/api/v1", False
    with serving(made.server):
        assert "8 runs pulled" in pull(made).stdout


def test_annotations_of_a_whole_trace_are_scores_of_the_run(tmp_path: Path) -> None:
    made = phoenix(tmp_path)
    assert isinstance(made.server, PhoenixServer)
    trace = phoenix_traces(1)[0][0]["context"]["trace_id"]
    made.server.trace_annotations = [
        {"id": "T1", "name": "done", "annotator_kind": "LLM", "trace_id": trace,
         "result": {"label": "pass", "score": 1.0}}
    ]  # fmt: skip
    with serving(made.server):
        pull(made)
    assert any("done" in row for row in every_score(database(tmp_path)))


# --- projects, times, limits


def test_projects_are_named_chosen_and_suggested(tmp_path: Path) -> None:
    spans = phoenix_traces(1)[0]
    with serving(PhoenixServer({"support": spans, "shop": [], "a/b?#": spans})) as server:
        url = server.url
        assert "3 projects: a/b?#, shop, support" in refused("pull", url)
        assert "no project 'suport'" in refused("pull", url, "--project", "suport")
        assert "did you mean support?" in refused("pull", url, "--project", "suport")
        assert "known: a/b?#, shop" in refused("pull", url, "--project", "zzz")
        assert "no runs match" in arc("pull", url, *LONG_AGO, "--project", "shop").stdout
        assert "1 run pulled" in arc("pull", url, *LONG_AGO, "--project", "a/b?#").stdout
    with serving(PhoenixServer({})) as server:
        assert "the server has no project yet" in refused("pull", server.url)


def test_a_window_and_a_limit(tmp_path: Path) -> None:
    made = phoenix(tmp_path)
    with serving(made.server):
        said = arc("pull", made.server.url, "--since", "2020", "--limit", "2")
        assert "2 runs pulled" in said.stdout
        assert "older runs are there too; --limit 2 was reached" in said.stderr
        newest = max(row.start_ns or 0 for row in here(database(tmp_path)).values())
        assert datetime.fromtimestamp(newest // 10**9, UTC).minute == (37 + 7) % 60
        day = ("--since", "2026-11-24T03:38", "--until", "2026-11-24T03:40", "--limit", "0")
        arc("pull", made.server.url, *day, "--db", str(tmp_path / "two.db"))
    minutes = sorted(
        datetime.fromtimestamp((row.start_ns or 0) // 10**9, UTC).minute
        for row in here(tmp_path / "two.db").values()
    )
    assert minutes == [38, 39]


def test_a_run_of_a_clock_that_is_ahead_is_pulled_unless_an_end_is_given(tmp_path: Path) -> None:
    spans = phoenix_traces(1)[0]
    ahead = (datetime.now(UTC) + timedelta(hours=5)).isoformat()
    for span in spans:
        span["start_time"] = ahead
        span["end_time"] = datetime.now(UTC).isoformat()  # before its start
    with serving(PhoenixServer({"default": spans})) as server:
        assert "no runs match" in arc("pull", server.url, "--until", "1h").stdout
        assert "1 run pulled" in arc("pull", server.url).stdout


def test_what_is_deleted_while_it_is_read_is_a_problem_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = langsmith(tmp_path)
    answer = made.server.answer

    def deleting(method: str, path: str, query: Any, body: Any) -> Any:
        said = answer(method, path, query, body)
        if body and body.get("trace") == "root-4":
            said.body["runs"] = []
        return said

    monkeypatch.setattr(made.server, "answer", deleting)
    with serving(made.server):
        report = json.loads(pull(made, "--json").stdout)
    (file,) = report["files"]
    assert len(file["traces"]) == 7
    assert [each["where"] for each in file["problems"]] == ["trace root-4"]


# --- keys, addresses, and what is no such server


@pytest.mark.parametrize("product", EACH)
def test_a_key_that_is_missing_or_wrong_is_a_sentence(
    product: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = PRODUCTS[product]
    with filled(product, tmp_path) as made:
        for each in module.VARIABLES:
            monkeypatch.setenv(each, "sk-wrong-key")
        said = refused("pull", made.server.url, "--project", "support")
        assert "wants a key, or another one (401" in said
        assert f"set {' and '.join(module.VARIABLES)}" in said
        assert "sk-wrong-key" not in said
        monkeypatch.delenv(module.VARIABLES[0])
        said = refused("pull", made.server.url, "--project", "support")
        assert ("wants a key, and none is set" in said) == module.NEEDS_KEY
        monkeypatch.setenv(module.VARIABLES[0], "sk\nmade")
        assert "no key has" in refused("pull", made.server.url)


def test_no_key_is_sent_before_the_product_is_known(tmp_path: Path) -> None:
    seen: list[str] = []
    server = PhoenixServer({"support": []})
    lets_in = server.lets_in

    def noting(headers: Any) -> bool:
        seen.append(str(headers))
        return lets_in(headers)

    server.lets_in = noting  # type: ignore[method-assign]
    with serving(server):
        arc("pull", server.url)
        said = refused("pull", server.url, "--server", "langsmith")
    assert "is no server of LangSmith: looked for /info" in said
    assert not any(KEYS["langsmith"] in each for each in seen)


class Stranger(Loopback):
    """A server of something else."""

    def lets_in(self, headers: Any) -> bool:
        return True

    def answer(self, *_: Any) -> Any:
        return Answered(200, "<html>hello</html>")


def test_what_is_none_of_them_is_a_sentence_with_what_was_looked_for() -> None:
    with serving(Stranger(1)) as server:
        said = refused("pull", server.url)
    assert "is no server of Phoenix or Langfuse or LangSmith" in said
    assert "/arize_phoenix_version (Phoenix), /api/public/health (Langfuse), /info" in said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("https://pk:sk@host",), "the URL holds a key"),
        (("https://key@host",), "the URL holds a key"),
        (("http://phoenix.example.com",), "without encryption"),
        (("https://host/?project=a",), "takes no options"),
        (("https://",), "begins with https:// and its host"),
        (("ftp://host/",), "begins with https://"),
        (("https://host:many",), "not a URL"),
        (("nobody",), "no fleet 'nobody'"),
        (("https://host", "--since", "yesterday"), "'yesterday' is no time"),
        (("https://host", "--since", "1d", "--until", "2d"), "since is not before until"),
        (("http://127.0.0.1:1",), "cannot be reached"),
    ],
)
def test_bad_input_is_one_sentence(words: tuple[str, ...], said: str) -> None:
    assert said in refused("pull", *words)


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("redirect", "redirects to 127.0.0.2"),
        ("html", "answered with a page, not with JSON"),
        ("403", "does not let this key (403"),
        ("418", "answered 418"),
        ("429 900", "asks to wait 900 s"),
        ("number", "has no project yet"),
    ],
)
def test_a_server_that_does_something_else_is_a_sentence(
    kind: str, said: str, tmp_path: Path
) -> None:
    made = phoenix(tmp_path)
    made.server.faults = [Fault("/v1/projects", kind)]
    with serving(made.server):
        assert said in refused("pull", made.server.url)


def test_a_slow_answer_is_waited_for_and_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "TIMEOUT_S", 0.3)
    made = phoenix(tmp_path)
    made.server.faults = [Fault("/v1/projects", "slow")]
    with serving(made.server):
        assert "8 runs pulled" in pull(made).stdout
        assert made.server.asked.count("/v1/projects") > 1
        made.server.faults = [Fault("/v1/projects", "slow", 9)]
        monkeypatch.setattr(connection, "TRIES", 2)
        assert "no answer within" in refused("pull", made.server.url)


def test_an_answer_without_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "MAX_ANSWER_BYTES", 3000)
    made = phoenix(tmp_path)
    with serving(made.server):
        assert "answered with more than" in pull(made, code=2).stderr


def test_hostile_texts_are_shown_and_never_obeyed(tmp_path: Path) -> None:
    spans = phoenix_traces(2)
    for span in spans[0]:
        span["name"] = "\x1b]0;owned\x07../../etc/passwd"
        span["context"]["trace_id"] = "../../v1/projects?x=#\x1b[2J"
    project = "\x1b[31mred"
    with serving(PhoenixServer({project: [*spans[0], *spans[1]]})) as server:
        said = arc("pull", server.url, *LONG_AGO)
        assert "2 runs pulled" in said.stdout
        assert "\x1b" not in said.output
        server.faults = [Fault("/v1/projects", "422")]
        assert "went wrong" in refused("pull", server.url)


def test_certificates_are_verified(tmp_path: Path) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("needs openssl")
    key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
         "-nodes", "-keyout", str(key), "-out", str(certificate), "-days", "1",
         "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"],
        check=True, capture_output=True,
    )  # fmt: skip
    both = tmp_path / "both.pem"
    both.write_text(certificate.read_text() + key.read_text())
    made = phoenix(tmp_path)
    with serving(made.server, both):
        assert "the certificate cannot be verified" in refused("pull", made.server.url)
        assert "holds no certificates" in refused("pull", made.server.url, "--ca", str(CAPTURE))
        assert "8 runs pulled" in pull(made, "--ca", str(certificate)).stdout


# --- under a name


def test_a_server_is_kept_under_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = phoenix(tmp_path)
    monkeypatch.delenv("PHOENIX_API_KEY")
    with serving(made.server):
        url = made.server.url
        assert "arc fleet add NAME URL --password" in refused("fleet", "add", "prod", url)
        assert refused("pull", "prod").startswith("no fleet 'prod'")
        monkeypatch.setenv(variable("prod"), KEYS["phoenix"])
        said = arc("fleet", "add", "prod", url).stdout
        assert "kept prod: Phoenix, 1 project. Try: arc pull prod --since 1d" in said
        kept = (tmp_path / "conf" / NAME).read_text()
        assert 'server = "phoenix"' in kept
        assert KEYS["phoenix"] not in kept
        assert url in arc("fleet", "ls").stdout
        assert "prod: 8 runs pulled" in arc("pull", "prod", *LONG_AGO).stdout
        assert {row.path for row in here(database(tmp_path)).values()} == {"fleet:prod"}
        pytest.importorskip("clickhouse_connect")
        assert "Try: arc pull prod" in refused("fleet", "ls", "prod")
        assert "Try: arc pull prod" in refused("fleet", "pull", "prod")
    arc("fleet", "add", "ch", "clickhouse://reader@host/otel", "--no-check")
    assert "Try: arc fleet pull ch" in refused("pull", "ch")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("https://host", "--service", "a"), "are for stores in ClickHouse"),
        (("https://host", "--langfuse", "3"), "are for stores in ClickHouse"),
        (("clickhouse://u@h/d", "--server", "phoenix"), "are for servers of traces"),
        (("http://host", "--no-check"), "without encryption"),
        (("https://a:b@host", "--no-check"), "the URL holds a key"),
    ],
)
def test_what_cannot_be_kept_is_one_sentence(words: tuple[str, ...], said: str) -> None:
    assert said in refused("fleet", "add", "x", *words)
