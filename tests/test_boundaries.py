"""The house's walls: who imports whom, what a light command loads, where SQL and print may be."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("arc_tui", "replay", "taxonomy")


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """Every node of a module's tree, read once for all the tests."""
    return tuple(ast.walk(ast.parse(path.read_text())))


def modules() -> Iterator[Path]:
    for package in PACKAGES:
        yield from sorted((ROOT / package).rglob("*.py"))


def loaded_by(*arguments: str, database: Path) -> set[str]:
    """The modules in `sys.modules` after a command has run in a process of its own."""
    code = (
        "import sys\n"
        f"sys.argv = ['arc', '--db', {str(database)!r}, *{list(arguments)!r}]\n"
        "from arc_tui.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "print('\\n'.join(sys.modules), file=sys.__stderr__)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    return {name.partition(".")[0] for name in done.stderr.split()}


@pytest.mark.parametrize("command", [["ls"], ["show", "last"], ["pareto"], ["tags"], ["stats"]])
def test_light_commands_load_neither_textual_nor_the_sdk(
    command: list[str], tmp_path: Path
) -> None:
    loaded = loaded_by(*command, database=tmp_path / "arc.db")
    assert "sqlite_utils" in loaded
    assert not loaded & {"textual", "anthropic", "genai_prices", "jsonschema_rs", "httpx2"}


def test_replay_imports_neither_of_the_others_at_run_time() -> None:
    code = (
        "import pkgutil, importlib, sys, replay\n"
        "for found in pkgutil.walk_packages(replay.__path__, 'replay.'):\n"
        "    importlib.import_module(found.name)\n"
        "print('\\n'.join(sys.modules))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert "replay" in loaded
    assert not loaded & {"arc_tui", "taxonomy", "textual", "anthropic"}


SQL_MAY_STAND_IN = (
    "replay/store/",
    "replay/formats/sqlite/",
    "taxonomy/ledger/",
    "taxonomy/query/",
)
"""The store's own, and that of other tools' databases, which are only read."""
SQL_WORDS = ("SELECT ", "INSERT ", "UPDATE ", "DELETE ", "PRAGMA ", "CREATE ")


def test_sql_stands_only_in_the_store_the_ledger_and_the_query() -> None:
    found = []
    for path in modules():
        name = path.relative_to(ROOT).as_posix()
        if name.startswith(SQL_MAY_STAND_IN):
            continue
        for node in nodes(path):
            if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
                continue
            if node.value.lstrip().startswith(SQL_WORDS):
                found.append(f"{name}:{node.lineno}")
    assert not found


def test_nothing_a_screen_can_reach_prints() -> None:
    found = []
    for path in modules():
        if "cli" in path.parts:
            continue
        for node in nodes(path):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
                continue
            if node.func.id == "print":
                found.append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert not found


def test_no_broad_except_but_the_last_resort_of_the_command_line() -> None:
    broad = []
    for path in modules():
        for node in nodes(path):
            caught = node.type if isinstance(node, ast.ExceptHandler) else None
            if isinstance(node, ast.MatchClass):  # a context manager that looks at what it ends
                caught = node.cls
            name = caught.id if isinstance(caught, ast.Name) else None
            bare = isinstance(node, ast.ExceptHandler) and caught is None
            if bare or name in {"Exception", "BaseException"}:
                broad.append((path.relative_to(ROOT).as_posix(), name))
    # The entry point that reports a bug as one, and under `--expect` as code 129; the store and
    # the tidy-ups that re-raise.
    assert broad == [
        ("arc_tui/cli/__init__.py", "Exception"),
        ("arc_tui/cli/expecting.py", "Exception"),
        ("replay/store/handle.py", "BaseException"),
    ]


ALLOWED_PROCESSES: tuple[str, ...] = (
    "arc_tui/screens/editing.py",
    "arc_tui/jobs/bisect/versions.py",
)


def test_no_shipped_module_can_start_a_process() -> None:
    found = []
    for path in modules():
        name = path.relative_to(ROOT).as_posix()
        for node in nodes(path):
            names = (
                [alias.name for alias in node.names]
                if isinstance(node, ast.Import)
                else [node.module or ""]
                if isinstance(node, ast.ImportFrom)
                else []
            )
            if any(
                each.split(".")[0] in {"subprocess", "pty", "multiprocessing"} for each in names
            ):
                found.append(name)
    assert set(found) <= set(ALLOWED_PROCESSES)


ALLOWED_SERVERS: tuple[str, ...] = (
    "arc_tui/jobs/listening.py",
    "arc_tui/live/receiver.py",
)


def test_only_what_receives_runs_can_open_a_socket() -> None:
    found = set()
    for path in modules():
        for node in nodes(path):
            names = (
                [alias.name for alias in node.names]
                if isinstance(node, ast.Import)
                else [node.module or ""]
                if isinstance(node, ast.ImportFrom)
                else []
            )
            if any(
                each.split(".")[0] in {"socket", "socketserver", "aiohttp", "http"}
                for each in names
            ):
                found.add(path.relative_to(ROOT).as_posix())
    assert found <= set(ALLOWED_SERVERS)


def test_what_listens_listens_on_loopback() -> None:
    from arc_tui.live import LOOPBACK

    assert LOOPBACK == "127.0.0.1"
    opened = [
        (node.func.attr, ast.unparse(node.args[1]))
        for name in ALLOWED_SERVERS
        for node in nodes(ROOT / name)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr.endswith("Site")
    ]
    assert opened == [("TCPSite", "LOOPBACK")]
