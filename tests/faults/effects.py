"""What does the program do besides reading its files, answering, and keeping its database?

Every module is read for what could start a process, open a socket or write a file: the few that
do stand in a table, each with its reason. Then every command is run in a process that Python tells
of each file opened for writing, each process and each connection.

`python -m tests.faults.effects FOLDER` is that process; it prints what it was told as JSON.
"""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from tests.faults import Row

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("arc_tui", "replay", "taxonomy")

PROCESSES = {
    "arc_tui/ui/editor.py": "$VISUAL, $EDITOR or $PAGER, on a text the person edits or reads",
    "arc_tui/features/bisect/versions.py": "git, for the versions of a prompt",
    "arc_tui/features/record/recording.py": "the command given to `arc record`",
    "arc_tui/serve/session.py": "`arc serve`: the app itself, once a tab",
    "arc_tui/workers.py": "`arc import`: itself, to read and diagnose on all cores",
    "replay/doctor/fire_drill.py": "`arc doctor --fire-drill`: `arc record` and an agent",
}
SOCKETS = {
    "arc_tui/features/record/listening.py": "`arc listen`, on loopback",
    "arc_tui/features/record/proxy.py": "`arc record`: hands calls on to the server they are for",
    "arc_tui/serve/server.py": "`arc serve`, on loopback, which writes a cookie",
    "arc_tui/serve/session.py": "`arc serve`: the socket of a page",
    "replay/doctor/fire_drill.py": "`arc doctor --fire-drill`: a server on loopback",
}
CLIENTS = {
    "replay/fleet/connection.py": "the client of trace stores",
    "replay/models/connection.py": "the client of models, for both SDKs",
    "replay/models/messages.py": "the client of models, for the Messages API",
    "replay/models/openai.py": "the client of models, for OpenAI's two APIs",
    "replay/servers/connection.py": "the client of Phoenix, Langfuse and LangSmith servers",
    "replay/doctor/checks.py": "the version of OpenSSL, for a report",
}
WRITERS = {
    "arc_tui/commands.py": "/dev/null, when the reader of a pipe had enough",
    "arc_tui/workers.py": "/dev/null, in the place of a forked process's own streams",
    "arc_tui/importing.py": "the demo's database",
    "arc_tui/config.py": "the file of settings, by `arc config --init`",
    "arc_tui/features/error_injection/command.py": "the file named by --export",
    "arc_tui/features/edit_test/suggest/run.py": "the bundles, in the folder named by --bundles",
    "arc_tui/ending.py": "the traceback of a bug, in the data folder",
    "arc_tui/ui/editor.py": "a private file for the editor or the pager",
    "replay/fleet/stores.py": "the file of trace stores, by `arc fleet add` and `rm`",
    "replay/files.py": "temporary files, and what takes the place of another file",
    "replay/formats/source.py": "standard input or a compressed database, in a temporary file",
    "replay/formats/database.py": "a copy of a database whose log is left",
    "replay/recorder/recording.py": "what was recorded and not yet stored, beside the database",
    "replay/store/backup.py": "the copy that was asked for",
    "replay/doctor/fire_drill.py": "the folder of the database of a fire drill",
    "replay/stop_order.py": "the kill file, by `arc stop`",
    "replay/store/connection.py": "the database",
    "replay/care/export.py": "the export that was asked for",
    "replay/care/recover.py": "the database that was saved, by the name given",
    "replay/care/rewriting.py": "the database, written anew",
    "taxonomy/golden/changes.py": "the golden set and its exports, in the folders that were named",
    "replay/care/salvage.py": "a temporary copy of a damaged database",
}

_BEGINS = {"subprocess", "pty", "multiprocessing", "concurrent.futures.process", "pexpect"}
_BEGINS_BY = ("create_subprocess_", "posix_spawn", "spawn", "fork", "popen", "system", "exec")
_NETWORK = {"socket", "socketserver", "aiohttp", "http", "httpx", "httpx2", "urllib.request",
            "requests", "ftplib", "smtplib", "webbrowser", "xmlrpc", "ssl",
            "clickhouse_connect"}  # fmt: skip
