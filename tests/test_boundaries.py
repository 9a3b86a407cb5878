"""The house's walls: who imports whom, what a light command loads, where SQL and print may be."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path

import pytest

from tests.blank import put_ledger
from tests.faults import effects

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("arc_tui", "replay", "taxonomy")


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """Every node of a module's tree, read once for all the tests."""
    return tuple(ast.walk(ast.parse(path.read_text())))


def modules() -> Iterator[Path]:
    for package in PACKAGES:
        yield from sorted((ROOT / package).rglob("*.py"))


LIGHT = (["ls"], ["show", "last"], ["failures"], ["tag", "list"], ["stats"])
READERS = ("ls", "show", "failures", "tag")
PARTS = {"replay.redact.redactor", "replay.models.cached", "taxonomy.rules", "rapidfuzz", "asyncio"}
"""What compiles rules, asks a model or judges a run: half a second that a reader does not wait."""
HEAVY = {"textual", "anthropic", "genai_prices", "jsonschema_rs", "httpx2", "mcp", "sqlite_utils"}


def loaded_by(commands: Sequence[Sequence[str]], database: Path) -> dict[str, set[str]]:
    """The modules in `sys.modules` after each command, run one after another in a process of their
    own."""
    code = (
        "import sys\n"
        "from arc_tui.commands import main\n"
        f"for words in {[list(each) for each in commands]!r}:\n"
        f"    sys.argv = ['arc', '--db', {str(database)!r}, *words]\n"
        "    try: main()\n"
        "    except SystemExit: pass\n"
        "    print(words[0], *sys.modules, file=sys.__stderr__)\n"
        "    sys.__stderr__.flush()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    told = [line.split() for line in done.stderr.splitlines() if "msgspec" in line]
    return {word: set(names) | {name.partition(".")[0] for name in names} for word, *names in told}


@pytest.mark.slow
def test_light_commands_load_neither_textual_nor_the_sdk(tmp_path: Path) -> None:
    database = tmp_path / "arc.db"
    put_ledger(database)
    loaded = loaded_by(LIGHT, database)
    assert list(loaded) == [command[0] for command in LIGHT]
    assert {word: names & HEAVY for word, names in loaded.items() if names & HEAVY} == {}
    assert {word: loaded[word] & PARTS for word in READERS if loaded[word] & PARTS} == {}


ROOMS = ("replay", "taxonomy", "arc_tui")
OF_A_SCREEN = {
    "app": "arc_tui.app",
    "runs": "arc_tui.features.runs.screen",
    "trace": "arc_tui.features.trace.screen",
}
NOT_BEFORE_A_FRAME = {
    "arc_tui.importing", "arc_tui.features.imports", "arc_tui.features.replay",
    "arc_tui.views.probe_offers", "arc_tui.views.value_origins", "replay.bisection",
    "replay.formats", "replay.free", "replay.locked", "replay.prices", "replay.redact.redactor",
    "taxonomy.calibration.report", "taxonomy.diagnosis", "taxonomy.first_contradiction",
    "taxonomy.judge", "taxonomy.localiser.weights", "taxonomy.probes", "taxonomy.rules",
    "anthropic", "genai_prices", "rapidfuzz", "sqlite_utils", "textual.widgets._text_area",
}  # fmt: skip
"""What the app draws its first frame without: who looks for probes, imports or replays loads it."""

NOT_BEFORE_THE_LIST = {
    "arc_tui.ui.keymap", "arc_tui.ui.tables", "arc_tui.views.failures", "arc_tui.views.queue",
    "replay.pins", "taxonomy.goals", "taxonomy.metrics.change", "taxonomy.metrics.reliability",
    "taxonomy.query.compile", "tomllib",
}  # fmt: skip
"""What the list of runs, without a question asked of it, is drawn without besides."""

OWN_MODULES = {"app": 68, "runs": 76, "trace": 118, "ls": 88, "show": 108}
"""So many modules of ours are loaded at most: a new one costs everyone who starts it."""


def own(names: Iterable[str]) -> set[str]:
    return {name for name in names if name.partition(".")[0] in ROOMS}


@pytest.mark.slow
def test_the_app_is_drawn_before_what_imports_replays_or_judges_is_loaded() -> None:
    code = (
        "import sys, importlib, arc_tui.commands, arc_tui.open\n"
        f"for name, module in {OF_A_SCREEN!r}.items():\n"
        "    importlib.import_module(module)\n"
        "    print(name, *sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    loaded = {name: set(names) for name, *names in map(str.split, done.stdout.splitlines())}
    assert list(loaded) == list(OF_A_SCREEN)
    for name, names in loaded.items():
        assert names & NOT_BEFORE_A_FRAME == set(), name
        assert name == "trace" or names & NOT_BEFORE_THE_LIST == set(), name
        assert len(own(names)) <= OWN_MODULES[name], name


@pytest.mark.slow
def test_a_light_command_loads_few_modules(tmp_path: Path) -> None:
    put_ledger(tmp_path / "arc.db")
    for command in (["ls"], ["show", "last"]):
        (names,) = loaded_by([command], tmp_path / "arc.db").values()
        assert names & NOT_BEFORE_A_FRAME == set(), command
        assert len(own(names)) <= OWN_MODULES[command[0]], command


@pytest.mark.slow
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
    "replay/formats/database.py",
    "replay/care/",
    "replay/kept.py",
    "replay/fleet/",
    "taxonomy/fleet/",
    "taxonomy/judgements/",
    "taxonomy/query/",
)
"""The store's own, and that of other tools' databases and of trace stores, which are only read."""
SQL_WORDS = ("SELECT ", "INSERT ", "UPDATE ", "DELETE ", "PRAGMA ", "CREATE ")


@pytest.mark.slow
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


@pytest.mark.slow
def test_nothing_a_screen_can_reach_prints() -> None:
    found = []
    for path in modules():
        for node in nodes(path):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
                continue
            if node.func.id == "print":
                found.append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert not found


@pytest.mark.slow
def test_no_broad_except_but_the_last_resort_and_the_boundary_of_a_file() -> None:
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
    # The entry point that reports a bug as one, and under `--expect` as code 129; the boundary of
    # a file that is imported, and of a call of an agent; the store and the tidy-ups that re-raise;
    # what is raised in one thread and carried into another.
    assert broad == [
        ("arc_tui/commands.py", "Exception"),
        ("arc_tui/features/fleet/widgets.py", "BaseException"),
        ("arc_tui/features/replay/expect_command.py", "Exception"),
        ("arc_tui/import_tasks.py", "Exception"),
        ("arc_tui/mcp/server.py", "Exception"),
        ("replay/store/handle.py", "BaseException"),
        ("taxonomy/suggestions/library_thread.py", "Exception"),
        ("taxonomy/suggestions/library_thread.py", "BaseException"),
    ]


@pytest.mark.slow
def test_what_may_start_processes_connect_and_write_stands_in_a_table() -> None:
    assert effects.able("process") == effects.PROCESSES.keys()
    assert effects.able("socket") == effects.SOCKETS.keys() | effects.CLIENTS.keys()
    assert effects.able("write") == effects.WRITERS.keys()
    assert effects.able("code") == set()


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        ("process", "from subprocess import run"),
        ("process", "import os; os.system('ls')"),
        ("process", "import asyncio; asyncio.create_subprocess_exec('ls')"),
        ("process", "import os; os.execvp('ls', [])"),
        ("socket", "from urllib import request"),
        ("socket", "import http.client"),
        ("socket", "import asyncio; asyncio.open_connection('x', 1)"),
        ("write", "open('x', 'w')"),
        ("write", "from pathlib import Path; Path('x').open(mode='ab')"),
        ("write", "import os; os.open('x', os.O_CREAT)"),
        ("write", "import shutil; shutil.move('x', 'y')"),
        ("code", "eval('1')"),
    ],
)
def test_a_module_that_could_is_found(kind: str, code: str) -> None:
    assert any(map(effects.ABLE[kind], ast.walk(ast.parse(code))))


@pytest.mark.process
def test_no_command_starts_connects_or_writes_beyond_what_was_named(tmp_path: Path) -> None:
    told = effects.told_of(tmp_path)
    assert told["tried"] > 200
    assert {kind for _, kind, _ in told["told"]} >= {"write", "database"}, "it listens"
    assert effects.beyond(told, tmp_path) == []


def test_what_listens_listens_on_loopback() -> None:
    from arc_tui.features.record.live import LOOPBACK

    assert LOOPBACK == "127.0.0.1"
    opened = [
        (node.func.attr, ast.unparse(node.args[1]))
        for name in effects.SOCKETS
        for node in nodes(ROOT / name)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr.endswith("Site")
    ]
    assert opened == [("TCPSite", "LOOPBACK")] * 3
