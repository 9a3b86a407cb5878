"""Does a tool change the world, and who says so?"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replay.effects import UNKNOWN, Effects, ToolEffect, annotated, call_effect, guess
from replay.programs import shell_reads
from replay.trace import Effect, Json, Tool, ToolCall


def call(name: str, effect: Effect = "unknown", **arguments: str) -> ToolCall:
    return ToolCall(id=name, name=name, arguments=arguments, effect=effect)


def hinted(name: str, **hints: bool) -> Tool:
    return Tool(name=name, extra={"annotations": hints})


GUESSED_READS = (
    "get_order", "listFiles", "search_flights_and_hotels", "flights_search", "user_list", "getUser",
    "get_update", "get_post", "get_change_log", "mcp__crm-update__get_order", "lookup", "look_up",
    "search_posts", "list_charges", "find_file", "check_status", "describe_table", "read_message",
    "fetch_page", "view_run", "list_and_count", "get_schedule", "product.get", "search",
)  # fmt: skip
GUESSED_WRITES = (
    "refund_order", "send_email", "get_or_create_user", "search_and_book", "search_replace",
    "find_and_replace", "list_add", "listAdd", "user_delete", "cartAdd", "TodoWrite", "view_set",
    "mcp__github__create_issue", "mcp__get__delete_user", "update_reservation", "post_list",
    "delete.user", "query_insert", "check_and_cancel", "book_search", "list_clear",
)  # fmt: skip
NOBODY_KNOWS = (
    "frobnicate", "", "check_in", "check_out", "open_ticket", "execute_query", "run_query",
    "list_update", "view_change", "order_list", "getЗаказ", "find_and_run", "request", "call",
    "open", "verify_identity", "python", "bash", "orders", "getorder", "order_get",
)  # fmt: skip


@pytest.mark.parametrize("name", GUESSED_READS)
def test_a_name_that_only_reads_is_guessed_to_read(name: str) -> None:
    assert guess(name) == "read"
    assert call_effect(name, {"id": 7}) == ToolEffect("read", "guessed")


@pytest.mark.parametrize("name", GUESSED_WRITES)
def test_a_name_with_a_verb_that_changes_something_writes_wherever_it_stands(name: str) -> None:
    assert guess(name) == "write"


@pytest.mark.parametrize("name", NOBODY_KNOWS)
def test_a_name_that_could_write_is_not_taken_for_a_read(name: str) -> None:
    assert guess(name) is None
    assert not call_effect(name, {"id": 7}).reads


KNOWN: tuple[tuple[str, Json, Effect], ...] = (
    ("Read", {"file_path": "/a"}, "read"),
    ("Grep", {"pattern": "INSERT INTO", "path": "."}, "read"),
    ("Glob", {"pattern": "**"}, "read"),
    ("LS", {"path": "/"}, "read"),
    ("read_file", {"absolute_path": "/a"}, "read"),
    ("str_replace_editor", {"command": "view", "path": "/a"}, "read"),
    ("str_replace_based_edit_tool", {"command": "create", "path": "/a"}, "write"),
)


@pytest.mark.parametrize(("name", "arguments", "effect"), KNOWN)
def test_tools_of_well_known_agents_are_known(name: str, arguments: Json, effect: Effect) -> None:
    assert call_effect(name, arguments) == ToolEffect(effect, "known")


def test_another_tool_of_a_known_name_is_only_guessed_of() -> None:
    assert call_effect("Read", {"file_path": "/a", "mark": "seen"}).by == "guessed"
    assert call_effect("Read", {"message": 7}).by == "guessed"
    assert call_effect("Read").by == "guessed"


# --- programs in the arguments

SQL_READS = (
    "SELECT 1", "select * from a where b = 'c; drop table d'", "SELECT count(*) FROM a;",
    "WITH x AS (SELECT 1) SELECT * FROM x", "PRAGMA table_info(a)", "PRAGMA user_version",
    "SHOW TABLES", "EXPLAIN SELECT 1", "-- look\nSELECT a FROM b",
    "SELECT replace(a, 'x', 'y') FROM b",
    "SELECT a FROM b /* all */ WHERE \"update\" = 1",
)  # fmt: skip
SQL_WRITES = (
    "UPDATE a SET b = 1", "update only a as c set b = 1", "INSERT INTO a VALUES (1)",
    "INSERT OR REPLACE INTO a VALUES (1)", "DELETE FROM a", "DROP TABLE a",
    "  -- x\n DELETE FROM a",
    "/* x */ TRUNCATE a", "CREATE TEMP TABLE a (b)", "MERGE INTO a USING b ON 1",
    "GRANT x ON a TO b",
    "EXPLAIN ANALYZE UPDATE a SET b = 1", "SELECT a INTO OUTFILE 'x' FROM b",
)  # fmt: skip
SQL_UNKNOWN = (
    "SELECT a INTO b FROM c", "WITH x AS (DELETE FROM a RETURNING *) SELECT * FROM x",
    "SELECT 1; DROP TABLE a", "SELECT * FROM a FOR UPDATE", "SELECT nextval('s')",
    "SELECT pg_terminate_backend(1)", "PRAGMA user_version = 3", "PRAGMA optimize", "VACUUM",
    "SELECT 1 /*! ; DELETE FROM a */", r"SELECT '\'' ; DELETE FROM a; -- '", "CALL p()", "BEGIN",
    "SELECT $$a$$", "SELECT q'[']' ; DELETE FROM a; -- '", "SELECT 5--1; DELETE FROM a",
    "SELECT 1 EXEC p", "SELECT 'a", "who knows",
)  # fmt: skip


@pytest.mark.parametrize("tool", ["query", "execute_sql", "mcp__shop-db__run_query", "read_query"])
@pytest.mark.parametrize("key", ["sql", "query"])
def test_sql_in_the_arguments_is_read(tool: str, key: str) -> None:
    for sql in SQL_READS:
        assert call_effect(tool, {key: sql}) == ToolEffect("read", "arguments"), sql
    for sql in SQL_WRITES:
        assert call_effect(tool, {key: sql}) == ToolEffect("write", "arguments"), sql
        assert call_effect(tool, {"request": {"queries": [sql]}}).effect == "write", sql
    for sql in SQL_UNKNOWN:
        assert not call_effect(tool, {key: sql}).reads, sql


def test_sql_says_nothing_of_a_tool_whose_name_says_more() -> None:
    assert call_effect("save_query", {"sql": "SELECT 1"}).effect == "write"
    assert call_effect("schedule_query", {"sql": "SELECT 1"}).effect == "write"
    assert call_effect("get_rows", {"sql": "SELECT 1"}) == ToolEffect("read", "guessed")
    assert not call_effect("acme_query", {"sql": "SELECT change_all()"}).reads
    assert call_effect("search", {"query": "how to delete from a table"}).reads
    assert call_effect("web_search", {"query": "select the best show"}).reads


HTTP: tuple[tuple[str, Json, str], ...] = (
    ("fetch", {"url": "http://a", "method": "GET"}, "read arguments"),
    ("http_request", {"url": "http://a", "method": "head"}, "read arguments"),
    ("fetch", {"url": "http://a"}, "read guessed"),
    ("fetch", {"url": "http://a", "method": "POST"}, "write arguments"),
    ("fetch", {"url": "http://a", "options": {"method": "delete"}}, "write arguments"),
    ("fetch", {"url": "http://a", "body": "x=1"}, "write arguments"),
    ("get_page", {"url": "http://a", "json": {"a": 1}}, "write arguments"),
    ("api_request", {"endpoint": "/a", "method": "FLUSH"}, "write arguments"),
    ("fetch", {"url": "http://a", "method": "GET", "headers": {"X-HTTP-Method-Override": "PUT"}},
     "write arguments"),
    ("request", {"url": "http://a"}, "unknown unknown"),
    ("graphql", {"query": "{ orders { id } }"}, "read arguments"),
    ("graphql", {"query": "query A { orders { id } }"}, "read arguments"),
    ("graphql", {"query": "mutation { pay(id: 1) }"}, "write arguments"),
    ("graphql", {"query": "query A { a } mutation B { b }"}, "write arguments"),
    ("query", {"query": '{"delete": "orders"}'}, "unknown unknown"),
    ("query", {"query": "{drop: orders}"}, "unknown unknown"),
    ("query", "UPDATE a SET b = 1", "write arguments"),
    ("search", {"query": "mutation rates of genes"}, "read guessed"),
)  # fmt: skip


@pytest.mark.parametrize(("tool", "arguments", "said"), HTTP)
def test_requests_and_graphql_in_the_arguments_are_read(
    tool: str, arguments: Json, said: str
) -> None:
    found = call_effect(tool, arguments)
    assert f"{found.effect} {found.by}" == said


SHELL_READS = (
    "ls -la", "cat a | grep b", "ls 2>/dev/null", "ls missing 2>&1 | head -5", "git log --oneline",
    "find . -name '*.py'", "sed -n 1,5p a", "git status && git diff", "git branch -a", "sort a",
    "# look\nls\n\nwc -l a", "curl -sSL https://a.example/b", "date +%s", "grep -rn 'a;b' .",
    "cat < a", "git --no-pager show HEAD:a", "uniq -c a", "echo done > /dev/null",
)  # fmt: skip
SHELL_DOUBTFUL = (
    "rm a", "mv a b", "cd /a && ls", "ls > a", "ls >> a", "ls &> a", "cat a > 1", "ls; rm a",
    "ls\nrm a", "ls | tee a", "sed -i s/a/b/ c", "sed -n 'w b' a", "find . -delete",
    "find . -exec rm {} \\;", "find '<' -delete", "git commit -m a", "git branch new",
    "git diff --output=a", "git -c alias.x=!rm x", "curl -X POST https://a", "curl -d a=b https://a",
    "curl -sd a https://a", "curl https://a -o b", "curl --req POST https://a", "curl gopher://a/_x",
    "sort -uo a b", "uniq a b", "date 0101", "xargs rm", "python -c 1", "ls $(rm a)", "ls `rm a`",
    "echo $'\\'' ; rm a #'", "ls foo#bar; rm a", "cat <<E\nx\nE", "(ls)", "for i in a; do ls; done",
    "export A=1", "A=1", "ls 'a", "", "echo a\\\\\nrm b", "cat a >| b", "file -C -m a", "tree -o a",
)  # fmt: skip


@pytest.mark.parametrize("command", SHELL_READS)
def test_a_command_that_only_looks_reads(command: str) -> None:
    assert shell_reads(command)
    for tool, key in (("Bash", "command"), ("exec_command", "cmd")):
        assert call_effect(tool, {key: command}) == ToolEffect("read", "arguments")
    assert call_effect("shell", {"command": ["bash", "-lc", command]}).reads
    assert not call_effect("python", {"command": command}).reads
    assert not call_effect("robot", {"command": command}).reads
    assert not call_effect("bash", {"keystrokes": command}).reads


@pytest.mark.parametrize("command", SHELL_DOUBTFUL)
def test_a_command_that_changes_something_or_cannot_be_taken_apart_could_write(
    command: str,
) -> None:
    assert not shell_reads(command)
    assert not call_effect("Bash", {"command": command}).reads


def test_any_sign_of_a_write_in_the_arguments_outweighs_the_annotations() -> None:
    effects = Effects(tools=[hinted("query", readOnlyHint=True)])
    assert effects.of("query", {"text": "x"}) == ToolEffect("read", "annotated")
    assert effects.of("query", {"sql": "DELETE FROM a"}) == ToolEffect("write", "arguments")
    mine = Effects(yours={"query": "read"})
    assert mine.of("query", {"sql": "DELETE FROM a"}).reads


@given(st.text(max_size=40), st.text(max_size=60))
def test_whatever_stands_in_the_arguments_is_answered(tool: str, text: str) -> None:
    for arguments in (text, {"command": text}, {"sql": text}, {"query": [text]}, {"url": text}):
        assert call_effect(tool, arguments).effect in {"read", "write", "unknown"}


def test_a_guess_says_that_it_is_one_and_what_nobody_knows_does_not_read() -> None:
    effects = Effects()
    assert effects.of("get_order") == ToolEffect("read", "guessed")
    assert effects.of("frobnicate") == UNKNOWN
    assert not effects.of("frobnicate").reads


def test_the_users_word_comes_before_the_recordings_and_that_before_the_name() -> None:
    calls = [call("get_order", "write"), call("cancel_order", "read")]
    assert Effects(calls).of("get_order") == ToolEffect("write", "annotated")
    assert Effects(calls).of("cancel_order") == ToolEffect("read", "annotated")
    mine = Effects(calls, yours={"get_order": "read"})
    assert mine.of("get_order") == ToolEffect("read", "yours")


@pytest.mark.parametrize(
    ("hints", "effect"),
    [
        ({"readOnlyHint": True}, "read"),
        ({"readOnlyHint": False}, "write"),
        ({"readOnlyHint": True, "destructiveHint": True}, "read"),
        ({"destructiveHint": False}, "write"),
        ({"openWorldHint": True}, "unknown"),
        ({}, "unknown"),
    ],
)
def test_annotations_of_a_tool_are_read_as_the_protocol_means_them(
    hints: dict[str, bool], effect: Effect
) -> None:
    assert annotated(hinted("x", **hints)) == effect
    assert annotated(Tool(name="x", extra=dict(hints))) == effect


def test_an_annotation_tells_where_the_recording_is_silent() -> None:
    effects = Effects([call("frobnicate")], [hinted("frobnicate", readOnlyHint=True)])
    assert effects.of("frobnicate") == ToolEffect("read", "annotated")


@given(st.lists(st.sampled_from(["read", "write", "unknown"]), max_size=4), st.booleans())
def test_any_sign_of_a_write_outweighs_every_sign_of_a_read(
    recorded: list[Effect], reads: bool
) -> None:
    tools = [hinted("get", readOnlyHint=reads)]
    found = Effects([call("get", effect) for effect in recorded], tools).of("get")
    assert found.reads is (reads and "write" not in recorded)


def test_the_name_of_a_tool_that_takes_a_program_tells_nothing() -> None:
    schema = {"type": "object", "properties": {"code": {"type": "string"}}}
    assert Effects([call("query_shell", command="rm x")]).of("query_shell") == UNKNOWN
    assert Effects(tools=[Tool(name="read_eval", schema=schema)]).of("read_eval") == UNKNOWN