_WRITES_BY = {
    "write_text", "write_bytes", "mkdir", "makedirs", "mkstemp", "mkdtemp", "unlink", "rmtree",
    "copyfile", "copytree", "copy2", "rename", "touch", "symlink_to", "hardlink_to",
    "NamedTemporaryFile", "TemporaryDirectory", "chmod", "rmdir", "removedirs", "renames",
}  # fmt: skip
_DYNAMIC = {"eval", "exec", "compile", "__import__"}


def modules() -> Iterator[tuple[str, tuple[ast.AST, ...]]]:
    """Every shipped module by its path, with its nodes."""
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            yield path.relative_to(ROOT).as_posix(), _nodes(path)


@cache
def _nodes(path: Path) -> tuple[ast.AST, ...]:
    return tuple(ast.walk(ast.parse(path.read_text())))


def able(kind: str) -> set[str]:
    """The modules that could start a "process", open a "socket", "write" a file, or run "code"."""
    return {name for name, nodes in modules() if any(map(ABLE[kind], nodes))}


def _imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom) and not node.level:
        return [node.module or "", *[f"{node.module}.{alias.name}" for alias in node.names]]
    return []


def _of(names: list[str], wanted: set[str]) -> bool:
    return any(each in wanted or each.split(".")[0] in wanted for each in names)


def _starts(node: ast.AST) -> bool:
    if _of(_imported(node), _BEGINS):
        return True
    said = ast.unparse(node) if isinstance(node, ast.Attribute) else ""
    return said.startswith(("os.", "asyncio.")) and said.split(".")[1].startswith(_BEGINS_BY)


def _connects(node: ast.AST) -> bool:
    names = [each for each in _imported(node) if each != "urllib.parse"]
    return _of(names, _NETWORK) or (
        isinstance(node, ast.Attribute)
        and node.attr in {"open_connection", "create_connection", "start_server", "create_server"}
    )


def _writes(node: ast.AST) -> bool:
    if not isinstance(node, ast.Call):
        return False
    name = node.func.attr if isinstance(node.func, ast.Attribute) else _word(node.func)
    if name in _WRITES_BY or ast.unparse(node.func) == "shutil.move":
        return True
    if name != "open":
        return False
    said = [_text(each) for each in (*node.args, *[word.value for word in node.keywords])]
    flags = ast.unparse(node)
    return any(
        set(each) & set("wax+") and set(each) <= set("rwaxbt+") for each in said if each
    ) or ("O_WRONLY" in flags or "O_RDWR" in flags or "O_CREAT" in flags)


def _runs(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and _word(node.func) in _DYNAMIC


def _word(node: ast.AST) -> str:
    return node.id if isinstance(node, ast.Name) else ""


def _text(node: ast.AST) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


ABLE: dict[str, Callable[[ast.AST], bool]] = {
    "process": _starts, "socket": _connects, "write": _writes, "code": _runs,
}  # fmt: skip
"""Could this place in a module do it?"""


# --- told by Python

_HEARD = (
    "open", "os.", "shutil.", "subprocess.", "socket.", "sqlite3.", "urllib.", "webbrowser.",
    "ctypes.dlopen", "pty.", "ftplib.", "smtplib.", "http.client", "syslog.", "tempfile.",
)  # fmt: skip
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_CHANGES = {
    "os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.chmod", "os.chown", "os.link",
    "os.symlink", "os.truncate", "os.utime", "os.putenv", "os.kill", "shutil.move",
    "shutil.rmtree", "shutil.copyfile", "shutil.copytree", "tempfile.mkstemp", "tempfile.mkdtemp",
}  # fmt: skip
_ONTO = {"os.rename", "os.link", "os.symlink", "shutil.move", "shutil.copyfile", "shutil.copytree"}
_STARTS = {"subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.fork",
           "os.forkpty", "pty.spawn", "os.startfile", "webbrowser.open"}  # fmt: skip
_CALLS = {"socket.connect", "socket.bind", "socket.sendto", "socket.getaddrinfo",
          "socket.gethostbyname", "urllib.Request", "http.client.connect"}  # fmt: skip


class Told:
    """What Python tells of while `now` names the command that runs."""

    def __init__(self) -> None:
        self.now = ""
        self.named: tuple[str, ...] = ()
        self.events: list[tuple[str, str, str]] = []

    def __call__(self, event: str, given: tuple[Any, ...]) -> None:
        if not self.now or not event.startswith(_HEARD):
            return
        if event == "open":
            path, _, flags = given
            if isinstance(path, int) or not (flags or 0) & _WRITES:
                return
            self._keep("write", path)
        elif event in _CHANGES:
            # A name in a folder given by its number: that folder was told of by its path.
            if -1 in given[1:] or not any(isinstance(each, int) for each in given[1:]):
                self._keep("write", given[1] if event in _ONTO else given[0])
        elif event in _STARTS:
            self._keep("process", given[0])
        elif event in _CALLS:
            self._keep("socket", given[-1])
        elif event in {"sqlite3.load_extension", "sqlite3.enable_load_extension", "ctypes.dlopen"}:
            if event != "ctypes.dlopen" or given[0] is not None:
                self._keep("code", given[-1])
        elif event == "sqlite3.connect":
            self._keep("database", given[0])

    def _keep(self, kind: str, what: object) -> None:
        if not isinstance(what, (str, bytes, os.PathLike)):
            self.events.append((self.now, kind, repr(what)))
            return
        said = os.path.abspath(os.fsdecode(what).removeprefix("file:"))
        beside = os.path.basename(said).startswith(".arc-")  # in the folder of what was named
        if not said.startswith(self.named) and not beside:
            self.events.append((self.now, kind, said))


def main(folder: Path) -> None:
    """Run every command over a hostile database in the folder, and print what was told."""
    from tests.faults import hostile

    home, work = folder / "home", folder / "work"
    for each in (home, work, folder / "tmp"):
        each.mkdir()
    os.environ.update(
        ARC_DATA_DIR=str(home),
        ARC_CONFIG_DIR=str(home),
        HOME=str(home),
        TMPDIR=str(folder / "tmp"),
        ARC_USER="tester",
    )
    tempfile.tempdir = None
    os.chdir(work)
    path = hostile.database(home)
    told = Told()
    sys.addaudithook(told)
    tried = 0
    for words, command in hostile.commands():
        if words[0] in hostile.NOT_RUN or words == ("record",):
            continue
        for call in hostile.calls(command, hostile.runs_of(path)[:2], path.with_name("arc.jsonl")):
            copy = home / "copy.db"
            copy.write_bytes(path.read_bytes())
            told.named = tuple(os.path.abspath(word) for word in call if word)
            told.now = " ".join(words)
            hostile.said_by([*words, *call], copy)
            told.now = ""
            tried += 1
    sys.__stdout__.write(json.dumps({"tried": tried, "told": told.events}))  # type: ignore[union-attr]


def told_of(folder: Path) -> dict[str, Any]:
    """What was told of in a process of its own, with the commands that were run."""
    done = subprocess.run(
        [sys.executable, "-B", "-m", "tests.faults.effects", str(folder)],
        capture_output=True, text=True, check=False, cwd=ROOT, stdin=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def beyond(found: dict[str, Any], folder: Path) -> list[tuple[str, str, str]]:
    """What was told of and is no database, no temporary file, and not what was named."""
    inside = (str(folder / "home"), str(folder / "tmp"))
    return [
        (command, kind, what)
        for command, kind, what in found["told"]
        if not (
            kind in {"write", "database"}
            and (what.startswith(inside) or what.endswith("/:memory:") or what == os.devnull)
        )
    ]


def rows() -> Iterator[Row]:
    """What the program does besides."""
    tables = {"process": PROCESSES, "socket": SOCKETS | CLIENTS, "write": WRITERS, "code": {}}
    found = {kind: able(kind) - table.keys() for kind, table in tables.items()}
    more = sum(map(len, found.values()))
    count = sum(1 for _ in modules())
    listed = len({name for table in tables.values() for name in table})
    yield Row(
        promise="no side effects but those of a table",
        trial=f"{count} modules read, {listed} may do something, each with its reason",
        figure=f"{more} more that could",
        kept=not more,
    )
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        told = told_of(folder)
        left = beyond(told, folder)
    yield Row(
        promise="no process, no connection, no file but the database and what was named",
        trial=f"{told['tried']} calls of every command, {len(told['told'])} events audited",
        figure=f"{len(left)} unexpected",
        kept=not left,
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
